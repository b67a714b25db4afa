"""Differences between the settings, the machines and the software of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.questions.evidence import ready, runs_directory, updated

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from assay.provenance import Fact
    from assay.questions.definitions import Settings
    from assay.records import Provenance


@dataclass(frozen=True)
class RunMachines:
    """One reference: its number of runs, what those that describe their machines say, and what was set.

    systems_set  what systems.yaml says about each of its systems; empty for imported runs
    parameters   benchmark → parameters and shape of each of its points
    programs     of each session, the files that command lines name with their digests
    """

    reference: str
    runs: int
    known: tuple[Provenance, ...]
    systems_set: tuple[Settings, ...] = ()
    parameters: Mapping[str, tuple[Settings, ...]] = field(default_factory=dict)
    programs: tuple[Settings, ...] = ()


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
        """Every fact with the values of both sides, including equal ones: first what was set.

        Those of machines and software are missing if a side does not describe its machines.
        """
        from assay.provenance import side_by_side

        settings = self._settings()
        if not self.known:
            return settings
        shown = {(fact.name, fact.a, fact.b) for fact in settings}
        machines = side_by_side(self.a.known, self.b.known)
        return (*settings, *(fact for fact in machines if (fact.name, fact.a, fact.b) not in shown))

    def _settings(self) -> tuple[Fact, ...]:
        """What the systems set, the parameters of each benchmark that both sides have, and programs."""
        from assay.provenance import settings_side_by_side

        facts = settings_side_by_side("declared", self.a.systems_set, self.b.systems_set)
        for benchmark, points in self.a.parameters.items():
            others = self.b.parameters.get(benchmark, ())
            facts += settings_side_by_side("parameters", points, others, prefix=f"{benchmark}.")
        return facts + settings_side_by_side("programs", self.a.programs, self.b.programs)

    @property
    def matter(self) -> bool:
        """Whether a fact differs that could have changed a number."""
        return any(fact.matters for fact in self.facts)

    def document(self, *, everything: bool) -> dict[str, Any]:
        """The document, as its schema describes it."""
        shown = [fact for fact in self.facts if everything or fact.differs]
        return {
            "schema": "assay.diff/1",
            **{
                name: {"reference": side.reference, "runs": side.runs, "runs_known": len(side.known)}
                for name, side in (("a", self.a), ("b", self.b))
            },
            "differs": self.matter if self.known else None,
            "facts": [{**asdict(fact), "matters": fact.matters} for fact in shown],
        }


def diff(a: str, b: str, *, runs: str | PathLike[str] | None = None) -> Differences:
    """Differences between the settings, the machines and the software of two references.

    Like `assay diff RUN RUN`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing.
    """
    from assay.run.index import answered

    directory = runs_directory(runs)
    ready(directory)
    updated(directory)
    return answered(directory, lambda: Differences(_machines(directory, a), _machines(directory, b)))


def _machines(runs_dir: Path, reference: str) -> RunMachines:
    from assay import provenance, store
    from assay.questions.definitions import parameters, programs, systems_set

    results = store.find(runs_dir, reference)
    stated = (result.provenance for result in results if result.provenance is not None)
    return RunMachines(
        reference,
        len(results),
        tuple(recorded for recorded in stated if provenance.known(recorded)),
        systems_set(runs_dir, results),
        parameters(results),
        programs(runs_dir, results),
    )
