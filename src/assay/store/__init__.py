"""The index of run directories: one DuckDB file that is always complete, rebuilt by `assay index`.

A writer builds the new index next to the old one and renames it into place, so readers are never blocked,
never see a partial index, and keep the one they opened. The run directories are the truth; the index has no
data of its own. DuckDB and the records are imported where they are used, so that `assay show` stays fast.
"""

from __future__ import annotations

from assay.store.layout import (
    DamagedIndexError,
    index_path,
    own_directory,
    reading_at,
    remove_left_indexes,
    trouble,
    use_own_index,
    writing_at,
)
from assay.store.query import (
    DeclaredMetric,
    Filter,
    SessionCounts,
    SortOrder,
    chosen_from,
    counted,
    export,
    listed_runs,
    listed_sets,
    metric_names,
    newest_sessions,
    unreadable_runs,
)
from assay.store.references import durations, find, parse, reporting, session_stamps
from assay.store.writer import Update, indexed_sessions, known, update

__all__ = [
    "DamagedIndexError",
    "DeclaredMetric",
    "Filter",
    "SessionCounts",
    "SortOrder",
    "Update",
    "chosen_from",
    "counted",
    "durations",
    "export",
    "find",
    "index_path",
    "indexed_sessions",
    "known",
    "listed_runs",
    "listed_sets",
    "metric_names",
    "newest_sessions",
    "own_directory",
    "parse",
    "reading_at",
    "remove_left_indexes",
    "reporting",
    "session_stamps",
    "trouble",
    "unreadable_runs",
    "update",
    "use_own_index",
    "writing_at",
]
