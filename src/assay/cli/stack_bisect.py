"""`assay stack bisect`: which change between two stacks made it slower, or made it fail."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import named_values, options
from assay.errors import EXIT_OK, EXIT_UNDECIDED

if TYPE_CHECKING:
    from assay.stacks.bisect import BisectedLine, BisectionResult, BisectPlan
    from assay.stacks.bisect_search import Confirmation, Culprit, SpeedEffect

_DAY = click.DateTime(["%Y-%m-%d"])
_MOST_NAMES = 12


@click.command()
@click.argument("good")
@click.argument("bad", required=False)
@click.option(
    "--measure",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    metavar="SUITE",
    help="A suite's file: what each stack runs.",
)
@click.option(
    "--between",
    type=(_DAY, _DAY),
    metavar="DAY DAY",
    help="Bisect the days on which GOOD, any requirement file, resolves to other versions.",
)
@click.option(
    "--error",
    type=click.FloatRange(0.001, 0.2),
    default=0.05,
    show_default=True,
    help="Probability with which a named change may be wrong.",
)
@options.MARGIN
@click.option(
    "--max-repeats",
    type=click.IntRange(3, 200),
    default=20,
    show_default=True,
    help="Most blocks in which the good and the bad stack are compared.",
)
@click.option(
    "--max-stacks",
    type=click.IntRange(2, 10_000),
    default=100,
    show_default=True,
    help="Stacks to build at most.",
)
@options.MAX_TIME
@click.option("--good-python", metavar="PYTHON", help="Version or path. [default: the stack's, or Assay's]")
@click.option("--bad-python", metavar="PYTHON", help="The same of the bad stack.")
@click.option(
    "--good-env",
    multiple=True,
    callback=named_values.variables,
    metavar="NAME=VALUE",
    help="A variable of the good stack; may be repeated.",
)
@click.option(
    "--bad-env",
    multiple=True,
    callback=named_values.variables,
    metavar="NAME=VALUE",
    help="The same of the bad stack.",
)
@click.option(
    "--wheels",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A directory with wheels of your own, besides the index.",
)
@click.option("--offline", is_flag=True, help="Use no index, only --wheels.")
@click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="MODULE",
    help="A module that a stack must be able to import.",
)
@click.option(
    "--system",
    default="local",
    show_default=True,
    metavar="NAME",
    help="Where to run: a system of --systems.",
)
@click.option(
    "--systems",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="File with that system. [default: systems.yaml next to the suite]",
)
@click.option("--name", help="Name of the bisection, and of the suite that its sessions are of.")
@click.option("--plan", "plan_only", is_flag=True, help="Show the plan, build nothing.")
@options.KEEP
@options.QUIET
@options.RUNS
@options.JSON
def command(
    good: str,
    bad: str | None,
    measure: Path,
    between: tuple[datetime, datetime] | None,
    error: float,
    margin: float | None,
    max_repeats: int,
    max_stacks: int,
    max_time: float | None,
    good_python: str | None,
    bad_python: str | None,
    good_env: dict[str, str],
    bad_env: dict[str, str],
    wheels: tuple[Path, ...],
    offline: bool,
    imports: tuple[str, ...],
    system: str,
    systems: Path | None,
    name: str | None,
    plan_only: bool,
    keep: bool,
    quiet: bool,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Find the change that made the stack BAD slower than GOOD, or made it fail.

    GOOD and BAD each name a stack: a file with exact versions (pylock.toml, requirements.txt), or one that
    runs have observed, by its digest or by those runs. uv builds stacks between the two. Each is measured in
    the same shuffled blocks as both, until one change is responsible with the stated probability. Stacks
    without and with it are then built again several times, to confirm that it is not the build. If that
    change alone is not enough, the others that it needs are found too. Then the versions of the package
    between its two are bisected.

    A stopped bisection resumes with the same command.

    \b
    Examples:
      assay stack bisect good.txt bad.txt --measure suite.yaml
      assay stack bisect good.txt bad.txt --measure suite.yaml --plan
      assay stack bisect requirements.txt --between 2026-01-01 2026-03-01 --measure suite.yaml

    \b
    Exit codes: 0 the change is found; 3 none can be named, or others used the CPUs for too long;
    4 the stacks can't be bisected; 6 another process works on this bisection;
    130 stopped; run again to resume.
    """
    from assay.cli.progress import teller
    from assay.records import DEFAULT_MARGIN
    from assay.stacks.bisect import bisect_stacks
    from assay.stacks.bisect_lines import BisectLimits, BisectRequest

    request = BisectRequest(
        good,
        measure,
        bad,
        None if between is None else (between[0].date(), between[1].date()),
        name,
        (good_python, bad_python),
        (good_env, bad_env),
        wheels,
        offline,
        imports,
        system,
        systems,
    )
    width = DEFAULT_MARGIN if margin is None else margin

    def planned(plan: BisectPlan) -> bool:
        if plan_only and as_json:
            options.echo_json(plan.document())
        elif plan_only or not quiet:
            for line in plan_lines(plan):
                _say(line)
        return not plan_only

    result = bisect_stacks(
        request,
        BisectLimits(error, width, max_repeats, max_stacks, max_time),
        keep=keep,
        runs=runs_dir,
        progress=teller(quiet),
        say=(lambda _: None) if quiet else _say,
        planned=planned,
        command_line=("assay", *sys.argv[1:]),
    )
    if result is None:
        sys.exit(EXIT_OK)
    if as_json:
        options.echo_json(result.document())
    else:
        from assay.view.terminal import printable

        for line in answer(result):
            click.echo(printable(line))
    sys.exit(EXIT_OK if result.decided else EXIT_UNDECIDED)


