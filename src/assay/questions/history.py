"""A metric over sessions, where it stepped, and what changed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.evidence import ready, runs_directory, up_to_date
from assay.units import moment

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from assay.analyse.history import History, SessionValue
    from assay.analyse.statistics.level_shifts import LevelShift
    from assay.records import Result, Run
    from assay.report.sentences.history import AnnotatedHistory, FactChange


MOST_SWEPT = 5_000  # runs of sweeps that are judged for a history of nodes


def history(
    metric: str,
    *,
    suite: str | None = None,
    benchmark: str | None = None,
    system: str | None = None,
    since: str | float | None = None,
    runs: str | PathLike[str] | None = None,
) -> tuple[AnnotatedHistory, ...]:
    """Each history of a metric, with what changed at its steps, like `assay history METRIC`.

    suite, benchmark, system  only these
    since                     only sessions whose first run started then or later: `"2026-03-01"`, `"7d"`,
                              or seconds since the epoch
    runs                      directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if no run reports the metric, or, with `since`, if the dates of runs are unknown.
    """
    from assay.analyse.history import histories
    from assay.read import metrics
    from assay.report.sentences.history import annotate
    from assay.run.index import answered
    from assay.store import Filter, reporting

    directory = runs_directory(runs)
    try:
        earliest = None if since is None else moment(since)
    except ValueError as error:
        raise InputError(f"since: {error}") from error
    ready(directory)
    only = Filter(suite=suite, benchmark=benchmark, system=system)

    def reported() -> list[Result]:
        up_to_date(directory, suite)
        return reporting(directory, metric, only)

    results = answered(directory, reported)
    if earliest is not None:
        results = _begun_since(results, earliest)
    changes = partial(_changes, directory)
    counted = histories(results, metric, metrics=metrics)
    sweeps = _slow_in_sweeps(directory, counted)
    annotated = tuple(annotate(past, changes, sweeps(past)) for past in counted)
    if not annotated:
        raise InputError(
            f"{metric}: none of the {len(results)} runs that report it gave a result that counts"
        )
    return annotated


def _begun_since(results: Sequence[Result], since: float) -> list[Result]:
    """The runs of sessions whose first run is recent enough: no session counts with only part of its runs."""
    from assay.analyse.history import began_at
    from assay.report.sentences.history import when

    sessions: dict[tuple[str, str], list[Run]] = {}
    for result in results:
        sessions.setdefault((result.run.suite, result.run.session), []).append(result.run)
    undated = ["/".join(name) for name, runs in sessions.items() if not any(run.dated for run in runs)]
    if undated:
        more = f" and {len(undated) - 3} more" if len(undated) > 3 else ""
        raise InputError(
            f"--since: the dates of {', '.join(undated[:3])}{more} are unknown: import them with a "
            "`started_at` column, or choose others with --suite or --system"
        )
    begun = {name: began_at(runs) for name, runs in sessions.items()}
    kept = [r for r in results if begun[r.run.suite, r.run.session] >= since]
    if not kept:
        raise InputError(
            f"--since: no session started after {when(since)} UTC; the newest started "
            f"{when(max(begun.values()))}"
        )
    return kept


def _slow_in_sweeps(
    runs_dir: Path, histories: Sequence[History]
) -> Callable[[History], dict[str, str | InputError]]:
    """What gives, for a history of a node: session of a sweep → what its page says of the slow node.

    As many of the newest sessions are judged as have `MOST_SWEPT` runs, at least one. A session that can't be
    judged has the reason.
    """
    from assay.node_sweep import NODES
    from assay.questions.sweep_pages import slow_systems

    entries = [entry for history in histories if history.suite == NODES for entry in history.entries]
    begun = {entry.session: entry.at for entry in entries}
    counts = Counter[str]()
    for entry in entries:
        counts[entry.session] += len(entry.results)
    slow: dict[str, Mapping[str, str] | InputError] = {}
    runs = 0
    for session in sorted(begun, key=begun.__getitem__, reverse=True):
        if runs > MOST_SWEPT:
            break
        runs += counts[session]
        try:
            slow[session] = slow_systems(f"{NODES}/{session}", runs_dir)
        except InputError as error:  # of this session; the history has others
            slow[session] = error

    def slow_in_sessions(history: History) -> dict[str, str | InputError]:
        own = {entry.session for entry in history.entries if history.suite == NODES}
        return {
            session: finding if isinstance(finding, InputError) else finding[history.system]
            for session, finding in slow.items()
            if session in own and (isinstance(finding, InputError) or history.system in finding)
        }

    return slow_in_sessions


def _changes(runs_dir: Path, old: SessionValue, new: SessionValue) -> list[FactChange]:
    """Facts that differ between two sessions and could have changed a number."""
    from assay import provenance
    from assay.questions.definitions import programs
    from assay.report.sentences.history import FactChange

    changes = []
    for name in ("suite_digest", "assay_version"):
        a, b = ({getattr(result.run, name) for result in entry.results} for entry in (old, new))
        if a != b:
            changes.append(FactChange(name, "/".join(sorted(a)), "/".join(sorted(b))))
    try:
        content = [programs(runs_dir, entry.results) for entry in (old, new)]
        edited = (fact for fact in provenance.settings_side_by_side("programs", *content) if fact.differs)
        changes += [FactChange(fact.name, _values(fact.a), _values(fact.b)) for fact in edited]
    except InputError as error:  # of one session; the rest of the history is known
        changes.append(FactChange("programs", "not compared", f"unknown: {error}"))
    sides = [[r.provenance for r in entry.results if r.provenance is not None] for entry in (old, new)]
    differing = (fact for fact in provenance.differences(*sides) if fact.matters)
    return [*changes, *(FactChange(fact.name, _values(fact.a), _values(fact.b)) for fact in differing)]


def _values(values: Sequence[Any]) -> str:
    return ", ".join("absent" if value is None else str(value) for value in values) or "unknown"


def history_document(metric: str, histories: Sequence[AnnotatedHistory]) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {
        "schema": "assay.history/1",
        "metric": metric,
        "histories": [_history_as_data(annotated) for annotated in histories],
    }


def _history_as_data(annotated: AnnotatedHistory) -> dict[str, Any]:
    from assay.analyse.statistics.level_shifts import BETWEEN_FALSE_CHANGES, false_change_rate
    from assay.records import to_plain

    history = annotated.history
    return {
        "suite": history.suite,
        "system": history.system,
        "point": to_plain(history.point),
        "false_alarm_rate": false_change_rate(len(history.entries)),
        "sessions_between_false_steps": BETWEEN_FALSE_CHANGES,
        "spread": history.spread,
        "reason": history.reason,
        "dropped": history.dropped,
        "undated": list(history.undated),
        "levels": [{"mean": level, "sessions": count} for level, count in history.levels],
        "sessions": [
            {
                "session": e.session,
                "at": e.at if e.dated else None,
                "value": e.value,
                "runs": [r.run.id for r in e.results],
                "slow_in_sweep": annotated.slow_in.get(e.session),
            }
            for e in history.entries
        ],
        "steps": [
            _step_as_data(annotated, step, changes)
            for step, changes in zip(history.steps, annotated.changes, strict=True)
        ],
    }


def _step_as_data(
    annotated: AnnotatedHistory, step: LevelShift, changes: Sequence[FactChange]
) -> dict[str, Any]:
    from assay.records import to_plain
    from assay.report.sentences.history import around

    entries = annotated.history.entries
    return {
        "kind": step.kind,
        "after": entries[step.after].session,
        "before": entries[step.before].session,
        "earliest": entries[step.earliest].session,
        "latest": entries[step.latest].session,
        "ratio": to_plain(step.ratio),
        "better": step.better,
        "compared": [entry.session for entry in around(annotated.history, step)],
        "changes": list(map(str, changes)),
    }
