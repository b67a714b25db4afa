"""`assay history`: a metric over sessions, and where it stepped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, SINCE, echo_json

if TYPE_CHECKING:
    from assay.analyse.history import LevelShift
    from assay.report.sentences.history import AnnotatedHistory, FactChange

_BAR = 24  # characters of the widest bar
_MOST_CHANGES = 12


@click.command()
@click.argument("metric")
@click.option("--suite", help="Only this suite or imported set.")
@click.option("--benchmark", help="Only this benchmark.")
@click.option("--system", help="Only this system.")
@SINCE
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write it as one HTML page there, too.",
)
@RUNS
@JSON
def command(
    metric: str,
    suite: str | None,
    benchmark: str | None,
    system: str | None,
    since: float | None,
    report_file: Path | None,
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
      assay history throughput --suite nightly --since 90d --report throughput.html
      assay history busbw --benchmark allreduce --system dgx-openshift --json
    """
    from assay.api.histories import history

    found = history(metric, suite=suite, benchmark=benchmark, system=system, since=since, runs=runs_dir)
    if as_json:
        echo_json(
            {"schema": "assay.history/1", "metric": metric, "histories": [_plain(one) for one in found]}
        )
    else:
        click.echo("\n\n".join("\n".join(_lines(one)) for one in found))
    if report_file is not None:
        _write_report(found, report_file)


def _write_report(found: Sequence[AnnotatedHistory], file: Path) -> None:
    from assay.durable import deliver
    from assay.report.page import history as history_page

    deliver(file, history_page.html(found, shlex.join(["assay", *sys.argv[1:]])).encode())
    click.echo(f"Report: {file}", err=True)


# Text ----------------------------------------------------------------------------------------------------


def _lines(one: AnnotatedHistory) -> Iterator[str]:
    from assay.report import figures
    from assay.report.sentences import history as words

    history, entries = one.history, one.history.entries
    unit, texts = figures.column([entry.value for entry in entries], history.point.unit)
    yield f"{history.suite} · {history.system} · {words.place(history)}: {words.found(history)}"
    bars = _bars([entry.value for entry in entries])
    steps = {step.before: at for at, step in enumerate(history.steps)}
    wide = max(map(len, texts))
    for at, (entry, text, bar) in enumerate(zip(entries, texts, bars, strict=True)):
        if at in steps:
            yield from (f"  {line}" for line in _step(one, steps[at]))
        runs = f"n = {len(entry.results)}"
        made = words.made(entry)
        yield f"  {made:<16}  {text:>{wide}} {unit}  {bar:<{_BAR}}  {runs}  {entry.session}".rstrip()
    notes = (words.order_unknown(history), words.spread(history), words.dropped(history))
    yield from (f"  {note}" for note in notes if note)


def _bars(values: Sequence[float]) -> list[str]:
    """From the least to the most; a scale that does not begin at 0 is drawn as a place, not as a length."""
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    return [" " * round((value - low) / width * (_BAR - 1)) + "•" for value in values]


def _step(one: AnnotatedHistory, at: int) -> Iterator[str]:
    """What happened, where it may have, and what else changed there."""
    from assay.report.sentences import history as words

    history, step, changes = one.history, one.history.steps[at], one.changes[at]
    yield f"── step of {words.size(step)}, {words.way(step)}"
    if began := words.began(history, step):
        yield f"   {began}"
    old, new = words.around(history, step)
    yield f"   changed from {old.session} to {new.session}:{'' if changes else ' nothing that is recorded'}"
    yield from (f"     {change}" for change in changes[:_MOST_CHANGES])
    if len(changes) > _MOST_CHANGES:
        yield f"     and {len(changes) - _MOST_CHANGES} more; --json has all"


# JSON ----------------------------------------------------------------------------------------------------


def _plain(one: AnnotatedHistory) -> dict[str, Any]:
    from assay.analyse.history import FALSE_ALARM
    from assay.records import to_plain

    history = one.history
    return {
        "suite": history.suite,
        "system": history.system,
        "point": to_plain(history.point),
        "false_alarm_rate": FALSE_ALARM,
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
            }
            for e in history.entries
        ],
        "steps": [
            _plain_step(one, step, changes) for step, changes in zip(history.steps, one.changes, strict=True)
        ],
    }


def _plain_step(one: AnnotatedHistory, step: LevelShift, changes: Sequence[FactChange]) -> dict[str, Any]:
    from assay.records import to_plain
    from assay.report.sentences.history import around

    entries = one.history.entries
    return {
        "after": entries[step.after].session,
        "before": entries[step.before].session,
        "earliest": entries[step.earliest].session,
        "latest": entries[step.latest].session,
        "ratio": to_plain(step.ratio),
        "better": step.better,
        "compared": [entry.session for entry in around(one.history, step)],
        "changes": list(map(str, changes)),
    }
