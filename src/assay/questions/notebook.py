"""A notebook that reproduces a report."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.questions.compare import MARGIN, Margin
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reference,
    argument,
    function_of_many,
    option,
    question,
)
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.questions.report import RunsReport
    from assay.view.blocks import Block


@question
class Notebook(Question):
    """Write a Jupyter notebook that asks the library for what a report on RUN says.

    Its cells have no outputs; run them to see the report, its charts and numbers. The last one fails if the
    answers are no longer the same.

    \b
    Examples:
      assay notebook quickstart
      assay notebook resnet50:bare-metal resnet50:openshift -o resnet50.ipynb
    """

    has_json = False

    references: tuple[str, ...] = argument(metavar="RUN…", parameters=("reference", "more"))
    output: Path | None = option(
        "File to write; `-` is standard output. [default: <suite>-<session>.ipynb here]",
        default=None,
        names=("-o", "--output"),
        output=True,
    )
    margin: Margin | None = option(MARGIN, default=None)
    baseline: str | None = option(
        "What to compare with. [default: the suite's]", default=None, metavar="SYSTEM"
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> NotebookFile:
        """The cells; the last one fails if the answers are no longer those of now.

        Raises InputError if a name matches nothing, or the references share runs.
        """
        from assay.questions.report import report

        options = {"margin": self.margin, "baseline": self.baseline}
        directory = runs_directory(self.runs)
        runs_report = report(*self.references, **options, runs=directory)
        named = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
        return NotebookFile(runs_report.name, tuple(_cells(runs_report, self.references, named, directory)))

    def write(self, answer: NotebookFile) -> NotebookFile | bytes:
        """The file."""
        from assay.durable import deliver

        text = answer.text().encode()
        if str(self.output) == "-":
            return text
        path = self.output or Path(f"{answer.name}.ipynb")
        deliver(path, text, option="-o")
        return replace(answer, name=str(path))


notebook = function_of_many(Notebook, Notebook.answer)


@dataclass(frozen=True)
class NotebookFile(Answer):
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

    def view(self) -> Iterator[Block]:
        """Where the file is."""
        yield Paragraph(self.name, wraps=False)


def _cells(
    runs_report: RunsReport, references: Sequence[str], options_text: str, directory: Path
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
