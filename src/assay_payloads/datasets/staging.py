"""Copy the frames of a manifest near to where they are read: in parallel, checked, resumable.

    python -m assay_payloads.datasets.staging MANIFEST DIRECTORY
    python -m assay_payloads.datasets.staging MANIFEST CACHE --cache --space 200000000000 --through

Each file is copied under another name, read back, compared by SHA-256, and renamed. A journal says what is
there; after a kill, only the rest is copied. A file that has changed since at its source is copied again.
With `--cache`, the directory holds several sets of frames (staging_cache.py). With `--through`, no frames
are copied: it is prepared for readers that keep each file when they first read it (read_through.py).
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import stat
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
from assay_payloads.datasets.staging_cache import CachedSet, NoRoomError

JOURNAL = ".staged.jsonl"
LOCK = ".staging.lock"
CHOSEN = "manifest.jsonl"  # in the target directory, of what was staged there last
OWN_FILES = (JOURNAL, LOCK, CHOSEN)
CLASS_LIST = {"a2d2": ("class_list.json",)}  # what a layout has beside its frames
BLOCK_BYTES = 1 << 20
DISK_BLOCK_BYTES = 4096  # what a file of one byte takes
THREADS = 8  # most of their time they wait for storage


class StagingError(Exception):
    """What kept a file from being copied."""


class MissingError(StagingError):
    """The data set lacks files that the manifest names, or is the target itself."""


@dataclass
class Staging:
    """How far it is: files and bytes of the whole, copied now, and found to be there already.

    directory  where the frames are
    evicted    sets that a cache dropped for them
    """

    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    present_files: int = 0
    seconds: float = 0.0
    directory: str = ""
    evicted: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileState:
    """A file at its source: bytes, and time of its last change."""

    size: int
    changed_ns: int


def stage(
    manifest: Manifest,
    target: Path,
    *,
    source: Path | None = None,
    threads: int = THREADS,
    through: bool = False,
    tell: Callable[[Staging], None] = lambda _: None,
) -> Staging:
    """Copy what a manifest names, with the list of classes, and a manifest of the same frames in the target.

    source   the data set's directory; None: the one in the manifest
    through  copy no frames, but remove those that have changed at their source since they were kept

    Raises MissingError that names every file that is missing, StagingError with the first that can't be
    copied. Several at the same time in one directory wait for one another.
    """
    found = _sources(manifest, _root(manifest, target, source))
    return _stage(manifest, target, found, threads, through, tell)


def stage_in_cache(
    manifest: Manifest,
    cache: Path,
    space: int | None,
    *,
    source: Path | None = None,
    threads: int = THREADS,
    through: bool = False,
    tell: Callable[[Staging], None] = lambda _: None,
) -> Staging:
    """The same in a directory of its own below a cache, which drops other sets if they exceed the space.

    space  bytes on the disk that all sets may take; None: no limit

    Raises as `stage` does, and StagingError, before anything is copied, if the set doesn't fit.
    """
    name = staging_cache.set_name(manifest)
    found = _sources(manifest, _root(manifest, cache / name, source))
    size = disk_bytes(manifest, found.states)
    wanted = CachedSet(name, size, str(found.root), manifest.query, len(manifest.frames))
    try:
        with staging_cache.held(cache, name):
            evicted = staging_cache.reserve(cache, wanted, space)
            done = _stage(manifest, cache / name, found, threads, through, tell)
    except NoRoomError as error:
        raise StagingError(str(error)) from None
    except OSError as error:
        raise StagingError(f"{error.filename or cache}: {error.strerror or error}") from None
    return replace(done, evicted=tuple(one.name for one in evicted))


@dataclass(frozen=True)
class _Sources:
    """The data set's directory, and the state of each file there that is staged."""

    root: Path
    states: Mapping[str, FileState]


def _root(manifest: Manifest, target: Path, source: Path | None) -> Path:
    root = Path(manifest.root) if source is None else source
    if root.resolve() == target.resolve():
        raise MissingError(f"{target} is the data set's own directory; name another")
    return root


