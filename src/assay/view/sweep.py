"""A sweep of nodes as blocks: what is slow, nodes and pairs as tables and heat maps, how to keep jobs off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.analyse.sweeps.nodes import BORNE, BaselineChange, Ring
from assay.analyse.sweeps.slow_parts import Pair, called
from assay.analyse.sweeps.verdicts import Nodes, Pairs, SweepVerdicts
from assay.version import __version__
from assay.view import figures
from assay.view.blocks import (
    Block,
    Bullets,
    Chart,
    Claim,
    Claims,
    Heading,
    Lead,
    Paragraph,
    Table,
    TableBody,
    TableRow,
    Tone,
    Verbatim,
    facts_of,
)
from assay.view.charts import sweep as charts
from assay.view.contents import Failure, Recipe
from assay.view.document import document
from assay.view.report import failures_section, recipes_section, without_result
from assay.view.sentences import sweep as sweep_words
from assay.view.sentences.sweep import in_order

MOST_ROWS = 2_000  # of a table; the slowest come first
_MOST_COLUMNS = 10  # of the matrix with three decimals and names: 80 characters
_MOST_NUMBERED = 24  # nodes of the matrix in percent; the page has no limit
_SHADES: Sequence[tuple[float, Tone]] = (  # from this ratio up
    (0.97, ""), (0.9, "undecided"), (0.75, "biased"), (0.0, "slower"),
)  # fmt: skip
_BASELINE = "its own baseline"
_OTHERS = "the median healthy pair"
FOOTER = (
    f"Made by Assay {__version__}. Each node counts once, with the median of its runs. The limit for healthy "
    "nodes comes from the spread of all nodes and from the fast side, so that at most 5 % of sweeps over "
    "healthy nodes report one as slow. A slow link is slow between its two ends, both of which are fast with "
    "another partner; a slow node is slow with its partners, at most one in ten excepted."
)


@dataclass(frozen=True)
class SweepReport:
    """One sweep, judged.

    title       which sweep
    runs        the runs it is about, including failed and unfinished ones
    about       times and the like, as (name, value) pairs
    unfinished  those of them that have not ended
    keep_off    a way to keep jobs off → its commands and the commands that revert them
    """

    title: str
    verdicts: SweepVerdicts
    runs: int
    about: Sequence[tuple[str, str]]
    keep_off: Mapping[str, str] = field(default_factory=dict)
    failures: Sequence[Failure] = ()
    unfinished: int = 0
    recipes: Sequence[Recipe] = ()

    @property
    def judged(self) -> bool:
        """Whether anything could have been identified."""
        pairs = self.verdicts.pairs
        paired = pairs is not None and bool(pairs.changes or pairs.blame.link_loss is not None)
        return paired or any(measurement.judged for measurement in self.verdicts.nodes)

    def blocks(self) -> Iterator[Block]:
        """What is slow first; a section for each part."""
        verdicts = self.verdicts
        yield Lead(sweep_words.lead(verdicts, judged=self.judged))
        yield facts_of(self.about)
        yield Heading("Verdicts", "verdicts")
        if slow := slow_parts(verdicts):
            yield Claims(slow)
        yield Bullets(tuple(_notes(verdicts)))
        yield from without_result(len(self.failures), self.unfinished, self.runs)
        yield Heading("Heat maps", "maps")
        yield from _charts(verdicts)
        if self.keep_off:
            yield Heading("How to keep jobs off", "keep-off")
            yield Paragraph("Assay ran none of these commands. The lines after `#` revert them.")
        for does, commands in self.keep_off.items():
            yield from (Heading(does), Verbatim(commands))
        yield Heading("Numbers", "numbers")
        yield from _nodes_table(verdicts)
        if verdicts.pairs is not None:
            yield _pairs_table(verdicts.pairs)
        yield from _rings_table(verdicts.rings)
        yield from failures_section(self.failures)
        yield from recipes_section(self.recipes)

    def html_page(self) -> str:
        """The complete page."""
        return document(self.title, "Assay sweep", self.blocks(), footer=FOOTER)

    def plain(self) -> dict[str, Any]:
        """The answers as plain data, for `--json`."""
        return {
            "runs": self.runs,
            "failed": len(self.failures),
            "unfinished": self.unfinished,
            "answers": [
                {"verdict": claim.verdict, "sentence": f"{claim.sentence}: {claim.evidence}"}
                for claim in slow_parts(self.verdicts)
            ],
        }


def findings(verdicts: SweepVerdicts) -> Iterator[Block]:
    """The same as far as it fits a terminal: nodes, the pairs as a matrix, rings, then what is slow."""
    yield from _nodes_table(verdicts)
    if verdicts.pairs is not None:
        yield from pair_blocks(verdicts.pairs)
    yield from _rings_table(verdicts.rings)
    if notes := _notes(verdicts):
        yield Bullets(tuple(notes))
    if slow := slow_parts(verdicts):
        yield Claims(slow)


def slow_parts(verdicts: SweepVerdicts) -> tuple[Claim, ...]:
    """Kind, name and details of everything that is slow."""
    named_nodes = sweep_words.told_apart(verdicts.nodes, verdicts.pairs, verdicts.hosts)
    parts = [("node", node, part) for node, part in named_nodes]
    if verdicts.pairs is not None:
        parts += [
            (kind, sweep_words.name(kind, slow), sweep_words.details(kind, slow, verdicts.pairs))
            for kind, slow in sweep_words.blamed(verdicts.pairs.blame)
            if kind != "node"
        ]
    parts += [
        (
            "ring",
            ring.name,
            f"{figures.ratio(ring.ratio)} of its slowest pair: the cause is what its links share",
        )
        for ring in verdicts.rings
        if ring.slower and ring.ratio is not None
    ]
    return tuple(Claim("slower", f"slow {kind}", "▼", who, what) for kind, who, what in parts)


def _notes(verdicts: SweepVerdicts) -> list[str]:
    """What each measurement could have found, and what remains unknown."""
    before = f"each compared with its baseline; {sweep_words.slower_than_before(verdicts.margin)}"
    notes = [
        f"{measurement.point.benchmark}: "
        + (before if measurement.changes else "; ".join(sweep_words.about(measurement.crowd)))
        for measurement in verdicts.nodes
    ]
    if verdicts.pairs is not None:
        notes += [f"pairs: {before}"] * bool(verdicts.pairs.changes)
        notes += [f"pairs: {line}" for line in verdicts.pairs.blame.untold]
    if verdicts.rings:
        slow = f"slow by more than {figures.percent(BORNE)}"
        notes.append(f"rings: {slow}; all intervals hold together with 95 % confidence")
    return notes


def _charts(verdicts: SweepVerdicts) -> Iterator[Chart]:
    if verdicts.nodes:
        ratios = {
            measurement.point.benchmark: _ratios(measurement, verdicts.hosts)
            for measurement in verdicts.nodes
        }
        changed = any(measurement.changes for measurement in verdicts.nodes)
        against = _BASELINE if changed else "the median node"
        yield charts.by_figure(ratios, sweep_words.names(verdicts.suspects), against)
    if verdicts.pairs is not None:
        against = _BASELINE if verdicts.pairs.changes else _OTHERS
        yield from charts.pairs(verdicts.pairs.relative, verdicts.pairs.blame, against)


def _ratios(measurement: Nodes, hosts: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Node → its speed relative to the median node, or to its baseline if there are too few nodes."""
    if measurement.changes:
        return {hosts[change.node][0]: change.ratio.value for change in measurement.changes}
    return {hosts[standing.node][0]: standing.ratio for standing in measurement.crowd.standings}


