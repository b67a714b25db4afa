"""What is known of stacks: every observation in one DuckDB file, rebuilt from what it is made of.

It is made of the runs in the index, of failures that no run directory holds (`recorded.py`), and of bundles
that others signed (`bundles.py`). Like the index, it is written next to the old file and renamed, and holds
nothing of its own: delete it, and the next command builds it again.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay import read, store
from assay.durable import locked, make_directory, sync, writing
from assay.errors import HostError, InputError
from assay.records import (
    Doubt,
    HardwareClass,
    Observation,
    Run,
    Stack,
    StackMetric,
    StackWorkload,
    from_json,
    to_compact_json,
    to_plain,
)
from assay.rundir.session import Attempt, Session
from assay.stacks.bundles import read_recorded
from assay.stacks.observing import SessionObservations, as_step, observe, steps_together
from assay.stacks.storage import knowledge_file, recorded_stamps

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_log = logging.getLogger("assay")
SCHEMA: Final = 2
_LONGEST_WAIT_S: Final = 600.0  # for another process that builds it
_TABLES: Final = """
CREATE TABLE about (schema INTEGER);
CREATE TABLE sources (source VARCHAR, stamp VARCHAR, left_out VARCHAR);
CREATE TABLE stacks (digest VARCHAR, json VARCHAR);
CREATE TABLE hardware (digest VARCHAR, json VARCHAR);
CREATE TABLE workloads (digest VARCHAR, json VARCHAR);
CREATE TABLE observations (
    source VARCHAR, origin VARCHAR, session VARCHAR, seen_at DOUBLE, stack VARCHAR, hardware VARCHAR,
    workload VARCHAR, metric VARCHAR, leads BOOLEAN, blocks BIGINT[], figures DOUBLE[], interleaved BOOLEAN,
    confidence DOUBLE, lost DOUBLE, doubts VARCHAR, failure VARCHAR, why VARCHAR, log VARCHAR
);
"""


@dataclass(frozen=True)
class Knowledge:
    """Every observation, oldest first, and how many runs say nothing about a stack, by the reason."""

    observations: tuple[Observation, ...]
    left_out: Mapping[str, int]


Progress = Callable[[int, int], None]
"""Called with the sessions that have been read and those to be read."""


def knowledge(runs_dir: Path, progress: Progress | None = None) -> Knowledge:
    """What is known now, after reading what changed.

    runs_dir  whose index is up to date

    Where the file can't be written, as on a full disk, this process has its own one in memory.

    Raises InputError if a recorded failure or a bundle is damaged.
    """
    path = knowledge_file(runs_dir)
    try:
        return _up_to_date(runs_dir, path, progress)
    except HostError as error:
        _log.warning("%s; until then, this process reads what is known of stacks into memory", error)
        return _up_to_date(runs_dir, store.own_directory(runs_dir) / path.name, progress)


def _up_to_date(runs_dir: Path, path: Path, progress: Progress | None) -> Knowledge:
    try:
        _update(runs_dir, path, progress)
    except store.DamagedIndexError:  # it has nothing of its own
        path.unlink(missing_ok=True)
        _update(runs_dir, path, progress)
    with store.reading_at(path) as file:
        return _read(file)


def _update(runs_dir: Path, path: Path, progress: Progress | None) -> None:
    sessions = _sessions(runs_dir)
    stamps = {**sessions, **recorded_stamps(runs_dir)}
    if _known(path) == stamps:
        return
    make_directory(path.parent)
    new = path.with_name(f".{path.name}.new")
    with locked(path.with_name(".lock"), f"what is known of stacks in {runs_dir}", wait_s=_LONGEST_WAIT_S):
        known = _known(path)
        with writing(new):
            for left in (new, new.with_name(f"{new.name}.wal")):  # left by a killed process
                left.unlink(missing_ok=True)
            if known:
                shutil.copyfile(path, new)
        with store.writing_at(new, _TABLES) as file:
            if not known:
                file.execute("INSERT INTO about VALUES (?)", [SCHEMA])
            changed = [source for source, stamp in stamps.items() if known.get(source) != stamp]
            _remove(file, [*(known.keys() - stamps.keys()), *(known.keys() & set(changed))])
            tables = _Tables(file)
            for done, source in enumerate(changed):
                if progress is not None:
                    progress(done, len(changed))
                try:
                    session_observations = _observed(runs_dir, source)
                except InputError as error:
                    if source not in sessions:
                        raise
                    _log.warning("%s; what it shows of stacks is left out until then", error)
                    continue  # read again next time
                _insert(file, tables, source, stamps[source], session_observations)
        with writing(path):
            sync(new)
            new.replace(path)


def _sessions(runs_dir: Path) -> dict[str, str]:
    return {f"session {name}": stamp for name, stamp in store.session_stamps(runs_dir).items()}


def _known(path: Path) -> dict[str, str]:
    """The stamp of each source that the file has; empty if it has to be built from scratch."""
    if not path.is_file():
        return {}
    with suppress(store.DamagedIndexError), store.reading_at(path) as file:
        if file.execute("SELECT schema FROM about").fetchall() == [(SCHEMA,)]:
            return dict(file.execute("SELECT source, stamp FROM sources").fetchall())
    return {}


def _observed(runs_dir: Path, source: str) -> SessionObservations:
    kind, _, name = source.partition(" ")
    if kind != "session":
        return SessionObservations(tuple(read_recorded(runs_dir, source)), {})

    def attempt_of(run: Run) -> Attempt:
        return Attempt(runs_dir / run.id / f"attempt-{run.attempt}")

    def last_line(run: Run) -> str:
        from assay.run.last_words import last_line  # only failed runs need it

        return last_line(attempt_of(run), run.exits)

    def log_of(run: Run) -> str:
        return str((attempt_of(run).path / "logs").relative_to(runs_dir))

    session_observations = observe(store.find(runs_dir, name), read.metrics, last_line, log_of)
    session = Session(runs_dir / name)
    return as_step(session_observations, session.header) if session.path.is_dir() else session_observations


def _remove(file: DuckDBPyConnection, sources: Iterable[str]) -> None:
    gone = list(sources)
    for table in ("sources", "observations") if gone else ():
        file.execute(f"DELETE FROM {table} WHERE source IN (SELECT unnest(?))", [gone])  # noqa: S608 - our own


class _Tables:
    """Stacks, hardware and workloads, each stored once."""

    def __init__(self, file: DuckDBPyConnection) -> None:
        self._file = file
        self._kept = {
            table: {digest for (digest,) in file.execute(f"SELECT digest FROM {table}").fetchall()}  # noqa: S608
            for table in ("stacks", "hardware", "workloads")
        }

    def digest(self, table: str, record: Stack | HardwareClass | StackWorkload | None) -> str | None:
        """The record's digest, after storing the record if it is new."""
        if record is None:
            return None
        if record.digest not in self._kept[table]:
            values = [record.digest, to_compact_json(record)]
            self._file.execute(f"INSERT INTO {table} VALUES (?, ?)", values)  # noqa: S608 - our own names
            self._kept[table].add(record.digest)
        return record.digest


