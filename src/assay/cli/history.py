"""`assay history`: a metric over sessions, and where it stepped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.evidence import ready
from assay.cli.options import JSON, RUNS, echo_json

if TYPE_CHECKING:
    from assay.analyse.history import Entry, History, Step
    from assay.records import Result

_BAR = 24  # characters of the widest bar
_MOST_CHANGES = 12


@click.command()
@click.argument("metric")
@click.option("--suite", help="Only this suite or imported set.")
@click.option("--benchmark", help="Only this benchmark.")
@click.option("--system", help="Only this system.")
@RUNS
@JSON
def command(
    metric: str,
    suite: str | None,
    benchmark: str | None,
    system: str | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Show METRIC over sessions, where it stepped, and what changed there.

    Each session counts once, with the mean of its runs. From 6 sessions on steps are looked for; in 5 % of
    histories without any, one is told falsely (more where sessions depend on the one before, or where single
    sessions are far off). A step has two sessions on each side at least: one session alone is none.

    \b
    Examples:
      assay history throughput --suite nightly
      assay history busbw --benchmark allreduce --system dgx-openshift --json
    """
    from assay.analyse.history import histories
    from assay.read import metrics
    from assay.store import Filter, reporting

    ready(runs_dir)
    results = reporting(runs_dir, metric, Filter(suite=suite, benchmark=benchmark, system=system))
    found = histories(results, metric, metrics=metrics)
    if as_json:
        echo_json({"schema": "assay.history/1", "metric": metric, "histories": [_plain(h) for h in found]})
        return
    for number, history in enumerate(found):
        for line in _lines(history):
            click.echo(line)
        if number < len(found) - 1:
            click.echo()


def _lines(history: History) -> Iterator[str]:
    from assay.report import figures

    point, entries = history.point, history.entries
    unit, texts = figures.column([entry.value for entry in entries], point.unit)
    count = f"{len(entries)} session{'s' * (len(entries) > 1)}"
    steps = f"{len(history.steps)} step{'s' * (len(history.steps) > 1)}" if history.steps else history.reason
    place = f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"
    yield f"{history.suite} · {history.system} · {place}: {count}, {steps}"
    if history.dropped:
        yield f"  {history.dropped} older sessions are not looked at"
    bars = _bars([entry.value for entry in entries])
    by_place = {step.before: step for step in history.steps}
    wide = max(map(len, texts))
    for at, (entry, text, bar) in enumerate(zip(entries, texts, bars, strict=True)):
        if at in by_place:
            yield from (f"  {line}" for line in _step(history, by_place[at]))
        runs = f"n = {len(entry.results)}"
        yield f"  {_when(entry.at)}  {text:>{wide}} {unit}  {bar:<{_BAR}}  {runs}  {entry.session}".rstrip()
    if history.spread is not None:
        yield f"  {figures.percent(history.spread)} from one session to the next where nothing steps"


def _bars(values: Sequence[float]) -> list[str]:
    """From the least to the most; a scale that does not begin at 0 is drawn as a place, not as a length."""
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    return [" " * round((value - low) / width * (_BAR - 1)) + "•" for value in values]


def _step(history: History, step: Step) -> Iterator[str]:
    """What happened, where it may have, and what else changed there."""
    ratio = step.ratio
    way = {True: "better", False: "worse", None: "neither better nor worse by itself"}[step.better]
    low, high = (_change(end) if end is not None else "?" for end in (ratio.low, ratio.high))
    yield f"── step of {_change(ratio.value)} ({low} to {high}), {way}"
    if step.earliest != step.latest:
        first, last = history.entries[step.earliest], history.entries[step.latest]
        yield f"   the new level began with any session from {first.session} to {last.session} (95 %)"
    old, new = _around(history, step)
    changes = list(_changes(old, new))
    nothing = "" if changes else " nothing that is recorded"
    yield f"   changed from {old.session} to {new.session}:{nothing}"
    yield from (f"     {change}" for change in changes[:_MOST_CHANGES])
    if len(changes) > _MOST_CHANGES:
        yield f"     and {len(changes) - _MOST_CHANGES} more; --json has all"


def _around(history: History, step: Step) -> tuple[Entry, Entry]:
    """The last session that is surely of the old level and the first that surely is of the new one."""
    return history.entries[step.earliest - 1], history.entries[step.latest]


def _changes(old: Entry, new: Entry) -> Iterator[str]:
    """Facts that differ between two sessions and could have changed a number."""
    from assay import provenance

    for name in ("suite_digest", "assay_version"):
        a, b = ({getattr(result.run, name) for result in entry.results} for entry in (old, new))
        if a != b:
            yield f"{name} {'/'.join(sorted(a))} → {'/'.join(sorted(b))}"
    sides = [[r.provenance for r in entry.results if r.provenance is not None] for entry in (old, new)]
    for fact in provenance.differences(*sides):
        if fact.matters:
            yield f"{fact.name} {_values(fact.a)} → {_values(fact.b)}"


def _values(values: Sequence[Any]) -> str:
    return ", ".join("absent" if value is None else str(value) for value in values) or "unknown"


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.2g} %"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _plain(history: History) -> dict[str, Any]:
    from assay.analyse.history import FALSE_ALARM
    from assay.records import to_plain

    return {
        "suite": history.suite,
        "system": history.system,
        "point": to_plain(history.point),
        "false_alarm_rate": FALSE_ALARM,
        "spread": history.spread,
        "reason": history.reason,
        "dropped": history.dropped,
        "levels": [{"mean": level, "sessions": count} for level, count in history.levels],
        "sessions": [
            {"session": e.session, "at": e.at, "value": e.value, "runs": _ids(e.results)}
            for e in history.entries
        ],
        "steps": [_plain_step(history, step) for step in history.steps],
    }


def _plain_step(history: History, step: Step) -> dict[str, Any]:
    from assay.records import to_plain

    old, new = _around(history, step)
    return {
        "after": history.entries[step.after].session,
        "before": history.entries[step.before].session,
        "earliest": history.entries[step.earliest].session,
        "latest": history.entries[step.latest].session,
        "ratio": to_plain(step.ratio),
        "better": step.better,
        "compared": [old.session, new.session],
        "changes": list(_changes(old, new)),
    }


def _ids(results: Sequence[Result]) -> list[str]:
    return [result.run.id for result in results]
