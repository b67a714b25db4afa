"""`assay history`: a metric over sessions, and where it stepped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, SINCE, echo_json

if TYPE_CHECKING:
    from assay.report.sentences.history import AnnotatedHistory

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
    help="Also write it to this file as an HTML page.",
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
    from assay.questions.history import history

    histories = history(metric, suite=suite, benchmark=benchmark, system=system, since=since, runs=runs_dir)
    if as_json:
        from assay.questions.history import history_document

        echo_json(history_document(metric, histories))
    else:
        click.echo("\n\n".join("\n".join(_describe_history(annotated)) for annotated in histories))
    if report_file is not None:
        _write_report(histories, report_file)


def _write_report(histories: Sequence[AnnotatedHistory], file: Path) -> None:
    from assay.durable import deliver
    from assay.report.page import history as history_page

    deliver(
        file, history_page.html(histories, shlex.join(["assay", *sys.argv[1:]])).encode(), option="--report"
    )
    click.echo(f"Report: {file}", err=True)


def _describe_history(annotated: AnnotatedHistory) -> Iterator[str]:
    from assay.report import figures
    from assay.report.sentences import history as words

    history, entries = annotated.history, annotated.history.entries
    unit, texts = figures.column([entry.value for entry in entries], history.point.unit)
    yield f"{history.suite} · {history.system} · {words.place(history)}: {words.describe_sessions(history)}"
    bars = _bars([entry.value for entry in entries])
    steps = {step.before: index for index, step in enumerate(history.steps)}
    wide = max(map(len, texts))
    for index, (entry, text, bar) in enumerate(zip(entries, texts, bars, strict=True)):
        if index in steps:
            yield from (f"  {line}" for line in _step(annotated, steps[index]))
        runs = f"n = {len(entry.results)}"
        date = words.describe_date(entry)
        yield f"  {date:<16}  {text:>{wide}} {unit}  {bar:<{_BAR}}  {runs}  {entry.session}".rstrip()
    notes = (
        *words.swept(annotated),
        words.order_unknown(history),
        words.spread(history),
        words.dropped(history),
    )
    yield from (f"  {note}" for note in notes if note)


def _bars(values: Sequence[float]) -> list[str]:
    """From minimum to maximum; a scale that does not start at 0 is drawn as a position, not as a length."""
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    return [" " * round((value - low) / width * (_BAR - 1)) + "•" for value in values]


def _step(annotated: AnnotatedHistory, index: int) -> Iterator[str]:
    """What happened, where it may have happened, and what else changed there."""
    from assay.report.sentences import history as words

    history, step, changes = annotated.history, annotated.history.steps[index], annotated.changes[index]
    yield f"── {words.kind(step)} of {words.size(step)}, {words.way(step)}"
    if began := words.began(history, step):
        yield f"   {began}"
    old, new = words.around(history, step)
    yield f"   changed from {old.session} to {new.session}:{'' if changes else ' nothing on record'}"
    yield from (f"     {change}" for change in changes[:_MOST_CHANGES])
    if len(changes) > _MOST_CHANGES:
        yield f"     and {len(changes) - _MOST_CHANGES} more; --json lists all"
