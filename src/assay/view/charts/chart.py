"""The common parts of charts: their kinds, their look, and the colors and marks of systems.

Colors are the page's CSS variables, so that a chart follows the theme and the printer without being redrawn.
Color is never the only distinction: systems also differ in mark or dash, and so do verdicts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.view import figures
from assay.view.blocks import Chart

if TYPE_CHECKING:
    from assay.view.contents import Contents

MOST_SYSTEMS = 6  # series colors in the style sheet; further systems start over
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])
_MOST_TICKS = 9
_NAME_LINE = 18  # characters of a side's name on one line
CUT = " (interval cut)"  # in a caption, if an interval extends beyond the axis
INK, _FAINT = "var(--ink)", "var(--rule)"
_FONT = "system-ui, sans-serif"
_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": _FAINT,
        "domainColor": _FAINT,
        "tickColor": _FAINT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelOverlap": True,
        "labelSeparation": 6,
        "labelFlush": False,
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "orient": "top", "title": None},
}


@dataclass(frozen=True)
class ChartKind:
    """What charts of one kind have in common.

    title  heading above them
    draw   makes those that a report's contents have data for
    """

    title: str
    draw: Callable[[Contents], Iterable[Chart]]


def plain(chart: Any, *, height: Any = None, **rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The finished chart as plain data, its rows next to the encodings."""
    sized = chart.properties(width="container", autosize={"type": "fit-x", "contains": "padding"})
    if height is not None:
        sized = sized.properties(height=height)
    # a test holds each against Vega-Lite's schema; here that would take a third of the time
    spec: dict[str, Any] = sized.configure(**_CONFIG).to_dict(validate=False)
    spec["datasets"] = {name: [_shortened(row) for row in table] for name, table in rows.items()}
    return spec


