"""A manifest: chosen frames of a data set, in order, with a digest that says which.

A text file: a line about the choice, then a line per frame. The digest is of the frames' lines alone, so
that the same choice from a copy of the data set elsewhere has the same one.

    {"manifest": 1, "root": "/data/a2d2", "layout": "a2d2", "query": "car > 5%", "frames": 2, "digest": "…"}
    ["SCENE/label/CAMERA/1.png", "SCENE/camera/CAMERA/1.png", 24600, 133030]
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

VERSION = 1
LOOKS_AT_ONCE = 16  # at files: a shared file system answers each in a fraction of a millisecond
ENTRY = "#"  # between a file and an entry in it: `shard-000.tar#000017.png`, `instances_val.json#139`
WITH_ENTRIES = {"webdataset": ".tar", "coco": ".json"}  # layout → how its files with entries end
LONGEST_LINE = 1 << 16
KINDS = {"root": str, "layout": str, "query": str, "frames": int, "digest": str}


class ManifestError(Exception):
    """Why a file is no manifest: the line, 0 for the whole file, and what is wrong with it."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}" if line else what)
        self.line, self.what = line, what


@dataclass(frozen=True)
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
    sha256 = hashlib.sha256()
    for frame in frames:
        sha256.update(frame.line().encode() + b"\n")
    return sha256.hexdigest()


def text(manifest: Manifest) -> str:
    """The file's content."""
    stated = {
        "manifest": VERSION,
        "root": manifest.root,
        "layout": manifest.layout,
        "query": manifest.query,
        "frames": len(manifest.frames),
        "digest": manifest.digest,
    }
    lines = [json.dumps(stated, ensure_ascii=False), *(frame.line() for frame in manifest.frames)]
    return "\n".join(lines) + "\n"


def parsed(path: Path) -> Manifest:
    """A manifest.

    Raises ManifestError if it is damaged, names a file outside the data set, or has a frame twice; OSError.
    """
    with path.open("rb") as file:
        stated = about(file.readline(LONGEST_LINE))
        chosen = tuple(frames(iter(lambda: file.readline(LONGEST_LINE), b"")))
    frames_digest = digest(chosen)
    check_whole(stated, len(chosen), frames_digest)
    lines: dict[str, int] = {}
    for number, frame in enumerate(chosen, 2):
        if (first := lines.setdefault(frame.label, number)) != number:
            raise ManifestError(number, f"{frame.label!r} is in line {first}, too; a frame counts once")
    return Manifest(stated["root"], stated["layout"], stated["query"], frames_digest, chosen)


def check_whole(stated: dict[str, Any], count: int, frames_digest: str) -> None:
    """Raises ManifestError unless this many frames with this digest are what the first line states."""
    if count != stated["frames"] or frames_digest != stated["digest"]:
        raise ManifestError(
            0,
            f"states {stated['frames']} frames with digest {stated['digest'][:12]}…, but has {count} "
            f"with {frames_digest[:12]}…: it was cut or changed; make it again with `assay data query`",
        )


def header(path: Path) -> dict[str, Any]:
    """The line about the choice, without a look at the frames. Raises ManifestError; OSError."""
    with path.open("rb") as file:
        return about(file.readline(LONGEST_LINE))


def about(line: bytes) -> dict[str, Any]:
    """What the first line states of the whole. Raises ManifestError if it is none."""
    try:
        stated = json.loads(line)
    except (ValueError, RecursionError):
        stated = None
    if not isinstance(stated, dict) or not isinstance(stated.get("manifest"), int):
        raise ManifestError(0, "is not a manifest; `assay data query … --manifest FILE` makes one")
    if stated["manifest"] != VERSION:
        raise ManifestError(
            0, f"is a manifest of version {stated['manifest']}; this Assay reads version {VERSION}"
        )
    if wrong := [name for name, kind in KINDS.items() if not isinstance(stated.get(name), kind)]:
        raise ManifestError(1, f"lacks {', '.join(wrong)}")
    return stated


def frames(lines: Iterable[bytes], first: int = 2) -> Iterator[ChosenFrame]:
    """The frame of each line, the first of which has this number in its file.

    Raises ManifestError for a line that is no frame, or names a file outside the data set.
    """
    for number, line in enumerate(lines, first):
        try:
            label, image, label_bytes, image_bytes = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            raise ManifestError(number, "is not a frame") from None
        names_are = isinstance(label, str) and isinstance(image, str)
        if not names_are or not isinstance(label_bytes, int) or not isinstance(image_bytes, int):
            raise ManifestError(number, "is not a frame")
        if label_bytes < 0 or image_bytes < 0:
            what = f"has {min(label_bytes, image_bytes):,} bytes; expected none or more"
            raise ManifestError(number, what)
        for name in (label, image):
            if not inside(name):
                what = f"{name!r} is outside the data set; a frame's files are below its directory"
                raise ManifestError(number, what)
        yield ChosenFrame(label, image, label_bytes, image_bytes)


def changed(root: Path, frames: Sequence[ChosenFrame], layout: str = "a2d2") -> list[str]:
    """Files of these frames that aren't as they were when they were chosen: gone, or of another size.

    Of frames that are entries of a file, only the file is looked at.
    """
    from concurrent.futures import ThreadPoolExecutor  # not by those who only read a manifest

    def difference(name: str, size: int | None) -> str:
        try:
            size_now = (root / name).stat().st_size
        except OSError as error:
            return f"{root / name}: {error.strerror or error}"
        return "" if size in (None, size_now) else f"{root / name} has {size_now} bytes instead of {size}"

    files = {frame.label: frame.label_bytes for frame in frames}
    files.update((frame.image, frame.image_bytes) for frame in frames)
    size_by_file: dict[str, int | None] = {}
    for name, size in files.items():
        file = file_of(layout, name)
        size_by_file[file] = size if file == name else None
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        return [why for why in threads.map(lambda file: difference(*file), size_by_file.items()) if why]


def file_of(layout: str, name: str) -> str:
    """The file that a label or image is in: itself, or for an entry the shard or the annotations.

    >>> file_of("webdataset", "train/shard-000.tar#000017.png")
    'train/shard-000.tar'
    >>> file_of("a2d2", "scene/label/camera/a.tar#1.png")
    'scene/label/camera/a.tar#1.png'
    """
    end = WITH_ENTRIES.get(layout)
    file, separator, _ = name.partition(f"{end}{ENTRY}")
    return f"{file}{end}" if end and separator else name


def inside(name: str) -> bool:
    """Whether a relative path stays below its directory."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\0" not in name
