"""The index file: its path, its tables, and how it is opened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from assay.durable import is_left, locked
from assay.errors import HostError
from assay.records import INDEX_FILE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA = 3
_HEADER_BYTES = 3 * 4096  # DuckDB's file format: three headers, then blocks

# Run and reading are stored completely as JSON, so that analysis uses exactly what was read; the columns are
# for searching. Tables of provenance differ little from run to run, in a node's free memory for one: zstd
# makes them 30 times smaller, where DuckDB's own choice makes them half as large in 15 times as long.
TABLES = """
CREATE TABLE about (schema INTEGER, assay_version VARCHAR);
CREATE TABLE runs (
    id VARCHAR, suite VARCHAR, session VARCHAR, suite_digest VARCHAR, plan_digest VARCHAR,
    trial VARCHAR, benchmark VARCHAR, workload VARCHAR, system VARCHAR,
    shape VARCHAR, workers INTEGER, accelerators INTEGER, block INTEGER, attempt INTEGER,
    state VARCHAR, cause VARCHAR, imported BOOLEAN, created_at DOUBLE, duration_s DOUBLE,
    provenance_digest VARCHAR, stamp VARCHAR,
    run_json VARCHAR USING COMPRESSION zstd, reading_json VARCHAR USING COMPRESSION zstd
);
CREATE TABLE measurements (
    run_id VARCHAR, metric VARCHAR, value DOUBLE, unit VARCHAR, labels VARCHAR, file VARCHAR, line INTEGER
);
CREATE TABLE provenances (digest VARCHAR, provenance_json VARCHAR USING COMPRESSION zstd);
"""


class DamagedIndexError(HostError):
    """The index can be opened, but its content can't be read: it must be rebuilt."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(f"{path}: damaged ({str(error).splitlines()[0]})")


class MissingIndexError(DamagedIndexError):
    """There is no index: it was never made, or somebody removed it meanwhile."""

    def __init__(self, path: Path) -> None:
        HostError.__init__(self, f"{path}: there is no index; create it with `assay index`")


def index_path(root: Path) -> Path:
    """Where the index of a runs directory is."""
    return index_directory(root) / INDEX_FILE


def index_directory(root: Path) -> Path:
    """The runs directory, or where this process keeps its own index of it."""
    return own_directory(root) if root.absolute() in _with_own_index else root


def use_own_index(root: Path) -> bool:
    """Keep an index for this process only, because none can be written in the runs directory.

    It begins as a copy of the one there, if that can be read. Returns False if the process has its own index
    already.
    """
    import shutil

    if root.absolute() in _with_own_index:
        return False
    shared, own = index_path(root), own_directory(root)
    try:
        shutil.copyfile(shared, own / shared.name)
    except OSError:  # then the runs are read again
        (own / shared.name).unlink(missing_ok=True)
    _with_own_index.add(root.absolute())
    return True


def own_directory(root: Path) -> Path:
    """Where this process keeps what can't be written in the runs directory.

    It is in memory where the system has files in memory, and is removed with the process.
    """
    own = _own_directories.get(root.absolute())
    if own is None:
        remove_left_indexes()
        own = tempfile.TemporaryDirectory(prefix=_OWN_INDEX, dir=_memory_directory())
        _held.enter_context(locked(Path(own.name) / _OWN_LOCK, "the index of this process"))
        _own_directories[root.absolute()] = own
    return Path(own.name)


def remove_left_indexes() -> None:
    """Remove the own indexes of this user's processes that were killed: they would stay in memory."""
    import shutil

    for left in _memory_directory().glob(f"{_OWN_INDEX}*"):
        with suppress(FileNotFoundError):  # removed meanwhile
            if left.lstat().st_uid == os.geteuid() and is_left(left / _OWN_LOCK):
                shutil.rmtree(left, ignore_errors=True)


def _memory_directory() -> Path:
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else Path(tempfile.gettempdir())


_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - the directory in it is this process's own
_OWN_INDEX, _OWN_LOCK = "assay-index-", "lock"
_own_directories: dict[Path, tempfile.TemporaryDirectory[str]] = {}
_with_own_index: set[Path] = set()
_held = ExitStack()  # the locks that show that this process uses them; they end with it


def trouble(root: Path) -> str | None:
    """Why the index can't be read, as text; None if it can."""
    path = index_path(root)
    try:
        stamp = file_stamp(path)
    except FileNotFoundError:
        return _ABSENT
    if stamp in _seen_whole:
        return None
    try:
        why = _trouble_of(path)
    except FileNotFoundError:  # removed meanwhile
        return _ABSENT
    if why is None:
        _seen_whole.add(stamp)
    return why


_ABSENT = "the index does not exist"
FileStamp = tuple[int, int, int, int]

# Index files that had no problem: opening one takes 10 ms, and a command checks several times.
_seen_whole: set[FileStamp] = set()