def _say(line: str) -> None:
    from assay.view.terminal import printable

    click.echo(printable(line), err=True)


def plan_lines(plan: BisectPlan) -> Iterator[str]:
    """What will be bisected."""
    from assay.units import counted

    changes = counted(len(plan.names), "change")
    yield f"{plan.name}: {plan.what}: {changes}, at least {plan.at_least} stacks to build"
    for name in plan.names[:_MOST_NAMES]:
        yield f"  {name}"
    if len(plan.names) > _MOST_NAMES:
        yield f"  … and {len(plan.names) - _MOST_NAMES} more"
    for change in plan.fixed:
        yield f"  not changed here: {change}"


def answer(result: BisectionResult) -> Iterator[str]:
    """What is responsible, the evidence, and what to do."""
    from assay.units import human_seconds

    for line in result.lines:
        yield from _line(line, result)
        yield ""
    builds = sum(line.builds for line in result.lines)
    yield f"{builds} stacks built between the ends, {human_seconds(result.spent_s)}"
    yield f"Locks and logs: {result.plan.folder}"


_ENDS = {
    "equal": "The two stacks are equally fast within the margin: there is nothing to find.",
    "no difference": "No difference is shown; raise --max-repeats, or measure something that runs longer.",
    "better": "The bad stack is faster than the good one; swap them to find out why.",
    "good fails": "GOOD fails where BAD works: swap them to find out why, or look at the logs of its runs.",
    "too few figures": "The two stacks gave no figure in the same blocks; look at the logs of their runs.",
    "undecided": "No change can be named.",
    "time is up": "The budget is spent; run it again with a larger one to resume.",
}


