"""podman and buildah: how each builds an image, runs a program in it, and pushes it; and the smoke test.

A built image must pass the smoke test before anybody gets it: a program that runs in it as an arbitrary user.
OpenShift gives a container a user ID that /etc/passwd does not have, and group 0. Where a container has only
the IDs of a user namespace, the highest of them is 65535.
"""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from assay import payload_files, shell
from assay.errors import HostError, InputError
from assay.shell import CompletedCommand

_QUERY_TIMEOUT_S: Final = 60.0
_NO_SPACE: Final = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_UNAUTHORIZED: Final = re.compile(r"unauthorized|authentication required|denied", re.IGNORECASE)
_LAST_LINES: Final = 15
_LAYER: Final = re.compile(r"--> (Using cache )?([0-9a-f]{11,64})")
_IMAGE: Final = re.compile(r"[0-9a-f]{64}")
_GRACE_S: Final = 10.0  # for an engine whose container was killed to remove what it made
OnLine = Callable[[str], None]


@dataclass(frozen=True)
class LocalImage:
    """An image that is here.

    id          hexadecimal; unlike a tag, it never names another image
    size_bytes  of its layers; None if the engine does not say
    """

    id: str
    size_bytes: int | None


@dataclass(frozen=True)
class BuiltLayers:
    """The images that a build's steps left, by their IDs, which may be shortened.

    new     that it made, in order
    cached  that it took from an earlier build
    """

    new: tuple[str, ...]
    cached: tuple[str, ...]


class BuildFailedError(HostError):
    """A step of a build failed; `layers` are those of the steps before."""

    def __init__(self, message: str, layers: BuiltLayers) -> None:
        super().__init__(message)
        self.layers = layers


class BuildEngine:
    """What builds images. Each method raises an error with the engine's words if it can't.

    inspect  the words that show an image
    listing  the option that lists images as JSON
    discard_options  of the removal of an image
    """

    name: ClassVar[str]
    inspect: ClassVar[tuple[str, ...]]
    listing: ClassVar[str]
    discard_options: ClassVar[tuple[str, ...]] = ()

    def image(self, name: str) -> LocalImage:
        """The image of this ID or tag."""
        raise NotImplementedError

    def run(self, name: str, user: str, argv: Sequence[str], timeout_s: float) -> CompletedCommand:
        """Run a program, past the image's entrypoint, in a new container without a network; it is removed."""
        raise NotImplementedError

    def has(self, tag: str) -> bool:
        """Whether an image of this tag is here."""
        return shell.run([self.name, *self.inspect, tag], timeout_s=_QUERY_TIMEOUT_S).ok

    def remove(self, tag: str) -> None:
        """Remove the image of this tag, if it is here; layers that others use stay."""
        if self.has(tag):
            _done([self.name, "rmi", "--force", tag], _QUERY_TIMEOUT_S)

    def tags(self) -> Mapping[str, Sequence[str]]:
        """All images here, by ID, with their tags."""
        command = [self.name, "images", "--all", "--no-trunc", self.listing]
        images = [
            {key.lower(): value for key, value in image.items()}
            for image in json.loads(_done(command, _QUERY_TIMEOUT_S).stdout)
        ]
        return {image["id"].removeprefix("sha256:"): image.get("names") or () for image in images}

    def discard(self, layers: BuiltLayers) -> None:
        """Remove the untagged images that a build made; what is in use, or from another build, stays.

        The newest goes first: one with children, or in a container, can't be removed.
        """
        tags = self.tags()
        for name in reversed(layers.new):
            for image in [image_id for image_id in tags if image_id.startswith(name) and not tags[image_id]]:
                command = [self.name, "rmi", *self.discard_options, image]
                shell.run(command, timeout_s=_QUERY_TIMEOUT_S)


