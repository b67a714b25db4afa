"""Frames as webdataset shards: tar files of samples, the same bytes for the same frames at any parallelism.

    DIRECTORY/shard-000000.tar     000000000.camera.png  000000000.json  000000000.label.png  000000001.…
    DIRECTORY/shards.jsonl         {"shards": 1, …}, then per shard its name, bytes, samples, and SHA-256
    DIRECTORY/class_list.json      as in the data set

A sample's key, its members' name up to the first dot, is the frame's number in the manifest. Its JSON says
which frame it is. A shard is filled in the manifest's order until the next sample exceeds its size.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Lock

from assay_payloads.datasets.manifest import WITH_ENTRIES, ChosenFrame, Manifest
from assay_payloads.datasets.places import PlaceError
from assay_payloads.datasets.staged_files import (
    BLOCK_BYTES,
    THREADS,
    MissingError,
    Sources,
    Staging,
    StagingError,
    blocks_of,
    copied,
    failed,
    found_at_source,
    part_of,
    write_whole,
)
from assay_payloads.datasets.staging import alone
from assay_payloads.datasets.tar_end import END_BYTES, TAR_BLOCK

INDEX, JOURNAL = "shards.jsonl", ".shards.jsonl"


@dataclass(frozen=True)
class Shard:
    """A tar file to be made: its name, and the numbers of its frames."""

    name: str
    frames: range


def stage_shards(
    manifest: Manifest,
    target: Path,
    shard_bytes: int,
    *,
    source: str | None = None,
    threads: int = THREADS,
    tell: Callable[[Staging], None] = lambda _: None,
) -> Staging:
    """Write a manifest's frames as shards of at most so many bytes, or of one frame.

    A shard that is there, made of the same files, is not made again. Raises as `staging.stage` does, and
    MissingError for a layout whose labels are no files.
    """
    begin = time.monotonic()
    if manifest.layout in WITH_ENTRIES:
        raise MissingError(
            f"{manifest.root}: labels of layout {manifest.layout} are entries of other files, not files that "
            "fit into shards; stage it without --shards"
        )
    sources = found_at_source(manifest, str(target), source)
    shards = list(shards_of(manifest, sources, shard_bytes))
    size = sum(state.size for state in sources.states.values())
    done = Staging(len(sources.states), size, directory=str(target), resized=sources.resized)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with alone(target):
            for name in sources.beside:
                copied(sources.place, name, target / name, sources.states[name])
                done.copied_files, done.copied_bytes = (
                    done.copied_files + 1,
                    done.copied_bytes + sources.states[name].size,
                )
            lines = _Lines(manifest, sources, target, done, tell)
            with ThreadPoolExecutor(threads) as pool:
                index = list(pool.map(lines.index_line, shards))
            for path in target.glob("shard-*.tar"):
                if path.name not in {shard.name for shard in shards}:
                    path.unlink()  # of another size or manifest
            about = {"shards": 1, "digest": manifest.digest, "frames": len(manifest.frames)}
            write_whole(target / INDEX, "".join(json.dumps(line) + "\n" for line in [about, *index]))
    except PlaceError as error:
        raise StagingError(str(error)) from None
    except OSError as error:
        raise failed(target, error) from None
    done.seconds = time.monotonic() - begin
    return done


def shards_of(manifest: Manifest, sources: Sources, shard_bytes: int) -> Iterator[Shard]:
    """The frames of each shard, in the manifest's order."""
    first, used, count = 0, END_BYTES, 0
    for number, frame in enumerate(manifest.frames):
        needs = sum(
            TAR_BLOCK + -(-size // TAR_BLOCK) * TAR_BLOCK for _, size in _members(number, frame, sources)
        )
        if number > first and used + needs > shard_bytes:
            yield Shard(f"shard-{count:06}.tar", range(first, number))
            first, used, count = number, END_BYTES, count + 1
        used += needs
    yield Shard(f"shard-{count:06}.tar", range(first, len(manifest.frames)))


class _Lines:
    """Makes one shard after another, in several threads, and gives its line of the index."""

    def __init__(
        self,
        manifest: Manifest,
        sources: Sources,
        target: Path,
        done: Staging,
        tell: Callable[[Staging], None],
    ) -> None:
        self.manifest, self.sources, self.target, self.done, self.tell = manifest, sources, target, done, tell
        self.lock = Lock()
        self.known = dict(_known(target / JOURNAL))

    def index_line(self, shard: Shard) -> list[object]:
        """The shard's name, bytes, samples, and SHA-256, once it is there."""
        path, contents = self.target / shard.name, self._contents(shard)
        known = self.known.get(shard.name)
        names = [
            n for i in shard.frames for n in (self.manifest.frames[i].label, self.manifest.frames[i].image)
        ]
        if known is not None and known[0] == contents and path.is_file() and path.stat().st_size == known[1]:
            with self.lock:
                self.done.present_files += len(names)
            return [shard.name, known[1], len(shard.frames), known[2]]
        digest, size = self._written(shard, path)
        line = json.dumps([shard.name, contents, size, digest])
        with self.lock, (self.target / JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(line + "\n")
            self.done.copied_files += len(names)
            self.done.copied_bytes += sum(self.sources.states[name].size for name in names)
            self.tell(replace(self.done))
        return [shard.name, size, len(shard.frames), digest]

    def _contents(self, shard: Shard) -> str:
        """A digest of which files the shard is made of, without their content."""
        whole = hashlib.sha256()
        for number in shard.frames:
            frame = self.manifest.frames[number]
            states = [self.sources.states[name] for name in (frame.label, frame.image)]
            whole.update(json.dumps([number, frame.label, frame.image, states]).encode())
        return whole.hexdigest()

    def _written(self, shard: Shard, path: Path) -> tuple[str, int]:
        """Write it under another name, read it back, rename it; the SHA-256 and the bytes."""
        unfinished, digest = part_of(path), hashlib.sha256()
        try:
            with unfinished.open("wb") as file:
                for block in self._blocks(shard):
                    digest.update(block)
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # read back from the disk
                size = file.tell()
            kept = hashlib.sha256()
            with unfinished.open("rb") as file:
                for block in iter(partial(file.read, BLOCK_BYTES), b""):
                    kept.update(block)
            if kept.digest() != digest.digest():
                raise StagingError(
                    f"{path}: what was read back differs from what was written: check this disk"
                )
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return digest.hexdigest(), size

    def _blocks(self, shard: Shard) -> Iterator[bytes]:
        for number in shard.frames:
            for (name, size), original in zip(  # noqa: B905 - 3.9
                _members(number, self.manifest.frames[number], self.sources), self._originals(number)
            ):
                yield _header(name, size)
                count = 0
                for block in original:
                    count += len(block)
                    yield block
                if count != size:
                    raise StagingError(f"{name} changed while it was read; run the same command again")
                yield bytes(-size % TAR_BLOCK)
        yield bytes(END_BYTES)

    def _originals(self, number: int) -> Iterator[Iterator[bytes]]:
        """The content of each member of a sample, in the order of `_members`."""
        frame, states = self.manifest.frames[number], self.sources.states
        yield blocks_of(self.sources.place, frame.image, states[frame.image])
        yield iter([_about(frame)])
        yield blocks_of(self.sources.place, frame.label, states[frame.label])


def _members(number: int, frame: ChosenFrame, sources: Sources) -> Sequence[tuple[str, int]]:
    """Names and bytes of a sample's members."""
    key = f"{number:09}"
    kinds = [_kind(frame.image, "camera"), "json", _kind(frame.label, "label")]
    sizes = [sources.states[frame.image].size, len(_about(frame)), sources.states[frame.label].size]
    return [(f"{key}.{kind}", size) for kind, size in zip(kinds, sizes)]  # noqa: B905 - 3.9


def _kind(name: str, what: str) -> str:
    suffix = PurePosixPath(name).suffix.lower()
    return suffix[1:] if what == "camera" and suffix in (".jpg", ".jpeg", ".webp") else f"{what}{suffix}"


def _about(frame: ChosenFrame) -> bytes:
    """Which frame a sample is; scene and camera if the label's folders name them."""
    parts = PurePosixPath(frame.label).parts
    where = {"scene": parts[0], "camera": parts[2]} if len(parts) == 4 and parts[1] == "label" else {}
    return json.dumps({"label": frame.label, "image": frame.image, **where}, sort_keys=True).encode()


def _header(name: str, size: int) -> bytes:
    """A member's header, without anything of this machine or the time."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    kept = io.BytesIO(member.tobuf(tarfile.GNU_FORMAT))
    return kept.getvalue()


def _known(path: Path) -> Iterator[tuple[str, tuple[str, int, str]]]:
    """What a former run made: name → digest of its files, bytes, SHA-256; a line that was cut is dropped."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            name, contents, size, digest = json.loads(line)
        except (ValueError, TypeError):
            continue
        yield name, (contents, size, digest)
