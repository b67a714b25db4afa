"""A sweep's nodes by measurement, and its pairs as a matrix; for many nodes, the slowest, and bins of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.analyse.sweeps.slow_parts import Blame, Pair, called
from assay.view.blocks import Chart
from assay.view.charts.chart import heat_map, listed
from assay.view.sentences.sweep import in_order

MOST_NODES = 32  # rows of a matrix; more nodes are binned
MOST_SLOWEST = 24  # nodes shown individually if there are more
_MOST_WIDE = 16  # columns whose cells have room for any value
_RED = 0.5  # loss, as a share, at which a cell has its full color
_CURVE = 0.75  # below 1, so that a loss of 5 % is visible next to none, and 1 % is not
_WORTH_WRITING = 0.1  # loss, as a share, that is written even into a narrow cell
_LEAST = 0.05  # level of a cell without loss, to distinguish it from one not measured
_COLOR = "var(--slower)"

Ratios = Mapping[str, Mapping[str, float]]
"""Measurement → node → its speed relative to comparable nodes."""


def by_figure(ratios: Ratios, slow: Mapping[str, Sequence[str]], against: str) -> Chart:
    """Each node's measurements relative to comparable ones; with many nodes, the slowest in any measurement.

    slow     measurement → the nodes reported as slow
    against  what they are relative to, as text
    """
    worst: dict[str, float] = {}
    for by_node in ratios.values():
        for node, ratio in by_node.items():
            worst[node] = min(ratio, worst.get(node, ratio))
    shown = sorted(worst, key=worst.__getitem__)[: MOST_NODES if len(worst) <= MOST_NODES else MOST_SLOWEST]
    cells = [
        _cell(node, figure, by_node[node], "slow" if node in slow.get(figure, ()) else "")
        for figure, by_node in ratios.items()
        for node in shown
        if node in by_node
    ]
    slowest = sorted(cells, key=lambda cell: float(cell["ratio"]))[:MOST_SLOWEST]
    left_out = len(worst) - len(shown)
    whom = f"The {len(shown)} slowest of {len(worst)} nodes" if left_out else "Each node"
    return Chart(
        "nodes",
        f"{whom} by measurement, relative to {against}; the redder the slower",
        listed(["from the slowest", *(f"{c['row']} {c['column']} {c['text']}" for c in slowest)]),
        heat_map(
            cells,
            down=in_order(shown),
            across=list(ratios),
            titles=("", ""),
            tooltip_fields=_TOOLTIP_FIELDS,
            color=_COLOR,
        ),
        wide=True,
    )


def pairs(ratios: Mapping[Pair, float], blamed: Blame, against: str) -> list[Chart]:
    """The matrix of all nodes if there is room; otherwise bins of neighbors, and the slowest nodes."""
    nodes = in_order({node for pair in ratios for node in pair})
    if len(nodes) <= MOST_NODES:
        return [_matrix(nodes, ratios, blamed, against)]
    return [_binned(nodes, ratios, against), _meetings(nodes, ratios, blamed)]


def _matrix(nodes: Sequence[str], ratios: Mapping[Pair, float], blamed: Blame, against: str) -> Chart:
    blame_texts = _blames(blamed)
    cells = [
        _cell(a, b, ratio, blame_texts.get(pair, ""), wide=len(nodes) <= _MOST_WIDE)
        for pair, ratio in ratios.items()
        for a, b in (pair, pair[::-1])
    ]
    return Chart(
        "pairs",
        f"Each measured pair, relative to {against}; the redder the slower, blank: not measured",
        _describe_slowest(ratios),
        heat_map(
            cells, down=nodes, across=nodes, titles=("", ""), tooltip_fields=_TOOLTIP_FIELDS, color=_COLOR
        ),
        wide=True,
    )


def _binned(nodes: Sequence[str], ratios: Mapping[Pair, float], against: str) -> Chart:
    """Neighbors by name in one row: a slow rack or switch shows as a stripe."""
    size = -(-len(nodes) // MOST_NODES)
    bins = [nodes[start : start + size] for start in range(0, len(nodes), size)]
    names = [f"{members[0]} …" for members in bins]
    place = {node: name for name, members in zip(names, bins, strict=True) for node in members}
    slowest: dict[Pair, tuple[float, Pair, int]] = {}
    for pair, ratio in ratios.items():
        for a, b in {(place[pair[0]], place[pair[1]]), (place[pair[1]], place[pair[0]])}:
            least, who, met = slowest.get((a, b), (ratio, pair, 0))
            slowest[a, b] = (*min((ratio, pair), (least, who)), met + 1)
    cells = [
        _cell(a, b, ratio, f"slowest of {met}: {called(who)}", wide=False)
        for (a, b), (ratio, who, met) in slowest.items()
    ]
    return Chart(
        "pairs",
        f"All {len(nodes)} nodes, {size} neighbors per row: the slowest measured pair between them, relative "
        f"to {against}; blank: not measured",
        _describe_slowest(ratios),
        heat_map(
            cells, down=names, across=names, titles=("", ""), tooltip_fields=_TOOLTIP_FIELDS, color=_COLOR
        ),
        wide=True,
    )


def _meetings(nodes: Sequence[str], ratios: Mapping[Pair, float], blamed: Blame) -> Chart:
    """The slowest nodes with each of their partners, slowest first: slow nodes are rows, slow links cells."""
    met: dict[str, list[tuple[float, str, Pair]]] = {node: [] for node in nodes}
    for (a, b), ratio in ratios.items():
        met[a].append((ratio, b, (a, b)))
        met[b].append((ratio, a, (a, b)))
    shown = sorted(nodes, key=lambda node: min(met[node]))[:MOST_SLOWEST]
    blame_texts = _blames(blamed)
    cells = [
        _cell(
            node,
            f"{number}.",
            ratio,
            f"with {partner} {blame_texts.get(pair, '')}".rstrip(),
            shown=f"{ratio:.2f}",
        )
        for node in shown
        for number, (ratio, partner, pair) in enumerate(sorted(met[node]), start=1)
    ]
    most = max(len(met[node]) for node in shown)
    return Chart(
        "pairs",
        f"The {len(shown)} nodes of the slowest pairs, each with its partners, slowest first: a slow "
        "node is a red row, a slow link one red cell in two rows",
        _describe_slowest({pair: ratio for node in shown for ratio, _, pair in met[node]}),
        heat_map(
            cells,
            down=in_order(shown),
            across=[f"{number}." for number in range(1, most + 1)],
            titles=("", "partner"),
            tooltip_fields=_TOOLTIP_FIELDS,
            color=_COLOR,
        ),
        wide=True,
    )


_TOOLTIP_FIELDS = ("row", "column", "ratio", "told")


def _cell(
    row: str, column: str, ratio: float, remark: str, *, wide: bool = True, shown: str | None = None
) -> dict[str, Any]:
    text = f"{ratio:.2f} {remark}".rstrip() if shown is None else shown
    lost = min(max(1 - ratio, 0), _RED)
    return {
        "row": row,
        "column": column,
        "level": _LEAST + (1 - _LEAST) * (lost / _RED) ** _CURVE,
        "ratio": f"{ratio:.3f}",
        "told": remark,
        "text": text if wide else f"{ratio:.2f}" * (lost > _WORTH_WRITING),
    }


def _blames(blamed: Blame) -> dict[Pair, str]:
    return {(a, b): "slow" for slow in (*blamed.links, *blamed.pairs) for a, b in (slow.who, slow.who[::-1])}


def _describe_slowest(ratios: Mapping[Pair, float]) -> str:
    slowest = sorted(ratios.items(), key=lambda pair_ratio: pair_ratio[1])[:MOST_SLOWEST]
    return listed(["from the slowest", *(f"{a} with {b} {ratio:.3f}" for (a, b), ratio in slowest)])
