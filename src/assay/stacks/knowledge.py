"""What is known of stacks: every observation in one DuckDB file, rebuilt from what it is made of.

It is made of the runs in the index, of failures that no run directory holds (`storage.py`), and of bundles
that others signed (`bundles.py`). Like the index, it is written next to the old file and renamed, and holds
nothing of its own: delete it, and the next command builds it again.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay import read, store
from assay.analyse import doubts
from assay.analyse.points import encounters
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import Group, Metrics, group
from assay.analyse.points.ratio import looked_at, one_side
from assay.durable import locked, make_directory, sync, writing
from assay.errors import HostError, InputError
from assay.records import DEFAULT_MARGIN, Doubt, Result, Run, from_json, to_compact_json, to_plain
from assay.rundir.files import Header
from assay.rundir.session import Attempt, Session
from assay.stacks.bundles import read_recorded
from assay.stacks.effects import lost_by
from assay.stacks.stack import (
    HardwareClass,
    Observation,
    Stack,
    StackMetric,
    StackWorkload,
    failure_of,
    hardware_of,
    stack_of,
)
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
        from assay.run.progress import last_line  # only failed runs need it

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


NO_PROVENANCE = "it is unknown where they ran"
UNEQUAL_NODES = "their nodes differ in software or hardware"
NO_DIRECTION = "none of their metrics has a better direction"
OTHER_FAILURE = "they failed for a reason that may not be the software"
_ITSELF = "it"  # the only side, which its evidence needs no name for
_OWN_PROGRAM = frozenset({"command"})  # workloads whose program is the user's
_SHIFTS = ("invalid", "biased")  # severities of doubts that can make one stack look faster than another


@dataclass(frozen=True)
class SessionObservations:
    """What a session observed, and how many of its runs say nothing about a stack, by the reason as text."""

    observations: tuple[Observation, ...]
    left_out: dict[str, int]


def observe(
    results: Sequence[Result], metrics: Metrics, last_line: Callable[[Run], str], log_of: Callable[[Run], str]
) -> SessionObservations:
    """What the runs of one session say about stacks.

    metrics    what a run's workload declares
    last_line  of a failed run, what its first rank to fail printed last
    log_of     where the logs of a run are

    Runs that are not over are left out without a word: they will be observed.
    """
    left_out: Counter[str] = Counter()
    observed: list[Observation] = []
    by_place: dict[tuple[str, str, str], tuple[Stack, HardwareClass, StackWorkload, list[Result]]] = {}
    for result in results:
        run, stack, hardware = result.run, stack_of(result.provenance), hardware_of(result.provenance)
        if not run.state.final:
            continue
        if stack is None or hardware is None:
            several = result.provenance is not None and len(result.provenance.nodes) > 1
            left_out[UNEQUAL_NODES if several else NO_PROVENANCE] += 1
            continue
        workload = workload_of(run)
        if result.counts:
            place = (stack.digest, hardware.digest, workload.digest)
            by_place.setdefault(place, (stack, hardware, workload, []))[3].append(result)
            continue
        last_output, log = last_line(run), log_of(run)
        kind = failure_of(run, stack, last_output)
        if kind is None:
            left_out[OTHER_FAILURE] += 1
            continue
        where, why = session_of(run), _describe_failure(run, last_output)
        observed.append(
            Observation(stack, hardware, workload, None, where, run.made_at, failure=kind, why=why, log=log)
        )
    for stack, hardware, workload, runs in by_place.values():
        figures = list(_figures(stack, hardware, workload, runs, metrics, log_of))
        observed += figures
        if not figures:
            left_out[NO_DIRECTION] += len(runs)
    return SessionObservations(tuple(observed), dict(left_out))


def workload_of(run: Run) -> StackWorkload:
    """What a run ran."""
    trial = run.trial
    own = trial.task_digest or run.suite_digest
    program = own if trial.workload in _OWN_PROGRAM else f"assay {run.assay_version}"
    return StackWorkload(trial.workload, str(trial.shape), trial.params, program)


def session_of(run: Run) -> str:
    """The name of its session: `suite/session`."""
    return f"{run.suite}/{run.session}"


def _figures(
    stack: Stack,
    hardware: HardwareClass,
    workload: StackWorkload,
    runs: Sequence[Result],
    metrics: Metrics,
    log_of: Callable[[Run], str],
) -> Iterator[Observation]:
    """The runs' values of each metric that has a better direction."""
    groups = [judged for judged in group(runs, metrics).values() if judged.point.better is not None]
    for point_group in groups:
        point, samples = point_group.point, point_group.samples
        first = samples[0].result.run
        raised = _raised(point_group)
        yield Observation(
            stack=stack,
            hardware=hardware,
            workload=workload,
            metric=StackMetric(point.metric, point.unit, point.better, dict(point.labels)),
            session=session_of(first),
            at=min(sample.result.run.made_at for sample in samples),
            primary=point.metric == groups[0].point.metric,
            values=tuple(sorted((sample.result.run.trial.block, sample.value) for sample in samples)),
            interleaved=all(s.result.run.interleaved and not s.result.run.outside_block for s in samples),
            confidence=max(0.95, looked_at((samples,), paired=True)),
            lost_to_others=encounters.lost_to_others(point_group.results, DEFAULT_MARGIN),
            doubts=tuple(doubt for doubt in raised if doubts.KINDS[doubt.code].severity in _SHIFTS),
            log=log_of(first),
        )


