"""The user of the ranks: a pod meets the Pod Security Standard `restricted` unless a system requests more."""

from __future__ import annotations

from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.order import Manifest


def runs_as_other(options: KubernetesSystem) -> bool:
    """Whether the user is neither root nor the image's, and so may be unknown to the image."""
    return options.runAsUser not in (0, "image")


def of_pod(options: KubernetesSystem) -> Manifest:
    """The pod's security context. `assigned` omits the user: OpenShift assigns one from its range."""
    context: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}}
    if runs_as_other(options):
        context["runAsNonRoot"] = True
    if isinstance(options.runAsUser, int):
        context["runAsUser"] = options.runAsUser
    return context


def of_container(options: KubernetesSystem) -> Manifest:
    """The container's security context. Root keeps its default capabilities: it needs them to read files."""
    capabilities: Manifest = {"drop": ["ALL"]} if runs_as_other(options) else {}
    if options.capabilities:
        capabilities["add"] = list(options.capabilities)
    return {
        "allowPrivilegeEscalation": False,
        **({"capabilities": capabilities} if capabilities else {}),
    }


def env(options: KubernetesSystem) -> dict[str, str]:
    """A home directory and a name for a user that the image may not know: torch, for one, needs both."""
    return {"HOME": "/assay/job", "USER": "assay"} if runs_as_other(options) else {}
