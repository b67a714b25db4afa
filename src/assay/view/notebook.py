"""A Jupyter notebook that asks the library for what a report says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import redact
from assay.version import __version__


def notebook(
    references: Sequence[str],
    options: Mapping[str, Any],
    runs_dir: Path,
    answers: Sequence[Mapping[str, Any]],
    *,
    has_charts: bool,
) -> str:
    """A file in version 4.5 of Jupyter's format, without outputs; equal answers give equal bytes.

    answers  of the report: the last cell fails if their verdicts are no longer the same
    """
    cells = [
        _cell(number, kind, text)
        for number, (kind, text) in enumerate(
            _cells(references, options, runs_dir, answers, has_charts=has_charts), start=1
        )
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _cells(
    references: Sequence[str],
    options: Mapping[str, Any],
    runs_dir: Path,
    answers: Sequence[Mapping[str, Any]],
    *,
    has_charts: bool,
) -> Iterator[tuple[str, str]]:
    names = ", ".join(map(repr, references))
    named = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
    listed = "".join(f"- {answer['sentence']}\n" for answer in answers)
    yield (
        "markdown",
        redact.text(
            f"# {', '.join(references)}\n\nWritten by Assay {__version__}. Each cell asks the library: run "
            f"them to check the answers, or change them to ask further.\n\n{listed}"
        ).strip(),
    )
    yield "code", f"import assay\nfrom assay.api import report\n\nRUNS = {str(runs_dir.absolute())!r}"
    yield "markdown", "## The report"
    yield "code", f"found = report([{names}]{named}, runs=RUNS)\nfound"
    if has_charts:
        yield "markdown", "## Its charts"
        yield "code", "for chart in found.charts:\n    display(chart)"
    for reference in references:
        yield "markdown", f"## {redact.text(reference)}\nEach number with its interval, and the doubts."
        yield "code", f"assay.show({reference!r}, runs=RUNS)"
    yield "markdown", "## Are the answers still the same?"
    verdicts = [answer["verdict"] for answer in answers]
    yield "code", f"assert [answer['verdict'] for answer in found.plain().get('answers', [])] == {verdicts!r}"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