def _stage(
    manifest: Manifest,
    target: Path,
    found: _Sources,
    threads: int,
    through: bool,
    tell: Callable[[Staging], None],
) -> Staging:
    begin = time.monotonic()
    states = found.states
    done = Staging(len(states), sum(state.size for state in states.values()), directory=str(target))
    try:
        target.mkdir(parents=True, exist_ok=True)
        with _alone(target):
            stay_inside(target, states)
            names: Iterable[str] = states
            if through:
                _drop_changed(target, states)
                names = CLASS_LIST.get(manifest.layout, ())
            with _journal(target / JOURNAL, states) as (known, journal):
                copy = _Copy(found.root, target, states, known, journal, done, tell)  # one for all threads
                with ThreadPoolExecutor(threads) as pool:
                    list(pool.map(copy, names))  # raises what the first of them raised; the rest then end
            root = found.root if through else target
            chosen = made(str(root.resolve()), manifest.layout, manifest.query, manifest.frames)
            write_whole(target / CHOSEN, text(chosen))
    except OSError as error:
        where = error.filename or target
        raise StagingError(f"{where}: can't be copied: {error.strerror or error}") from None
    done.seconds = time.monotonic() - begin
    return done


def disk_bytes(manifest: Manifest, states: Mapping[str, FileState]) -> int:
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

    root: Path
    target: Path
    sources: Mapping[str, FileState]
    known: Mapping[str, FileState]
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
            digest = copied(self.root / name, path, state)
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


def _sources(manifest: Manifest, root: Path) -> _Sources:
    """Every file to stage. Raises MissingError that counts those that are missing or outside the data set."""
    names = [*CLASS_LIST.get(manifest.layout, ())]
    names += [name for frame in manifest.frames for name in (frame.label, frame.image)]
    stay_inside(root, names, links=True)
    found: dict[str, FileState] = {}
    missing = []
    for name in dict.fromkeys(names):
        try:
            status = (root / name).stat()
        except OSError:
            missing.append(name)
            continue
        if stat.S_ISREG(status.st_mode):
            found[name] = FileState(status.st_size, status.st_mtime_ns)
        else:
            missing.append(name)
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise MissingError(f"{root} has no {missing[0]}{more}; is it the data set that the manifest is of?")
    return _Sources(root, found)


def stay_inside(root: Path, names: Iterable[str], *, links: bool = False) -> None:
    """Raise MissingError if a name leads out of a directory over a link.

    links  also if the file itself is a link; otherwise only its folders are looked at
    """
    whole, known = root.resolve(), set[Path]()
    for name in names:
        path = root / name
        if links and path.is_symlink() and not path.resolve().is_relative_to(whole):
            raise MissingError(f"{path} is a link out of {root}; expected a file in it")
        if path.parent not in known:
            known.add(path.parent)
            if not path.parent.resolve().is_relative_to(whole):
                raise MissingError(f"{path.parent} leads out of {root} over a link; expected a folder in it")


def _drop_changed(target: Path, states: Mapping[str, FileState]) -> None:
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
    path: Path, states: Mapping[str, FileState]
) -> Iterator[tuple[Mapping[str, FileState], IO[str]]]:
    """What former stagings copied of these files, and the journal to continue; a cut line is dropped."""
    known: dict[str, FileState] = {}
    lines: dict[str, str] = {}
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as former:
            for line in former:
                try:
                    name, size, changed_ns, _ = json.loads(line)
                except (ValueError, TypeError):
                    continue
                if name in states:
                    known[name], lines[name] = FileState(size, changed_ns), line
    write_whole(path, "".join(lines.values()))
    with path.open("a", encoding="utf-8") as journal:
        yield known, journal


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Wait until nobody else stages into the directory."""
    descriptor = os.open(target / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def copied(source: Path, target: Path, state: FileState) -> str:
    """Copy, read back and compare; the SHA-256.

    The copy gets its time of change from `state`. Raises StagingError if it isn't what `state` says, OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = part_of(target)
    try:
        with source.open("rb") as read, unfinished.open("wb") as write:
            given = hashlib.sha256()
            while block := read.read(BLOCK_BYTES):
                given.update(block)
                write.write(block)
            after = os.fstat(read.fileno())
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
        if count != state.size or FileState(after.st_size, after.st_mtime_ns) != state:
            raise StagingError(f"{source} changed while it was copied; run the same command again")
        os.utime(unfinished, ns=(state.changed_ns, state.changed_ns))
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return given.hexdigest()


def part_of(path: Path) -> Path:
    """The name of a file until it is whole: always the same, so that kills leave no more than one."""
    return path.with_name(f".{path.name}.part")


def write_whole(path: Path, content: str) -> None:
    """Write a text file such that nobody reads a part of it."""
    unfinished = part_of(path)
    unfinished.write_text(content, encoding="utf-8")
    unfinished.replace(path)


def main() -> None:
    """Stage, and print what was done as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--source", type=Path)
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
