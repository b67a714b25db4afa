"""Images built from container files, tested as an arbitrary user, and pushed, here or on a cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from assay.errors import InputError, Problem
from assay.launch.kubernetes.objects.order import MANAGED_BY, Manifest
from assay.records import digest_of
from assay.stacks.engines import SMOKE_TEST_MARK, SMOKE_TEST_PASSED, SMOKE_TEST_USER, smoke_test_argv

if TYPE_CHECKING:
    from os import PathLike

    from assay.stacks.engines import BuildEngine, LocalImage, SmokeTest

DEFAULT_TIMEOUT_S: Final = 3600.0
_LARGEST_BYTES: Final = 1 << 20  # of a container file; a ConfigMap can't have more either
_REFERENCE: Final = re.compile(
    r"(?P<registry>localhost(?::\d+)?|[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?|[a-z0-9-]+:\d+|\[[0-9a-f:]+\](?::\d+)?)"
    r"(?P<path>(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+)(?::(?P<tag>\w[\w.-]{0,127}))?"
)
_TAG: Final = re.compile(r"[a-z0-9][\w./:-]*")
_NAMES: Final = re.compile(r"-[to]|--(?:tag|manifest|output|iidfile)(?:=|$)")  # options that name the result
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_COPIES: Final = re.compile(r"(?mi)^[ \t]*(?:COPY|ADD)[ \t](?!.*--from=)(?!.*<<)(?!.*https?://).*")
_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9./-]*")
_OBJECT_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
Platform = Literal["openshift", "kubernetes"]


@dataclass(frozen=True)
class BuiltStack:
    """The result of `build_stack`.

    tag      that the image has if it passed the test
    pushed   `registry/name@sha256:…`, for a system's `image`; None if it was not pushed
    built_s  time that the build took
    """

    tag: str
    image: LocalImage
    test: SmokeTest
    pushed: str | None
    built_s: float

    def document(self) -> dict[str, Any]:
        """The image, what it did as an arbitrary user, and where it is."""
        return {
            "schema": "assay.stack-build/1",
            "tag": self.tag,
            "id": self.image.id,
            "size_bytes": self.image.size_bytes,
            "built_s": self.built_s,
            "passed": self.test.passed,
            "modules": list(self.test.modules),
            "failed": [{"what": what, "why": why} for what, why in self.test.failed],
            "pushed": self.pushed,
        }


def build_stack(
    file: str | PathLike[str],
    *,
    tag: str,
    engine: str = "podman",
    push: str | None = None,
    verify_tls: bool = True,
    context: str | PathLike[str] | None = None,
    modules: Sequence[str] = (),
    options: Sequence[str] = (),
    timeout_s: float = DEFAULT_TIMEOUT_S,
    keep_failed: bool = False,
    on_line: Callable[[str], None] | None = None,
) -> BuiltStack:
    """Build a container file, run the smoke test in the image, and tag and push it if that passes.

    What is tested, tagged and pushed is the image that was built, whoever else builds for the same tag.

    engine       podman or buildah; it has the credentials of registries
    push         `registry/name[:tag]`; the tag is the beginning of the image's ID by default
    context      a directory that the file may copy from; default: none
    modules      must be importable; default: those that the file checks, else one of each package that no
                 other package requires
    options      further options of the engine's `build`
    keep_failed  leave what was built before a step or the test failed
    on_line      receives each line of the engine's output

    SIGTERM and SIGHUP end it as Ctrl-C does, with everything that it started; the same call continues there.

    Raises InputError if something can't be used as written; HostError if the engine fails, with its last
    lines, or if it takes longer than `timeout_s`.
    """
    from assay.run.stopping import terminable
    from assay.stacks import engines
    from assay.stacks.engines import run_smoke_test

    path, text = Path(file), _text(Path(file))
    _check(tag, push, modules, options)
    chosen = engines.ENGINES.get(engine)
    if chosen is None:
        raise InputError(f"{engine!r} is not an engine; choose from {', '.join(engines.ENGINES)}")
    began, say = time.monotonic(), on_line or _silent
    with terminable():
        try:
            image_id, layers = engines.build(
                chosen,
                path,
                context=None if context is None else Path(context),
                options=options,
                on_line=say,
                timeout_s=timeout_s,
            )
        except engines.BuildFailedError as error:
            if not keep_failed:
                chosen.discard(error.layers)
            raise
        built_s = time.monotonic() - began
        image = chosen.image(image_id)
        test = run_smoke_test(chosen, image_id, _modules(text, modules), timeout_s)
        if not test.passed:
            if not keep_failed:
                chosen.discard(layers)
            return BuiltStack(tag, image, test, None, built_s)
        engines.name_image(chosen, image_id, tag)
        pushed = None if push is None else _push(chosen, image_id, push, verify_tls, say, timeout_s)
        return BuiltStack(tag, image, test, pushed, built_s)


def _push(
    engine: BuildEngine,
    image_id: str,
    push: str,
    verify_tls: bool,
    say: Callable[[str], None],
    timeout_s: float,
) -> str:
    """Push an image; its name with its digest."""
    from assay.stacks import engines

    match = _REFERENCE.fullmatch(push)
    reference = push if match is None or match["tag"] else f"{push}:{image_id[:12]}"
    digest = engines.push(
        engine, image_id, reference, verify_tls=verify_tls, on_line=say, timeout_s=timeout_s
    )
    return f"{reference.rpartition(':')[0]}@{digest}"


def render_build(
    file: str | PathLike[str],
    platform: Platform,
    *,
    name: str,
    push: str | None = None,
    secret: str | None = None,
    namespace: str | None = None,
    modules: Sequence[str] = (),
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Objects that build, test and push a container file on a cluster; they hold no credentials.

    push      `registry/name[:tag]`; on OpenShift, None: an ImageStream
    secret    name of a Secret of type kubernetes.io/dockerconfigjson that is there
    requests  of the pod that builds, as `{"cpu": "4"}`; what it leaves open: the limit, or 1 CPU and 4 GiB
    limits    of it; None: none

    Raises InputError if something can't be used as written.
    """
    text = _text(Path(file))
    _check(name, push, modules)
    if copies := _COPIES.search(text):
        what = f"{copies[0].strip()!r}: the cluster has no directory to copy from; let RUN fetch or write it"
        raise InputError([Problem(str(file), what)])
    for option, value in (("--tag", name), ("--push-login", secret), ("--namespace", namespace)):
        if value is not None and not _OBJECT_NAME.fullmatch(value):
            raise InputError([Problem(option, f"{value!r} is not a name in Kubernetes: a-z, 0-9 and '-'")])
    resources = _resources(requests, limits or {})
    imported = _modules(text, modules)
    if platform == "openshift":
        return openshift_objects(
            text, name, push=push, secret=secret, namespace=namespace, modules=imported, resources=resources
        )
    if push is None:
        raise InputError([Problem("--push", "a Job has to push the image: name a registry")])
    return job_objects(
        text, name, push=push, secret=secret, namespace=namespace, modules=imported, resources=resources
    )


