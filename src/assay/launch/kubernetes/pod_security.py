"""What a system's pods need from a cluster's security rules, read from the pod as it is sent. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from assay.launch.kubernetes.kinds import KINDS
from assay.launch.kubernetes.manifests import render
from assay.launch.kubernetes.options import KubernetesSystem, with_host_python
from assay.records import Job, Shape, Task

Level = Literal["privileged", "baseline", "restricted"]
LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")  # least strict first

# Source: kubernetes.io/docs/concepts/security/pod-security-standards, for the fields that Assay's pods can
# have
BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
RESTRICTED_CAPABILITIES = {"NET_BIND_SERVICE"}
RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
    "secret",
}  # fmt: skip


@dataclass(frozen=True)
class PrivilegeRequest:
    """One thing that a pod requests, and the strictest level that still allows it."""

    what: str
    allowed_by: Level


def pod_of(options: KubernetesSystem) -> dict[str, Any]:
    """The spec of a worker's pod, with the system's patch. Raises InputError as rendering does."""
    spec: dict[str, Any] = template_of(options)["spec"]
    return spec


def template_of(options: KubernetesSystem) -> dict[str, Any]:
    """The template of a worker's pod. Raises InputError as rendering does."""
    task = Task(("true",), image="image")  # any task: the requests don't depend on it
    job = Job("token", "trial", Shape(1, 1), task, 0, 60.0)
    rendered = render(job, with_host_python(options), KINDS["pod"])
    template: dict[str, Any] = rendered.job["spec"]["template"]
    return template


def asks(spec: dict[str, Any]) -> tuple[PrivilegeRequest, ...]:
    """Everything that keeps a pod from the level `restricted`."""
    return (
        *_of_pod(spec),
        *(ask for container in spec["containers"] for ask in _of_container(container, spec)),
    )


def level(spec: dict[str, Any]) -> Level:
    """The strictest Pod Security level that allows the pod."""
    return min((ask.allowed_by for ask in asks(spec)), key=LEVELS.index, default="restricted")


def capabilities(spec: dict[str, Any]) -> tuple[str, ...]:
    """The capabilities that the pod's containers add, sorted."""
    return tuple(
        sorted({name for container in spec["containers"] for name in _capabilities(container).get("add", ())})
    )


def _of_pod(spec: dict[str, Any]) -> Iterator[PrivilegeRequest]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield PrivilegeRequest(field, "privileged")
    for volume in spec.get("volumes", ()):
        if "hostPath" in volume:
            yield PrivilegeRequest(f"hostPath {volume['hostPath']['path']}", "privileged")
        elif not (volume.keys() - {"name"}) <= RESTRICTED_VOLUMES:
            yield PrivilegeRequest(f"a volume of {', '.join(volume.keys() - {'name'})}", "baseline")


def _of_container(container: dict[str, Any], spec: dict[str, Any]) -> Iterator[PrivilegeRequest]:
    own, pod = container.get("securityContext", {}), spec.get("securityContext", {})
    if own.get("privileged"):
        yield PrivilegeRequest("privileged containers", "privileged")
    for name in _capabilities(container).get("add", ()):
        if name not in RESTRICTED_CAPABILITIES:
            yield PrivilegeRequest(
                f"capability {name}", "baseline" if name in BASELINE_CAPABILITIES else "privileged"
            )
    if "ALL" not in _capabilities(container).get("drop", ()):
        yield PrivilegeRequest("the default capabilities of a container", "baseline")
    if own.get("allowPrivilegeEscalation") is not False:
        yield PrivilegeRequest("privilege escalation", "baseline")
    both = {**pod, **own}
    if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
        yield PrivilegeRequest("a user that may be root", "baseline")
    seccomp = both.get("seccompProfile", {}).get("type", "none")
    if seccomp not in ("RuntimeDefault", "Localhost"):
        yield PrivilegeRequest(
            f"seccomp profile {seccomp}", "privileged" if seccomp == "Unconfined" else "baseline"
        )


def _capabilities(container: dict[str, Any]) -> dict[str, list[str]]:
    capabilities: dict[str, list[str]] = container.get("securityContext", {}).get("capabilities", {})
    return capabilities
