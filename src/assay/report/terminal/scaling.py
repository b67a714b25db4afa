"""What `assay scale` prints below its table of speed-ups."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.analyse.scaling.study import Study
from assay.report.sentences import scaling as scaling_words
from assay.view import verdicts
from assay.view.blocks import Doubts
from assay.view.terminal import shown

MOST_TOGETHER = 4  # curves in one table


def studies(studies: Sequence[Study]) -> RenderableType:
    """Each curve in a sentence, the table of all, what follows from each, and then the doubts.

    With many curves, each is shown separately with its own table.
    """
    apart = [[study] for study in studies] if len(studies) > MOST_TOGETHER else [studies]
    parts = [part for group in apart for part in (*_curves_in_one_table(group), "")]
    return Group(*parts, shown([verdicts.doubts_of_curves([study.curve for study in studies])]))


def _curves_in_one_table(studies: Sequence[Study]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for study in studies:
        parts += [_text(scaling_words.heading(study), "bold"), _text(scaling_words.lead(study)), ""]
    parts.append(shown(verdicts.scaling([study.curve for study in studies], doubted=False)))
    for study in studies:
        parts += ["", _text(scaling_words.heading(study), "bold"), _table(study)]
        if study.doubts:
            parts.append(shown([Doubts(tuple((doubt, 0) for doubt in study.doubts), 0)]))
    return parts


def _table(study: Study) -> Table:
    table = Table.grid(padding=(0, 1), expand=False)
    table.add_column("name", style="dim", max_width=18, overflow="fold")
    table.add_column("words", overflow="fold")
    last = ""
    for name, text in scaling_words.list_conclusions(study):
        table.add_row(_text("" if name == last else name), _text(text))
        last = name
    return table


def _text(text: str, style: str = "") -> Text:
    """Text without markup; no control character from a log reaches the terminal."""
    return Text("".join(c if c.isprintable() else "�" for c in text), style=style)
