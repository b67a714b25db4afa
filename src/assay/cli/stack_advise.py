"""`assay stack advise`: locked versions for a goal, each justified by what was observed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.cli.stack_diff import TO_MEASURE
from assay.cli.stack_list import day, session_names, some_of
from assay.cli.stack_show import doubt_lines, failure_lines
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE
from assay.units import counted

if TYPE_CHECKING:
    from assay.stacks.advice import Candidate
    from assay.stacks.advise import CandidateFigures, StackAdvice
    from assay.stacks.stack import Observation

_FILES = ("pylock.toml", "requirements.txt")
_MOST_SHOWN = 8


@click.command()
@click.argument("spec", nargs=-1, required=True)
@click.option(
    "--goal",
    type=click.Choice(["performance", "stable", "latest", "testing", "security"]),
    default="performance",
    show_default=True,
    help="What to choose for.",
)
@click.option("--workload", metavar="NAME", help="Whose figures decide. [default: the one observed most]")
@click.option(
    "--hardware",
    metavar="DIGEST",
    help="Class of hardware, as `list --json` has it. [default: this machine's]",
)
@click.option("--python", metavar="VERSION", help="Python of the target, such as 3.12. [default: this one]")
@click.option(
    "--platform", metavar="NAME", help="Platform of the target, as uv names it: x86_64-manylinux_2_28."
)
@click.option(
    "--advisories",
    metavar="PATH|index",
    help="Known vulnerabilities in the OSV format: all.zip, a folder, or a file. `index` asks uv's index.",
)
@click.option(
    "--max-age",
    "max_age_s",
    callback=options.duration,
    metavar="TIME",
    default="365d",
    show_default=True,
    help="Older observations are counted but don't decide.",
)
@options.MARGIN
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for pylock.toml and requirements.txt. [default: requirements.txt on standard output]",
)
@click.option(
    "--containerfile",
    is_flag=True,
    help="Also write a Containerfile with exactly this lock; `assay stack build` builds it.",
)
@click.option(
    "--base", metavar="NAME", help="Base of the Containerfile. [default: the first one with this Python]"
)
@options.RUNS
@options.JSON
def command(
    spec: tuple[str, ...],
    goal: str,
    workload: str | None,
    hardware: str | None,
    python: str | None,
    platform: str | None,
    advisories: str | None,
    max_age_s: float,
    margin: float | None,
    output: Path | None,
    containerfile: bool,
    base: str | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Lock the versions to install for a goal, with the reasons.

    SPEC is a requirements.txt, a pyproject.toml, or requirements such as 'torch>=2.8'. uv resolves them.
    Observed stacks that meet them on this hardware are compared, and only a verdict decides:

    \b
    performance  the fastest of those that are faster than the reference, else the reference: the
                 newest versions if they were measured, else the stack that was measured most
    stable       of those that worked in 2 sessions or more and are not slower, the one observed most
    latest       the newest versions; known failures are shown
    testing      the newest versions, pre-releases included
    security     the newest versions without a known vulnerability; needs --advisories

    \b
    Examples:
      assay stack advise 'torch>=2.8' numpy -o locked
      assay stack advise pyproject.toml --goal security --advisories all.zip -o locked
      assay stack advise pyproject.toml --python 3.12 -o locked --containerfile

    \b
    Exit codes: 0 advised, also if the newest versions were not measured, which the answer says and
    newest_measured in --json; 1 advised, although it has a known failure or vulnerability; 3 no figure of
    the workload decides: the versions are what an indicator predicts, or uv's choice; 4 no solution;
    5 no uv, or the index can't be reached.
    """
    from assay.cli.stack_progress import reading
    from assay.stacks.advise import advise_stack

    if (containerfile and output is None) or (base and not containerfile):
        raise click.UsageError("--containerfile needs -o DIRECTORY, and --base needs --containerfile")
    with reading() as progress:
        advice = advise_stack(
            spec,
            goal=goal,  # type: ignore[arg-type]  # click has checked it
            workload=workload,
            hardware=hardware,
            python=python,
            platform=platform,
            advisories=advisories,
            max_age_s=max_age_s,
            margin=margin,
            runs=runs_dir,
            progress=progress,
        )
    if output is not None:
        file = _containerfile(advice, output, base) if containerfile else None
        _write(advice, output, file)
    if as_json:
        options.echo_json(advice.document())
    else:
        from assay.view.terminal import printable

        for line in _describe_advice(advice):
            click.echo(printable(line), err=output is None)
        if output is None:
            click.echo(advice.requirements, nl=False)
    sys.exit(_exit_code(advice))