class Podman(BuildEngine):
    """podman."""

    name = "podman"
    inspect = ("image", "inspect")
    listing = "--format=json"
    discard_options = ("--no-prune",)

    def image(self, name: str) -> LocalImage:
        """The image of this ID or tag."""
        (image,) = json.loads(_done([self.name, *self.inspect, name], _QUERY_TIMEOUT_S).stdout)
        return LocalImage(str(image["Id"]), int(image["Size"]))

    def run(self, name: str, user: str, argv: Sequence[str], timeout_s: float) -> CompletedCommand:
        """Run a program, past the image's entrypoint, in a new container without a network; it is removed."""
        container = f"assay-{uuid.uuid4().hex}"
        program, *arguments = argv
        options = ["--rm", f"--name={container}", "--network=none", f"--user={user}"]
        command = [self.name, "run", *options, f"--entrypoint={program}", name, *arguments]
        try:
            return shell.run(command, timeout_s=timeout_s)
        except BaseException:  # the container is no descendant of podman's
            shell.run([self.name, "rm", "--force", "--ignore", container], timeout_s=_QUERY_TIMEOUT_S)
            raise


class Buildah(BuildEngine):
    """buildah, which needs no daemon and no podman."""

    name = "buildah"
    inspect = ("inspect", "--type", "image")
    listing = "--json"

    def image(self, name: str) -> LocalImage:
        """The image of this ID or tag."""
        image = json.loads(_done([self.name, *self.inspect, name], _QUERY_TIMEOUT_S).stdout)
        return LocalImage(str(image["FromImageID"]), None)

    def run(self, name: str, user: str, argv: Sequence[str], timeout_s: float) -> CompletedCommand:
        """Run a program, past the image's entrypoint, in a new container without a network; it is removed."""
        container = _done([self.name, "from", "--pull-never", name], _QUERY_TIMEOUT_S).stdout.strip()
        command = [self.name, "run", "--network=none", f"--user={user}", container, "--", *argv]
        try:
            return shell.run(command, timeout_s=timeout_s, grace_s=_GRACE_S)
        finally:
            shell.run([self.name, "rm", container], timeout_s=_QUERY_TIMEOUT_S)

    def discard(self, layers: BuiltLayers) -> None:
        """Remove the untagged images that a build made, unless it took some from another build.

        buildah removes untagged parents with an image, whoever made them.
        """
        if not layers.cached:
            super().discard(layers)


ENGINES: Final[Mapping[str, BuildEngine]] = {"podman": Podman(), "buildah": Buildah()}


def build(
    engine: BuildEngine,
    file: Path,
    *,
    context: Path | None,
    options: Sequence[str],
    on_line: OnLine,
    timeout_s: float,
) -> tuple[str, BuiltLayers]:
    """Build an image; its ID, and the layers. They are kept, so a build that was killed continues there.

    It gets no tag: another build may give the tag to its own image at any time. A build that must end leaves
    neither processes nor working containers.

    context  what the file may copy; None: nothing
    options  further options of the engine's `build`

    Raises BuildFailedError if a step fails.
    """
    with tempfile.TemporaryDirectory(prefix="assay-") as empty:
        command = [engine.name, "build", "--layers", "--force-rm", f"--file={file}", *options]
        done = shell.follow([*command, str(context or empty)], on_line, timeout_s=timeout_s, grace_s=_GRACE_S)
    layers = _layers(done.stdout)
    if not done.ok:
        raise BuildFailedError(_reason(done, f"{engine.name} can't build {file}"), layers)
    ids = [line for line in done.stdout.splitlines() if _IMAGE.fullmatch(line)]
    if not ids:
        raise HostError(f"{_last(done)}\n{engine.name} does not say which image it built")
    return ids[-1], layers


def name_image(engine: BuildEngine, image_id: str, tag: str) -> None:
    """Give an image a tag, which another image may have had."""
    _done([engine.name, "tag", image_id, tag], _QUERY_TIMEOUT_S)


