"""The sets of frames that trials left in a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from assay.errors import HostError, InputError
from assay.questions.question import Answer, Question, argument, option, question
from assay.questions.values import Folder
from assay.units import counted, human
from assay.view.blocks import Block, Paragraph, Table, TableBody, TableRow
from assay_payloads.datasets import staging_cache
from assay_payloads.datasets.staging_cache import CachedSet


@question
class DataCache(Question):
    """Show the sets of frames in a cache, the least recently used first.

    A cache is the directory `to` of a suite's `data`, or that of `assay data stage --space`, on the machine
    where this command runs. When a cache needs space, it removes the first of these sets that nobody uses.

    \b
    Examples:
      assay data cache /scratch/assay
      assay data cache /scratch/assay --remove 6ae75103bec7c81c

    \b
    Exit codes: 0 the sets are listed; 4 there is no cache, or no such set; 5 a set is in use, or can't be
    removed.
    """

    directory: Folder = argument()
    remove: tuple[str, ...] = option("Remove this set; repeatable.", default=(), metavar="SET")

    def answer(self) -> CachedSets:
        """The sets that are left."""
        return CachedSets(staged_sets(self.directory, remove=self.remove))


@dataclass(frozen=True)
class CachedSets(Answer):
    """Sets of frames, the least recently used first."""

    sets: Sequence[CachedSet]

    def view(self) -> Iterator[Block]:
        """A row for each set, and the space of all."""
        rows = tuple(
            TableRow(
                (
                    cached_set.name,
                    f"{cached_set.frames:,}",
                    human(float(cached_set.bytes), "B"),
                    datetime.fromtimestamp(cached_set.used_at, UTC).strftime("%Y-%m-%d %H:%M"),
                    "in use" if cached_set.in_use else "",
                    cached_set.root,
                    cached_set.query,
                )
            )
            for cached_set in self.sets
        )
        columns = ("set", "frames", "size", "last used (UTC)", "", "of", "chosen by")
        if rows:
            yield Table("", columns, (TableBody("", rows),), frozenset({0, 3, 4, 5, 6}), whole=True)
        yield Paragraph(f"{counted(len(rows), 'set')}, {human(float(self.bytes), 'B')}")

    @property
    def bytes(self) -> int:
        """Of all sets."""
        return sum(cached_set.bytes for cached_set in self.sets)

    def document(self) -> dict[str, Any]:
        """Each set, and the space of all."""
        return {"sets": [asdict(cached_set) for cached_set in self.sets], "bytes": self.bytes}


def staged_sets(cache: str | PathLike[str], *, remove: Sequence[str] = ()) -> list[CachedSet]:
    """The sets of frames in a cache, the least recently used first, like `assay data cache`.

    remove  names of sets to remove first

    Raises InputError if there is no cache or no such set, HostError if one is in use or can't be removed.
    """
    place = Path(cache)
    try:
        sets = staging_cache.sets(place)
        if not sets and not (place / staging_cache.RECORDS).is_dir():
            raise InputError(f"{cache}: is no cache of staged frames; `assay data stage --space` makes one")
        if strange := [name for name in remove if name not in {cached_set.name for cached_set in sets}]:
            raise InputError(f"{cache}: has no set {strange[0]}; `assay data cache {cache}` lists them")
        if used := [name for name in remove if not staging_cache.remove(place, name)]:
            raise HostError(f"{cache}: set {used[0]} is in use; wait for the trial that reads it")
        return [cached_set for cached_set in sets if cached_set.name not in remove]
    except OSError as error:
        raise HostError(f"{error.filename or cache}: {error.strerror or error}") from None