def _raised(point_group: Group) -> tuple[Doubt, ...]:
    raised = doubts.of(Case((Side(_ITSELF, point_group),), one_side(point_group), DEFAULT_MARGIN))
    return tuple(replace(doubt, evidence=doubt.evidence.removeprefix(f"{_ITSELF}: ")) for doubt in raised)


def _describe_failure(run: Run, last_line: str) -> str:
    """The cause as text, with the last line of the log if the cause does not have it."""
    line = last_line.strip()
    return run.cause if not line or line in run.cause else f"{run.cause}: {line}"


_MOST_BLOCKS: Final = 1000  # of a step


def as_step(session_observations: SessionObservations, header: Header) -> SessionObservations:
    """A step's observations as part of its exploration or bisection, with block numbers of its own."""
    step = header.step_of
    if step is None:
        return session_observations
    first = int(header.created_at * 1000) * _MOST_BLOCKS
    return SessionObservations(
        tuple(
            replace(
                observation,
                session=step.name,
                values=tuple((first + block, value) for block, value in observation.values),
                confidence=max(observation.confidence, step.confidence),
            )
            for observation in session_observations.observations
        ),
        session_observations.left_out,
    )


def steps_together(observed: Iterable[Observation]) -> list[Observation]:
    """The observations; steps that observed the same of a stack become one, with blocks from 1."""
    by_session: dict[tuple[str, str], list[Observation]] = {}
    kept: list[Observation] = []
    for observation in observed:
        if any(block >= _MOST_BLOCKS for block, _ in observation.values):
            by_session.setdefault((observation.origin, observation.session), []).append(observation)
        else:
            kept.append(observation)
    for observations in by_session.values():
        blocks = sorted({block for observation in observations for block, _ in observation.values})
        numbers = {block: number for number, block in enumerate(blocks, 1)}
        same: dict[tuple[str, ...], list[Observation]] = {}
        for observation in observations:
            workload = "" if observation.workload is None else observation.workload.digest
            place = observation.stack.digest, observation.hardware.digest
            key = (*place, workload, to_compact_json(observation.metric))
            same.setdefault(key, []).append(observation)
        kept += [_join_steps(steps, numbers) for steps in same.values()]
    return sorted(kept, key=lambda observation: observation.at)


def _join_steps(steps: list[Observation], numbers: dict[int, int]) -> Observation:
    return replace(
        min(steps, key=lambda step: step.at),
        values=tuple(sorted((numbers[block], value) for step in steps for block, value in step.values)),
        interleaved=all(step.interleaved for step in steps),
        confidence=max(step.confidence for step in steps),
        lost_to_others=lost_by(steps),
        doubts=tuple(dict.fromkeys(doubt for step in steps for doubt in step.doubts)),
    )