def push(
    engine: BuildEngine, image_id: str, reference: str, *, verify_tls: bool, on_line: OnLine, timeout_s: float
) -> str:
    """Push an image to `registry/name:tag`; its digest, sha256:…. The engine has the credentials."""
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        digest = Path(folder) / "digest"
        command = [engine.name, "push", f"--digestfile={digest}", f"--tls-verify={str(verify_tls).lower()}"]
        command += [image_id, f"docker://{reference}"]
        done = shell.follow(command, on_line, timeout_s=timeout_s, grace_s=_GRACE_S)
        registry = reference.partition("/")[0]
        if not done.ok and _UNAUTHORIZED.search(done.stdout):
            raise HostError(
                f"{_last(done)}\n{registry} refuses the push: log in with `{engine.name} login {registry}`"
            )
        if not done.ok:
            raise HostError(_reason(done, f"{engine.name} can't push to {registry}"))
        return digest.read_text().strip()


def _done(argv: Sequence[str], timeout_s: float) -> CompletedCommand:
    done = shell.run(argv, timeout_s=timeout_s)
    if not done.ok:
        raise InputError(f"{' '.join(argv[:3])}: {done.words}")
    return done


def _layers(output: str) -> BuiltLayers:
    """What the steps left, by what the engine says of each; a layer from the cache is named twice."""
    named = [(match[2], bool(match[1])) for line in output.splitlines() if (match := _LAYER.fullmatch(line))]
    cached = tuple(name for name, from_cache in named if from_cache)
    return BuiltLayers(
        tuple(name for name, _ in named if not any(cached_layer.startswith(name) for cached_layer in cached)),
        cached,
    )


def _reason(done: CompletedCommand, what: str) -> str:
    if _NO_SPACE.search(done.stdout):
        return f"{_last(done)}\nthe disk is full: free some space (`podman system prune`)"
    return f"{_last(done)}\n{what}: see above"


def _last(done: CompletedCommand) -> str:
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return "\n".join(lines[-_LAST_LINES:]) or f"it ended with exit code {done.exit_code}"


SMOKE_TEST_USER: Final = "54321:0"
SMOKE_TEST_MARK: Final = "^assay-image-test "
"""How the line begins, as a regular expression, that says what worked."""
SMOKE_TEST_PASSED: Final = '"failed": []}'
"""How it ends if everything did. An exit code of 0 may be that of a module that ended Python."""
CLUSTER_LIMIT_S: Final = 900.0
_TO_START_S: Final = 60.0
_PROGRAM: Final = "assay_payloads/probing/image_test.py"


@dataclass(frozen=True)
class SmokeTest:
    """What an image did as an arbitrary user.

    modules  that it was asked to import
    failed   what did not work, and why
    started  whether the program ran at all
    """

    modules: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    started: bool = True

    @property
    def passed(self) -> bool:
        """Whether all of it worked."""
        return not self.failed


def run_smoke_test(engine: BuildEngine, image: str, modules: Sequence[str], limit_s: float) -> SmokeTest:
    """Test the image of this ID or tag. Raises HostError if the engine does not answer."""
    done = engine.run(image, SMOKE_TEST_USER, smoke_test_argv(modules, limit_s), limit_s + _TO_START_S)
    return smoke_test_outcome(done.exit_code, f"{done.stderr}\n{done.stdout}")


def smoke_test_argv(modules: Sequence[str], limit_s: float = CLUSTER_LIMIT_S) -> list[str]:
    """The command in the image.

    modules  must be importable; empty: one of each package that no other package requires
    limit_s  for all imports
    """
    return ["python3", "-I", "-c", payload_files.source(_PROGRAM).decode(), f"{limit_s:g}", *modules]


def smoke_test_outcome(exit_code: int, output: str) -> SmokeTest:
    """What the program's output says; a program that says nothing has failed."""
    for line in reversed(output.splitlines()):
        if re.match(SMOKE_TEST_MARK, line):
            report = json.loads(re.sub(SMOKE_TEST_MARK, "", line))
            return SmokeTest(tuple(report["modules"]), tuple((what, why) for what, why in report["failed"]))
    last = " ".join(output.split())[-500:]
    return SmokeTest((), (("start", f"it ended with exit code {exit_code}: {last}"),), started=False)
