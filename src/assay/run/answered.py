"""Queries of an index that may turn out to be damaged: everything in it can be rebuilt."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from assay import store

T = TypeVar("T")
_log = logging.getLogger("assay")


def answered(root: Path, question: Callable[[], T]) -> T:
    """The answer to a query of the index; a damaged index is rebuilt and queried again."""
    try:
        return question()
    except store.DamagedIndexError as error:
        from assay.run.index import update_index  # imports the readers, which a list of runs does not need

        _log.info("%s; rebuilding it from the run directories", error)
        update_index(root, rebuild=True)
    return question()
