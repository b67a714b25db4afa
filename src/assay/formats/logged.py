"""What a format makes of the logs of others: runs, each with its reading, and how they were understood."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.formats.reader import Reader
from assay.inputs import sha256
from assay.records import InferenceRun, Provenance, Reading, Shape, digest_of


@dataclass(frozen=True)
class Stated:
    """What a person says about logs; None: what the logs and their folders say.

    round  of MLPerf Training
    """

    system: str | None = None
    shape: Shape | None = None
    round: str | None = None
    benchmark: str | None = None


@dataclass(frozen=True)
class LoggedRun:
    """One run as its logs state it.

    logs       its files, of which the first names it
    source     where they were, for people
    params     of its reader
    benchmark  what was run, and `system`, on what: any text; "" if the logs don't say
    primary    the metric by which it is judged
    inference  set for a run of MLPerf Inference
    of_set     the folder of results, if its runs may not share a point with those of another one; else ""
    reread     whether `params` state what `reading` had to find out, so that a kept log is read again
    """

    logs: tuple[Path, ...]
    source: str
    reader: Reader
    params: Mapping[str, Any]
    benchmark: str
    system: str
    shape: Shape
    reading: Reading
    primary: str
    seed: int = 0
    started_at: float | None = None
    provenance: Provenance | None = None
    inference: InferenceRun | None = None
    of_set: str = ""
    reread: bool = False


@dataclass(frozen=True)
class LoggedRuns:
    """The runs of one format, which are kept together.

    content  digest of the files' bytes and of what was stated about them: the same for the same import
    notes    what a person should know about how they were understood
    """

    runs: tuple[LoggedRun, ...]
    content: str
    notes: tuple[str, ...]

    def named(self, name: Callable[[str], str]) -> LoggedRuns:
        """The same with a person's names of its files: `name` puts them into a text."""
        runs = tuple(replace(run, source=name(run.source)) for run in self.runs)
        return LoggedRuns(runs, self.content, tuple(map(name, self.notes)))


def content_of(kind: str, paths: Iterable[Path], stated: Sequence[str | None]) -> str:
    """Of logs that are one file each, wherever they are. Raises InputError if one can't be read."""
    return digest_of([kind, list(stated), sorted(map(sha256, paths))])


def without_copies(paths: Sequence[Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The files that differ in their bytes, the first of each, and a note on every other one.

    Raises InputError if one can't be read.
    """
    first: dict[str, Path] = {}
    notes = []
    for path in paths:
        kept = first.setdefault(sha256(path), path)
        if kept is not path:
            why = "named twice" if kept == path else f"a copy of {kept}, with the same bytes"
            notes.append(f"{path}: {why}: it counts once")
    return list(first.values()), tuple(notes)
