"""Differences between two software stacks, joined with what is known of each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.evidence import runs_directory
from assay.questions.stack_knowledge import digest_named, known, title
from assay.records import DEFAULT_MARGIN, to_plain
from assay.units import margin_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from assay.records import HardwareClass, Observation, Stack
    from assay.stacks.knowledge import Knowledge
    from assay.stacks.known_effects import KnownEffect
    from assay.stacks.stack import Change


@dataclass(frozen=True)
class StackSide:
    """One side of a difference.

    partial   it is from a file, which says nothing of the system, the settings and the builds
    hardware  the classes on which it was observed; of a file, the class of this machine
    failures  of stacks with this software, oldest first
    """

    reference: str
    stack: Stack
    partial: bool
    hardware: tuple[HardwareClass, ...]
    failures: tuple[Observation, ...]

    @property
    def title(self) -> str:
        """What people call it."""
        return title(self.stack)

    def matches(self, stack: Stack) -> bool:
        """Whether an observed stack has this side's software, whatever kernel and driver it ran on."""
        return has_software(stack, self.stack, partial=self.partial)


@dataclass(frozen=True)
class ChangeKnowledge:
    """One change, what comes with it, and what is known of it."""

    change: Change
    brings: tuple[Change, ...]
    effects: tuple[KnownEffect, ...]


@dataclass(frozen=True)
class StackDifferences:
    """The result of `diff_stacks`.

    together  what is known of all changes at once; empty if there is only one,
               measured alone
    changes   each change by itself
    """

    a: StackSide
    b: StackSide
    together: tuple[KnownEffect, ...]
    changes: tuple[ChangeKnowledge, ...]

    @property
    def deciding(self) -> tuple[KnownEffect, ...]:
        """What the answer rests on, on the hardware asked about: all changes together, else the only one."""
        every = self.together or (self.changes[0].effects if len(self.changes) == 1 else ())
        return tuple(effect for effect in every if effect.here and not effect.others)

    @property
    def verdict(self) -> str:
        """`fails`, `slower`, `faster`, `equivalent`, `undecided`, or `unknown`: nothing was measured."""
        here = {hardware.digest for hardware in (*self.a.hardware, *self.b.hardware)}
        if any(failure.hardware.digest in here for failure in self.b.failures):
            return "fails"
        verdicts = {effect.comparison.verdict for effect in self.deciding}
        for verdict in ("slower", "undecided", "faster", "equivalent"):
            if verdict in verdicts:
                return verdict
        return "unknown"

    def document(self) -> dict[str, Any]:
        """Two stacks' differences, with what is known of each."""
        from assay.questions.stack_knowledge import hardware_document, observation_document, stack_document

        return {
            "schema": "assay.stack-diff/1",
            "verdict": self.verdict,
            **{
                name: {
                    "reference": side.reference,
                    "title": side.title,
                    "partial": side.partial,
                    "stack": stack_document(side.stack),
                    "hardware": [hardware_document(hardware_class) for hardware_class in side.hardware],
                    "failures": [observation_document(failure) for failure in side.failures],
                }
                for name, side in (("a", self.a), ("b", self.b))
            },
            "together": [_effect_as_data(known) for known in self.together],
            "changes": [
                {
                    **asdict(change.change),
                    "brings": [asdict(other) for other in change.brings],
                    "effects": [_effect_as_data(known) for known in change.effects],
                }
                for change in self.changes
            ],
        }


def has_software(stack: Stack, software: Stack, *, partial: bool) -> bool:
    """Whether a stack has the software of another; if that is `partial`, whatever it does not mention."""
    if partial:
        return all(stack.packages.get(name) == version for name, version in software.packages.items())
    names = ("python.version", "python.torch_cuda")
    return (
        stack.packages == software.packages
        and stack.settings == software.settings
        and all(stack.system.get(name) == software.system.get(name) for name in names)
    )


def diff_stacks(
    a: str | PathLike[str],
    b: str | PathLike[str],
    *,
    margin: str | float | None = None,
    runs: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StackDifferences:
    """The differences between two stacks and what is known of each, like `assay stack diff A B`.

    a, b    each the beginning of a digest, a reference to runs, or a requirement file with exact versions
    margin  share that counts as equal, `"2%"` or 0.02; None means 2 %

    Raises InputError if a name matches nothing, or a file is not one of exact versions.
    """
    from assay.stacks.known_effects import claimed_together, effects_of_change, effects_together
    from assay.stacks.stack import changes, folded, with_it

    width = DEFAULT_MARGIN if margin is None else margin_of(margin)
    directory = runs_directory(runs)
    knowledge = known(directory, progress)
    sides = _side(directory, knowledge, str(a)), _side(directory, knowledge, str(b))
    every = _changes_in_question(changes(sides[0].stack, sides[1].stack), *sides)
    main = folded(every)
    here = frozenset(hardware_class.digest for side in sides for hardware_class in side.hardware)
    names = sides[0].reference, sides[1].reference
    matching = (sides[0].matches, sides[1].matches)
    each = [effects_of_change(knowledge.observations, change, width, here) for change in main]
    together: tuple[KnownEffect, ...] = ()
    if len(main) > 1 or (main and not each[0]):
        together = effects_together(knowledge.observations, matching, every, names, width, here)
    claims = iter(claimed_together([*together, *(effect for effects in each for effect in effects)]))
    together = tuple(next(claims) for _ in together)
    known_changes = tuple(
        ChangeKnowledge(change, with_it(change, every), tuple(next(claims) for _ in effects))
        for change, effects in zip(main, each, strict=True)
    )
    return StackDifferences(*sides, together, known_changes)


def _changes_in_question(every: tuple[Change, ...], a: StackSide, b: StackSide) -> tuple[Change, ...]:
    """The changes that both sides can know of: a file only names packages."""
    if not (a.partial or b.partial):
        return every
    return tuple(change for change in every if change.kind == "package")


def _side(runs_dir: Path, knowledge: Knowledge, reference: str) -> StackSide:
    from assay.stacks.requirements import is_requirement_file, pinned_packages

    path = Path(reference)
    if is_requirement_file(path):
        from assay.questions.stack_hardware import hardware_here
        from assay.records import Stack

        stack = Stack({}, pinned_packages(path))
        hardware: tuple[HardwareClass, ...] = (hardware_here(),)
        partial = True
    elif path.suffix in (".txt", ".toml") and not path.exists():
        raise InputError(f"{reference}: no such file")
    else:
        digest = digest_named(runs_dir, knowledge, reference)
        observed = [
            observation for observation in knowledge.observations if observation.stack.digest == digest
        ]
        stack, partial = observed[0].stack, False
        hardware = tuple(
            {observation.hardware.digest: observation.hardware for observation in observed}.values()
        )
    failures = tuple(
        observation
        for observation in knowledge.observations
        if observation.failure is not None and has_software(observation.stack, stack, partial=partial)
    )
    return StackSide(reference, stack, partial, hardware, failures)


def _effect_as_data(known: KnownEffect) -> dict[str, Any]:
    """What is known of a change on one hardware class."""
    from assay.questions.stack_knowledge import hardware_document

    return {
        "comparison": to_plain(known.comparison),
        "others": [asdict(other) for other in known.others],
        "hardware": hardware_document(known.hardware),
        "workload": to_plain(known.workload),
        "oldest_at": known.oldest,
        "newest_at": known.newest,
        "here": known.here,
        "origins": sorted(known.origins),
        "chosen_among": known.rivals,
        "set_aside": known.set_aside,
    }
