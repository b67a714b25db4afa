"""Questions to an index that may turn out to be damaged inside: it holds nothing of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from assay import store

T = TypeVar("T")
_log = logging.getLogger("assay")


def answered(root: Path, question: Callable[[], T]) -> T:
    """The answer of a question to the index, which is made again and asked once more where it is damaged."""
    try:
        return question()
    except store.DamagedIndexError as error:
        from assay.run.index import update_index  # readers and all, which a list of runs does without

        _log.info("%s; it is made again from the run directories", error)
        update_index(root, rebuild=True)
    return question()
