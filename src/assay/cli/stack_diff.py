"""`assay stack diff`: what differs between two stacks, and what is known of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.cli.stack_list import day
from assay.cli.stack_show import doubt_lines, failure_lines
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE
from assay.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.stacks.diff import ChangeKnowledge, KnownEffect, StackDifferences
    from assay.stacks.stack import Change

_EXITS = {"fails": EXIT_WORSE, "slower": EXIT_WORSE, "undecided": EXIT_UNDECIDED, "unknown": EXIT_UNDECIDED}
_MOST_OTHERS = 6
TO_MEASURE = "To measure them here: assay stack explore FILE; docs/how-to/stack-explore.md shows the file."


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.MARGIN
@options.RUNS
@options.JSON
def command(a: str, b: str, margin: float | None, runs_dir: Path, as_json: bool) -> None:
    """Show what differs between the stacks A and B, and what is known of each difference.

    A and B each name a stack: the beginning of its digest, runs that have it, or a file with exact versions
    (pylock.toml, requirements.txt, the output of `pip freeze`).

    What is known comes from runs of this directory and from trusted bundles: pairs of stacks that were
    measured in the same sessions and differ in the same way. If other things changed with it, the effect is
    of all of them together.

    \b
    Examples:
      assay stack diff quickstart:here quickstart:updated
      assay stack diff requirements.txt pylock.toml

    \b
    Exit codes: 0 B is as fast as A or faster; 1 slower, or known to fail;
    3 undecided, or nothing is known; 4 no such stack.
    """
    from assay.cli.stack_progress import reading
    from assay.stacks.diff import diff_stacks

    with reading() as progress:
        stack_differences = diff_stacks(a, b, margin=margin, runs=runs_dir, progress=progress)
    if as_json:
        options.echo_json(stack_differences.document())
    else:
        from assay.view.terminal import printable

        for line in _describe_differences(stack_differences):
            click.echo(printable(line))
    sys.exit(_EXITS.get(stack_differences.verdict, EXIT_OK) if stack_differences.changes else EXIT_OK)


def _describe_differences(stack_differences: StackDifferences) -> Iterator[str]:
    yield _headline(stack_differences)
    for name, side in (("A", stack_differences.a), ("B", stack_differences.b)):
        yield f"{name}  {side.reference}: {side.title}"
    for name, side in (("A", stack_differences.a), ("B", stack_differences.b)):
        for failure in side.failures:
            yield f"\n{name} is known to fail:"
            yield from (f"  {line}" for line in failure_lines(failure))
    if stack_differences.together:
        yield "\nAll changes together"
        for effect in stack_differences.together:
            yield from effect_lines(effect)
    for change in stack_differences.changes:
        yield ""
        yield from _change_lines(change)


def _headline(stack_differences: StackDifferences) -> str:
    if not stack_differences.changes:
        return "The two stacks are equal."
    number = counted(len(stack_differences.changes), "change")
    match stack_differences.verdict:
        case "fails":
            return f"{number}: B is known to fail."
        case "unknown":
            return f"{number}: not measured on this hardware. {TO_MEASURE}"
        case "undecided":
            return f"{number}: whether B is as fast as A is undecided."
        case "equivalent":
            return f"{number}: B is as fast as A."
        case verdict:
            return f"{number}: B is {verdict} than A."


def _change_lines(known: ChangeKnowledge) -> Iterator[str]:
    brings = f" (with {counted(len(known.brings), 'library').replace('librarys', 'libraries')} of it)"
    yield f"{known.change}{brings if known.brings else ''}"
    if not known.effects:
        yield "  not measured: no session has both"
    for effect in known.effects:
        yield from effect_lines(effect)


def effect_lines(effect: KnownEffect) -> Iterator[str]:
    """The verdict with its interval, what it rests on, what else changed, and the doubts."""
    from assay.report.sentences.sentences import answer, evidence, needed, questions

    (question,) = questions([effect.comparison])
    yield f"  {answer(question)}"
    where = f"on {effect.hardware}" + ("" if effect.here else " (other hardware: not used)")
    when = day(effect.oldest)
    when += "" if day(effect.newest) == when else f" to {day(effect.newest)}"
    others = len(effect.origins - {""})
    source = (
        f", {counted(others, 'other party').replace('partys', 'parties')} among the sources" if others else ""
    )
    yield f"    {where}; {when}{source}; {evidence(question)}"
    if effect.comparison.family is not None and effect.comparison.verdict == "undecided":
        yield f"    why: {effect.comparison.reason}"
    if effect.comparison.verdict == "undecided" and (hint := needed([effect.comparison])):
        yield f"    {hint}"
    if effect.set_aside:
        aside = counted(effect.set_aside, "session")
        yield f"    not used: {aside} that measured more stacks, among which this pair may have been chosen"
    if effect.others:
        yield f"    confounded: the effect is of all these together: {_listed(effect.others)}"
    yield from doubt_lines(effect.comparison.doubts, "    ")


def _listed(changes: Sequence[Change]) -> str:
    more = len(changes) - _MOST_OTHERS
    return "; ".join(map(str, changes[:_MOST_OTHERS])) + (f"; and {more} more" if more > 0 else "")
