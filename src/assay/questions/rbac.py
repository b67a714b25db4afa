"""What a Kubernetes cluster must grant to runs, and the smallest pods that use its devices."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.questions.systems import File, kubernetes_options

if TYPE_CHECKING:
    from assay.launch.kubernetes.objects.order import Manifest
    from assay.launch.kubernetes.objects.rbac import Right


@dataclass(frozen=True)
class Rights:
    """What runs need in a namespace.

    needed    each right with its reason: something fails without it
    optional  what the doctor and provenance also read, if requested
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
    refusals   why the API server's dry run rejects it, one for each part; empty if it was not asked
    """

    name: str
    manifests: str
    refusals: tuple[str, ...]


def rbac(system: str | None = None, *, systems: File = None, doctor: bool = False) -> Rights:
    """The rights that runs on a system need, like `assay cluster rbac SYSTEM`. Sends nothing to the cluster.

    Raises InputError if there is no such system, or no kubeconfig states its namespace.
    """
    from assay.launch.kubernetes.client import connect
    from assay.launch.kubernetes.objects import rbac as rights

    chosen = kubernetes_options(system, systems)
    namespace = chosen.namespace or connect(chosen.context).namespace
    optional = (*rights.TOLD_IN_NAMESPACE, *rights.TOLD_OF_CLUSTER) if doctor else ()
    objects = rights.objects(chosen.kind, namespace, doctor=doctor)
    return Rights(namespace, rights.needed(chosen.kind), optional, objects)


def smoke(system: str | None = None, *, systems: File = None, validate: bool = False) -> tuple[SmokePod, ...]:
    """The smoke-test pods of a system, like `assay cluster smoke SYSTEM`.

    validate  also check with the API server's dry run whether it accepts them

    Raises InputError if there is no such system, PlatformError if the cluster can't be reached.
    """
    from assay.launch.kubernetes.doctor import smoke as pods
    from assay.launch.kubernetes.doctor.look import look
    from assay.launch.kubernetes.launcher import KubernetesLauncher

    smoke_pods = []
    for chosen, job in pods.jobs(look(kubernetes_options(system, systems))):
        with tempfile.TemporaryDirectory() as spool:
            launcher = KubernetesLauncher(chosen, Path(spool))
            launcher.choose(job.shape)
            manifests = launcher.render(job).command
            answers = launcher.check(job) if validate else ()
        refusals = tuple(
            f"{answer.part}: {answer.refusal}" for answer in answers if answer.refusal is not None
        )
        smoke_pods.append(SmokePod(job.trial_id, manifests, refusals))
    return tuple(smoke_pods)