def _nodes_table(verdicts: SweepVerdicts) -> Iterator[Table]:
    """The nodes by measurement, the slowest first; a column for their own baselines if they have any."""
    compared = any(measurement.changes for measurement in verdicts.nodes)
    bodies = tuple(
        TableBody(measurement.point.benchmark, _node_rows(measurement, verdicts.hosts, compared=compared))
        for measurement in verdicts.nodes
    )
    columns = ("", "of the median", "runs", *["of its baseline"] * compared, "")
    last = len(columns) - 1
    if bodies:
        yield Table("Nodes, slowest first", columns, bodies, frozenset({0, last}), verdicts=last)


def _node_rows(
    measurement: Nodes, hosts: Mapping[str, Sequence[str]], *, compared: bool
) -> tuple[TableRow, ...]:
    changes = {change.node: change for change in measurement.changes}
    rows = []
    for standing in measurement.crowd.standings[:MOST_ROWS]:
        change = changes.get(standing.node)
        slow = standing.slow or (change is not None and change.slower)
        before = [figures.NONE if change is None else figures.ratio(change.ratio)] * compared
        verdict = "▼ slower" if slow else change.reason if change is not None else ""
        cells = (hosts[standing.node][0], f"{standing.ratio:.3f}", str(standing.runs), *before, verdict)
        rows.append(TableRow(cells, "slower" if slow else "", {1: _shade(standing.ratio)}))
    return tuple(rows)