def _insert(
    file: DuckDBPyConnection,
    tables: _Tables,
    source: str,
    stamp: str,
    session_observations: SessionObservations,
) -> None:
    file.execute(
        "INSERT INTO sources VALUES (?, ?, ?)", [source, stamp, json.dumps(session_observations.left_out)]
    )
    for observation in session_observations.observations:
        row = [
            source,
            observation.origin,
            observation.session,
            observation.at,
            tables.digest("stacks", observation.stack),
            tables.digest("hardware", observation.hardware),
            tables.digest("workloads", observation.workload),
            None if observation.metric is None else to_compact_json(observation.metric),
            observation.primary,
            [block for block, _ in observation.values],
            [value for _, value in observation.values],
            observation.interleaved,
            observation.confidence,
            observation.lost_to_others,
            json.dumps([to_plain(doubt) for doubt in observation.doubts]),
            observation.failure,
            observation.why,
            observation.log,
        ]
        file.execute(f"INSERT INTO observations VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608


def _read(file: DuckDBPyConnection) -> Knowledge:
    stacks = _records(file, "stacks", Stack)
    hardware = _records(file, "hardware", HardwareClass)
    workloads = _records(file, "workloads", StackWorkload)
    rows = file.execute(
        "SELECT * EXCLUDE (source) FROM observations ORDER BY seen_at, session, stack"
    ).fetchall()
    left_out: dict[str, int] = {}
    for (text,) in file.execute("SELECT left_out FROM sources").fetchall():
        for why, runs in json.loads(text).items():
            left_out[why] = left_out.get(why, 0) + runs
    every = steps_together(_observations(rows, stacks, hardware, workloads))
    return Knowledge(_each_once(every), left_out)


def _each_once(observed: Iterable[Observation]) -> tuple[Observation, ...]:
    """Own observations, and those of others without repetitions: bundles of one party overlap."""
    every = list(observed)
    others = [observation for observation in every if observation.origin]
    if not others:
        return tuple(every)
    from assay.stacks.bundles import merged

    own = [observation for observation in every if not observation.origin]
    return tuple(sorted([*own, *merged(others)[0]], key=lambda observation: observation.at))


def _records(file: DuckDBPyConnection, table: str, kind: type[Any]) -> dict[str, Any]:
    rows = file.execute(f"SELECT digest, json FROM {table}").fetchall()  # noqa: S608 - our own names
    return {digest: from_json(kind, text) for digest, text in rows}


def _observations(
    rows: Iterable[tuple[Any, ...]],
    stacks: Mapping[str, Stack],
    hardware: Mapping[str, HardwareClass],
    workloads: Mapping[str, StackWorkload],
) -> Iterator[Observation]:
    metrics: dict[str, StackMetric] = {}
    for row in rows:
        origin, session, observed_at, stack, machine, workload, metric, leads, blocks, figures, *rest = row
        interleaved, confidence, lost, doubts, failure, why, log = rest
        if metric is not None and metric not in metrics:
            metrics[metric] = from_json(StackMetric, metric)
        yield Observation(
            stack=stacks[stack],
            hardware=hardware[machine],
            workload=None if workload is None else workloads[workload],
            metric=None if metric is None else metrics[metric],
            session=session,
            at=observed_at,
            primary=leads,
            values=tuple(zip(blocks, figures, strict=True)),
            interleaved=interleaved,
            confidence=confidence,
            lost_to_others=lost,
            doubts=tuple(Doubt(**doubt) for doubt in json.loads(doubts)),
            failure=failure,
            why=why,
            log=log,
            origin=origin,
        )
