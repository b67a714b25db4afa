"""A grid of cells between two lists of names: a stronger color means a larger value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.report.charts.chart import INK, plain, tooltip

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
        y=alt.Y("row:N", sort=list(down), title=titles[0], scale=alt.Scale(domain=list(down)), axis=_axis()),
        x=alt.X(
            "column:N",
            sort=list(across),
            title=titles[1],
            scale=alt.Scale(domain=list(across)),
            axis=_axis(labelAngle=-45),
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


def _axis(**more: Any) -> Any:
    import altair as alt

    return alt.Axis(labelOverlap=False, labelLimit=_LONGEST_NAME, ticks=False, domain=False, **more)