def pair_blocks(pairs: Pairs) -> Iterator[Block]:
    """Pairs compared with their own baselines, or all as a matrix if it fits."""
    if pairs.changes:
        yield _changes_table(pairs.changes)
    nodes = in_order({node for pair in pairs.ratios for node in pair})
    if len(nodes) <= _MOST_COLUMNS:
        rows = tuple(_matrix_row(a, nodes, pairs.ratios) for a in nodes)
        yield Table(f"Pairs, relative to {_OTHERS}", ("", *nodes), (TableBody("", rows),))
    elif len(nodes) <= _MOST_NUMBERED:
        yield _triangle(nodes, pairs.ratios)


def _changes_table(changes: Sequence[BaselineChange]) -> Table:
    rows = tuple(
        TableRow(
            (change.node, figures.ratio(change.ratio), "▼ slower" if change.slower else change.reason),
            "slower" if change.slower else "",
            {1: _shade(change.ratio.value)},
        )
        for change in changes
    )
    columns = ("", "of its baseline", "")
    return Table("Pairs and their baselines", columns, (TableBody("", rows),), frozenset({0, 2}), verdicts=2)


def _triangle(nodes: Sequence[str], ratios: Mapping[Pair, float]) -> Table:
    """Each pair once, in three characters; columns use the rows' numbers."""
    numbers = [str(number) for number in range(1, len(nodes))]
    rows = []
    for row, a in enumerate(nodes):
        cells = _matrix_row(a, nodes[:row], ratios, in_percent=True)
        blank = [""] * (len(nodes) - 1 - row)
        rows.append(TableRow((str(row + 1), *cells.cells[1:], *blank, a), "", cells.tones))
    caption = f"Pairs, percent of {_OTHERS}, at most 99"
    body = TableBody("", tuple(rows))
    return Table(caption, ("", *numbers, ""), (body,), frozenset({len(nodes)}), dense=True)


def _matrix_row(
    a: str, nodes: Sequence[str], ratios: Mapping[Pair, float], *, in_percent: bool = False
) -> TableRow:
    known = [ratios.get((a, b), ratios.get((b, a))) for b in nodes]
    texts = (f"{min(100 * r, 99):.0f}" if in_percent else f"{r:.3f}" for r in known if r is not None)
    cells = ("·" if ratio is None else next(texts) for ratio in known)
    tones = {column: _shade(ratio) for column, ratio in enumerate(known, start=1) if ratio is not None}
    return TableRow((a, *cells), "", tones)


def _shade(ratio: float) -> Tone:
    return next(tone for least, tone in _SHADES if ratio >= least)


def _pairs_table(pairs: Pairs) -> Table:
    slowest = sorted(pairs.relative.items(), key=lambda pair_ratio: pair_ratio[1])
    against = "of its baseline" if pairs.changes else f"of {_OTHERS}"
    rows = tuple(TableRow((called(pair), f"{ratio:.3f}")) for pair, ratio in slowest[:MOST_ROWS])
    more = f", {MOST_ROWS} of {len(slowest)}" if len(slowest) > MOST_ROWS else ""
    return Table(f"Pairs, slowest first{more}", ("", against), (TableBody("", rows),))


def _rings_table(rings: Sequence[Ring]) -> Iterator[Table]:
    rows = tuple(
        TableRow(
            (
                ring.name,
                figures.NONE if ring.ratio is None else figures.ratio(ring.ratio),
                "▼ slower" if ring.slower else ring.reason,
            ),
            "slower" if ring.slower else "",
        )
        for ring in rings
    )
    if rows:
        body = TableBody("", rows)
        yield Table("Rings", ("", "of its slowest pair", ""), (body,), frozenset({0, 2}), verdicts=2)
