"""What a sweep found, for the terminal: nodes by figure, pairs as a heat map, who is to blame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.analyse.links import Blame, Pair, Slow
from assay.analyse.nodes import Change, Crowd
from assay.report import figures

_MOST_COLUMNS = 10  # of the heat map: 80 characters
_SHADES = ((0.97, ""), (0.9, "yellow"), (0.75, "dark_orange"), (0.0, "bold red"))  # from this ratio on


def crowd(what: str, found: Crowd) -> RenderableType:
    """One figure of the nodes, or their changes, held against each other."""
    table = Table(box=None, pad_edge=False, title=what, title_justify="left", title_style="bold")
    for heading in ("node", "of the median", "runs", ""):
        table.add_column(heading, justify="left" if heading in {"node", ""} else "right")
    for standing in found.standings:
        verdict = Text("slow", style="bold red") if standing.slow else Text()
        table.add_row(standing.node, _shaded(standing.ratio), str(standing.runs), verdict)
    return Group(table, *(Text(line) for line in _about(found)), Text())


def _about(found: Crowd) -> list[str]:
    said = [f"the fastest is {figures.percent(found.fastest)} above the median"] if found.standings else []
    if found.named_from is None or found.found_from is None:
        return [*said, f"no node is called slow or healthy: {found.reason}", *found.warnings]
    named, likely = figures.percent(found.named_from), figures.percent(found.found_from)
    said.append(f"a loss of {named} is named, one of {likely} in 80 of 100 cases; falsely in 5 % of sweeps")
    return [*said, *found.warnings]


def changes(found: Sequence[Change], margin: float) -> RenderableType:
    """Each node against its own baseline."""
    table = Table(box=None, pad_edge=False)
    for heading in ("node", "of its baseline", "interval", ""):
        table.add_column(heading, justify="left" if heading in {"node", ""} else "right")
    for change in found:
        verdict = Text("slower", style="bold red") if change.slower else Text(change.reason)
        table.add_row(change.node, _shaded(change.ratio.value), figures.interval(change.ratio), verdict)
    said = f"slower: by more than {figures.percent(margin)}, all intervals hold together in 95 % of cases"
    return Group(table, Text(said), Text())


def pairs(ratios: Mapping[Pair, float], found: Blame) -> RenderableType:
    """The matrix as far as it fits, then what is slow in it and what can't be told."""
    nodes = list(dict.fromkeys(node for pair in ratios for node in pair))
    parts: list[RenderableType] = []
    if len(nodes) <= _MOST_COLUMNS:
        parts += [Text("all-reduce, of the median pair", style="bold"), _matrix(nodes, ratios)]
    for what, blamed in (("node", found.nodes), ("link", found.links), ("pair", found.pairs)):
        parts += [Text(f"slow {what}: {_who(slow)}", style="bold red") for slow in blamed]
    return Group(*parts, *(Text(f"not told: {line}") for line in found.untold), Text())


def _matrix(nodes: Sequence[str], ratios: Mapping[Pair, float]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", *nodes):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for a in nodes:
        cells = [ratios.get((a, b), ratios.get((b, a))) for b in nodes]
        table.add_row(a, *(Text("·") if cell is None else _shaded(cell) for cell in cells))
    return table


def _who(slow: Slow) -> str:
    return f"{' – '.join(slow.who)} ({slow.ratio:.2f} of its like)"


def _shaded(ratio: float) -> Text:
    return Text(f"{ratio:.3f}", style=next(style for least, style in _SHADES if ratio >= least))
