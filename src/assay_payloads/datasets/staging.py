"""Copy the frames of a manifest near to where they are read: in parallel, checked, resumable.

    python -m assay_payloads.datasets.staging MANIFEST DIRECTORY
    python -m assay_payloads.datasets.staging MANIFEST CACHE --cache --space 200000000000 --through

Each file is copied under another name, read back, compared by SHA-256, and renamed. A journal says what is
there; after a kill, only the rest is copied. A file that has changed since at its source is copied again.
With `--cache`, the directory holds several sets of frames (staging_cache.py). With `--through`, no frames
are copied: it is prepared for readers that keep each file when they first read it (`ReadThrough`).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from assay_payloads.datasets import staging_cache
from assay_payloads.datasets.manifest import Manifest, ManifestError, made, parsed, text
from assay_payloads.datasets.places import DataPlace, PlaceError, StoredFile
from assay_payloads.datasets.staged_files import (
    THREADS,
    Sources,
    Staging,
    StagingError,
    check_room,
    copied,
    failed,
    found_at_source,
    stay_inside,
    write_whole,
)
from assay_payloads.datasets.staging_cache import CachedSet, NoRoomError

JOURNAL = ".staged.jsonl"
LOCK = ".staging.lock"
CHOSEN = "manifest.jsonl"  # in the target directory, of what was staged there last
OWN_FILES = (JOURNAL, LOCK, CHOSEN)
DISK_BLOCK_BYTES = 4096  # what a file of one byte takes


def stage(
    manifest: Manifest,
    target: Path,
    *,
    source: str | None = None,
    threads: int = THREADS,
    through: bool = False,
    tell: Callable[[Staging], None] = lambda _: None,
) -> Staging:
    """Copy what a manifest names, with the list of classes, and a manifest of the same frames in the target.

    source   the data set's place (places.py); None: the one in the manifest
    through  copy no frames, but remove those that have changed at their source since they were kept

    Raises MissingError that names every file that is missing, StagingError with the first that can't be
    copied. Several at the same time in one directory wait for one another.
    """
    sources = found_at_source(manifest, str(target), source)
    return _stage(manifest, target, sources, threads, through, tell)


def stage_in_cache(
    manifest: Manifest,
    cache: Path,
    space: int | None,
    *,
    source: str | None = None,
    threads: int = THREADS,
    through: bool = False,
    tell: Callable[[Staging], None] = lambda _: None,
) -> Staging:
    """The same in a directory of its own below a cache, which drops other sets if they exceed the space.

    space  bytes on the disk that all sets may take; None: no limit

    Raises as `stage` does, and StagingError, before anything is copied, if the set doesn't fit.
    """
    name = staging_cache.set_name(manifest)
    sources = found_at_source(manifest, str(cache / name), source)
    size = disk_bytes(manifest, sources.states)
    cached_set = CachedSet(name, size, sources.place.address, manifest.query, len(manifest.frames))
    try:
        with staging_cache.held(cache, name):
            evicted = staging_cache.reserve(cache, cached_set, space)
            done = _stage(manifest, cache / name, sources, threads, through, tell)
    except NoRoomError as error:
        raise StagingError(str(error)) from None
    except OSError as error:
        raise StagingError(f"{error.filename or cache}: {error.strerror or error}") from None
    return replace(done, evicted=tuple(gone.name for gone in evicted))


def _stage(
    manifest: Manifest,
    target: Path,
    sources: Sources,
    threads: int,
    through: bool,
    tell: Callable[[Staging], None],
) -> Staging:
    begin = time.monotonic()
    states = sources.states
    size = sum(state.size for state in states.values())
    done = Staging(len(states), size, directory=str(target), resized=sources.resized)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with alone(target):
            stay_inside(target, states)
            names: Iterable[str] = states
            if through:
                _drop_changed(target, states)
                names = sources.beside
            with _journal(target / JOURNAL, states) as (known, journal):
                absent = StoredFile(0, 0)
                check_room(target, sum(states[name].size - known.get(name, absent).size for name in names))
                copy = _Copy(sources.place, target, states, known, journal, done, tell)  # one for all threads
                with ThreadPoolExecutor(max(threads, sources.place.at_once)) as pool:
                    list(pool.map(copy, names))  # raises what the first of them raised; the rest then end
            root = sources.place.address if through else str(target.resolve())
            chosen = made(root, manifest.layout, manifest.query, manifest.frames)
            write_whole(target / CHOSEN, text(chosen))
    except PlaceError as error:
        raise StagingError(str(error)) from None
    except OSError as error:
        raise failed(target, error) from None
    done.seconds = time.monotonic() - begin
    return done


def disk_bytes(manifest: Manifest, states: Mapping[str, StoredFile]) -> int:
    """Bytes that a set takes on a disk, at most: whole blocks of files, folders, manifest and journal."""
    files = [state.size for state in states.values()]
    longest = max(len(name.encode()) for name in states)
    own = [len(text(manifest)) + len(manifest.root) + 4096, len(states) * (longest + 160), 0]
    folders = {parent for name in states for parent in Path(name).parents}
    whole = sum(-(-size // DISK_BLOCK_BYTES) for size in (*files, *own))
    return (whole + len(folders) + 1 + len(states) // 32) * DISK_BLOCK_BYTES


@dataclass
class _Copy:
    """Copies one file after another, in several threads."""

    place: DataPlace
    target: Path
    sources: Mapping[str, StoredFile]
    known: Mapping[str, StoredFile]
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
            state, path = self.sources[name], self.target / name
            if self.known.get(name) == state and path.is_file() and path.stat().st_size == state.size:
                with self.lock:
                    self.done.present_files += 1
                return
            path.unlink(missing_ok=True)  # what has changed takes no space twice
            digest = copied(self.place, name, path, state)
            line = json.dumps([name, state.size, state.changed_ns, digest], ensure_ascii=False)
            with self.lock:
                self.journal.write(line + "\n")
                self.journal.flush()
                self.done.copied_files += 1
                self.done.copied_bytes += state.size
                self.tell(replace(self.done))
        except BaseException:
            self.failed.set()
            raise


def _drop_changed(target: Path, states: Mapping[str, StoredFile]) -> None:
    """Remove what has changed at its source since it was kept here, with its time of change."""
    for name, state in states.items():
        path = target / name
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if (status.st_size, status.st_mtime_ns) != (state.size, state.changed_ns):
            path.unlink()


@contextmanager
def _journal(
    path: Path, states: Mapping[str, StoredFile]
) -> Iterator[tuple[Mapping[str, StoredFile], IO[str]]]:
    """What former stagings copied of these files, and the journal to continue; a cut line is dropped."""
    known: dict[str, StoredFile] = {}
    lines: dict[str, str] = {}
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as former:
            for line in former:
                try:
                    name, size, changed_ns, _ = json.loads(line)
                except (ValueError, TypeError):
                    continue
                if name in states:
                    known[name], lines[name] = StoredFile(size, changed_ns), line
    write_whole(path, "".join(lines.values()))
    with path.open("a", encoding="utf-8") as journal:
        yield known, journal


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Wait until nobody else stages into the directory."""
    descriptor = os.open(target / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main() -> None:
    """Stage, and print what was done as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--source")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--space", type=int)
    parser.add_argument("--through", action="store_true")
    parser.add_argument("--expected", metavar="NAME", help="the name of the manifest's set of frames")
    options = parser.parse_args()
    try:
        done = staged(options)
    except (ManifestError, StagingError, OSError) as error:
        sys.exit(f"{options.manifest}: {error}")
    print(json.dumps(vars(done)))


def staged(options: argparse.Namespace) -> Staging:
    """Stage as the command line says."""
    chosen = parsed(options.manifest)
    if options.expected not in (None, staging_cache.set_name(chosen)):
        raise ManifestError(0, "has changed since the run was planned; run with --new")
    same = {"source": options.source, "threads": options.threads, "through": options.through}
    if options.cache:
        return stage_in_cache(chosen, options.target, options.space, **same)
    return stage(chosen, options.target, **same)


if __name__ == "__main__":
    main()
