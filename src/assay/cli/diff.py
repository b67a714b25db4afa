"""`assay diff`: differences between the settings, the machines and the software of two runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.provenance import Fact
    from assay.questions.diff import Differences, RunMachines
    from assay.records import Scalar

ABSENT = "–"
_UNITS = {"_bytes": "B", "_hz": "Hz"}


@click.command()
@click.argument("a", metavar="RUN")
@click.argument("b", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Also show facts that are equal or only momentary.")
@options.RUNS
@options.JSON
def command(a: str, b: str, everything: bool, runs_dir: Path, as_json: bool) -> None:
    """Show the differences between two runs' settings, machines and software.

    What the user set comes first: environment, launcher and options of the systems, and the parameters of
    benchmarks that both sides have. Secrets are hidden, so two secrets may look equal.

    A reference may name several runs, and a run several nodes: a fact that is not the same in all of
    them varies, and all its values are shown. Which of many equal machines was used, and momentary facts
    (load, clocks, temperatures, free space), are listed separately and don't count as differences.

    \b
    Examples:
      assay diff quickstart:bare-metal quickstart:openshift
      assay diff acceptance/20260301-101500 acceptance       what changed since March
      assay diff a b --all                                   also equal facts

    \b
    Exit codes: 0 no relevant difference; 1 relevant differences;
    3 unknown: the runs of a side don't describe their machines; 4 no such run.
    """
    from assay.questions.diff import diff

    differences = diff(a, b, runs=runs_dir)
    if as_json:
        options.echo_json(differences.document(everything=everything))
    else:
        _show(differences, everything=everything)
    if not differences.known:
        sys.exit(EXIT_UNDECIDED)
    sys.exit(EXIT_WORSE if differences.matter else EXIT_OK)


def _show(differences: Differences, *, everything: bool) -> None:
    from assay.cli.console import Console

    console = Console(highlight=False)
    sides = (("A", differences.a), ("B", differences.b))
    for name, side in sides:
        console.print(f"{name}  {_described(side)}", soft_wrap=True, markup=False)
    if not differences.known:
        if settings := [fact for fact in differences.facts if everything or fact.differs]:
            console.print(_table(settings))
        silent = " and ".join(name for name, side in sides if not side.known)
        console.print(f"\nUnknown: no run of {silent} describes the machine it ran on.", soft_wrap=True)
        return
    shown = [fact for fact in differences.facts if everything or (fact.differs and fact.group != "momentary")]
    if shown:
        console.print(_table(shown))
    console.print(f"\n{_summary(differences.facts, everything=everything)}", soft_wrap=True)


def _described(side: RunMachines) -> str:
    nodes = {len(provenance.nodes) for provenance in side.known}
    parts = [f"{side.runs} run{'' if side.runs == 1 else 's'}"]
    if nodes and nodes != {1}:
        parts.append(f"{' or '.join(map(str, sorted(nodes)))} nodes each")
    if side.known and len(side.known) < side.runs:
        parts.append(f"{side.runs - len(side.known)} of them don't describe their machine")
    return f"{side.reference}  ({', '.join(parts)})"


def _table(facts: Sequence[Fact]) -> RenderableType:
    """Facts grouped under headings, with the values of both sides next to each other."""
    from rich.table import Table
    from rich.text import Text

    from assay.provenance import GROUPS
    from assay.report.folding import FoldedText

    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for heading in ("", "A", "B"):
        table.add_column(heading)
    for group, of_group in groupby(facts, key=lambda fact: fact.group):
        table.add_row("", "", "")
        table.add_row(Text(GROUPS[group], "bold"), "", "")
        for fact in of_group:
            left, right = texts(fact)
            style = "yellow" if fact.matters else ""
            table.add_row(FoldedText(f"  {fact.name}"), FoldedText(left, style), FoldedText(right, style))
    return table


def texts(fact: Fact) -> tuple[str, str]:
    """Both sides formatted for people; unrounded if rounding would hide a difference."""
    left, right = (_values(fact.name, values) for values in (fact.a, fact.b))
    if left == right and fact.differs:
        return _values("", fact.a), _values("", fact.b)
    return left, right


def _values(name: str, values: Sequence[Scalar]) -> str:
    from assay.units import human

    unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), None)
    texts = []
    for value in values:
        if value is None:
            texts.append(ABSENT)
        elif unit is not None and isinstance(value, int | float) and value >= 10**6:
            texts.append(human(value, unit))
        else:
            texts.append({True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value))
    return texts[0] if len(texts) == 1 else f"varies: {' | '.join(texts)}"


def _summary(facts: Sequence[Fact], *, everything: bool) -> str:
    mattering = sum(fact.matters for fact in facts)
    equal = sum(not fact.differs for fact in facts)
    momentary = sum(fact.differs and fact.group == "momentary" for fact in facts)
    parts = [
        f"{mattering} {'fact differs' if mattering == 1 else 'facts differ'}"
        if mattering
        else "No relevant difference",
        f"{equal} are equal",
    ]
    if momentary:
        parts.append(f"{momentary} differ only momentarily")
    return ", ".join(parts) + ("." if everything else "; --all shows every fact.")
