"""From a catalog to a manifest: the frames that a condition, a draw and a balance choose."""

from __future__ import annotations

from pathlib import Path

from assay.data.catalog import Catalog, reading
from assay.data.filters import condition
from assay.data.manifest import Manifest, made
from assay.data.queries import chosen
from assay.records import FrameChoice


def manifest_of(choice: FrameChoice) -> Manifest:
    """The chosen frames, as the catalog has them now; perhaps none.

    Raises InputError for a wrong condition, a catalog that is missing, or fewer frames than the limit.
    """
    parts = [choice.where or "all frames"]
    parts += [] if choice.balance is None else [f"as many without {choice.balance} as with it"]
    of_them = "of them" if choice.balance is None else "in all"
    parts += [] if choice.limit is None else [f"{choice.limit} {of_them} at random"]
    parts += [f"seed {choice.seed}"] if len(parts) > 1 else []
    with reading(Path(choice.catalog)) as catalog:
        frames = chosen(catalog, choice.where, limit=choice.limit, seed=choice.seed, balance=choice.balance)
        return made(catalog.about.root, catalog.about.layout, "; ".join(parts), frames)


def count(catalog: Catalog, where: str = "") -> int:
    """How many frames satisfy a condition; "" for all. Raises InputError for a wrong condition."""
    parsed = condition(where, catalog.columns) if where.strip() else None
    sql, values = ("TRUE", ()) if parsed is None else (parsed.sql, parsed.values)
    row = catalog.connection.execute(
        f"SELECT count(*) FROM frames WHERE {sql}",  # noqa: S608 - columns and parameters
        list(values),
    ).fetchone()
    assert row is not None
    number: int = row[0]
    return number
