"""podman and buildah: how each of them builds an image, runs a program in it, and pushes it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from assay import shell
from assay.errors import HostError, InputError
from assay.shell import CompletedCommand

_QUERY_TIMEOUT_S: Final = 60.0
_NO_SPACE: Final = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_UNAUTHORIZED: Final = re.compile(r"unauthorized|authentication required|denied", re.IGNORECASE)
_LAST_LINES: Final = 15
OnLine = Callable[[str], None]


@dataclass(frozen=True)
class LocalImage:
    """An image that is here.

    id          hexadecimal; unlike a tag, it never names another image
    size_bytes  of its layers; None if the engine does not say
    """

    id: str
    size_bytes: int | None


class BuildEngine(Protocol):
    """What builds images. Each raises HostError, with the engine's words, if it can't."""

    @property
    def name(self) -> str:
        """The program's."""
        ...

    def image(self, name: str) -> LocalImage:
        """The image of this ID or tag."""
        ...

    def run(self, name: str, user: str, argv: Sequence[str], timeout_s: float) -> CompletedCommand:
        """Run a program, past the image's entrypoint, in a new container without a network; it is removed."""
        ...

    def has(self, tag: str) -> bool:
        """Whether an image of this tag is here."""
        ...

    def remove(self, tag: str) -> None:
        """Remove the image of this tag, if it is here; layers that others use stay."""
        ...


@dataclass(frozen=True)
class Podman:
    """podman."""

    name: str = "podman"

    def image(self, name: str) -> LocalImage:
        """The image of this ID or tag."""
        (found,) = json.loads(_done([self.name, "image", "inspect", name], _QUERY_TIMEOUT_S).stdout)
        return LocalImage(str(found["Id"]), int(found["Size"]))

    def run(self, name: str, user: str, argv: Sequence[str], timeout_s: float) -> CompletedCommand:
        """Run a program, past the image's entrypoint, in a new container without a network; it is removed."""
        container = f"assay-{os.getpid()}"
        program, *words = argv
        options = ["--rm", f"--name={container}", "--network=none", f"--user={user}"]
        try:
            return shell.run(
                [self.name, "run", *options, f"--entrypoint={program}", name, *words], timeout_s=timeout_s
            )
        except (shell.CommandTimeoutError, KeyboardInterrupt):
            shell.run([self.name, "rm", "--force", container], timeout_s=_QUERY_TIMEOUT_S)
            raise

    def has(self, tag: str) -> bool:
        """Whether an image of this tag is here."""
        return shell.run([self.name, "image", "exists", tag], timeout_s=_QUERY_TIMEOUT_S).ok

    def remove(self, tag: str) -> None:
        """Remove the image of this tag, if it is here; layers that others use stay."""
        _remove(self, tag)


@dataclass(frozen=True)
class Buildah:
    """buildah, which needs no daemon and no podman."""

    name: str = "buildah"

    def image(self, name: str) -> LocalImage:
        """The image of this ID or tag."""
        found = json.loads(_done([self.name, "inspect", "--type", "image", name], _QUERY_TIMEOUT_S).stdout)
        return LocalImage(str(found["FromImageID"]), None)

    def run(self, name: str, user: str, argv: Sequence[str], timeout_s: float) -> CompletedCommand:
        """Run a program, past the image's entrypoint, in a new container without a network; it is removed."""
        container = _done([self.name, "from", "--pull-never", name], _QUERY_TIMEOUT_S).stdout.strip()
        words = [self.name, "run", "--network=none", f"--user={user}", container, "--", *argv]
        try:
            return shell.run(words, timeout_s=timeout_s)
        finally:
            shell.run([self.name, "rm", container], timeout_s=_QUERY_TIMEOUT_S)

    def has(self, tag: str) -> bool:
        """Whether an image of this tag is here."""
        return shell.run([self.name, "inspect", "--type", "image", tag], timeout_s=_QUERY_TIMEOUT_S).ok

    def remove(self, tag: str) -> None:
        """Remove the image of this tag, if it is here; layers that others use stay."""
        _remove(self, tag)


ENGINES: Final[Mapping[str, BuildEngine]] = {"podman": Podman(), "buildah": Buildah()}


def build(
    engine: BuildEngine,
    file: Path,
    *,
    context: Path | None,
    options: Sequence[str],
    on_line: OnLine,
    timeout_s: float,
) -> str:
    """Build an image; its ID. Its layers are kept, so a build that was killed continues where it was.

    It gets no tag: another build may give the tag to its own image at any time.

    context  what the file may copy; None: nothing
    options  further options of the engine's `build`
    """
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        empty, written = Path(folder) / "empty", Path(folder) / "id"
        empty.mkdir()
        words = [engine.name, "build", "--layers", f"--file={file}", f"--iidfile={written}", *options]
        done = shell.follow([*words, str(context or empty)], on_line, timeout_s=timeout_s)
        _need(done, f"{engine.name} can't build {file}")
        return written.read_text().strip().removeprefix("sha256:")


def name_image(engine: BuildEngine, image_id: str, tag: str) -> None:
    """Give an image a tag, which another image may have had."""
    _done([engine.name, "tag", image_id, tag], _QUERY_TIMEOUT_S)


def push(
    engine: BuildEngine, image_id: str, reference: str, *, verify_tls: bool, on_line: OnLine, timeout_s: float
) -> str:
    """Push an image to `registry/name:tag`; its digest, sha256:…. The engine has the credentials."""
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        digest = Path(folder) / "digest"
        words = [engine.name, "push", f"--digestfile={digest}", f"--tls-verify={str(verify_tls).lower()}"]
        done = shell.follow([*words, image_id, f"docker://{reference}"], on_line, timeout_s=timeout_s)
        registry = reference.partition("/")[0]
        if not done.ok and _UNAUTHORIZED.search(done.stdout):
            raise HostError(
                f"{_last(done)}\n{registry} refuses the push: log in with `{engine.name} login {registry}`"
            )
        _need(done, f"{engine.name} can't push to {registry}")
        return digest.read_text().strip()


def _remove(engine: BuildEngine, tag: str) -> None:
    if engine.has(tag):
        _done([engine.name, "rmi", "--force", tag], _QUERY_TIMEOUT_S)


def _done(argv: Sequence[str], timeout_s: float) -> CompletedCommand:
    done = shell.run(argv, timeout_s=timeout_s)
    if not done.ok:
        raise InputError(f"{' '.join(argv[:3])}: {done.words}")
    return done


def _need(done: CompletedCommand, what: str) -> None:
    if done.ok:
        return
    if _NO_SPACE.search(done.stdout):
        raise HostError(f"{_last(done)}\nthe disk is full: free some space (`podman system prune`)")
    raise HostError(f"{_last(done)}\n{what}: see above")


def _last(done: CompletedCommand) -> str:
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return "\n".join(lines[-_LAST_LINES:]) or f"it ended with exit code {done.exit_code}"
