"""A metric over sessions, where it stepped, and what changed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.evidence import ready, runs_directory, up_to_date
from assay.questions.question import (
    RUNS,
    Answer,
    Moment,
    Question,
    Reference,
    argument,
    function,
    option,
    question,
    read_value,
)
from assay.units import moment
from assay.view.blocks import Heading, Lead, Paragraph, Table, TableBody, TableRow, Verbatim

if TYPE_CHECKING:
    from assay.analyse.history import MetricHistory, SessionValue
    from assay.analyse.statistics.level_shifts import LevelShift
    from assay.records import Result, Run
    from assay.view.blocks import Block, Chart
    from assay.view.sentences.history import AnnotatedHistory, FactChange

MOST_SWEPT = 5_000  # runs of sweeps that are judged for a history of nodes
MOST_CHARTS = 24  # of histories, those with the worst steps first
_MOST_CHANGES = 12  # of one step; the document has all
_BAR = 24  # characters of the widest bar


@question
class History(Question):
    """Show METRIC over sessions, where it stepped, and what changed there.

    Each session counts once, with the mean of its runs. Steps and gradual drifts are detected from 6 sessions
    on. False ones are 500 sessions or more apart, on average, however often you look, also with outliers and
    if sessions resemble the one before (correlation up to 0.5). A step has at least two sessions on each
    side: a single session is not a step.

    \b
    Examples:
      assay history throughput --suite nightly
      assay history throughput --suite nightly --since 90d --report throughput.html
      assay history busbw --benchmark allreduce --system dgx-openshift --json
    """

    metric: str = argument()
    suite: str | None = option("Only this suite or imported set.", default=None)
    benchmark: str | None = option("Only this benchmark.", default=None)
    system: str | None = option("Only this system.", default=None)
    since: Moment | None = option("Only newer runs: 2026-03-01 (UTC), 7d, 12h.", default=None)
    report: Path | None = option("Also write it to this file as an HTML page.", default=None, output=True)
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> Histories:
        """Each history. Raises InputError if no run reports the metric."""
        from assay.analyse.history import histories
        from assay.read import metrics
        from assay.run.index import answered
        from assay.store import Filter, reporting
        from assay.view.sentences.history import annotate

        directory = runs_directory(self.runs)
        earliest = read_value("since", self.since, moment)
        ready(directory)
        only = Filter(suite=self.suite, benchmark=self.benchmark, system=self.system)

        def reported() -> list[Result]:
            up_to_date(directory, self.suite)
            return reporting(directory, self.metric, only)

        results = answered(directory, reported)
        if earliest is not None:
            results = _begun_since(results, earliest)
        counted = histories(results, self.metric, metrics=metrics)
        sweeps = _slow_in_sweeps(directory, counted)
        annotated = [annotate(past, partial(_changes, directory), sweeps(past)) for past in counted]
        if not annotated:
            raise InputError(
                f"{self.metric}: none of the {len(results)} runs that report it gave a result that counts"
            )
        return Histories(self.metric, tuple(annotated))

    def write(self, answer: Histories) -> Histories:
        """The page."""
        if self.report is None:
            return answer
        from assay.durable import deliver
        from assay.view.document import answer_blocks, document

        recipe = (Heading("How to reproduce", "reproduce"), Verbatim(self.as_command()))
        page = document(self.metric, "Assay history", [*answer_blocks(answer.view(), answer.charts), *recipe])
        deliver(self.report, page.encode(), option="--report")
        return replace(answer, page=self.report)


history = function(History, History.answer)


@dataclass(frozen=True)
class Histories(Answer):
    """The result of `history`; iterating gives each history with what changed at its steps."""

    metric: str
    histories: tuple[AnnotatedHistory, ...]
    page: Path | None = None

    @property
    def notes(self) -> Sequence[str]:
        """Where the page is."""
        return [f"Report: {self.page}"] if self.page else []

    def __iter__(self) -> Iterator[AnnotatedHistory]:
        return iter(self.histories)

    def __len__(self) -> int:
        return len(self.histories)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The sessions, levels and steps of the worst histories."""
        from assay.view.charts.history import history as chart

        return tuple(chart(annotated.history) for annotated in self._worst_first()[:MOST_CHARTS])

    def _worst_first(self) -> list[AnnotatedHistory]:
        from assay.view.sentences.history import gravity

        return sorted(self.histories, key=lambda past: min(map(gravity, past.history.steps), default=(3, 0)))

    def view(self) -> Iterator[Block]:
        """The worst step; each history with its steps, what changed there, and its sessions."""
        from assay.view.sentences import history as words

        yield Lead(words.lead(self.histories))
        if false_alarms := words.false_alarms(self.histories):
            yield Paragraph(f"{false_alarms}.", "dim")
        if too_few := words.too_few(self.histories):
            yield Paragraph(too_few, "dim")
        for annotated in self._worst_first():
            past = annotated.history
            title = f"{past.suite} · {past.system} · {words.place(past)}: {words.describe_sessions(past)}"
            yield Heading(title)
            for step, changes in zip(past.steps, annotated.changes, strict=True):
                yield from _step(past, step, changes)
            yield _sessions(past)
            notes = (words.order_unknown(past), words.spread(past), words.dropped(past))
            yield from (Paragraph(note) for note in (*words.swept(annotated), *notes) if note)
        if len(self.histories) > 1:
            yield _overview(self._worst_first())

    def document(self) -> dict[str, Any]:
        """The document `assay.history/1`."""
        return {
            "schema": "assay.history/1",
            "metric": self.metric,
            "histories": [_history_as_data(annotated) for annotated in self.histories],
        }


