"""A container file built on a cluster: the objects that do it. Nothing in them is a credential.

OpenShift builds by itself: a BuildConfig with the file in it, whose image passes the smoke test before it is
pushed. Its controller, not the BuildConfig, decides on user and capabilities of the pod that builds.

Elsewhere a Job does the same with buildah, which runs as an ordinary user and makes a user namespace for the
files of other users in the image (buildah, issues 2262 and 4538). That is why its container can't be
restricted further:

- capabilities SETUID and SETGID, and allowPrivilegeEscalation: newuidmap and newgidmap have these
  capabilities as files, and without new privileges they would get none;
- seccompProfile Unconfined: RuntimeDefault of containerd refuses `unshare` and `mount`.

The test runs in the same container: only there is the image before it is pushed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from assay.launch.kubernetes.objects.order import MANAGED_BY, Manifest
from assay.records import digest_of
from assay.stacks.engines import SMOKE_TEST_MARK, SMOKE_TEST_PASSED, SMOKE_TEST_USER, smoke_test_argv

BUILDER: Final = "quay.io/buildah/stable:v1.43.4"
_BUILDER_USER: Final = 1000
_TIMEOUT_S: Final = 3600
DEFAULT_REQUESTS: Final[Mapping[str, str]] = {"cpu": "1", "memory": "4Gi"}
_KEPT_S: Final = 86_400  # a Job that ended, for its log
_NAME_CHARACTERS: Final = 54  # with a digest, a Job's name is at most 63 long
_SCRIPT: Final = """\
set -eu
mkdir -p /tmp/empty
buildah build --isolation=chroot --file=/containerfile/Containerfile --tag=assay-build /tmp/empty
container=$(buildah from --pull-never assay-build)
buildah run --isolation=chroot --user="$SMOKE_USER" "$container" -- "$@" | tee /tmp/said
grep "$SMOKE_MARK" /tmp/said | tail -n 1 | grep -qF "$SMOKE_PASSED"
buildah push assay-build "docker://$IMAGE"
"""
_JUDGE: Final = f"""\
said=$("$@")
printf '%s\\n' "$said"
printf '%s\\n' "$said" | grep '{SMOKE_TEST_MARK}' | tail -n 1 | grep -qF '{SMOKE_TEST_PASSED}'
"""


@dataclass(frozen=True)
class BuildResources:
    """What the pod that builds requests, and its limits: quantities by the names that Kubernetes has."""

    requests: Mapping[str, str]
    limits: Mapping[str, str]

    @property
    def written(self) -> Manifest:
        """As a container has it."""
        parts = {"requests": dict(self.requests), "limits": dict(self.limits)}
        return {name: part for name, part in parts.items() if part}


def openshift_objects(
    text: str,
    name: str,
    *,
    push: str | None,
    secret: str | None,
    namespace: str | None,
    modules: Sequence[str],
    resources: BuildResources,
) -> list[Manifest]:
    """The BuildConfig, and the ImageStream that gets the image if it is not pushed elsewhere.

    Each start of the BuildConfig is a Build with a number, so one name does for all.

    text    the container file
    push    `registry/name:tag`; None: the ImageStream `name`
    secret  name of the Secret with the registry's credentials
    """
    to = {"kind": "ImageStreamTag", "name": f"{name}:latest"}
    if push is not None:
        to = {"kind": "DockerImage", "name": push}
    spec = {
        "runPolicy": "Serial",
        "completionDeadlineSeconds": _TIMEOUT_S,
        "resources": resources.written,
        "source": {"type": "Dockerfile", "dockerfile": text},
        "strategy": {"type": "Docker", "dockerStrategy": {}},
        "postCommit": {"command": ["/bin/sh", "-c", _JUDGE, "test", *smoke_test_argv(modules)]},
        "output": {"to": to} | ({"pushSecret": {"name": secret}} if secret else {}),
        "triggers": [{"type": "ConfigChange"}],
    }
    config = _object("build.openshift.io/v1", "BuildConfig", name, namespace, spec=spec)
    if push is not None:
        return [config]
    found_by_name = {"lookupPolicy": {"local": True}}  # pods may write `image: NAME`
    return [_object("image.openshift.io/v1", "ImageStream", name, namespace, spec=found_by_name), config]


def job_objects(
    text: str,
    name: str,
    *,
    push: str,
    secret: str | None,
    namespace: str | None,
    modules: Sequence[str],
    resources: BuildResources,
) -> list[Manifest]:
    """A ConfigMap with the container file, and the Job that builds, tests and pushes it.

    Their name ends in a digest of what they do: equal builds are one Job, different ones run side by side.
    """
    digest = digest_of([text, push, secret, list(modules), resources.written])[:8]
    own_name = f"{name[:_NAME_CHARACTERS].rstrip('-')}-{digest}"
    variables = {
        "IMAGE": push,
        "SMOKE_USER": SMOKE_TEST_USER,
        "SMOKE_MARK": SMOKE_TEST_MARK,
        "SMOKE_PASSED": SMOKE_TEST_PASSED,
        "STORAGE_DRIVER": "vfs",
        "HOME": "/builder",  # where an ordinary user's buildah keeps layers
        **({"REGISTRY_AUTH_FILE": "/auth/.dockerconfigjson"} if secret else {}),
    }
    mounts = [
        {"name": "containerfile", "mountPath": "/containerfile", "readOnly": True},
        {"name": "storage", "mountPath": "/builder"},
    ]
    volumes: list[Manifest] = [
        {"name": "containerfile", "configMap": {"name": own_name}},
        {"name": "storage", "emptyDir": {}},
    ]
    if secret:
        mounts.append({"name": "auth", "mountPath": "/auth", "readOnly": True})
        volumes.append({"name": "auth", "secret": {"secretName": secret}})
    container = {
        "name": "build",
        "image": BUILDER,
        "command": ["/bin/sh", "-c", _SCRIPT, "build", *smoke_test_argv(modules)],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": resources.written,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _BUILDER_USER,
            "allowPrivilegeEscalation": True,
            "capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID"]},
            "seccompProfile": {"type": "Unconfined"},
        },
        "volumeMounts": mounts,
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": volumes,
    }
    labels = {**MANAGED_BY, "app.kubernetes.io/name": name, "app.kubernetes.io/component": "image-build"}
    job = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": _TIMEOUT_S,
        "ttlSecondsAfterFinished": _KEPT_S,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    file = {"immutable": True, "data": {"Containerfile": text}}
    return [
        _object("v1", "ConfigMap", own_name, namespace, labels, **file),
        _object("batch/v1", "Job", own_name, namespace, labels, spec=job),
    ]


def _object(
    version: str,
    kind: str,
    name: str,
    namespace: str | None,
    labels: Mapping[str, str] = MANAGED_BY,
    **content: object,
) -> Manifest:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **where, "labels": dict(labels)},
        **content,
    }
