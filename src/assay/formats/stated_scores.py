"""Published scores, as text: one figure, or a sheet of `system,benchmark,minutes` as CSV."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.errors import InputError, Problem
from assay.formats.benchmarks import benchmark_name
from assay.inputs import read_whole

COLUMNS: Final = ("system", "benchmark", "minutes")
_LARGEST_BYTES: Final = 1 << 20
_FIGURE = re.compile(r"\d{1,9}(?:\.(\d{1,9}))?")


@dataclass(frozen=True)
class StatedScore:
    """A published score.

    minutes    with this many `decimals`: how it was rounded
    system     as named by the result folder; None if one figure was given for the only set
    benchmark  as named by its result folder; None as above
    """

    minutes: float
    decimals: int
    system: str | None = None
    benchmark: str | None = None


def figure(text: str) -> StatedScore | None:
    """One figure in minutes; None if the text is not a figure above 0.

    >>> figure("22.360")
    StatedScore(minutes=22.36, decimals=3, system=None, benchmark=None)
    >>> figure("results.csv"), figure("0")
    (None, None)
    """
    match = _FIGURE.fullmatch(text.strip())
    if match is None or not (minutes := float(match[0])) > 0 or not math.isfinite(minutes):
        return None
    return StatedScore(minutes, len(match[1] or ""))


def stated_scores(text: str) -> tuple[StatedScore, ...]:
    """What was given: one figure in minutes, or the path of a sheet. Raises InputError if it is neither."""
    score = figure(text)
    if score is None and not Path(text).is_file():
        raise InputError(f"stated: {text!r} is neither minutes like 22.36 nor a file")
    return sheet(Path(text)) if score is None else (score,)


def sheet(path: Path) -> tuple[StatedScore, ...]:
    """The figures of a CSV file, in order; other columns than the three are ignored.

    Raises InputError, with all problems, if a column or a figure is missing.
    """
    try:
        text = read_whole(path, _LARGEST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: can't be read as text: {error}") from None
    lines = text.splitlines()
    rows = csv.DictReader(lines)
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        header = repr(lines[0][:80]) if lines else "empty"
        raise InputError(
            f"{path}:1: no column {', '.join(missing)}; the header is {header}, expected {','.join(COLUMNS)}"
        )
    scores: list[StatedScore] = []
    problems: list[Problem] = []
    for row in rows:
        stated = figure(row["minutes"] or "")
        if stated is None:
            where = f"{path}:{rows.line_num}"
            problems.append(Problem(where, f"minutes is {row['minutes']!r}; expected a figure like 22.36"))
            continue
        named = (row["system"] or "").strip(), benchmark_name((row["benchmark"] or "").strip())
        scores.append(StatedScore(stated.minutes, stated.decimals, *named))
    if problems:
        raise InputError(problems)
    return tuple(scores)


def of_set(stated: Sequence[StatedScore], system: str | None, benchmark: str | None) -> StatedScore | None:
    """The published score of a set; None if there is none."""
    return next(
        (s for s in stated if s.system is None or (s.system, s.benchmark) == (system, benchmark)), None
    )
