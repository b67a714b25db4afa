"""What a Kubernetes cluster must grant to runs, and the smallest pods that use its devices."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay.errors import EXIT_ENVIRONMENT, EXIT_OK
from assay.launch.kubernetes.client import connect
from assay.launch.kubernetes.doctor import smoke as pods
from assay.launch.kubernetes.doctor.checks import look
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.objects import rbac as rights
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.objects.rbac import Right
from assay.questions.question import Answer, Question, argument, function, option, question
from assay.questions.systems import kubernetes_options
from assay.questions.values import File
from assay.view.blocks import Block, Paragraph, Verbatim

ABOUT_SYSTEMS = "File with the system.  [default: systems.yaml here]"


@question
class Rbac(Question):
    """Print the ServiceAccount, Role and RoleBinding that runs on SYSTEM need.

    Each verb is needed for something, and none is cluster-wide. SYSTEM's `kind` and `namespace` apply;
    without SYSTEM, kind auto in the current context's namespace. Sends nothing to the cluster.

    \b
    Examples:
      assay cluster rbac lab | kubectl apply -f -
      kubectl -n bench create token assay --duration 8h     log in with it
      assay cluster rbac lab --json | jq -r '.rights[] | "\\(.verb) \\(.resource): \\(.why)"'

    \b
    Exit codes: 0 printed; 4 no such system, or no kubeconfig that states its namespace.
    """

    system: str | None = argument(default=None)
    systems: File | None = option(ABOUT_SYSTEMS, default=None)
    doctor: bool = option(
        "Also print the read-only rights with which `assay doctor` and provenance report more about the "
        "namespace and cluster. Runs work without them.",
        default=False,
    )

    def answer(self) -> Rights:
        """The rights. Raises InputError for an unknown system, or if no kubeconfig states its namespace."""
        chosen = kubernetes_options(self.system, self.systems)
        namespace = chosen.namespace or connect(chosen.context).namespace
        optional = (*rights.TOLD_IN_NAMESPACE, *rights.TOLD_OF_CLUSTER) if self.doctor else ()
        objects = rights.objects(chosen.kind, namespace, doctor=self.doctor)
        return Rights(namespace, rights.needed(chosen.kind), optional, objects)


rbac = function(Rbac, Rbac.answer)


@dataclass(frozen=True)
class Rights(Answer):
    """What runs need in a namespace.

    needed    each right with its reason: something fails without it
    optional  what the doctor and provenance also read, if requested
    objects   ServiceAccount, Role, RoleBinding …, as manifests
    """

    namespace: str
    needed: tuple[Right, ...]
    optional: tuple[Right, ...]
    objects: list[Manifest]

    def view(self) -> Iterator[Block]:
        """The objects."""
        yield Verbatim(as_yaml(self.objects))

    def document(self) -> dict[str, Any]:
        """Each right with its reason, and the objects."""
        return {
            "schema": "assay.rbac/1",
            "namespace": self.namespace,
            "rights": [*map(asdict, self.needed)],
            "optional": [*map(asdict, self.optional)],
            "objects": self.objects,
        }


@question
class Smoke(Question):
    """Print the smoke-test pods of SYSTEM: add a vector on a GPU, list and open the RDMA devices.

    They have the system's own options, and request one unit of the cluster's resource for the device.
    Nothing is sent; `assay doctor SYSTEM --deep` runs those whose device the cluster offers.

    \b
    Examples:
      assay cluster smoke lab
      assay cluster smoke lab --validate --json

    \b
    Exit codes: 0 printed; 4 no such system; 5 the cluster can't be reached, or rejects a pod.
    """

    system: str | None = argument(default=None)
    systems: File | None = option(ABOUT_SYSTEMS, default=None)
    validate: bool = option(
        "Also check with the API server's dry run whether it accepts them.", default=False
    )

    def answer(self) -> SmokePods:
        """The pods, and whether they were validated."""
        return SmokePods(self.pods(), self.validate)

    def pods(self) -> tuple[SmokePod, ...]:
        """The pods. Raises InputError for an unknown system, PlatformError for a cluster that is away."""
        smoke_pods = []
        for chosen, job in pods.jobs(look(kubernetes_options(self.system, self.systems))):
            with tempfile.TemporaryDirectory() as spool:
                launcher = KubernetesLauncher(chosen, Path(spool))
                launcher.choose(job.shape)
                manifests = launcher.render(job).command
                answers = launcher.check(job) if self.validate else ()
            refusals = tuple(f"{a.part}: {a.refusal}" for a in answers if a.refusal is not None)
            smoke_pods.append(SmokePod(job.trial_id, manifests, refusals))
        return tuple(smoke_pods)


smoke = function(Smoke, Smoke.pods)


@dataclass(frozen=True)
class SmokePod:
    """A pod that uses one device.

    manifests  as YAML
    refusals   why the API server's dry run rejects it, one for each part; empty if it was not asked
    """

    name: str
    manifests: str
    refusals: tuple[str, ...]


@dataclass(frozen=True)
class SmokePods(Answer):
    """The smallest pods that use the devices of a system."""

    pods: tuple[SmokePod, ...]
    validated: bool

    @property
    def refused(self) -> list[str]:
        """Why the API server rejects them."""
        return [f"{pod.name}: {refusal}" for pod in self.pods for refusal in pod.refusals]

    @property
    def exit_code(self) -> int:
        """5 if the API server rejects one."""
        return EXIT_ENVIRONMENT if self.refused else EXIT_OK

    def view(self) -> Iterator[Block]:
        """Their manifests, and why they are rejected."""
        yield Verbatim("---\n".join(pod.manifests for pod in self.pods))
        yield from (Paragraph(f"# rejected: {why}") for why in self.refused)

    def document(self) -> dict[str, Any]:
        """Each pod."""
        shown = [{"name": pod.name, "manifests": pod.manifests} for pod in self.pods]
        refused = self.refused
        return {"schema": "assay.smoke/1", "validated": self.validated, "pods": shown, "refused": refused}
