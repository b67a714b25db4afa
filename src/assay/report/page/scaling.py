"""Conclusions from the scaling curves, as tables for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyse.scaling.study import Study
from assay.report.sentences import scaling as scaling_words
from assay.view.blocks import Table, TableBody, TableRow


def tables(studies: Sequence[Study]) -> tuple[Table, ...]:
    """One table of text: each curve in short, then its kind, limit, costs, predictions and laws."""
    if not studies:
        return ()
    bodies = tuple(TableBody(scaling_words.heading(study), _rows(study)) for study in studies)
    return (Table("What follows from the scaling", ("", "conclusion"), bodies, frozenset({0, 1})),)


def _rows(study: Study) -> tuple[TableRow, ...]:
    in_short = ("in short", scaling_words.lead(study))
    return tuple(TableRow(cells) for cells in (in_short, *scaling_words.list_conclusions(study)))
