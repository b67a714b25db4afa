"""The HTML page of a sweep: what is slow, nodes and pairs as heat maps, and how to keep jobs off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.analyse.sweeps.slow_parts import called
from assay.analyse.sweeps.verdicts import Nodes, SweepVerdicts
from assay.view import figures
from assay.view.blocks import Table, TableBody, TableRow
from assay.view.charts import sweep as charts
from assay.view.charts.chart import Chart
from assay.view.contents import Failure, Recipe
from assay.view.document import document, numbered
from assay.view.sentences import sweep as sweep_words

TEMPLATE = "sweep.html"
MOST_ROWS = 2_000  # of a table; the slowest come first
_BASELINE = "its own baseline"
_OTHERS = "the median healthy pair"


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


def html(swept: SweepReport) -> str:
    """The complete page."""
    return document(TEMPLATE, **values(swept))


def values(swept: SweepReport) -> dict[str, Any]:
    """What the template shows."""
    return {
        "kicker": "Assay sweep",
        "title": swept.title,
        "swept": swept,
        "lead": sweep_words.lead(swept.verdicts, judged=swept.judged),
        "about": swept.about,
        "sections": _sections(swept),
        "answers": _answers(swept),
        "notes": _notes(swept),
        "charts": numbered(_charts(swept)),
        "tables": _tables(swept),
    }


def plain(swept: SweepReport) -> dict[str, Any]:
    """The answers as plain data, for `--json`."""
    answers = [
        {"verdict": f"slow {kind}", "sentence": f"{who}: {what}"} for kind, who, what in _answers(swept)
    ]
    return {
        "runs": swept.runs,
        "failed": len(swept.failures),
        "unfinished": swept.unfinished,
        "answers": answers,
    }


def _sections(swept: SweepReport) -> list[tuple[str, str]]:
    present = {
        "verdicts": ("Verdicts", True),
        "maps": ("Heat maps", True),
        "keep-off": ("How to keep jobs off", bool(swept.keep_off)),
        "numbers": ("Numbers", True),
        "failures": ("Failures", bool(swept.failures)),
        "reproduce": ("How to reproduce", bool(swept.recipes)),
    }
    return [(name, title) for name, (title, there) in present.items() if there]


def _answers(swept: SweepReport) -> list[tuple[str, str, str]]:
    """Kind, name and details of everything that is slow."""
    named_nodes = sweep_words.told_apart(swept.verdicts.nodes, swept.verdicts.pairs, swept.verdicts.hosts)
    answers = [("node", node, part) for node, part in named_nodes]
    if swept.verdicts.pairs is not None:
        answers += [
            (kind, sweep_words.name(kind, slow), sweep_words.details(kind, slow, swept.verdicts.pairs))
            for kind, slow in sweep_words.blamed(swept.verdicts.pairs.blame)
            if kind != "node"
        ]
    return answers + [
        (
            "ring",
            ring.name,
            f"{figures.ratio(ring.ratio)} of its slowest pair: the cause is what its links share",
        )
        for ring in swept.verdicts.rings
        if ring.slower and ring.ratio is not None
    ]


def _notes(swept: SweepReport) -> list[str]:
    before = f"each compared with its baseline; {sweep_words.slower_than_before(swept.verdicts.margin)}"
    notes = [
        f"{measurement.point.benchmark}: "
        + (before if measurement.changes else "; ".join(sweep_words.about(measurement.crowd)))
        for measurement in swept.verdicts.nodes
    ]
    if swept.verdicts.pairs is None:
        return notes
    untold = [f"pairs: {line}" for line in swept.verdicts.pairs.blame.untold]
    return notes + ([f"pairs: {before}"] if swept.verdicts.pairs.changes else []) + untold


def _charts(swept: SweepReport) -> list[Chart]:
    drawn = []
    if swept.verdicts.nodes:
        ratios = {
            measurement.point.benchmark: _ratios(measurement, swept.verdicts.hosts)
            for measurement in swept.verdicts.nodes
        }
        against = (
            _BASELINE
            if any(measurement.changes for measurement in swept.verdicts.nodes)
            else "the median node"
        )
        drawn.append(charts.by_figure(ratios, sweep_words.names(swept.verdicts.suspects), against))
    if swept.verdicts.pairs is not None:
        against = _BASELINE if swept.verdicts.pairs.changes else _OTHERS
        drawn += charts.pairs(swept.verdicts.pairs.relative, swept.verdicts.pairs.blame, against)
    return drawn


def _ratios(measurement: Nodes, hosts: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Node → its speed relative to the median node, or to its baseline if there are too few nodes."""
    if measurement.changes:
        return {hosts[change.node][0]: change.ratio.value for change in measurement.changes}
    return {hosts[standing.node][0]: standing.ratio for standing in measurement.crowd.standings}


def _tables(swept: SweepReport) -> list[Table]:
    tables = []
    if swept.verdicts.nodes:
        before = (
            ("of its baseline",) if any(measurement.changes for measurement in swept.verdicts.nodes) else ()
        )
        bodies = tuple(
            TableBody(
                measurement.point.benchmark,
                _node_rows(measurement, swept.verdicts.hosts, compared=bool(before)),
            )
            for measurement in swept.verdicts.nodes
        )
        tables.append(Table("Nodes, slowest first", ("", "of the median", "runs", *before, ""), bodies))
    if swept.verdicts.pairs is not None:
        slowest = sorted(swept.verdicts.pairs.relative.items(), key=lambda pair_ratio: pair_ratio[1])
        against = "of its baseline" if swept.verdicts.pairs.changes else f"of {_OTHERS}"
        rows = tuple(TableRow((called(pair), f"{ratio:.3f}")) for pair, ratio in slowest[:MOST_ROWS])
        more = f", {MOST_ROWS} of {len(slowest)}" if len(slowest) > MOST_ROWS else ""
        tables.append(Table(f"Pairs, slowest first{more}", ("", against), (TableBody("", rows),)))
    if swept.verdicts.rings:
        rings = tuple(
            TableRow(
                (ring.name, figures.NONE if ring.ratio is None else figures.ratio(ring.ratio), ring.reason)
            )
            for ring in swept.verdicts.rings
        )
        tables.append(
            Table("Rings", ("", "of its slowest pair", ""), (TableBody("", rings),), frozenset({0, 2}))
        )
    return tables


def _node_rows(
    measurement: Nodes, hosts: Mapping[str, Sequence[str]], *, compared: bool
) -> tuple[TableRow, ...]:
    """A row for each node.

    compared  whether there is a column for its own baseline
    """
    changes: dict[str, Any] = {change.node: change for change in measurement.changes}
    rows = []
    for standing in measurement.crowd.standings[:MOST_ROWS]:
        change = changes.get(standing.node)
        slow = standing.slow or (change is not None and change.slower)
        before = (figures.NONE if change is None else figures.ratio(change.ratio),) if compared else ()
        cells = (hosts[standing.node][0], f"{standing.ratio:.3f}", str(standing.runs), *before)
        rows.append(TableRow((*cells, "▼ slower" if slow else ""), "slower" if slow else ""))
    return tuple(rows)
