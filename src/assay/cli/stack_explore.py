"""`assay stack explore`: many stacks built and measured, and which is faster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE

if TYPE_CHECKING:
    from rich.table import Table

    from assay.stacks.explore import ExplorationResult, ExploredStack

_MOST_REASONS = 4


@click.command()
@click.argument("spec", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--max-stacks",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Stacks to try, besides the incumbent.",
)
@click.option(
    "--build-only",
    is_flag=True,
    help="Build and import the stacks, and measure nothing; the same command without it measures them.",
)
@options.MAX_TIME
@options.KEEP
@options.QUIET
@options.RUNS
@options.JSON
def command(
    spec: Path,
    max_stacks: int,
    build_only: bool,
    max_time: float | None,
    keep: bool,
    quiet: bool,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Build the stacks that SPEC allows, measure them, and find which is faster than the incumbent.

    uv resolves and installs each stack in a fresh environment. A few stacks at a time run in the same
    shuffled blocks as the incumbent, and poor ones are dropped early. The verdicts allow for the looks in
    between and for the number of stacks: the best of forty equal ones does not pass for better.

    A stopped exploration resumes with the same command, and a larger budget continues one that ended.
    Environments are removed when they are no longer needed; their locks are kept.

    \b
    Examples:
      assay stack explore numpy.yaml
      assay stack explore numpy.yaml --max-time 2h --max-stacks 40
      assay stack explore numpy.yaml --build-only

    \b
    Exit codes: 0 a stack is better than the incumbent beyond the margin; 3 none is shown to be;
    with --build-only, 0 all candidates were built, 1 some can't be;
    4 SPEC can't be used; 6 another process works on this exploration; 130 stopped; run again to resume.
    """
    from assay.cli.progress import teller
    from assay.stacks.explore import explore

    result = explore(
        spec,
        max_stacks=max_stacks,
        max_time_s=max_time,
        keep=keep,
        build_only=build_only,
        runs=runs_dir,
        progress=teller(quiet),
        say=(lambda _: None) if quiet else _say,
        command_line=("assay", *sys.argv[1:]),
    )
    if as_json:
        options.echo_json(result.document())
    else:
        _show(result)
    if result.build_only:
        sys.exit(EXIT_WORSE if any(candidate.failure for candidate in result.candidates) else EXIT_OK)
    sys.exit(EXIT_UNDECIDED if result.best is None else EXIT_OK)


def _say(line: str) -> None:
    from assay.view.terminal import printable

    click.echo(printable(line), err=True)


def _show(result: ExplorationResult) -> None:
    """What to do, then the table, then what failed."""
    from assay.cli.console import Console
    from assay.view.terminal import printable

    console = Console(highlight=False)
    console.print()
    for line in advice(result):
        console.print(printable(line), markup=False, soft_wrap=True)
    if any(candidate.comparison for candidate in result.candidates):
        console.print()
        console.print(_table(result))
    for candidate in result.candidates:
        if candidate.comparison is None:
            why = _without_figure(candidate, build_only=result.build_only)
            console.print(printable(f"{candidate.name}  {why}"), markup=False, soft_wrap=True)
    for line in reservations(result):
        console.print(printable(line), markup=False, soft_wrap=True)
    console.print(
        f"\nLocks, logs and the journal: {printable(str(result.folder))}", markup=False, soft_wrap=True
    )


def advice(result: ExplorationResult) -> Iterator[str]:
    """The answer, and how much of the space it rests on."""
    from assay.analyse.comparison.verdict import too_much
    from assay.units import counted, human_seconds

    best = result.best
    if result.build_only:
        built = sum(not candidate.failure for candidate in result.candidates)
        yield f"{built} of {counted(len(result.candidates), 'candidate')} can be installed and imported."
    elif best is None or best.comparison is None:
        beyond = f"beyond the margin of {result.margin:.3g}"
        yield f"No candidate is shown to be better than the incumbent {beyond}."
        measured = [
            candidate.comparison for candidate in result.candidates if candidate.comparison is not None
        ]
        if any(too_much(c.lost_to_others) for c in measured):
            yield "Others used the CPUs for too long: run it again on an idle machine, under another name."
    else:
        changes = ", ".join(_change(*pair) for pair in best.changes)
        yield f"Use {best.name} ({changes}): {_gain(best)}."
        yield f"Lock: {best.lock}"
    tried = f"{len(result.candidates)} of {result.possible - 1} possible stacks tried"
    ended = "as many as --max-stacks allows" if result.ended == "most stacks" else result.ended
    yield f"{tried} in {human_seconds(result.spent_s)}; {ended}. Incumbent: {result.incumbent}"


def reservations(result: ExplorationResult) -> Iterator[str]:
    """Why there is no verdict on the best of those that were not dropped, and each doubt once."""
    measured = [
        (candidate, candidate.comparison)
        for candidate in result.candidates
        if candidate.comparison is not None
    ]
    open_ = [
        (candidate, c) for candidate, c in measured if c.verdict == "undecided" and not candidate.dropped
    ]
    for candidate, c in open_[:_MOST_REASONS]:
        yield f"{candidate.name}  undecided: {c.reason}"
    if len(open_) > _MOST_REASONS:
        yield f"and {len(open_) - _MOST_REASONS} more are undecided: --json has the reasons"
    doubts = {doubt.code: doubt for _, c in reversed(measured) for doubt in c.doubts}
    yield from (f"doubt {doubt.code}: {doubt.evidence}" for doubt in doubts.values())


def _change(key: str, value: str) -> str:
    return f"{key[1:]}={value}" if key.startswith("$") else f"{key} {value}"


def _gain(candidate: ExploredStack) -> str:
    c = candidate.comparison
    if c is None:
        return "not measured"
    low, high = c.deciding.low, c.deciding.high
    interval = "no interval" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return f"{c.point.metric} × {c.ratio.value:.3f} ({interval})"


def _table(result: ExplorationResult) -> Table:
    from rich.table import Table

    from assay.view.terminal import printable

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("stack", "left"), ("ratio", "right"), ("interval", "left"), ("verdict", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("blocks", justify="right")
    table.add_column("differs from the incumbent in", overflow="fold")
    for candidate in result.candidates:
        c = candidate.comparison
        if c is None:
            continue
        low, high = c.deciding.low, c.deciding.high
        interval = "none" if low is None or high is None else f"{low:.3f} to {high:.3f}"
        verdict = c.verdict + (" (dropped)" if candidate.dropped else "")
        changes = printable(", ".join(_change(*pair) for pair in candidate.changes))
        table.add_row(
            candidate.name, f"{c.ratio.value:.3f}", interval, verdict, str(candidate.blocks), changes
        )
    return table


def _without_figure(candidate: ExploredStack, *, build_only: bool) -> str:
    if candidate.same_as:
        return f"same packages and settings as {candidate.same_as}: not measured again"
    if candidate.failure:
        return f"{candidate.failure}: {candidate.why[:300]} (log: {candidate.log})"
    if build_only:
        changes = ", ".join(_change(*pair) for pair in candidate.changes)
        return f"installed and imported: {changes}"
    return candidate.why or "not measured: the time was up"
