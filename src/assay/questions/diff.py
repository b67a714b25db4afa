"""Differences between the settings, the machines and the software of two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE
from assay.questions.evidence import ready, runs_directory, updated
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reference,
    argument,
    function,
    option,
    question,
)
from assay.units import counted
from assay.view.blocks import Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from assay.provenance import Fact
    from assay.questions.definitions import Settings
    from assay.records import Provenance, Scalar
    from assay.view.blocks import Block

ABSENT = "–"
_UNITS = {"_bytes": "B", "_hz": "Hz"}


@question
class Diff(Question):
    """Show the differences between two runs' settings, machines and software.

    What the user set comes first: environment, launcher and options of the systems, and the parameters of
    benchmarks that both sides have. Secrets are hidden, so two secrets may look equal.

    A reference may name several runs, and a run several nodes: a fact that is not the same in all of
    them varies, and all its values are shown. Which of many equal machines was used, and momentary facts
    (load, clocks, temperatures, free space), are listed separately and don't count as differences.

    \b
    Examples:
      assay diff quickstart:bare-metal quickstart:openshift
      assay diff acceptance/20260301-101500 acceptance       what changed since March
      assay diff a b --all                                   also equal facts

    \b
    Exit codes: 0 no relevant difference; 1 relevant differences;
    3 unknown: the runs of a side don't describe their machines; 4 no such run.
    """

    a: str = argument(metavar="RUN")
    b: str = argument(metavar="RUN")
    everything: bool = option(
        "Also show facts that are equal or only momentary.", default=False, names=("--all",), output=True
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> Differences:
        """Each fact of both sides. Raises InputError if a name matches nothing."""
        from assay.run.index import answered

        directory = runs_directory(self.runs)
        ready(directory)
        updated(directory)
        return answered(
            directory,
            lambda: Differences(_machines(directory, self.a), _machines(directory, self.b), self.everything),
        )


diff = function(Diff, Diff.answer)


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
class Differences(Answer):
    """The result of `diff`; `everything` shows also facts that are equal or only momentary."""

    a: RunMachines
    b: RunMachines
    everything: bool = False

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

    @property
    def exit_code(self) -> int:
        """By whether something differs that matters."""
        return EXIT_UNDECIDED if not self.known else EXIT_WORSE if self.matter else EXIT_OK

    def view(self) -> Iterator[Block]:
        """Both sides; what differs, by group; how much does not."""
        sides = (("A", self.a), ("B", self.b))
        yield from (Paragraph(f"{name}  {_described(side)}", wraps=False) for name, side in sides)
        shown = [fact for fact in self.facts if self.everything or _is_shown(fact)]
        if shown:
            yield _table(shown)
        if self.known:
            yield Paragraph(f"\n{_summary(self.facts, everything=self.everything)}")
        else:
            silent = " and ".join(name for name, side in sides if not side.known)
            yield Paragraph(f"\nUnknown: no run of {silent} describes the machine it ran on.")

    def document(self) -> dict[str, Any]:
        """The document `assay.diff/1`."""
        shown = [fact for fact in self.facts if self.everything or fact.differs]
        return {
            "schema": "assay.diff/1",
            **{
                name: {"reference": side.reference, "runs": side.runs, "runs_known": len(side.known)}
                for name, side in (("a", self.a), ("b", self.b))
            },
            "differs": self.matter if self.known else None,
            "facts": [{**asdict(fact), "matters": fact.matters} for fact in shown],
        }


def _is_shown(fact: Fact) -> bool:
    return fact.differs and fact.group != "momentary"


def _described(side: RunMachines) -> str:
    nodes = {len(provenance.nodes) for provenance in side.known}
    parts = [counted(side.runs, "run")]
    if nodes and nodes != {1}:
        parts.append(f"{' or '.join(map(str, sorted(nodes)))} nodes each")
    if side.known and len(side.known) < side.runs:
        parts.append(f"{side.runs - len(side.known)} of them don't describe their machine")
    return f"{side.reference}  ({', '.join(parts)})"


def _table(facts: Sequence[Fact]) -> Table:
    """Facts grouped under headings, with the values of both sides next to each other."""
    from assay.provenance import GROUPS

    bodies = [
        TableBody(GROUPS[group], tuple(TableRow((f"  {fact.name}", *texts(fact))) for fact in of_group))
        for group, of_group in groupby(facts, key=lambda fact: fact.group)
    ]
    return Table("", ("", "A", "B"), tuple(bodies), frozenset({0, 1, 2}))


def texts(fact: Fact) -> tuple[str, str]:
    """Both sides formatted for people; unrounded if rounding would hide a difference."""
    left, right = (_values(fact.name, values) for values in (fact.a, fact.b))
    if left == right and fact.differs:
        return _values("", fact.a), _values("", fact.b)
    return left, right


def _values(name: str, values: Sequence[Scalar]) -> str:
    from assay.units import human

    unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), None)
    texts = []
    for value in values:
        if value is None:
            texts.append(ABSENT)
        elif unit is not None and isinstance(value, int | float) and value >= 10**6:
            texts.append(human(value, unit))
        else:
            texts.append({True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value))
    return texts[0] if len(texts) == 1 else f"varies: {' | '.join(texts)}"


def _summary(facts: Sequence[Fact], *, everything: bool) -> str:
    mattering = sum(fact.matters for fact in facts)
    equal = sum(not fact.differs for fact in facts)
    momentary = sum(fact.differs and fact.group == "momentary" for fact in facts)
    parts = [
        f"{mattering} {'fact differs' if mattering == 1 else 'facts differ'}"
        if mattering
        else "No relevant difference",
        f"{equal} are equal",
    ]
    if momentary:
        parts.append(f"{momentary} differ only momentarily")
    return ", ".join(parts) + ("." if everything else "; --all shows every fact.")


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
