"""A manifest: chosen frames of a data set, in order, with a digest that says which.

A text file: a line about the choice, then a line per frame. The digest is of the frames' lines alone, so
that the same choice from a copy of the data set elsewhere has the same one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from assay.durable import deliver
from assay.errors import InputError, Problem
from assay.inputs import Log

VERSION: Final = 1
LONGEST_LINE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ChosenFrame:
    """A label and its image, below the data set's directory, and the bytes of both."""

    label: str
    image: str
    label_bytes: int
    image_bytes: int

    def line(self) -> str:
        """As the manifest has it."""
        return json.dumps([self.label, self.image, self.label_bytes, self.image_bytes], ensure_ascii=False)


@dataclass(frozen=True)
class Manifest:
    """Chosen frames.

    root    the data set's directory when they were chosen
    layout  of the data set
    query   how they were chosen, in words
    digest  of the frames, SHA-256
    """

    root: str
    layout: str
    query: str
    digest: str
    frames: tuple[ChosenFrame, ...]

    @property
    def bytes(self) -> int:
        """Of all labels and images."""
        return sum(frame.label_bytes + frame.image_bytes for frame in self.frames)


def made(root: str, layout: str, query: str, frames: Iterable[ChosenFrame]) -> Manifest:
    """A manifest of these frames."""
    chosen = tuple(frames)
    return Manifest(root, layout, query, digest(chosen), chosen)


def digest(frames: Iterable[ChosenFrame]) -> str:
    """SHA-256 of the frames' lines."""
    found = hashlib.sha256()
    for frame in frames:
        found.update(frame.line().encode() + b"\n")
    return found.hexdigest()


def write(path: Path, manifest: Manifest) -> None:
    """Write it whole, or not at all. Raises HostError if that fails."""
    about = {
        "manifest": VERSION,
        "root": manifest.root,
        "layout": manifest.layout,
        "query": manifest.query,
        "frames": len(manifest.frames),
        "digest": manifest.digest,
    }
    lines = [json.dumps(about, ensure_ascii=False), *(frame.line() for frame in manifest.frames)]
    deliver(path, "\n".join(lines).encode() + b"\n", option="--manifest")


def read(path: Path) -> Manifest:
    """A manifest. Raises InputError if it is damaged, or names a file outside the data set."""
    lines = Log(path, LONGEST_LINE).lines()
    _, first = next(lines, (1, b""))
    about = _about(path, first)
    frames = tuple(_frames(path, lines))
    found = digest(frames)
    if len(frames) != about["frames"] or found != about["digest"]:
        what = (
            f"states {about['frames']} frames with digest {about['digest'][:12]}…, but has {len(frames)} "
            f"with {found[:12]}…: it was cut or changed; make it again with `assay data query`"
        )
        raise InputError([Problem(str(path), what)])
    return Manifest(about["root"], about["layout"], about["query"], found, frames)


def _about(path: Path, line: bytes) -> dict[str, Any]:
    try:
        about = json.loads(line)
    except (ValueError, RecursionError):
        about = None
    kinds = {"root": str, "layout": str, "query": str, "frames": int, "digest": str}
    if not isinstance(about, dict) or not isinstance(about.get("manifest"), int):
        raise InputError(
            [Problem(str(path), "is not a manifest; `assay data query … --manifest FILE` makes one")]
        )
    if about["manifest"] != VERSION:
        what = f"is a manifest of version {about['manifest']}; this Assay reads version {VERSION}"
        raise InputError([Problem(str(path), what)])
    if wrong := [name for name, kind in kinds.items() if not isinstance(about.get(name), kind)]:
        raise InputError([Problem(f"{path}, line 1", f"lacks {', '.join(wrong)}")])
    return about


def _frames(path: Path, lines: Iterator[tuple[int, bytes]]) -> Iterator[ChosenFrame]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            label, image, label_bytes, image_bytes = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            raise InputError([Problem(f"{path}, line {number}", "is not a frame")]) from None
        names_are = isinstance(label, str) and isinstance(image, str)
        if not names_are or not isinstance(label_bytes, int) or not isinstance(image_bytes, int):
            raise InputError([Problem(f"{path}, line {number}", "is not a frame")])
        for name in (label, image):
            if not inside(name):
                what = f"{name!r} is outside the data set; a frame's files are below its directory"
                raise InputError([Problem(f"{path}, line {number}", what)])
        yield ChosenFrame(label, image, label_bytes, image_bytes)


def inside(name: str) -> bool:
    """Whether a relative path stays below its directory."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\0" not in name
