"""Differences between two software stacks, joined with what is known of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from assay.analyse.comparison.families import corrected
from assay.analyse.statistics.intervals import t_quantile
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError
from assay.questions.compare import Margin
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reference,
    argument,
    function,
    option,
    progress_line,
    question,
)
from assay.records import DEFAULT_MARGIN, Comparison, to_compact_json, to_plain
from assay.stacks.effects import Pair, between_sessions, rivals, session_name, within_sessions
from assay.stacks.knowledge import Knowledge
from assay.stacks.known import (
    Progress,
    day,
    digest_named,
    doubt_lines,
    failure_lines,
    hardware_document,
    hardware_here,
    known,
    observation_document,
    reading,
    stack_document,
    title,
)
from assay.stacks.stack import (
    Change,
    HardwareClass,
    Observation,
    Stack,
    StackWorkload,
    changes,
    folded,
    with_it,
)
from assay.stacks.uv import is_requirement_file, pinned_packages
from assay.units import counted, margin_of
from assay.view.blocks import Block, Paragraph
from assay.view.sentences.sentences import answer, evidence, needed, questions

_EXITS = {"fails": EXIT_WORSE, "slower": EXIT_WORSE, "undecided": EXIT_UNDECIDED, "unknown": EXIT_UNDECIDED}
_MOST_OTHERS = 6
TO_MEASURE = "To measure them here: assay stack explore FILE; docs/how-to/stack-explore.md shows the file."


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
class StackDifferences(Answer):
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

    @property
    def exit_code(self) -> int:
        """0 if B is as fast or faster, or they are equal; 1 if it is slower or fails; else 3."""
        return _EXITS.get(self.verdict, EXIT_OK) if self.changes else EXIT_OK

    def view(self) -> Iterator[Block]:
        """The verdict, both sides, then each change with what is known of it."""
        yield Paragraph(_headline(self))
        for name, side in (("A", self.a), ("B", self.b)):
            yield Paragraph(f"{name}  {side.reference}: {side.title}")
        for name, side in (("A", self.a), ("B", self.b)):
            for failure in side.failures:
                lines = (f"  {line}" for line in failure_lines(failure))
                yield Paragraph("\n".join(["", f"{name} is known to fail:", *lines]))
        if self.together:
            yield Paragraph("\nAll changes together")
            yield from map(_effect_block, self.together)
        for change in self.changes:
            library = "library" if len(change.brings) == 1 else "libraries"
            brings = f" (with {len(change.brings)} {library} of it)" if change.brings else ""
            yield Paragraph(f"\n{change.change}{brings}")
            if not change.effects:
                yield Paragraph("  not measured: no session has both")
            yield from map(_effect_block, change.effects)

    def document(self) -> dict[str, Any]:
        """Two stacks' differences, with what is known of each."""
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
            "together": [effect.document() for effect in self.together],
            "changes": [
                {
                    **asdict(change.change),
                    "brings": [asdict(other) for other in change.brings],
                    "effects": [effect.document() for effect in change.effects],
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


def _changes_in_question(every: tuple[Change, ...], a: StackSide, b: StackSide) -> tuple[Change, ...]:
    """The changes that both sides can know of: a file only names packages."""
    if not (a.partial or b.partial):
        return every
    return tuple(change for change in every if change.kind == "package")


def _side(runs_dir: Path, knowledge: Knowledge, reference: str) -> StackSide:
    path = Path(reference)
    if is_requirement_file(path):
        stack = Stack({}, pinned_packages(path))
        hardware: tuple[HardwareClass, ...] = (hardware_here(),)
        partial = True
    elif path.suffix in (".txt", ".toml") and not path.exists():
        raise InputError(f"{reference}: no such file")
    else:
        digest = digest_named(runs_dir, knowledge, reference)
        observed = [seen for seen in knowledge.observations if seen.stack.digest == digest]
        stack, partial = observed[0].stack, False
        hardware = tuple({seen.hardware.digest: seen.hardware for seen in observed}.values())
    failures = tuple(
        seen
        for seen in knowledge.observations
        if seen.failure is not None and has_software(seen.stack, stack, partial=partial)
    )
    return StackSide(reference, stack, partial, hardware, failures)


_MOST_SETS = 2  # of changes that are shown for one change on one hardware class
Matches = Callable[[Stack], bool]
Where = tuple[str, str, str]  # hardware, workload, metric: what is comparable


@dataclass(frozen=True)
class KnownEffect:
    """What changing a stack did to one metric on one hardware class.

    comparison  of the stacks with the changes and those without
    others      what else changed between them: the effect is of all of it together
    oldest, newest  when it was observed, seconds since the epoch
    here        the hardware is of the class that was asked about
    origins     keys of the parties that observed it; "" is this runs directory
    rivals      comparisons that its sessions allow, this one included: it may have been chosen among them
    set_aside   sessions that measured more stacks, next to enough that measured fewer
    """

    comparison: Comparison
    others: tuple[Change, ...]
    hardware: HardwareClass
    workload: StackWorkload
    oldest: float
    newest: float
    here: bool
    origins: frozenset[str]
    rivals: int
    set_aside: int = 0

    @property
    def place(self) -> Where:
        """What is comparable with it."""
        point = self.comparison.point
        labels = sorted(point.labels.items())
        return self.hardware.digest, self.workload.question, f"{point.metric} {labels}"

    def document(self) -> dict[str, Any]:
        """What is known of a change on one hardware class."""
        return {
            "comparison": to_plain(self.comparison),
            "others": [asdict(other) for other in self.others],
            "hardware": hardware_document(self.hardware),
            "workload": to_plain(self.workload),
            "oldest_at": self.oldest,
            "newest_at": self.newest,
            "here": self.here,
            "origins": sorted(self.origins),
            "chosen_among": self.rivals,
            "set_aside": self.set_aside,
        }


class StackEvidence:
    """What sessions show of changes between stacks.

    places    the primary figures of each session at each place
    measured  at each place: session → digests of the stacks that it measured
    """

    def __init__(self, observed: Iterable[Observation], margin: float, here: frozenset[str]) -> None:
        """Sort what was observed.

        here  digests of the hardware classes in question; their effects come first
        """
        self.margin, self.here = margin, here
        self.places = list(_by_place(observed))
        self.measured: dict[Where, dict[str, frozenset[str]]] = {}
        for where, observations in self.places:
            digests = frozenset(observation.stack.digest for observation in observations)
            self.measured.setdefault(where, {})[session_name(observations[0])] = digests

    def of_change(self, change: Change) -> tuple[KnownEffect, ...]:
        """What is known of one change at each place, from the least confounded evidence."""
        sets: dict[tuple[Where, frozenset[Change]], list[Pair]] = {}
        for where, of_session in self.places:
            before = [seen for seen in of_session if _may_have(seen.stack, change, change.a)]
            after = [seen for seen in of_session if _may_have(seen.stack, change, change.b)]
            for a, b in itertools.product(before, after):
                if _one_program((a, b)):
                    delta = frozenset(changes(a.stack, b.stack))
                    if change in delta:
                        sets.setdefault((where, delta), []).append((a, b))
        names = _describe_change(change, change.a), _describe_change(change, change.b)
        return _least_confounded(
            [
                self._within(where, pairs, _other_changes(delta, change), names)
                for (where, delta), pairs in sets.items()
            ]
        )

    def together(
        self, sides: tuple[Matches, Matches], subject: Iterable[Change], names: tuple[str, str]
    ) -> tuple[KnownEffect, ...]:
        """What is known of all changes together: of stacks that match A compared with those that match B.

        subject  the changes that the question is about: what else differs is reported

        Stacks that were never measured in one session are compared by the means of their sessions.
        """
        pairs: dict[Where, list[Pair]] = {}
        alone: dict[Where, tuple[list[Observation], list[Observation]]] = {}
        for where, of_session in self.places:
            a, b = ([seen for seen in of_session if matches(seen.stack)] for matches in sides)
            pairs.setdefault(where, []).extend(
                pair
                for pair in itertools.product(a, b)
                if pair[0].stack.digest != pair[1].stack.digest and _one_program(pair)
            )
            apart = alone.setdefault(where, ([], []))
            apart[0].extend(a)
            apart[1].extend(b)
        effects = []
        for where, place_pairs in pairs.items():
            if place_pairs:
                others = _changes_besides(place_pairs, subject)
                effects.append(self._within(where, place_pairs, others, names))
            elif all(alone[where]) and _one_program(itertools.chain(*alone[where])):
                effects.append(self._between(where, *alone[where], subject, names))
        return tuple(sorted(effects, key=lambda effect: not effect.here))

    def _within(
        self, where: Where, pairs: Sequence[Pair], others: tuple[Change, ...], names: tuple[str, str]
    ) -> KnownEffect:
        """By sessions that measured both."""
        measured = self.measured[where]
        allowed = {session_name(a): len(measured[session_name(a)]) - 1 for a, _ in pairs}
        most = _least_chosen(list(allowed.values()))
        deciding = [pair for pair in pairs if allowed[session_name(pair[0])] <= most]
        observed = [observation for pair in deciding for observation in pair]
        aside = sum(count > most for count in allowed.values())
        return self._known(within_sessions(deciding, names, self.margin), observed, others, most, aside)

    def _between(
        self,
        where: Where,
        a: Sequence[Observation],
        b: Sequence[Observation],
        subject: Iterable[Change],
        names: tuple[str, str],
    ) -> KnownEffect:
        """By the means of sessions that measured one of them."""
        others = _changes_besides([*itertools.product(a, b)], subject)
        sessions = {session_name(observation) for observation in (*a, *b)}
        measured = (self.measured[where][name] for name in sessions)
        chosen = rivals(measured, a[0].stack.digest, b[0].stack.digest)
        return self._known(between_sessions(a, b, names, self.margin), [*a, *b], others, chosen)

    def _known(
        self,
        comparison: Comparison,
        observed: Sequence[Observation],
        others: tuple[Change, ...],
        rivals: int,
        set_aside: int = 0,
    ) -> KnownEffect:
        first = observed[0]
        if first.workload is None:
            raise ValueError("a failure has no effect")
        return KnownEffect(
            comparison=comparison,
            others=others,
            hardware=first.hardware,
            workload=first.workload,
            oldest=min(observation.at for observation in observed),
            newest=max(observation.at for observation in observed),
            here=first.hardware.digest in self.here,
            origins=frozenset(observation.origin for observation in observed),
            rivals=rivals,
            set_aside=set_aside,
        )


def claimed_together(effects: Sequence[KnownEffect]) -> Iterator[KnownEffect]:
    """The effects, with verdicts that may be claimed jointly for all those on the hardware asked about.

    They are a choice among what their sessions allow, at each place where something was measured.
    """
    claims = [effect for effect in effects if effect.here]
    rivals_at: dict[Where, list[int]] = {}
    for effect in claims:
        rivals_at.setdefault(effect.place, []).append(effect.rivals)
    out_of = sum(max(len(counts), *counts) for counts in rivals_at.values())
    comparisons = iter(corrected([effect.comparison for effect in claims], out_of))
    return (replace(effect, comparison=next(comparisons)) if effect.here else effect for effect in effects)


def _by_place(observed: Iterable[Observation]) -> Iterator[tuple[Where, list[Observation]]]:
    """The primary figures of each session at each place."""
    by_session: dict[tuple[Where, str, str], list[Observation]] = {}
    texts: dict[int, str] = {}
    for seen in observed:
        if seen.primary and seen.metric is not None and seen.workload is not None and _positive(seen):
            metric = texts.setdefault(id(seen.metric), to_compact_json(seen.metric))
            where = (seen.hardware.digest, seen.workload.question, metric)
            by_session.setdefault((where, seen.origin, seen.session), []).append(seen)
    yield from ((where, observations) for (where, _, _), observations in by_session.items())


def _positive(observation: Observation) -> bool:
    return bool(observation.values) and min(value for _, value in observation.values) > 0


def _may_have(stack: Stack, change: Change, value: object) -> bool:
    """Whether a stack may be on this side of a change; a quick look before everything is compared."""
    parts: Mapping[str, Mapping[str, object]] = {
        "package": stack.packages,
        "build": stack.builds,
        "system": stack.system,
        "setting": stack.settings,
    }
    return parts[change.kind].get(change.name) == value


def _by_kind(change: Change) -> tuple[str, str]:
    return change.kind, change.name


def _other_changes(delta: frozenset[Change], change: Change) -> tuple[Change, ...]:
    return tuple(sorted(folded(delta - {*with_it(change, delta), change}), key=_by_kind))


def _changes_besides(pairs: Sequence[Pair], subject: Iterable[Change]) -> tuple[Change, ...]:
    """What differs in every case besides the changes that were asked about."""
    subjects = set(subject)
    each = [set(changes(a.stack, b.stack)) - subjects for a, b in pairs]
    brought = {other for change in subjects for delta in each for other in with_it(change, delta)}
    return tuple(sorted(set.union(*each) - brought, key=_by_kind))


def _least_chosen(allowed: Sequence[int]) -> int:
    """How many comparisons a session may allow, at most, to count.

    allowed  comparisons that each session allows

    A pair that was picked in an exploration and confirmed by sessions of its own does not have to pay for
    the picking in these. The choice is the one with the narrowest interval if all sessions differ alike: it
    depends on what was measured, never on the figures.
    """

    def width(most: int) -> float:
        n = sum(count <= most for count in allowed)
        return t_quantile(1 - 0.025 / most, n - 1) / math.sqrt(n) if n > 1 else math.inf

    return min(sorted(set(allowed), reverse=True), key=width)


def _one_program(observed: Iterable[Observation]) -> bool:
    """Whether figures come from the same program, and so can be compared."""
    return len({seen.workload.digest for seen in observed if seen.workload is not None}) == 1


def _describe_change(change: Change, value: object) -> str:
    """The name of one side of a change: `torch 2.8.0`."""
    name = change.name.removeprefix("env.")
    return f"without {name}" if value is None else f"{name} {value}"


def _least_confounded(effects: Sequence[KnownEffect]) -> tuple[KnownEffect, ...]:
    """Per hardware class, workload and metric: the effects with the fewest other changes."""
    by_place: dict[Where, list[KnownEffect]] = {}
    for effect in effects:
        by_place.setdefault(effect.place, []).append(effect)
    kept: list[KnownEffect] = []
    for at_place in by_place.values():
        fewest = min(len(effect.others) for effect in at_place)
        best = [effect for effect in at_place if len(effect.others) == fewest]
        kept += sorted(best, key=lambda effect: -min(effect.comparison.sessions))[:_MOST_SETS]
    return tuple(sorted(kept, key=lambda effect: (not effect.here, len(effect.others))))


@question
class DiffStacks(Question):
    """Show what differs between the stacks A and B, and what is known of each difference.

    A and B each name a stack: the beginning of its digest, runs that have it, or a file with exact versions
    (pylock.toml, requirements.txt, the output of `pip freeze`).

    What is known comes from runs of this directory and from trusted bundles: pairs of stacks that were
    measured in the same sessions and differ in the same way. If other things changed with it, the effect is
    of all of them together.

    \b
    Examples:
      assay stack diff quickstart:here quickstart:updated
      assay stack diff requirements.txt pylock.toml

    \b
    Exit codes: 0 B is as fast as A or faster; 1 slower, or known to fail;
    3 undecided, or nothing is known; 4 no such stack.
    """

    a: Reference = argument()
    b: Reference = argument()
    margin: Margin | None = option("Difference that counts as equal, such as 2%. [default: 2%]", default=None)
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)
    progress: Progress | None = progress_line(reading, default=None)

    def answer(self) -> StackDifferences:
        """The differences. Raises InputError if a name matches nothing, or a file has no exact versions."""
        width = DEFAULT_MARGIN if self.margin is None else margin_of(self.margin)
        directory = runs_directory(self.runs)
        knowledge = known(directory, self.progress)
        sides = _side(directory, knowledge, str(self.a)), _side(directory, knowledge, str(self.b))
        every = _changes_in_question(changes(sides[0].stack, sides[1].stack), *sides)
        main = folded(every)
        here = frozenset(hardware_class.digest for side in sides for hardware_class in side.hardware)
        shown = StackEvidence(knowledge.observations, width, here)
        each = [shown.of_change(change) for change in main]
        together: tuple[KnownEffect, ...] = ()
        if len(main) > 1 or (main and not each[0]):
            matching = sides[0].matches, sides[1].matches
            together = shown.together(matching, every, (sides[0].reference, sides[1].reference))
        claims = claimed_together([*together, *(effect for effects in each for effect in effects)])
        together = tuple(next(claims) for _ in together)
        known_changes = tuple(
            ChangeKnowledge(change, with_it(change, every), tuple(next(claims) for _ in effects))
            for change, effects in zip(main, each, strict=True)
        )
        return StackDifferences(*sides, together, known_changes)


diff_stacks = function(DiffStacks, DiffStacks.answer)


def _headline(stack_differences: StackDifferences) -> str:
    if not stack_differences.changes:
        return "The two stacks are equal."
    number = counted(len(stack_differences.changes), "change")
    match stack_differences.verdict:
        case "fails":
            return f"{number}: B is known to fail."
        case "unknown":
            return f"{number}: not measured on this hardware. {TO_MEASURE}"
        case "undecided":
            return f"{number}: whether B is as fast as A is undecided."
        case "equivalent":
            return f"{number}: B is as fast as A."
        case verdict:
            return f"{number}: B is {verdict} than A."


def _effect_block(effect: KnownEffect) -> Block:
    return Paragraph("\n".join(_effect_lines(effect)))


def _effect_lines(effect: KnownEffect) -> Iterator[str]:
    """The verdict with its interval, what it rests on, what else changed, and the doubts."""
    (question,) = questions([effect.comparison])
    yield f"  {answer(question)}"
    where = f"on {effect.hardware}" + ("" if effect.here else " (other hardware: not used)")
    when = day(effect.oldest)
    when += "" if day(effect.newest) == when else f" to {day(effect.newest)}"
    others = len(effect.origins - {""})
    parties = counted(others, "other party").replace("partys", "parties")
    source = f", {parties} among the sources" if others else ""
    yield f"    {where}; {when}{source}; {evidence(question)}"
    if effect.comparison.family is not None and effect.comparison.verdict == "undecided":
        yield f"    why: {effect.comparison.reason}"
    if effect.comparison.verdict == "undecided" and (hint := needed([effect.comparison])):
        yield f"    {hint}"
    if effect.set_aside:
        aside = counted(effect.set_aside, "session")
        yield f"    not used: {aside} that measured more stacks, among which this pair may have been chosen"
    if effect.others:
        yield f"    confounded: the effect is of all these together: {_listed(effect.others)}"
    yield from doubt_lines(effect.comparison.doubts, "    ")


def _listed(changes: Sequence[Change]) -> str:
    more = len(changes) - _MOST_OTHERS
    return "; ".join(map(str, changes[:_MOST_OTHERS])) + (f"; and {more} more" if more > 0 else "")
