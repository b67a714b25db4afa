"""Copy the frames of a manifest near to where they are read: in parallel, checked, resumable.

    python -m assay_payloads.datasets.staging MANIFEST DIRECTORY

Each file is copied under another name, read back, compared by SHA-256, and renamed. A journal says what is
there; after a kill, only the rest is copied. A file that has changed since at its source is copied again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from assay_payloads.datasets.manifest import Manifest, ManifestError, made, parsed, text

JOURNAL = ".staged.jsonl"
CHOSEN = "manifest.jsonl"  # in the target directory, of what was staged there last
CLASS_LIST = {"a2d2": ("class_list.json",)}  # what a layout has beside its frames
BLOCK_BYTES = 1 << 20
THREADS = 8  # most of their time they wait for storage


class StagingError(Exception):
    """What kept a file from being copied."""


class MissingError(StagingError):
    """The data set lacks files that the manifest names, or is the target itself."""


@dataclass
class Staging:
    """How far it is: files and bytes of the whole, copied now, and found to be there already."""

    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    present_files: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Staged:
    """What the journal says of a file: bytes, time of change at the source, SHA-256."""

    size: int
    changed_ns: int
    sha256: str


def stage(
    manifest: Manifest,
    target: Path,
    *,
    source: Path | None = None,
    threads: int = THREADS,
    tell: Callable[[Staging], None] = lambda _: None,
) -> Staging:
    """Copy what a manifest names, with the list of classes, and a manifest of the same frames in the target.

    source  the data set's directory; None: the one in the manifest

    Raises StagingError that names every file that is missing, or the first that can't be copied.
    """
    begin = time.monotonic()
    root = Path(manifest.root) if source is None else source
    if root.resolve() == target.resolve():
        raise MissingError(f"{target} is the data set's own directory; name another")
    names = [*CLASS_LIST.get(manifest.layout, ())]
    names += [name for frame in manifest.frames for name in (frame.label, frame.image)]
    names = list(dict.fromkeys(names))
    sources = _sources(root, names)
    done = Staging(len(names), sum(size for size, _ in sources.values()))
    try:
        target.mkdir(parents=True, exist_ok=True)
        known = dict(_journal(target / JOURNAL))
        with (target / JOURNAL).open("a", encoding="utf-8") as journal:
            copy = _Copy(root, target, sources, known, journal, done, tell)  # one for all threads
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(copy, names))  # raises what the first of them raised; the rest then end at once
        chosen = made(str(target.resolve()), manifest.layout, manifest.query, manifest.frames)
        unfinished = target / f".{CHOSEN}.tmp"
        unfinished.write_text(text(chosen), encoding="utf-8")
        unfinished.replace(target / CHOSEN)
    except OSError as error:
        where = error.filename or target
        raise StagingError(f"{where}: can't be copied: {error.strerror or error}") from None
    done.seconds = time.monotonic() - begin
    return done


@dataclass
class _Copy:
    """Copies one file after another, in several threads."""

    root: Path
    target: Path
    sources: Mapping[str, tuple[int, int]]
    known: Mapping[str, _Staged]
    journal: IO[str]
    done: Staging
    tell: Callable[[Staging], None]
    failed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, name: str) -> None:
        """Copy a file unless it is there. Raises StagingError or OSError, and then copies no other."""
        if self.failed.is_set():
            return
        try:
            size, changed_ns = self.sources[name]
            known, path = self.known.get(name), self.target / name
            there = known is not None and (known.size, known.changed_ns) == (size, changed_ns)
            if there and path.is_file() and path.stat().st_size == size:
                with self.lock:
                    self.done.present_files += 1
                return
            digest = _copied(self.root / name, path, size)
            line = json.dumps([name, size, changed_ns, digest], ensure_ascii=False)
            with self.lock:
                self.journal.write(line + "\n")
                self.journal.flush()
                self.done.copied_files += 1
                self.done.copied_bytes += size
                self.tell(replace(self.done))
        except BaseException:
            self.failed.set()
            raise


def _sources(root: Path, names: list[str]) -> dict[str, tuple[int, int]]:
    """Name → bytes and time of change. Raises StagingError that counts what is missing."""
    found: dict[str, tuple[int, int]] = {}
    missing = []
    for name in names:
        try:
            status = (root / name).stat()
        except OSError:
            missing.append(name)
        else:
            found[name] = status.st_size, status.st_mtime_ns
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise MissingError(f"{root} has no {missing[0]}{more}; is it the data set that the manifest is of?")
    return found


def _journal(path: Path) -> Iterator[tuple[str, _Staged]]:
    """What a former staging wrote; a last line that was cut is as if not written."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                name, size, changed_ns, digest = json.loads(line)
            except (ValueError, TypeError):
                continue
            yield str(name), _Staged(size, changed_ns, digest)


def _copied(source: Path, target: Path, size: int) -> str:
    """Copy, read back and compare; the SHA-256. Raises StagingError if they differ."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with source.open("rb") as read, unfinished.open("wb") as write:
            given = hashlib.sha256()
            while block := read.read(BLOCK_BYTES):
                given.update(block)
                write.write(block)
            write.flush()
            os.fsync(write.fileno())
            os.posix_fadvise(write.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # read back from the disk
        kept, count = hashlib.sha256(), 0
        with unfinished.open("rb") as read:
            while block := read.read(BLOCK_BYTES):
                kept.update(block)
                count += len(block)
        if kept.digest() != given.digest():
            raise StagingError(f"{target}: what was read back differs from what was written: check this disk")
        if count != size:
            raise StagingError(f"{source} changed while it was copied; run the same command again")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return given.hexdigest()


def main() -> None:
    """Stage, and print what was done as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--source", type=Path)
    options = parser.parse_args()
    try:
        done = stage(parsed(options.manifest), options.target, source=options.source)
    except (ManifestError, StagingError, OSError) as error:
        sys.exit(f"{options.manifest}: {error}")
    print(json.dumps(vars(done)))


if __name__ == "__main__":
    main()
