"""Differences between the machines and the software of two runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from assay.api.evidence import ready, runs_directory

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from assay.provenance import Fact
    from assay.records import Provenance


@dataclass(frozen=True)
class RunMachines:
    """One reference: its number of runs, and what those that describe their machines say."""

    reference: str
    runs: int
    known: tuple[Provenance, ...]


@dataclass(frozen=True)
class Differences:
    """The result of `diff`."""

    a: RunMachines
    b: RunMachines

    @property
    def known(self) -> bool:
        """Whether the runs of both sides describe the machines they ran on."""
        return bool(self.a.known and self.b.known)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Every fact with the values of both sides, including equal ones; empty if a side is unknown."""
        from assay.provenance import side_by_side

        return tuple(side_by_side(self.a.known, self.b.known)) if self.known else ()

    @property
    def matter(self) -> bool:
        """Whether a fact differs that could have changed a number."""
        return any(fact.matters for fact in self.facts)


def diff(a: str, b: str, *, runs: str | PathLike[str] | None = None) -> Differences:
    """Differences between the machines and the software of two references, like `assay diff RUN RUN`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing.
    """
    from assay.run.answered import answered
    from assay.run.index import update_index

    directory = runs_directory(runs)
    ready(directory)
    update_index(directory)
    return answered(directory, lambda: Differences(_machines(directory, a), _machines(directory, b)))


def _machines(runs_dir: Path, reference: str) -> RunMachines:
    from assay import provenance, store

    results = store.find(runs_dir, reference)
    told = (result.provenance for result in results if result.provenance is not None)
    return RunMachines(reference, len(results), tuple(one for one in told if provenance.known(one)))