def _step(past: MetricHistory, step: LevelShift, changes: Sequence[FactChange]) -> Iterator[Block]:
    """What happened, where it may have begun, and what else changed there."""
    from assay.view.sentences import history as words

    symbol = {True: "▲", False: "▼", None: "◆"}[step.better]
    began = words.began(past, step)
    sentence = f"{symbol} {words.changed_by(step)}, {words.locate_step(past, step)}"
    yield Paragraph(f"{sentence}; {began}." if began else f"{sentence}.")
    old, new = words.around(past, step)
    nothing = "" if changes else " nothing on record"
    yield Paragraph(f"changed from {old.session} to {new.session}:{nothing}", indented=True)
    yield from (Paragraph(str(change), indented=True) for change in changes[:_MOST_CHANGES])
    if len(changes) > _MOST_CHANGES:
        yield Paragraph(f"and {len(changes) - _MOST_CHANGES} more; --json lists all", indented=True)


def _sessions(past: MetricHistory) -> Table:
    """Each session with its value and a bar, from minimum to maximum; a step begins a section."""
    from assay.view import figures
    from assay.view.sentences import history as words

    values = [entry.value for entry in past.entries]
    unit, texts = figures.column(values, past.point.unit)
    low, width = min(values), (max(values) - min(values)) or 1.0
    steps = {step.before: f"{words.kind(step)} of {words.size_alone(step)}" for step in past.steps}
    bodies = [("", list[TableRow]())]
    for index, (entry, text) in enumerate(zip(past.entries, texts, strict=True)):
        if index in steps:
            bodies.append((steps[index], []))
        bar = "·" * round((entry.value - low) / width * (_BAR - 1)) + "•"
        cells = (entry.session, words.describe_date(entry), text, bar, str(len(entry.results)))
        bodies[-1][1].append(TableRow(cells))
    columns = ("session", "first run, UTC", unit or "value", "", "n")
    return Table(
        "", columns, tuple(TableBody(title, tuple(rows)) for title, rows in bodies), frozenset({0, 1, 3})
    )


def _overview(histories: Sequence[AnnotatedHistory]) -> Table:
    columns = ("", "suite", "system", "sessions", "steps", "newest level", "between sessions")
    rows = tuple(_overview_row(annotated.history) for annotated in histories)
    return Table("Every history", columns, (TableBody("", rows),), frozenset({0, 1, 2}))


def _overview_row(past: MetricHistory) -> TableRow:
    from assay.view import figures
    from assay.view.sentences import history as words

    level = past.levels[-1][0] if past.levels else past.entries[-1].value
    unit, (text,) = figures.column([level], past.point.unit)
    spread = figures.NONE if past.spread is None else figures.percent(past.spread)
    steps = ", ".join(words.size_alone(step) for step in past.steps) or figures.NONE
    cells = (words.place(past), past.suite, past.system, str(len(past.entries)), steps)
    return TableRow((*cells, f"{text} {unit}".strip(), spread))


def _begun_since(results: Sequence[Result], since: float) -> list[Result]:
    """The runs of sessions whose first run is recent enough: no session counts with only part of its runs."""
    from assay.analyse.history import began_at
    from assay.view.sentences.history import when

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
    runs_dir: Path, histories: Sequence[MetricHistory]
) -> Callable[[MetricHistory], dict[str, str | InputError]]:
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

    def slow_in_sessions(history: MetricHistory) -> dict[str, str | InputError]:
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
    from assay.view.sentences.history import FactChange

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
    from assay.view.sentences.history import around

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
