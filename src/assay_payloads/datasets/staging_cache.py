"""A directory that holds several sets of staged frames, together within a space; the oldest used make room.

    CACHE/NAME/               a set of frames, with its manifest
    CACHE/.sets/NAME.json     what it is, and the bytes reserved for it; its time is that of the last use
    CACHE/.locks/NAME         locked, shared, by all who read or fill the set, and alone by who evicts it
    CACHE/.lock               locked while room is made

A set's whole size is reserved before its first byte is copied, so all sets together never exceed the space.
Locks are of flock(2): the kernel releases them when their process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from assay_payloads.datasets.manifest import Manifest

RECORDS, LOCKS, LOCK, LEAVING = ".sets", ".locks", ".lock", ".leaving-"


class NoRoomError(Exception):
    """A set that the cache can't hold; the message says what it needs and what is in use."""


@dataclass(frozen=True)
class CachedSet:
    """A set of frames in a cache.

    bytes    reserved for it, at least what it takes on the disk
    used_at  when somebody last began to read or fill it, seconds since the epoch
    in_use   somebody reads or fills it now
    """

    name: str
    bytes: int
    root: str
    query: str
    frames: int
    used_at: float = 0.0
    in_use: bool = False


def set_name(manifest: Manifest) -> str:
    """The name of a manifest's set in any cache: from its frames and the data set that they are of."""
    whole = "\n".join((manifest.root, manifest.layout, manifest.digest))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def hold_path(cache: Path, name: str) -> Path:
    """The file that is locked as long as somebody uses the set."""
    return cache / LOCKS / name


@contextmanager
def held(cache: Path, name: str) -> Iterator[None]:
    """Keep the set from being evicted."""
    with _locked(hold_path(cache, name), fcntl.LOCK_SH):
        yield


def sets(cache: Path) -> list[CachedSet]:
    """Every set, the least recently used first. Raises OSError."""
    if not (cache / RECORDS).is_dir():
        return []
    with _locked(cache / LOCK, fcntl.LOCK_EX):
        return [replace(recorded, in_use=_in_use(cache, recorded.name)) for recorded in _recorded(cache)]


def _recorded(cache: Path) -> list[CachedSet]:
    cached_sets = []
    for path in (cache / RECORDS).glob("*.json"):
        with suppress(FileNotFoundError):  # evicted meanwhile
            stated = json.loads(path.read_text(encoding="utf-8"))
            cached_sets.append(CachedSet(**stated, used_at=path.stat().st_mtime))
    return sorted(cached_sets, key=lambda cached_set: (cached_set.used_at, cached_set.name))


def reserve(cache: Path, new_set: CachedSet, space: int | None) -> list[CachedSet]:
    """Reserve a set's bytes, and note that it is used now; returns the sets that were evicted for it.

    space  bytes of all sets together; None: no limit

    Raises NoRoomError if they don't fit, also without those that nobody uses; OSError.
    """
    (cache / RECORDS).mkdir(parents=True, exist_ok=True)
    evicted = []
    with _locked(cache / LOCK, fcntl.LOCK_EX):
        _finish_evictions(cache)
        if space is not None:
            evicted = _make_room(cache, new_set, space)
        stated = {name: value for name, value in asdict(new_set).items() if name not in ("used_at", "in_use")}
        unfinished = cache / RECORDS / f"{new_set.name}.part"
        unfinished.write_text(json.dumps(stated), encoding="utf-8")
        unfinished.replace(unfinished.with_suffix(".json"))
    return evicted


def remove(cache: Path, name: str) -> bool:
    """Remove a set unless somebody uses it; whether it is gone. Raises OSError."""
    with _locked(cache / LOCK, fcntl.LOCK_EX):
        _finish_evictions(cache)
        return _evicted(cache, name)


def _finish_evictions(cache: Path) -> None:
    """Remove what evictions that were killed left, also of the set that is wanted now: nobody counts it."""
    for leaving in cache.glob(f"{LEAVING}*"):
        shutil.rmtree(leaving)


def _make_room(cache: Path, new_set: CachedSet, space: int) -> list[CachedSet]:
    others = [other for other in _recorded(cache) if other.name != new_set.name]
    needs = f"the frames take {new_set.bytes:,} bytes on the disk"
    if new_set.bytes > space:
        raise NoRoomError(f"{needs}, but the space is {space:,} bytes")
    left = space - new_set.bytes - sum(other.bytes for other in others)
    evicted = []
    for other in others:
        if left >= 0:
            break
        if _evicted(cache, other.name):
            evicted.append(other)
            left += other.bytes
    if left < 0:
        used = [other for other in others if other not in evicted]
        raise NoRoomError(
            f"{needs}, and {-left:,} of them have no room: of {space:,} bytes in {cache}, "
            f"{sum(other.bytes for other in used):,} are of sets in use: "
            f"{', '.join(other.name for other in used)}; wait for their readers, or allow more space"
        )
    return evicted


def _evicted(cache: Path, name: str) -> bool:
    """Remove a set that nobody uses, in an order that a kill can interrupt: its record goes last."""
    try:
        with _locked(hold_path(cache, name), fcntl.LOCK_EX | fcntl.LOCK_NB):
            leaving = cache / f"{LEAVING}{name}"
            with suppress(FileNotFoundError):
                (cache / name).rename(leaving)
                shutil.rmtree(leaving)
            (cache / RECORDS / f"{name}.json").unlink(missing_ok=True)
    except BlockingIOError:
        return False
    return True


def _in_use(cache: Path, name: str) -> bool:
    try:
        with _locked(hold_path(cache, name), fcntl.LOCK_EX | fcntl.LOCK_NB):
            return False
    except BlockingIOError:
        return True


@contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
