"""What a Kubernetes cluster has to grant to runs, and the smallest pods that use what it offers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.api.systems import File, kubernetes_options

if TYPE_CHECKING:
    from assay.launch.kubernetes.order import Manifest
    from assay.launch.kubernetes.rbac import Right


@dataclass(frozen=True)
class Rights:
    """What runs need in a namespace.

    needed    each right with its reason: something fails without it
    optional  what the doctor and provenance read beside it, where that was asked for
    objects   ServiceAccount, Role, RoleBinding …, as manifests
    """

    namespace: str
    needed: tuple[Right, ...]
    optional: tuple[Right, ...]
    objects: list[Manifest]


@dataclass(frozen=True)
class SmokePod:
    """A pod that uses one device.

    manifests  as YAML
    refusals   why the API server's dry run takes it not, one for each part; empty where it was not asked
    """

    name: str
    manifests: str
    refusals: tuple[str, ...]


def rbac(system: str | None = None, *, systems: File = None, doctor: bool = False) -> Rights:
    """The rights that runs on a system need, as `assay cluster rbac SYSTEM`. Asks the cluster nothing.

    Raises InputError where there is no such system, or no kubeconfig says its namespace.
    """
    from assay.launch.kubernetes import rbac as rights
    from assay.launch.kubernetes.connection import connect

    chosen = kubernetes_options(system, systems)
    namespace = chosen.namespace or connect(chosen.context).namespace
    optional = (*rights.TOLD_IN_NAMESPACE, *rights.TOLD_OF_CLUSTER) if doctor else ()
    objects = rights.objects(chosen.kind, namespace, doctor=doctor)
    return Rights(namespace, rights.needed(chosen.kind), optional, objects)


def smoke(system: str | None = None, *, systems: File = None, validate: bool = False) -> tuple[SmokePod, ...]:
    """The smoke pods of a system, as `assay cluster smoke SYSTEM`.

    validate  also ask the API server, by its dry run, whether it takes them

    Raises InputError where there is no such system, PlatformError where the cluster can't be asked.
    """
    from assay.launch.kubernetes.doctor import smoke as pods
    from assay.launch.kubernetes.doctor.look import look
    from assay.launch.kubernetes.launcher import KubernetesLauncher

    made = []
    for chosen, job in pods.jobs(look(kubernetes_options(system, systems))):
        with tempfile.TemporaryDirectory() as spool:
            launcher = KubernetesLauncher(chosen, Path(spool))
            launcher.choose(job.shape)
            manifests = launcher.render(job).command
            said = launcher.check(job) if validate else ()
        refusals = tuple(f"{one.part}: {one.refusal}" for one in said if one.refusal is not None)
        made.append(SmokePod(job.trial_id, manifests, refusals))
    return tuple(made)
