"""Names of files that a runs directory has for itself."""

from __future__ import annotations

from typing import Final

INDEX_FILE: Final = "index.duckdb"


def is_reserved(name: str) -> bool:
    """Whether a suite's directory of this name would be in the place of a file of Assay's own.

    Those that begin with a dot are no names in the first place.

    >>> is_reserved("Index.DuckDB"), is_reserved("index.duckdb.wal"), is_reserved("index")
    (True, True, False)
    """
    return name.casefold().startswith(INDEX_FILE)
