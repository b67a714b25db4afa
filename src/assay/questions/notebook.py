"""A notebook that reproduces a report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.questions.evidence import each, runs_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from assay.questions.report import Report


@dataclass(frozen=True)
class Notebook:
    """The result of `notebook`.

    name   `<suite>-<session>` of the newest run, for a file
    cells  kind (`markdown` or `code`) and text, in order
    """

    name: str
    cells: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """The file, in version 4.5 of Jupyter's format, without outputs; equal cells give equal bytes."""
        cells = [_cell(number, kind, text) for number, (kind, text) in enumerate(self.cells, start=1)]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        about = {"kernelspec": kernel, "language_info": {"name": "python"}}
        whole = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def notebook(
    reference: str | Sequence[str],
    *more: str,
    margin: str | float | None = None,
    baseline: str | None = None,
    runs: str | PathLike[str] | None = None,
) -> Notebook:
    """A notebook whose cells ask the library for what a report says, like `assay notebook RUN…`.

    Its last cell fails if the answers are no longer those of now.

    more      further sides
    margin    share that counts as equal, `"2%"` or 0.02; None means the suite's, or 2 %
    baseline  what to compare with; None means the suite's, or else the first of at most four
    runs      directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing, or the references share runs.
    """
    from assay.questions.report import report

    references, directory = each(reference, *more), runs_directory(runs)
    runs_report = report(references, margin=margin, baseline=baseline, runs=directory)
    options = {"margin": margin, "baseline": baseline}
    options_text = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
    return Notebook(runs_report.name, tuple(_cells(runs_report, references, options_text, directory)))


def _cells(
    runs_report: Report, references: Sequence[str], options_text: str, directory: Path
) -> Iterator[tuple[str, str]]:
    from assay import redact
    from assay.version import __version__

    names = ", ".join(map(repr, references))
    sentences = [answer["sentence"] for answer in runs_report.plain().get("answers", [])]
    listed = "".join(f"- {sentence}\n" for sentence in sentences)
    yield (
        "markdown",
        redact.text(
            f"# {', '.join(references)}\n\nWritten by Assay {__version__}. Each cell asks the library: run "
            f"them to check the answers, or change them to ask further.\n\n{listed}"
        ).strip(),
    )
    yield "code", f"import assay\nfrom assay.api import report\n\nRUNS = {str(directory.absolute())!r}"
    yield "markdown", "## The report"
    yield "code", f"found = report([{names}]{options_text}, runs=RUNS)\nfound"
    if runs_report.charts:
        yield "markdown", "## Its charts"
        yield "code", "for chart in found.charts:\n    display(chart)"
    for reference in references:
        yield "markdown", f"## {redact.text(reference)}\nEach number with its interval, and the doubts."
        yield "code", f"assay.show({reference!r}, runs=RUNS)"
    yield "markdown", "## Are the answers still the same?"
    verdicts = [answer["verdict"] for answer in runs_report.plain().get("answers", [])]
    yield "code", f"assert [answer['verdict'] for answer in found.plain().get('answers', [])] == {verdicts!r}"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