def _line(line: BisectedLine, result: BisectionResult) -> Iterator[str]:
    from assay.analyse.comparison.verdict import lost_as_text

    search = line.search
    if line.too_busy and line.ends is not None:
        yield f"No verdict: {lost_as_text(line.ends.lost_to_others, ('GOOD', 'BAD'))}."
        yield "Give another --name, and run it again on an idle machine. What the runs suggest:"
    if search.ended != "found":
        yield f"{line.what}: {_ENDS[search.ended]}"
        if search.ended in ("undecided", "time is up"):
            yield from _likeliest(line)
    if search.doubtful is not None:
        yield from _doubtful(line, search.doubtful)
    for number, culprit in enumerate(search.culprits):
        yield from _culprit(line, number, culprit, result)
    if search.whole is not None:
        yield f"  BAD relative to GOOD, one build of each: {_times(search.whole)}"
    if search.reverted is not None:
        yield f"  BAD without it, one build of each: {_reverted(search.reverted)}"
    if search.culprits and search.culprits[-1].explains is False:
        yield "  More changes are responsible than were found."
    for name, why in line.unbuildable[:_MOST_NAMES]:
        yield f"  not built: {name}: {why[:200]}"
    for doubt in line.ends.doubts if line.ends else ():
        yield f"  doubt {doubt.code}: {doubt.evidence}"
    if line.then:
        yield f"  {line.then}"


def _culprit(line: BisectedLine, number: int, culprit: Culprit, result: BisectionResult) -> Iterator[str]:
    names = " or ".join(line.names[change] for change in culprit.changes)
    kind = "fail" if line.search.kind == "fails" else "slower"
    makes = "may make" if line.too_busy else "makes"
    role = f"{makes} it {kind}" if number == 0 else "is needed for it, or adds to it"
    sure = "more than 99.9 %" if culprit.probability > 0.999 else f"{100 * culprit.probability:.1f} %"
    if culprit.probability < 1 - result.error:
        sure = "the only stacks that can be built"
    yield f"{names} {role} ({sure})"
    if len(culprit.changes) > 1:
        yield "  No stack that can be built separates these."
    if culprit.confirmed is not None:
        yield f"  confirmed: {_built_again(culprit.confirmed)}"
    if culprit.effect is not None:
        yield f"  GOOD with it, one build of each: {_times(culprit.effect)}"
    if culprit.fails is not None:
        yield f"  GOOD with it {'fails too' if culprit.fails else 'does not fail: it needs another change'}"
    if culprit.effect is None and culprit.fails is None and line.search.settings.alone:
        yield "  GOOD with only this change could not be measured, so it may need others."


def _likeliest(line: BisectedLine) -> Iterator[str]:
    ranked = sorted(line.search.probabilities.items(), key=lambda pair: -pair[1])
    for change, probability in ranked[:5]:
        yield f"  {100 * probability:.0f} %  {line.names[change]}"


def _doubtful(line: BisectedLine, culprit: Culprit) -> Iterator[str]:
    """Why the likeliest change is not named, and what to do."""
    from assay.units import counted

    names = " or ".join(line.names[change] for change in culprit.changes)
    confirmed = culprit.confirmed
    if confirmed is None:
        yield f"  not confirmed: {names}: stacks built again without and with it gave no figures"
        return
    yield f"  not confirmed: {names}: {_built_again(confirmed)}"
    if confirmed.equal(math.log1p(line.search.settings.margin)) or confirmed.needed is None:
        yield "  The measured difference is one of builds, or it is spread over many small changes."
        return
    builds = counted(confirmed.needed, "build")
    yield f"  To show an effect this large among builds that differ this much takes about {builds} of each."


def _built_again(confirmation: Confirmation) -> str:
    """What new builds say of a change."""
    differ = 100 * math.expm1(confirmation.spread)
    return (
        f"with it {_times(confirmation.effect)}, each stack built again {confirmation.builds} times; "
        f"builds of one stack differ by {differ:.2g} % (standard deviation)"
    )


def _times(effect: SpeedEffect) -> str:
    low, middle, high = (math.exp(log) for log in (effect.low, effect.log, effect.high))
    return f"× {middle:.3f} ({low:.3f} to {high:.3f})"


def _reverted(reverted: SpeedEffect | bool) -> str:
    if isinstance(reverted, bool):
        return "fails all the same" if reverted else "does not fail"
    return f"{_times(reverted)} of GOOD"
