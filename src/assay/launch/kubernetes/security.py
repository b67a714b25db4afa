"""As whom the ranks run: a pod passes the Pod Security Standard `restricted` unless a system asks more."""

from __future__ import annotations

from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.order import Manifest


def runs_as_other(options: KubernetesSystem) -> bool:
    """Whether the user is neither root nor of the image: one that the image may not know."""
    return options.runAsUser not in (0, "image")


def of_pod(options: KubernetesSystem) -> Manifest:
    """The pod's security context. `assigned` leaves the user out: OpenShift gives it one of its range."""
    context: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}}
    if runs_as_other(options):
        context["runAsNonRoot"] = True
    if isinstance(options.runAsUser, int):
        context["runAsUser"] = options.runAsUser
    return context


def of_container(options: KubernetesSystem) -> Manifest:
    """The container's. Root keeps the capabilities that a container's root has, or it could read no file."""
    capabilities: Manifest = {"drop": ["ALL"]} if runs_as_other(options) else {}
    if options.capabilities:
        capabilities["add"] = list(options.capabilities)
    return {
        "allowPrivilegeEscalation": False,
        **({"capabilities": capabilities} if capabilities else {}),
    }


def env(options: KubernetesSystem) -> dict[str, str]:
    """A home and a name for a user that the image may not know: torch, for one, asks for both."""
    return {"HOME": "/assay/job", "USER": "assay"} if runs_as_other(options) else {}