def _exit_code(advice: StackAdvice) -> int:
    if advice.known_failures or advice.vulnerable:
        return EXIT_WORSE
    return EXIT_UNDECIDED if advice.goal in ("performance", "stable") and not advice.decided else EXIT_OK


def _containerfile(advice: StackAdvice, directory: Path, base: str | None) -> str:
    from assay.stacks.containerfile import advised_containerfile

    return advised_containerfile(advice, str(directory / _FILES[0]), base=base).text


def _write(advice: StackAdvice, directory: Path, containerfile: str | None) -> None:
    from assay.durable import deliver, make_directory

    make_directory(directory)
    if containerfile is not None:
        deliver(directory / "Containerfile", containerfile.encode(), option="-o")
    for name, text in zip(_FILES, (advice.lock.pylock, advice.requirements), strict=True):
        deliver(directory / name, text.encode(), option="-o")


def _describe_advice(advice: StackAdvice) -> Iterator[str]:
    yield _headline(advice)
    for choice in advice.packages:
        why = "as measured" if choice.measured else "uv's choice, by no measurement"
        withdrawn = (
            f"; ! withdrawn by its author (yanked): {choice.yanked}" if choice.yanked is not None else ""
        )
        yield f"  {choice.name} {choice.version}: {why}{withdrawn}"
    yield from (f"  set {name}={value}, as it was measured" for name, value in advice.settings.items())
    if advice.chosen is not None and not advice.whole:
        yield "  ! only the required packages are as measured: not every other one can be installed so"
    yield ""
    yield from _reasons(advice)
    yield from _safety(advice)


def _headline(advice: StackAdvice) -> str:
    versions = ", ".join(f"{package.name} {package.version}" for package in advice.packages)
    if advice.indicator is not None:
        return (
            f"Predicted by an indicator, not measured: for {advice.goal} on {advice.hardware}, "
            f"install {versions}."
        )
    if advice.chosen is not None and not advice.decided:
        return (
            f"Measured, but not shown to be faster or slower than any other on {advice.hardware}: {versions}."
        )
    if advice.chosen is not None:
        return f"For {advice.goal} on {advice.hardware}, install {versions}."
    match advice.goal:
        case "performance" | "stable":
            what = "No measurement decides" if advice.evidence.candidates else "Nothing measured"
            return f"{what} on {advice.hardware}: uv's newest versions, not advice for {advice.goal}."
        case "security":
            return f"The newest versions without a known vulnerability: {versions}."
        case _:
            return f"The newest versions: {versions}."


def _reasons(advice: StackAdvice) -> Iterator[str]:
    evidence = advice.evidence
    if evidence.candidates:
        title = "" if evidence.series is None else evidence.series.title
        yield f"Measured with {title}; * no other is better in everything:"
        for candidate in advice.candidates[:_MOST_SHOWN]:
            yield from _candidate_lines(candidate, chosen=advice.chosen)
        more = len(advice.candidates) - _MOST_SHOWN
        if more > 0:
            yield f"  and {more} more: --json has all"
        if not evidence.latest and advice.goal == "performance":
            yield "The newest versions were not measured here: whether they are faster is unknown."
    else:
        yield "No observation of such a stack on this hardware."
    if evidence.foreign or evidence.stale or evidence.busy:
        left = (
            (evidence.foreign, "on other hardware"),
            (evidence.stale, "older than --max-age"),
            (evidence.busy, "while others used the CPUs"),
        )
        counts = " and ".join(f"{counted(n, 'observation')} {why}" for n, why in left if n)
        yield f"Not used: {counts}."
    for failure in evidence.broken[:_MOST_SHOWN]:
        yield "Known to fail, although the requirements allow it:"
        yield from _indented(failure)
    yield from _indicator_lines(advice)
    if not advice.decided:
        yield TO_MEASURE