def file_stamp(path: Path) -> FileStamp:
    """Changes when the file is replaced or written to. Raises OSError if there is none."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns


def _trouble_of(path: Path) -> str | None:
    import duckdb

    try:
        with _shared(path, file_stamp(path)) as connection:
            # Free blocks at the end may be counted but not exist.
            sizes = "SELECT used_blocks * block_size FROM pragma_database_size() WHERE database_name = ?"
            [[blocks_bytes]] = connection.execute(sizes, ["index_file"]).fetchall()
            if path.stat().st_size < _HEADER_BYTES + blocks_bytes:
                return "it is truncated"
            schema_rows = connection.execute("SELECT schema FROM about").fetchall()
    except duckdb.OutOfMemoryException as error:  # says nothing of the file
        raise MemoryError from error
    except duckdb.Error as error:  # whatever is wrong with it, it is rebuilt from the run directories
        _forget_opened()
        return f"it can't be read ({str(error).splitlines()[0]})"
    if schema_rows != [(SCHEMA,)]:
        made_with = schema_rows[0][0] if schema_rows else "unknown"
        return f"another version of Assay made it (schema {made_with}, this is {SCHEMA})"
    return None


@contextmanager
def reading(root: Path) -> Iterator[DuckDBPyConnection]:
    """The index, for reading; it stays as it is now, whatever is written meanwhile.

    Raises HostError if there is none, DamagedIndexError if it is damaged.
    """
    import duckdb

    path = index_path(root)
    try:
        stamp = file_stamp(path)
    except OSError as error:
        raise MissingIndexError(path) from error
    try:
        with _shared(path, stamp) as connection:
            yield connection
    except duckdb.OutOfMemoryException as error:  # says nothing of the file
        raise MemoryError from error
    except (duckdb.Error, ValueError) as error:  # ValueError: a record in it is none; it can be rebuilt
        _forget_opened()
        raise DamagedIndexError(path, error) from error


@dataclass
class _OpenIndex:
    """An index file that this process has open, for further connections to it.

    users  connections that are open now
    """

    stamp: FileStamp
    pid: int
    database: DuckDBPyConnection
    users: int = 0


# The file that was read last, kept open: to open it takes several times as long as to list runs.
_opened: dict[Path, _OpenIndex] = {}
_opening = Lock()


@contextmanager
def _shared(path: Path, stamp: FileStamp) -> Iterator[DuckDBPyConnection]:
    """A separate connection to the file as it is now, which may be open already."""
    with _opening:
        known = _opened.get(path)
        if known is None or (known.stamp, known.pid) != (stamp, os.getpid()):
            _close_opened()
            known = _opened[path] = _OpenIndex(stamp, os.getpid(), _attached(path, read_only=True))
        known.users += 1
    try:
        with closing(known.database.cursor()) as connection:
            _configure(connection)
            yield connection
    finally:
        with _opening:
            known.users -= 1


def _close_opened() -> None:
    """Close what is open, except what a thread still reads and what a parent process opened."""
    for index in _opened.values():
        if index.users == 0 and index.pid == os.getpid():
            _detach(index.database)
    _opened.clear()


def _forget_opened() -> None:
    with _opening:
        _opened.clear()


@contextmanager
def reading_at(path: Path) -> Iterator[DuckDBPyConnection]:
    """A file that is made of run directories, for reading. Raises DamagedIndexError if it is damaged."""
    import duckdb

    try:
        with _attached_alone(path, read_only=True) as connection:
            yield connection
    except duckdb.OutOfMemoryException as error:  # says nothing of the file
        raise MemoryError from error
    except duckdb.Error as error:  # whatever is wrong with it, it can be rebuilt
        raise DamagedIndexError(path, error) from error


@contextmanager
def writing_at(path: Path, tables: str = TABLES) -> Iterator[DuckDBPyConnection]:
    """An index that nobody else uses yet, created if missing; the file is complete when this ends.

    tables  what it contains, as SQL

    Raises HostError if there is no space or no permission, DamagedIndexError if its content is damaged.
    """
    import duckdb

    fresh = not path.exists()
    with _opening:
        _close_opened()  # what is written will replace it, and its database can take this file
    try:
        with _attached_alone(path, read_only=False) as connection:
            connection.execute("BEGIN")
            if fresh:
                connection.execute(tables)
            yield connection
            connection.execute("COMMIT")
            connection.execute("CHECKPOINT")
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        what = str(error).splitlines()[0]
        raise HostError(
            f"{path}: the index can't be written ({what}); the old one is kept. Free some space or give "
            "yourself write access, then run `assay index`"
        ) from error
    except duckdb.Error as error:
        raise DamagedIndexError(path, error) from error


@contextmanager
def _attached_alone(path: Path, *, read_only: bool) -> Iterator[DuckDBPyConnection]:
    """The only connection to a file."""
    database = _attached(path, read_only=read_only)
    try:
        with closing(database.cursor()) as connection:
            _configure(connection)
            yield connection
    except BaseException:
        database.close()
        raise
    _detach(database)


# Databases in memory that no file is attached to: to make one takes 25 ms. By process: a fork inherits none
# of their threads.
_idle: dict[int, list[DuckDBPyConnection]] = {}
_MOST_IDLE = 4


def _attached(path: Path, *, read_only: bool) -> DuckDBPyConnection:
    """A database of its own for a file: DuckDB would return the old file to one that still has it open."""
    import duckdb

    try:
        database = _idle.setdefault(os.getpid(), []).pop()
    except IndexError:
        database = duckdb.connect(":memory:")
    try:
        mode = "READ_ONLY" if read_only else "READ_WRITE"
        quoted = str(path).replace("'", "''")
        database.execute(f"ATTACH '{quoted}' AS index_file (TYPE duckdb, {mode})")
    except duckdb.Error:
        database.close()
        raise
    return database


def _detach(database: DuckDBPyConnection) -> None:
    """Close the file; the database can take another one."""
    import duckdb

    idle = _idle.setdefault(os.getpid(), [])
    try:
        database.execute("DETACH index_file")
    except duckdb.Error:
        database.close()
        raise
    if len(idle) < _MOST_IDLE:
        idle.append(database)
    else:
        database.close()


def _configure(connection: DuckDBPyConnection) -> None:
    connection.execute("SET enable_progress_bar = false")  # it is drawn on standard output
    connection.execute("USE index_file")
