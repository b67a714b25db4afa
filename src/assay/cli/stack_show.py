"""`assay stack show`: what is known of one stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.cli.stack_list import day, session_names
from assay.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from assay.records import Doubt
    from assay.stacks.known import KnownLevel, KnownStack
    from assay.stacks.stack import Observation


@click.command()
@click.argument("stack")
@click.option("--all", "everything", is_flag=True, help="Also show every metric, and the builds of packages.")
@options.RUNS
@options.JSON
def command(stack: str, everything: bool, runs_dir: Path, as_json: bool) -> None:
    """Show what is known of STACK: the beginning of its digest, or runs that have it.

    Its software, then each figure with its interval, sessions and doubts, and each failure with its logs.

    \b
    Examples:
      assay stack show 3f9a
      assay stack show quickstart:here --all
    """
    from assay.cli.stack_progress import reading
    from assay.stacks.known import show_stack

    with reading() as progress:
        known_stack = show_stack(stack, runs=runs_dir, progress=progress)
    if as_json:
        options.echo_json(known_stack.document())
        return
    from assay.view.terminal import printable

    for line in _describe_stack(known_stack, everything=everything):
        click.echo(printable(line))


def _describe_stack(known_stack: KnownStack, *, everything: bool) -> Iterator[str]:
    stack = known_stack.stack
    yield f"{stack.digest}  {known_stack.title}"
    yield from _table("System", stack.system)
    yield from _table("Settings", stack.settings)
    yield from _table("Packages", {n: _version(n, v, stack.builds) for n, v in stack.packages.items()})
    if everything:
        yield from _table("Builds", stack.builds)
    for level in known_stack.levels:
        if level.primary or everything:
            yield ""
            yield from level_lines(level)
    for failure in known_stack.failures:
        yield ""
        yield from failure_lines(failure)


def _table(heading: str, entries: Mapping[str, object]) -> Iterator[str]:
    if entries:
        yield ""
        yield heading
        wide = max(map(len, entries))
        yield from (f"  {name:{wide}}  {value}" for name, value in entries.items())


def _version(name: str, version: str, builds: Mapping[str, str]) -> str:
    """The version, and what its build adds to it: `2.8.0 +cu128`."""
    build = builds.get(name, "").partition(" ")[0]
    return f"{version} {build}" if build.startswith("+") else version


def level_lines(level: KnownLevel) -> Iterator[str]:
    """One figure, what it rests on, and its doubts."""
    from assay.report import figures

    estimate = level.level.estimate
    unit, (value,) = figures.column([estimate.value], estimate.unit, [figures.half_width(estimate)])
    labels = figures.labels(level.metric.labels)
    yield f"{level.workload.workload} {level.workload.shape} on {level.hardware}"
    ends = ""
    if estimate.low is not None and estimate.high is not None:
        _, (low, high) = figures.column([estimate.low, estimate.high], estimate.unit)
        ends = f" (95 %: {low} to {high})"
    yield f"  {level.metric.name} {labels}".rstrip() + f": {value} {unit}{ends}"
    first, last = level.observations[0].at, level.observations[-1].at
    when = day(first) if day(first) == day(last) else f"{day(first)} to {day(last)}"
    sessions = counted(level.level.sessions, "session")
    yield f"  {counted(level.level.runs, 'run')} in {sessions}, {when}"
    yield f"  sessions: {session_names(level.observations)}"
    if level.level.sessions == 1:
        yield "  one session: another day may differ by more than the interval"
    yield from doubt_lines(
        (doubt for observation in level.observations for doubt in observation.doubts), "  "
    )


def doubt_lines(doubts: Iterable[Doubt], indent: str) -> Iterator[str]:
    """Each code once, with its first evidence and how often it was raised."""
    by_code: dict[str, list[Doubt]] = {}
    for doubt in doubts:
        by_code.setdefault(doubt.code, []).append(doubt)
    for code, raised in by_code.items():
        again = f" (and {len(raised) - 1} more)" if len(raised) > 1 else ""
        yield f"{indent}! {code}: {raised[0].evidence}{again}"


def failure_lines(failure: Observation) -> Iterator[str]:
    """What failed, why, and where its logs are."""
    workload = "" if failure.workload is None else f" ({failure.workload.workload} {failure.workload.shape})"
    yield f"{failure.failure}{workload} on {failure.hardware}, {day(failure.at)}"
    yield from (f"  {line}" for line in failure.why.splitlines()[:4])
    if failure.log:
        yield f"  logs: {failure.log}"
