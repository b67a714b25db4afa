"""Images built from container files, tested as an arbitrary user, and pushed, here or on a cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

from assay.errors import EXIT_OK, EXIT_WORSE, InputError, Problem
from assay.inputs import read_whole
from assay.launch.kubernetes.fields import check_quantity, quantity_number
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.objects.order import MANAGED_BY, Manifest
from assay.questions.question import Answer, Question, argument, option, question, supplied
from assay.questions.values import PresentFile, PresentFolder, Seconds, Texts
from assay.records import digest_of
from assay.redact import secrets_in_text
from assay.redact.names import is_secret_name
from assay.run.stopping import terminable
from assay.stacks import engines
from assay.stacks.containerfile import checked_modules
from assay.stacks.engines import (
    SMOKE_TEST_MARK,
    SMOKE_TEST_PASSED,
    SMOKE_TEST_USER,
    BuildEngine,
    BuiltLayers,
    LocalImage,
    SmokeTest,
    run_smoke_test,
    smoke_test_argv,
)
from assay.units import counted, human, human_seconds
from assay.view.blocks import Block, Paragraph, Verbatim

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
OnLine = Callable[[str], None]
# fields without effect on objects, and on a build here
_HERE: Final = {
    "engine": "--engine",
    "verify_tls": "--no-tls-verify",
    "context": "--context",
    "timeout_s": "--timeout",
    "keep_failed": "--keep-failed",
    "build_options": "--",
}
_ELSEWHERE: Final = {
    "namespace": "--namespace",
    "push_login": "--push-login",
    "requests": "--request",
    "limits": "--limit",
}


@dataclass(frozen=True)
class BuiltStack(Answer):
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

    @property
    def exit_code(self) -> int:
        """1 if it does not pass the test."""
        return EXIT_OK if self.test.passed else EXIT_WORSE

    def view(self) -> Iterator[Block]:
        """Which image to use, and what the test found."""
        if self.test.passed:
            yield Paragraph(f"Use image: {self.pushed or self.tag}", wraps=False)
        else:
            image = self.image.id[:12]
            yield Paragraph(
                f"Don't use {image}: it does not work as an arbitrary user. It is neither tagged nor pushed."
            )
        size = "" if self.image.size_bytes is None else f", {human(float(self.image.size_bytes), 'B')}"
        yield Paragraph(f"Built in {human_seconds(self.built_s)}{size}: {self.image.id}", wraps=False)
        yield from (Paragraph(f"  {what}: {why}", wraps=False) for what, why in self.test.failed)
        if self.test.passed:
            modules = counted(len(self.test.modules), "module")
            yield Paragraph(f"As user {SMOKE_TEST_USER} HOME is writable, and {modules} can be imported.")

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


@question
class BuildStack(Question):
    """Build the image of a container file, test it, and push it.

    The test runs in the image as a user ID that nobody has, with group 0, as OpenShift does: the modules can
    be imported, and HOME is writable. An image that fails is neither tagged nor pushed, and is removed. What
    follows `--` is for the engine's `build`. A build that was stopped, or took too long, continues with the
    same command, from the engine's layers.

    \b
    Examples:
      assay stack build locked/Containerfile --tag lab/stack:1
      assay stack build Containerfile --tag lab/stack:1 --push registry.lab:5000/stack:1
      assay stack build Containerfile --tag stack -- --volume ~/.config/pip/pip.conf:/etc/pip.conf:ro
      assay stack build Containerfile --tag stack --render openshift | oc apply -f -

    \b
    Exit codes: 0 built, tested, and pushed if requested; 1 the image does not pass the test; 4 FILE or an
    option can't be used; 5 the engine or the registry failed; 130 stopped: run again to continue.
    """

    file: PresentFile = argument()
    tag: str = option("Name of the image here, or of the objects.", metavar="NAME")
    build_options: tuple[str, ...] = argument(default=())
    engine: Literal["podman", "buildah"] = option(
        "What builds. It has the credentials of registries: log in with it.", default="podman"
    )
    push: str | None = option(
        "Push the image there once it has passed the test; without TAG, under the beginning of its ID.",
        default=None,
        metavar="REGISTRY/NAME[:TAG]",
    )
    verify_tls: bool = option(
        "Whether the registry must have a valid certificate.",
        default=True,
        names=("--tls-verify/--no-tls-verify",),
    )
    context: PresentFolder | None = option("Directory that FILE may copy from. [default: none]", default=None)
    modules: tuple[str, ...] = option(
        "Module that must be importable. [default: those that FILE checks, else one of each package that no "
        "other package requires]",
        default=(),
        names=("--import",),
        metavar="MODULE",
    )
    timeout_s: Seconds = option(
        "End a build, a test or a push that takes longer. [default: 1h]",
        default=DEFAULT_TIMEOUT_S,
        names=("--timeout",),
    )
    keep_failed: bool = option(
        "Keep the layers that were built before a step or the test failed.", default=False
    )
    render: Platform | None = option(
        "Build nothing; print a BuildConfig and an ImageStream, or a Job, that build on a cluster.",
        default=None,
    )
    namespace: str | None = option("Namespace of the rendered objects.", default=None, metavar="NAME")
    push_login: str | None = option(
        "Secret there with the registry's credentials, for rendered objects.", default=None, metavar="NAME"
    )
    requests: Texts | None = option(
        "What the rendered build requests, like memory=8Gi. [default: cpu=1, memory=4Gi]",
        default=None,
        names=("--request",),
        metavar="NAME=QUANTITY",
    )
    limits: Texts | None = option(
        "Limit of the rendered build, like memory=16Gi. [default: none]",
        default=None,
        names=("--limit",),
        metavar="NAME=QUANTITY",
    )
    on_line: OnLine | None = supplied("build steps", default=None)

    def answer(self) -> BuiltStack | RenderedBuild:
        """The image, or the objects that build it. Raises InputError for options without an effect."""
        without, how = (_HERE, "with") if self.render else (_ELSEWHERE, "without")
        stated = (name for name in without if getattr(self, name) not in (getattr(type(self), name), {}))
        what = f"it has no effect {how} --render; leave it out"
        if idle := [Problem(without[name], what) for name in stated]:
            raise InputError(idle)
        return self.built() if self.render is None else self.rendered(self.render)

    def built(self) -> BuiltStack:
        """The image, built here. Raises as `build_stack` does."""
        text = _text(Path(self.file))
        _check(self.tag, self.push, self.modules, self.build_options)
        if self.engine not in engines.ENGINES:
            raise InputError(f"{self.engine!r} is not an engine; choose from {', '.join(engines.ENGINES)}")
        engine, say = engines.ENGINES[self.engine], self.on_line or (lambda _: None)
        with terminable():
            began = time.monotonic()
            image_id, layers = self._layers(engine, say)
            built_s = time.monotonic() - began
            image = engine.image(image_id)
            modules = tuple(self.modules) or checked_modules(text)
            test = run_smoke_test(engine, image_id, modules, self.timeout_s)
            pushed = None
            if test.passed:
                engines.name_image(engine, image_id, self.tag)
                pushed = self.push and self._pushed(engine, image_id, self.push, say)
            elif not self.keep_failed:
                engine.discard(layers)
            return BuiltStack(self.tag, image, test, pushed, built_s)

    def _layers(self, engine: BuildEngine, say: OnLine) -> tuple[str, BuiltLayers]:
        try:
            return engines.build(
                engine,
                Path(self.file),
                context=None if self.context is None else Path(self.context),
                options=self.build_options,
                on_line=say,
                timeout_s=self.timeout_s,
            )
        except engines.BuildFailedError as error:
            if not self.keep_failed:
                engine.discard(error.layers)
            raise

    def _pushed(self, engine: BuildEngine, image_id: str, push: str, say: OnLine) -> str:
        """The name of the image with its digest, once it is in the registry."""
        match = _REFERENCE.fullmatch(push)
        reference = push if match is None or match["tag"] else f"{push}:{image_id[:12]}"
        tls, limit_s = self.verify_tls, self.timeout_s
        digest = engines.push(engine, image_id, reference, verify_tls=tls, on_line=say, timeout_s=limit_s)
        return f"{reference.rpartition(':')[0]}@{digest}"

    def rendered(self, platform: Platform) -> RenderedBuild:
        """The objects that build it on a cluster. Raises as `render_build` does."""
        text = _text(Path(self.file))
        _check(self.tag, self.push, self.modules)
        if copies := _COPIES.search(text):
            what = "the cluster has no directory to copy from; let RUN fetch or write it"
            raise InputError([Problem(str(self.file), f"{copies[0].strip()!r}: {what}")])
        names = {"--tag": self.tag, "--push-login": self.push_login, "--namespace": self.namespace}
        for label, name in names.items():
            if name is not None and not _OBJECT_NAME.fullmatch(name):
                raise InputError([Problem(label, f"{name!r} is not a name in Kubernetes: a-z, 0-9 and '-'")])
        resources = _resources(self.requests or {}, self.limits or {})
        if platform == "kubernetes" and self.push is None:
            raise InputError([Problem("--push", "a Job has to push the image: name a registry")])
        modules = tuple(self.modules) or checked_modules(text)
        place = self.push, self.push_login, self.namespace
        return RenderedBuild(platform, text, self.tag, *place, modules, resources)


def build_stack(
    file: str | PathLike[str],
    *,
    tag: str,
    engine: Literal["podman", "buildah"] = "podman",
    push: str | None = None,
    verify_tls: bool = True,
    context: str | PathLike[str] | None = None,
    modules: Sequence[str] = (),
    options: Sequence[str] = (),
    timeout_s: float = DEFAULT_TIMEOUT_S,
    keep_failed: bool = False,
    on_line: OnLine | None = None,
) -> BuiltStack:
    """Build a container file, test the image, and tag and push it if it passes, like `assay stack build`.

    options  further options of the engine's `build`
    on_line  receives each line of the engine's output

    What is tested, tagged and pushed is the image that was built, whoever else builds for the same tag.
    SIGTERM and SIGHUP end it as Ctrl-C does, with everything that it started; the same call continues there.

    Raises InputError if something can't be used as written; HostError if the engine fails, with its last
    lines, or if it takes longer than `timeout_s`.
    """
    return BuildStack(
        file,
        build_options=tuple(options),
        tag=tag,
        engine=engine,
        push=push,
        verify_tls=verify_tls,
        context=context,
        modules=tuple(modules),
        timeout_s=timeout_s,
        keep_failed=keep_failed,
        on_line=on_line,
    ).built()


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
    choices = BuildStack(
        file,
        tag=name,
        push=push,
        push_login=secret,
        namespace=namespace,
        modules=tuple(modules),
        requests=requests,
        limits=limits,
    )
    return choices.rendered(platform).objects


def _resources(requests: Mapping[str, str], limits: Mapping[str, str]) -> dict[str, Any]:
    """What a build gets, as a container has it: a limit without a request is the request, too."""
    requested = {**DEFAULT_REQUESTS, **limits, **requests}
    problems = [*_wrong_quantities("--request", requested), *_wrong_quantities("--limit", limits)]
    if not problems:
        what = "{0}={1} is more than --limit {0}={2}"
        problems = [
            Problem("--request", what.format(name, requested[name], limit))
            for name, limit in limits.items()
            if quantity_number(requested[name]) > quantity_number(limit)
        ]
    if problems:
        raise InputError(problems)
    parts = {"requests": requested, "limits": dict(limits)}
    return {name: part for name, part in parts.items() if part}


def _wrong_quantities(label: str, amounts: Mapping[str, str]) -> Iterator[Problem]:
    """Each that is not a quantity, or whose name is not that of a resource."""
    for name, amount in amounts.items():
        try:
            usable = bool(_RESOURCE.fullmatch(name)) and quantity_number(check_quantity(amount)) > 0
        except ValueError:
            usable = False
        if not usable:
            what = f"{name}={amount} is not a resource and its quantity; write cpu=4 or memory=8Gi"
            yield Problem(label, what)


def _text(path: Path) -> str:
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
    instead = "mount a file with it during the build: --volume ~/.netrc:/root/.netrc:ro"
    if any(map(secrets_in_text, options)):
        yield f"it has a credential, which the image's history would keep; {instead}"
    for before, word in pairwise(["", *options]):
        name = word.removeprefix("--build-arg=").partition("=")[0]
        if _NAMES.match(word):
            yield f"{word}: Assay names the image, once it has passed the test; use --tag and --push"
        elif "--build-arg" in (before, word.partition("=")[0]) and is_secret_name(name):
            yield f"the value of {name} would be kept by the image's history; {instead}"


BUILDER: Final = "quay.io/buildah/stable:v1.43.4"
_BUILDER_USER: Final = 1000
_TIMEOUT_S: Final = 3600
DEFAULT_REQUESTS: Final[Mapping[str, str]] = {"cpu": "1", "memory": "4Gi"}
_KEPT_S: Final = 86_400  # a Job that ended, for its log
_NAME_CHARACTERS: Final = 54  # with a digest, a Job's name is at most 63 long
_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": _BUILDER_USER,
    "allowPrivilegeEscalation": True,
    "capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID"]},
    "seccompProfile": {"type": "Unconfined"},
}
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
class RenderedBuild(Answer):
    """Objects that build, test and push an image on a cluster.

    text       the container file
    name       of the objects
    push       `registry/name:tag`; on OpenShift, None: the ImageStream `name`
    secret     name of the Secret with the registry's credentials
    resources  of the pod that builds, as a container has them
    """

    platform: Platform
    text: str
    name: str
    push: str | None
    secret: str | None
    namespace: str | None
    modules: Sequence[str]
    resources: Manifest

    def view(self) -> Iterator[Block]:
        """The objects as YAML."""
        yield Verbatim(as_yaml(self.objects))

    def document(self) -> dict[str, Any]:
        """The objects."""
        return {"schema": "assay.stack-build/1", "objects": self.objects}

    @property
    def objects(self) -> list[Manifest]:
        """On OpenShift a BuildConfig, and the ImageStream that gets the image if it is not pushed; or a Job.

        The container file is in the Job's ConfigMap. The names of both end in a digest of what they do: equal
        builds are one Job, different ones run side by side. Each start of a BuildConfig is a Build with a
        number, so one name does for all.
        """
        if self.platform == "openshift":
            config = self._object("build.openshift.io/v1", "BuildConfig", self.name, spec=self._config())
            if self.push is not None:
                return [config]
            by_name = {"lookupPolicy": {"local": True}}  # pods may write `image: NAME`
            return [self._object("image.openshift.io/v1", "ImageStream", self.name, spec=by_name), config]
        contents = [self.text, self.push, self.secret, list(self.modules), self.resources]
        own_name = f"{self.name[:_NAME_CHARACTERS].rstrip('-')}-{digest_of(contents)[:8]}"
        labels = {"app.kubernetes.io/name": self.name, "app.kubernetes.io/component": "image-build"}
        spec = {
            "backoffLimit": 0,
            "activeDeadlineSeconds": _TIMEOUT_S,
            "ttlSecondsAfterFinished": _KEPT_S,
            "template": {"metadata": {"labels": {**MANAGED_BY, **labels}}, "spec": self._pod(own_name)},
        }
        file = {"immutable": True, "data": {"Containerfile": self.text}}
        return [
            self._object("v1", "ConfigMap", own_name, labels, **file),
            self._object("batch/v1", "Job", own_name, labels, spec=spec),
        ]

    def _config(self) -> Manifest:
        to = {"kind": "ImageStreamTag", "name": f"{self.name}:latest"}
        if self.push is not None:
            to = {"kind": "DockerImage", "name": self.push}
        return {
            "runPolicy": "Serial",
            "completionDeadlineSeconds": _TIMEOUT_S,
            "resources": self.resources,
            "source": {"type": "Dockerfile", "dockerfile": self.text},
            "strategy": {"type": "Docker", "dockerStrategy": {}},
            "postCommit": {"command": ["/bin/sh", "-c", _JUDGE, "test", *smoke_test_argv(self.modules)]},
            "output": {"to": to} | ({"pushSecret": {"name": self.secret}} if self.secret else {}),
            "triggers": [{"type": "ConfigChange"}],
        }

    def _pod(self, own_name: str) -> Manifest:
        variables = {
            "IMAGE": self.push,
            "SMOKE_USER": SMOKE_TEST_USER,
            "SMOKE_MARK": SMOKE_TEST_MARK,
            "SMOKE_PASSED": SMOKE_TEST_PASSED,
            "STORAGE_DRIVER": "vfs",
            "HOME": "/builder",  # where an ordinary user's buildah keeps layers
            **({"REGISTRY_AUTH_FILE": "/auth/.dockerconfigjson"} if self.secret else {}),
        }
        sources: dict[str, tuple[str, Manifest]] = {
            "containerfile": ("/containerfile", {"configMap": {"name": own_name}}),
            "storage": ("/builder", {"emptyDir": {}}),
            **({"auth": ("/auth", {"secret": {"secretName": self.secret}})} if self.secret else {}),
        }
        mounts = [
            {"name": name, "mountPath": path, **({} if name == "storage" else {"readOnly": True})}
            for name, (path, _) in sources.items()
        ]
        container = {
            "name": "build",
            "image": BUILDER,
            "command": ["/bin/sh", "-c", _SCRIPT, "build", *smoke_test_argv(self.modules)],
            "env": [{"name": key, "value": value} for key, value in variables.items()],
            "resources": self.resources,
            "securityContext": _SECURITY,
            "volumeMounts": mounts,
        }
        return {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [container],
            "volumes": [{"name": name, **source} for name, (_, source) in sources.items()],
        }

    def _object(
        self, version: str, kind: str, name: str, labels: Mapping[str, str] | None = None, **content: object
    ) -> Manifest:
        where = {"namespace": self.namespace} if self.namespace else {}
        metadata = {"name": name, **where, "labels": {**MANAGED_BY, **(labels or {})}}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
