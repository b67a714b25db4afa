"""Sets of MLPerf logs below a folder in pages: only the logs of the sets that a page shows are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.questions.score import score_result_set

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.analyse.mlperf.score import ScoredSet
    from assay.formats.result_sets import ResultSet

SETS = 25  # of a page: each is 1 to 8 MB of logs


@dataclass(frozen=True)
class ScorePage:
    """One page of sets with their scores.

    sets       of this page
    names      of the sets of all pages
    number     of this page, from 1
    inference  how many inference runs are below the folder; no page has them
    """

    sets: tuple[ScoredSet, ...]
    names: tuple[str, ...]
    number: int
    inference: int

    @property
    def pages(self) -> int:
        """How many there are, at least 1."""
        return _pages(self.names)


def score_page(path: str | PathLike[str], *, words: str = "", number: int = 1) -> ScorePage:
    """One page of the sets that `score` finds below a folder.

    words   parts of a set's path, whatever their case: only sets that have all of them
    number  of the page, from 1; a later one than the last is the last

    Raises InputError if the folder has no MLPerf logs.
    """
    sets, inference = _sets(Path(path))
    parts = words.lower().split()
    chosen = [result_set for result_set in sets if all(part in result_set.name.lower() for part in parts)]
    page = min(max(1, number), _pages(chosen))
    shown = chosen[(page - 1) * SETS : page * SETS]
    return ScorePage(
        tuple(map(score_result_set, shown)), tuple(result_set.name for result_set in chosen), page, inference
    )


def score_set(path: str | PathLike[str], name: str) -> tuple[ScoredSet, Path]:
    """One set below a folder with its score, and its directory; `name` as `score` gives it.

    Raises InputError if the folder has no set with this name.
    """
    sets, _ = _sets(Path(path))
    result_set = next((candidate for candidate in sets if candidate.name == name), None)
    if result_set is None:
        raise InputError(f"{path}: there is no set {name} of training logs; `assay score` lists the sets")
    return score_result_set(result_set), result_set.directory


def _sets(path: Path) -> tuple[Sequence[ResultSet], int]:
    """The sets of training logs below a folder, unread, and the number of inference runs there."""
    from assay.formats.mlperf_inference import told_apart
    from assay.formats.result_sets import find_sets

    training, inference = told_apart([path])
    return find_sets(training), len(inference)


def _pages(sets: Sequence[object]) -> int:
    return max(1, -(-len(sets) // SETS))
