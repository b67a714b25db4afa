"""What follows from the scaling curves, as tables for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyse.scaling_study import Study
from assay.report import scaling_words
from assay.report.tables import Body, Row, Table


def tables(studies: Sequence[Study]) -> tuple[Table, ...]:
    """One table of words: each curve's kind, limit, laws, predictions, layouts and what a result takes."""
    if not studies:
        return ()
    bodies = tuple(Body(scaling_words.heading(study), _rows(study)) for study in studies)
    return (Table("What follows from the scaling", ("", "in words"), bodies, frozenset({0, 1})),)


def _rows(study: Study) -> tuple[Row, ...]:
    return tuple(Row(cells) for cells in scaling_words.words(study))