def _resources(requests: Mapping[str, str] | None, limits: Mapping[str, str]) -> BuildResources:
    """What a build gets: a limit without a request is the request, too, as in Kubernetes."""
    from assay.launch.kubernetes import fields

    requested = {**DEFAULT_REQUESTS, **limits, **(requests or {})}
    resources = BuildResources(_quantities("--request", requested), _quantities("--limit", limits))
    above = [
        name
        for name in limits
        if fields.quantity_number(requested[name]) > fields.quantity_number(limits[name])
    ]
    if above:
        what = "{0}={1} is more than --limit {0}={2}"
        raise InputError(
            [Problem("--request", what.format(name, requested[name], limits[name])) for name in above]
        )
    return resources


def _quantities(option: str, amounts: Mapping[str, str]) -> dict[str, str]:
    """The same. Raises InputError if one is not a quantity or its name not that of a resource."""
    from assay.launch.kubernetes import fields

    problems = []
    for name, amount in amounts.items():
        try:
            usable = (
                bool(_RESOURCE.fullmatch(name)) and fields.quantity_number(fields.check_quantity(amount)) > 0
            )
        except ValueError:
            usable = False
        if not usable:
            what = f"{name}={amount} is not a resource and its quantity; write cpu=4 or memory=8Gi"
            problems.append(Problem(option, what))
    if problems:
        raise InputError(problems)
    return dict(amounts)


def _silent(line: str) -> None:
    """Show nothing."""


def _text(path: Path) -> str:
    from assay.inputs import read_whole
    from assay.redact import secrets_in_text

    text = read_whole(path, _LARGEST_BYTES).decode("utf-8", "replace")
    if not re.search(r"^\s*FROM\s", text, re.MULTILINE | re.IGNORECASE):
        raise InputError([Problem(str(path), "it has no FROM, so it is not a container file")])
    if secrets_in_text(text):
        what = "it has a credential, which everybody with the image could read; mount it during the build"
        raise InputError([Problem(str(path), what)])
    return text


def _check(tag: str, push: str | None, modules: Sequence[str], options: Sequence[str] = ()) -> None:
    problems = [Problem("--", what) for what in _wrong_options(options)]
    if not _TAG.fullmatch(tag):
        problems.append(Problem("--tag", f"{tag!r} is not a name of an image, like lab/resnet50:1"))
    if push is not None and not _REFERENCE.fullmatch(push):
        what = f"{push!r} is not a place in a registry; write REGISTRY/NAME[:TAG]: registry.lab/stack:1"
        problems.append(Problem("--push", what))
    problems += [
        Problem("--import", f"{module!r} is not a module")
        for module in modules
        if not _MODULE.fullmatch(module)
    ]
    if problems:
        raise InputError(problems)


def _wrong_options(options: Sequence[str]) -> Iterator[str]:
    from assay.redact import secrets_in_text
    from assay.redact.names import is_secret_name

    instead = "mount a file with it during the build: --volume ~/.netrc:/root/.netrc:ro"
    if any(map(secrets_in_text, options)):
        yield f"it has a credential, which the image's history would keep; {instead}"
    for before, option in pairwise(["", *options]):
        name = option.removeprefix("--build-arg=").partition("=")[0]
        if _NAMES.match(option):
            yield f"{option}: Assay names the image, once it has passed the test; use --tag and --push"
        elif "--build-arg" in (before, option.partition("=")[0]) and is_secret_name(name):
            yield f"the value of {name} would be kept by the image's history; {instead}"


def _modules(text: str, modules: Sequence[str]) -> tuple[str, ...]:
    from assay.stacks.containerfile import checked_modules

    return tuple(modules) or checked_modules(text)


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
