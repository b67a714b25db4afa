"""Copy the frames of a manifest into a store: in parallel, read back and compared, resumable.

What a journal in the store lists, with the state of its source, is not copied again if it is still there.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay_payloads.datasets.manifest import Manifest, made, text
from assay_payloads.datasets.places import AbsentError, DataPlace, Directory, PlaceError, StoredFile, place
from assay_payloads.datasets.staged_files import (
    THREADS,
    Sources,
    Staging,
    StagingError,
    blocks_of,
    found_at_source,
)
from assay_payloads.datasets.staging import CHOSEN, JOURNAL

SAVE_EVERY_S = 5.0  # as much work is lost by a kill


def stage_to_store(
    manifest: Manifest,
    target: str,
    *,
    source: str | None = None,
    threads: int = THREADS,
    tell: Callable[[Staging], None] = lambda _: None,
) -> Staging:
    """Copy what a manifest names to an address such as `s3://BUCKET/PREFIX`, with a manifest of it there.

    Raises as `staging.stage` does.
    """
    begin = time.monotonic()
    sources = found_at_source(manifest, target, source)
    size = sum(state.size for state in sources.states.values())
    done = Staging(len(sources.states), size, directory=target, resized=sources.resized)
    try:
        store = place(target)
        copy = _Copy(sources, store, dict(store.files()), _journal(store), done, tell)
        with ThreadPoolExecutor(max(threads, store.at_once)) as pool:
            try:
                list(pool.map(copy, sources.states))
            finally:
                copy.save()
        chosen = made(store.address, manifest.layout, manifest.query, manifest.frames)
        _put(store, CHOSEN, text(chosen).encode())
    except PlaceError as error:
        raise StagingError(str(error)) from None
    except OSError as error:
        raise StagingError(
            f"{error.filename or target}: can't be copied: {error.strerror or error}"
        ) from None
    done.seconds = time.monotonic() - begin
    return done


@dataclass
class _Copy:
    """Copies one file after another, in several threads."""

    sources: Sources
    store: DataPlace
    there: Mapping[str, StoredFile]
    journal: dict[str, tuple[int, int, str]]
    done: Staging
    tell: Callable[[Staging], None]
    failed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    saved_at: float = field(default_factory=time.monotonic)

    def __call__(self, name: str) -> None:
        """Copy a file unless it is there. Raises StagingError, PlaceError, OSError; then copies no other."""
        if self.failed.is_set():
            return
        state, known = self.sources.states[name], self.journal.get(name)
        present = known is not None and known[:2] == state and name in self.there
        try:
            if present and self.there[name].size == state.size:
                with self.lock:
                    self.done.present_files += 1
                return
            digest = _sent(self.sources.place, self.store, name, state)
        except BaseException:
            self.failed.set()
            raise
        with self.lock:
            self.journal[name] = (*state, digest)
            self.done.copied_files += 1
            self.done.copied_bytes += state.size
            self.tell(replace(self.done))
            due = time.monotonic() > self.saved_at + SAVE_EVERY_S
        if due:
            self.save()

    def save(self) -> None:
        """Keep the journal in the store."""
        with self.lock:
            lines = [
                f"{json.dumps([name, *entry], ensure_ascii=False)}\n" for name, entry in self.journal.items()
            ]
            self.saved_at = time.monotonic()
        _put(self.store, JOURNAL, "".join(lines).encode())


def _sent(source: DataPlace, store: DataPlace, name: str, state: StoredFile) -> str:
    """Copy a file, read it back from the store and compare; the SHA-256."""
    sent, count = hashlib.sha256(), 0
    with _local(source, name, state) as path:
        store.put(name, path)
        with path.open("rb") as read:
            while block := read.read(1 << 20):
                sent.update(block)
                count += len(block)
    kept = hashlib.sha256()
    for block in blocks_of(store, name, state):
        kept.update(block)
    if count != state.size or source.status(name) != state:
        raise StagingError(f"{source.address}/{name} changed while it was copied; run the same command again")
    if kept.digest() != sent.digest():
        raise StagingError(f"{store.address}/{name}: what was read back differs from what was written")
    return sent.hexdigest()


@contextmanager
def _local(source: DataPlace, name: str, state: StoredFile) -> Iterator[Path]:
    """A file on this machine: itself, or a copy of what a store has."""
    if isinstance(source, Directory):
        yield source.root / name
        return
    with tempfile.NamedTemporaryFile() as copy:
        for block in blocks_of(source, name, state):
            copy.write(block)
        copy.flush()
        yield Path(copy.name)


def _journal(store: DataPlace) -> dict[str, tuple[int, int, str]]:
    """What former stagings copied: name → bytes, time of change at the source, SHA-256."""
    copied_files = {}
    try:
        lines = store.read(JOURNAL).decode("utf-8", "replace").splitlines()
    except AbsentError:
        return {}
    for line in lines:
        try:
            name, size, changed_ns, digest = json.loads(line)
        except (ValueError, TypeError):
            continue
        copied_files[str(name)] = size, changed_ns, digest
    return copied_files


def _put(store: DataPlace, name: str, data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        store.put(name, Path(file.name))
