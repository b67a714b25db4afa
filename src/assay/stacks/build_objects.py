"""A container file built on a cluster: the objects that do it. Nothing in them is a credential.

OpenShift builds by itself: a BuildConfig with the file in it, whose image passes the smoke test before it is
pushed. Elsewhere a Job does the same with buildah, which runs as an ordinary user with two capabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.launch.kubernetes.order import MANAGED_BY, Manifest
from assay.stacks import smoke_test

BUILDER: Final = "quay.io/buildah/stable:v1.43.4"
_BUILDER_USER: Final = 1000
_TIMEOUT_S: Final = 3600
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
printf '%s\\n' "$said" | grep '{smoke_test.MARK}' | tail -n 1 | grep -qF '{smoke_test.PASSED}'
"""


def openshift_objects(
    text: str,
    name: str,
    *,
    push: str | None,
    secret: str | None,
    namespace: str | None,
    modules: Sequence[str],
) -> list[Manifest]:
    """The BuildConfig, and the ImageStream that gets the image if it is not pushed elsewhere.

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
        "source": {"type": "Dockerfile", "dockerfile": text},
        "strategy": {"type": "Docker", "dockerStrategy": {}},
        "postCommit": {"command": ["/bin/sh", "-c", _JUDGE, "test", *smoke_test.argv(modules)]},
        "output": {"to": to} | ({"pushSecret": {"name": secret}} if secret else {}),
        "triggers": [{"type": "ConfigChange"}],
    }
    config = _object("build.openshift.io/v1", "BuildConfig", name, namespace, spec=spec)
    if push is not None:
        return [config]
    found_by_name = {"lookupPolicy": {"local": True}}  # pods may write `image: NAME`
    return [_object("image.openshift.io/v1", "ImageStream", name, namespace, spec=found_by_name), config]


def job_objects(
    text: str, name: str, *, push: str, secret: str | None, namespace: str | None, modules: Sequence[str]
) -> list[Manifest]:
    """A ConfigMap with the container file, and the Job that builds, tests and pushes it."""
    variables = {
        "IMAGE": push,
        "SMOKE_USER": smoke_test.USER,
        "SMOKE_MARK": smoke_test.MARK,
        "SMOKE_PASSED": smoke_test.PASSED,
        "STORAGE_DRIVER": "vfs",
        "HOME": "/builder",  # where an ordinary user's buildah keeps layers
        **({"REGISTRY_AUTH_FILE": "/auth/.dockerconfigjson"} if secret else {}),
    }
    mounts = [
        {"name": "containerfile", "mountPath": "/containerfile", "readOnly": True},
        {"name": "storage", "mountPath": "/builder"},
    ]
    volumes: list[Manifest] = [
        {"name": "containerfile", "configMap": {"name": name}},
        {"name": "storage", "emptyDir": {}},
    ]
    if secret:
        mounts.append({"name": "auth", "mountPath": "/auth", "readOnly": True})
        volumes.append({"name": "auth", "secret": {"secretName": secret}})
    container = {
        "name": "build",
        "image": BUILDER,
        "command": ["/bin/sh", "-c", _SCRIPT, "build", *smoke_test.argv(modules)],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "securityContext": {"runAsUser": _BUILDER_USER, "capabilities": {"add": ["SETUID", "SETGID"]}},
        "volumeMounts": mounts,
    }
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    job = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": _TIMEOUT_S,
        "template": {"metadata": {"labels": dict(MANAGED_BY)}, "spec": pod},
    }
    return [
        _object("v1", "ConfigMap", name, namespace, data={"Containerfile": text}),
        _object("batch/v1", "Job", name, namespace, spec=job),
    ]


def _object(version: str, kind: str, name: str, namespace: str | None, **content: object) -> Manifest:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **where, "labels": dict(MANAGED_BY)},
        **content,
    }