def _shortened(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with six digits per value, more than a pixel or a tooltip shows: this halves a page's data."""
    return {name: _six_digits(value) for name, value in row.items()}


def _six_digits(value: Any) -> Any:
    if isinstance(value, list):  # the points of a line
        return [_six_digits(point) for point in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def side_color(sides: Sequence[str], *, legend: bool = False) -> Any:
    """Each side's color, by its position among the sides."""
    import altair as alt

    colors = [f"var(--series-{index % MOST_SYSTEMS + 1})" for index in range(len(sides))]
    return alt.Color(
        "side:N", legend=_legend(sides, legend), scale=alt.Scale(domain=list(sides), range=colors)
    )


def side_shape(sides: Sequence[str], *, legend: bool = False) -> Any:
    """Each side's mark, by its position among the sides."""
    import altair as alt

    shapes = [_SHAPES[index % len(_SHAPES)] for index in range(len(sides))]
    return alt.Shape(
        "side:N", legend=_legend(sides, legend), scale=alt.Scale(domain=list(sides), range=shapes)
    )


def side_dash(sides: Sequence[str], *, legend: bool = False) -> Any:
    """Each side's dash, by its position among the sides."""
    import altair as alt

    dashes = [_DASHES[index % len(_DASHES)] for index in range(len(sides))]
    return alt.StrokeDash(
        "side:N", legend=_legend(sides, legend), scale=alt.Scale(domain=list(sides), range=dashes)
    )


def _legend(sides: Sequence[str], shown: bool) -> Any:
    """A legend in a row; long names are stacked so that none is cut. Its marks are never pale."""
    import altair as alt

    if not shown or len(sides) < 2:
        return None
    long: dict[str, Any] = {"columns": 1, "labelLimit": 260} if max(map(len, sides)) > _NAME_LINE else {}
    return alt.Legend(symbolOpacity=1, **long)


def side_axis(sides: Sequence[str]) -> Any:
    """An axis of sides on which a long name takes two lines: similar names often differ at their end."""
    import altair as alt

    lines = {side: _split_name(side) for side in sides}
    return alt.Axis(labelExpr=f"{json.dumps(lines)}[datum.label]", labelLimit=0)


def _split_name(name: str) -> list[str]:
    """A name in at most two lines; the middle of a longer one is left out."""
    if len(name) <= _NAME_LINE:
        return [name]
    if len(name) > 2 * _NAME_LINE:
        return [name[: _NAME_LINE - 1] + "…", name[-_NAME_LINE:]]
    breaks = [position + 1 for position, c in enumerate(name[:_NAME_LINE]) if not c.isalnum()]
    fitting = [position for position in breaks if len(name) - position <= _NAME_LINE]
    cut = fitting[-1] if fitting else _NAME_LINE
    return [name[:cut], name[cut:]]


def tooltip(*fields: str) -> list[Any]:
    """The tooltip of a mark: columns of its rows."""
    import altair as alt

    numbers = {"value", "low", "high", "x"}
    return [
        alt.Tooltip(f"{name}:Q", format=".4~g") if name in numbers else alt.Tooltip(f"{name}:N")
        for name in fields
    ]


def axis_title(metric: str, unit: str) -> str:
    """`throughput, images/s`."""
    return f"{figures.metric(metric)}, {unit}" if unit else figures.metric(metric)


def legible(values: Sequence[float], ends: Sequence[float | None]) -> tuple[tuple[float, float], bool]:
    """An axis from minimum to maximum, and whether it cuts an interval that would squeeze the values.

    Intervals get at most as much room on each side as the values take; intervals of two runs are huge.
    """
    least, most = min(values), max(values)
    room = (most - least) or abs(most) * 0.05 or 1.0
    known = [end for end in ends if end is not None]
    low, high = min([least, *known]), max([most, *known])
    axis = (max(low, least - room), min(high, most + room))
    return axis, axis != (low, high)


def ratio_ticks(low: float, high: float) -> tuple[list[float], list[float]]:
    """A symmetric log axis of ratios around 1, with at most nine round ticks.

    >>> ratio_ticks(0.98, 1.01)[1]
    [0.98, 0.99, 1.0, 1.01, 1.02]
    """
    span = max(1.08 * abs(math.log(end)) for end in (low, high, 1.004))
    domain = [math.exp(-span), math.exp(span)]
    for step in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2):
        count = math.floor((domain[1] - 1) / step), math.floor((1 - domain[0]) / step)
        if sum(count) < _MOST_TICKS:
            return domain, [round(1 + k * step, 4) for k in range(-count[1], count[0] + 1)]
    powers = [factor * 10.0**power for power in range(-6, 7) for factor in (1, 2, 5)]
    inside = [tick for tick in powers if domain[0] <= tick <= domain[1]]
    if len(inside) > _MOST_TICKS:
        inside = [tick for tick in inside if f"{tick:e}".startswith("1")]
    return domain, inside


def listed(parts: Iterable[str]) -> str:
    """The nonempty parts as one sentence."""
    return "; ".join(filter(None, parts)) + "."


_ROW = 26  # pixels of height
_STRONGEST = 0.6  # opacity of a cell of level 1: text on it is readable on a light and on a dark page
_LONGEST_NAME = 190  # pixels


def heat_map(
    cells: Sequence[Mapping[str, Any]],
    *,
    down: Sequence[str],
    across: Sequence[str],
    titles: tuple[str, str],
    tooltip_fields: Sequence[str],
    color: str = "var(--series-1)",
) -> dict[str, Any]:
    """Vega-Lite of the cells.

    cells           each with its `row` and `column`, `level` from 0 (no color) to 1, the `text` written
                    into it, and its tooltip fields
    down            rows, from the top
    across          columns, from the left
    titles          of rows and columns
    tooltip_fields  what the tooltip shows
    """
    import altair as alt

    base = alt.Chart(alt.NamedData("cells")).encode(
        y=alt.Y(
            "row:N", sort=list(down), title=titles[0], scale=alt.Scale(domain=list(down)), axis=_heat_axis()
        ),
        x=alt.X(
            "column:N",
            sort=list(across),
            title=titles[1],
            scale=alt.Scale(domain=list(across)),
            axis=_heat_axis(labelAngle=-45),
        ),
        tooltip=tooltip(*tooltip_fields),
    )
    strength = alt.Scale(domain=[0, 1], range=[0, _STRONGEST])
    squares = base.mark_rect(fill=color, stroke="var(--rule)", strokeWidth=0.5)
    return plain(
        squares.encode(fillOpacity=alt.FillOpacity("level:Q", scale=strength, legend=None))
        + base.mark_text(color=INK, fontSize=11).encode(text="text:N"),
        cells=cells,
        height=_ROW * len(down),
    )


def _heat_axis(**more: Any) -> Any:
    import altair as alt

    return alt.Axis(labelOverlap=False, labelLimit=_LONGEST_NAME, ticks=False, domain=False, **more)