def _indicator_lines(advice: StackAdvice) -> Iterator[str]:
    """Which indicator was used, and why the others weren't."""
    from assay.cli.stack_indicators import correlation, prediction_lines

    if advice.indicator is not None:
        prediction = advice.indicator
        yield f"{prediction.indicator.title} predicts {prediction.workload.title}: {correlation(prediction)}."
    elif advice.indicators and not advice.decided:
        yield f"Indicators of {advice.indicators[0].workload.title}:"
        yield from (f"  {line}" for line in prediction_lines(advice.indicators[:_MOST_SHOWN]))


def _candidate_lines(candidate_figures: CandidateFigures, chosen: Candidate | None) -> Iterator[str]:
    from assay.report import figures
    from assay.report.sentences.sentences import evidence, needed, questions
    from assay.units import human

    candidate = candidate_figures.candidate
    mark = "→" if chosen is not None and candidate.stack.digest == chosen.stack.digest else " "
    estimate = candidate.level.estimate
    unit, (value,) = figures.column([estimate.value], estimate.unit, [figures.half_width(estimate)])
    size = (
        "size unknown"
        if candidate_figures.size_bytes is None
        else human(float(candidate_figures.size_bytes), "B")
    )
    newest = (
        "age unknown"
        if candidate_figures.newest_at is None
        else f"newest package of {day(candidate_figures.newest_at)}"
    )
    parts = [f"{value} {unit}", size, newest, _memory(candidate)]
    if candidate_figures.advisories is not None:
        parts.append(counted(candidate_figures.advisories, "advisory").replace("advisorys", "advisories"))
    yield f"{mark}{'*' if candidate_figures.on_front else ' '} {candidate.name}: {'; '.join(parts)}"
    when = f"last observed {day(candidate.newest)}"
    sessions = f"{counted(candidate.level.runs, 'run')} in {counted(candidate.level.sessions, 'session')}"
    if candidate.comparison is None:
        yield f"     the reference; {sessions}, {when}"
    else:
        c = candidate.comparison
        (question,) = questions([c])
        verdict = f"{c.verdict} than the reference" if c.verdict in ("faster", "slower") else c.verdict
        yield f"     {verdict}: {figures.compared(c)}; {evidence(question)}; {when}"
        if c.verdict == "undecided" and c.ratio.low is not None:
            yield f"     why: {c.reason}"
            yield from (f"     {hint}" for hint in [needed([c])] if hint)
        if candidate.through:
            yield f"     never measured in one session: compared through {some_of(candidate.through)}"
        yield from doubt_lines(c.doubts, "       ")
    yield f"     sessions: {session_names(candidate.observations)}"
    for failure in candidate.failures[:2]:
        yield from _indented(failure)


def _memory(candidate: Candidate) -> str:
    from assay.units import human

    if candidate.memory is None:
        return "memory not measured"
    return f"largest process {human(candidate.memory.estimate.value, 'B')}"


def _safety(advice: StackAdvice) -> Iterator[str]:
    for failure in advice.known_failures:
        yield "! These versions are known to fail here:"
        yield from _indented(failure)
    if advice.excluded:
        yield f"Excluded as vulnerable: {', '.join(advice.excluded)}."
    if advice.vulnerable is None:
        yield "Vulnerabilities: not checked; --advisories names a database, or index."
        return
    for advisory in advice.vulnerable:
        fixed = f"; fixed in {', '.join(advisory.fixed)}" if advisory.fixed else ""
        names = ", ".join((advisory.id, *advisory.aliases))
        yield f"! vulnerable: {advisory.package} {advisory.version}: {names}: {advisory.summary}{fixed}"
    if not advice.vulnerable:
        yield "Vulnerabilities: none known."


def _indented(failure: Observation) -> Iterator[str]:
    yield from (f"     {line}" for line in failure_lines(failure))
