"""What a bisection came to: the changes that are responsible, the evidence, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.analyse.comparison.verdict import lost_as_text, too_much
from assay.errors import EXIT_OK, EXIT_UNDECIDED
from assay.questions.question import Answer
from assay.records import Comparison, to_plain
from assay.stacks.bisect_search import Confirmation, Culprit, Search, SpeedEffect
from assay.stacks.stack import Change
from assay.units import counted, human_seconds
from assay.view.blocks import Block, Paragraph

_MOST_NAMES: Final = 12
_ENDS: Final = {
    "equal": "The two stacks are equally fast within the margin: there is nothing to find.",
    "no difference": "No difference is shown; raise --max-repeats, or measure something that runs longer.",
    "better": "The bad stack is faster than the good one; swap them to find out why.",
    "good fails": "GOOD fails where BAD works: swap them to find out why, or look at the logs of its runs.",
    "too few figures": "The two stacks gave no figure in the same blocks; look at the logs of their runs.",
    "undecided": "No change can be named.",
    "time is up": "The budget is spent; run it again with a larger one to resume.",
}


@dataclass(frozen=True)
class BisectPlan(Answer):
    """What will be bisected, before anything is measured.

    names     of the changes, in the order in which they are applied
    fixed     differences that can't be made here, such as the kernel's version
    at_least  stacks to build if every answer is clear
    """

    name: str
    what: str
    names: tuple[str, ...]
    fixed: tuple[Change, ...]
    at_least: int
    folder: Path

    @property
    def lines(self) -> Iterator[str]:
        """What will be bisected, as text."""
        changes = counted(len(self.names), "change")
        yield f"{self.name}: {self.what}: {changes}, at least {self.at_least} stacks to build"
        yield from (f"  {name}" for name in self.names[:_MOST_NAMES])
        if len(self.names) > _MOST_NAMES:
            yield f"  … and {len(self.names) - _MOST_NAMES} more"
        yield from (f"  not changed here: {change}" for change in self.fixed)

    def view(self) -> Iterator[Block]:
        """What would be bisected."""
        yield Paragraph("\n".join(self.lines), wraps=False)

    def document(self) -> dict[str, Any]:
        """What would be bisected."""
        return {
            "schema": "assay.stack-bisection-plan/1",
            "name": self.name,
            "what": self.what,
            "changes": list(self.names),
            "fixed": [str(change) for change in self.fixed],
            "at_least": self.at_least,
            "folder": str(self.folder),
        }


@dataclass(frozen=True)
class BisectedLine:
    """What the search of one row of stacks has come to.

    search       its state: culprits, probabilities, effects on the log scale, how it ended
    ends         the bad stack compared with the good one; None if there is no figure of both
    builds       stacks that were built, besides the ends
    unbuildable  stacks that could not be, with the reason
    then         why it is not followed by a finer search, as text; "" if it is, or need not be
    """

    what: str
    names: tuple[str, ...]
    search: Search
    ends: Comparison | None
    builds: int
    unbuildable: tuple[tuple[str, str], ...]
    then: str = ""

    @property
    def too_busy(self) -> bool:
        """Whether the ends may have lost too much of their time to others for a verdict on speed."""
        by_speed = self.search.kind != "fails"
        return by_speed and self.ends is not None and too_much(self.ends.lost_to_others)


@dataclass(frozen=True)
class BisectionResult(Answer):
    """The result of a bisection: its lines, the coarsest first."""

    plan: BisectPlan
    lines: tuple[BisectedLine, ...]
    spent_s: float
    error: float
    sessions: tuple[str, ...]

    @property
    def ended(self) -> str:
        """How the first search ended."""
        return self.lines[0].search.ended

    @property
    def decided(self) -> bool:
        """Whether a change is named that may be relied on."""
        return self.ended == "found" and not self.lines[0].too_busy

    @property
    def exit_code(self) -> int:
        """3 if no change can be named."""
        return EXIT_OK if self.decided else EXIT_UNDECIDED

    def view(self) -> Iterator[Block]:
        """What is responsible, the evidence, and what to do."""
        for line in self.lines:
            yield Paragraph("\n".join([*_describe(line, self.error), ""]), wraps=False)
        builds = sum(line.builds for line in self.lines)
        yield Paragraph(f"{builds} stacks built between the ends, {human_seconds(self.spent_s)}")
        yield Paragraph(f"Locks and logs: {self.plan.folder}", wraps=False)

    def document(self) -> dict[str, Any]:
        """The answer: every line that was bisected, the coarsest first."""
        return {
            "schema": "assay.stack-bisection/1",
            "name": self.plan.name,
            "ended": self.ended,
            "decided": self.decided,
            "error": self.error,
            "changes": list(self.plan.names),
            "fixed": [str(change) for change in self.plan.fixed],
            "spent_s": self.spent_s,
            "sessions": list(self.sessions),
            "lines": [_line_as_data(line) for line in self.lines],
        }


def _describe(line: BisectedLine, error: float) -> Iterator[str]:
    search = line.search
    if line.too_busy and line.ends is not None:
        yield f"No verdict: {lost_as_text(line.ends.lost_to_others, ('GOOD', 'BAD'))}."
        yield "Give another --name, and run it again on an idle machine. What the runs suggest:"
    if search.ended != "found":
        yield f"{line.what}: {_ENDS[search.ended]}"
        if search.ended in ("undecided", "time is up"):
            yield from _likeliest(line)
    if search.doubtful is not None:
        yield from _doubtful(line, search.doubtful)
    for number, culprit in enumerate(search.culprits):
        yield from _culprit(line, number, culprit, error)
    if search.whole is not None:
        yield f"  BAD relative to GOOD, one build of each: {_times(search.whole)}"
    if search.reverted is not None:
        yield f"  BAD without it, one build of each: {_reverted(search.reverted)}"
    if search.culprits and search.culprits[-1].explains is False:
        yield "  More changes are responsible than were found."
    for name, why in line.unbuildable[:_MOST_NAMES]:
        yield f"  not built: {name}: {why[:200]}"
    for doubt in line.ends.doubts if line.ends else ():
        yield f"  doubt {doubt.code}: {doubt.evidence}"
    if line.then:
        yield f"  {line.then}"


def _culprit(line: BisectedLine, number: int, culprit: Culprit, error: float) -> Iterator[str]:
    names = " or ".join(line.names[change] for change in culprit.changes)
    kind = "fail" if line.search.kind == "fails" else "slower"
    makes = "may make" if line.too_busy else "makes"
    role = f"{makes} it {kind}" if number == 0 else "is needed for it, or adds to it"
    sure = "more than 99.9 %" if culprit.probability > 0.999 else f"{100 * culprit.probability:.1f} %"
    if culprit.probability < 1 - error:
        sure = "the only stacks that can be built"
    yield f"{names} {role} ({sure})"
    if len(culprit.changes) > 1:
        yield "  No stack that can be built separates these."
    if culprit.confirmed is not None:
        yield f"  confirmed: {_built_again(culprit.confirmed)}"
    if culprit.effect is not None:
        yield f"  GOOD with it, one build of each: {_times(culprit.effect)}"
    if culprit.fails is not None:
        yield f"  GOOD with it {'fails too' if culprit.fails else 'does not fail: it needs another change'}"
    if culprit.effect is None and culprit.fails is None and line.search.settings.alone:
        yield "  GOOD with only this change could not be measured, so it may need others."


def _likeliest(line: BisectedLine) -> Iterator[str]:
    ranked = sorted(line.search.probabilities.items(), key=lambda pair: -pair[1])
    for change, probability in ranked[:5]:
        yield f"  {100 * probability:.0f} %  {line.names[change]}"


def _doubtful(line: BisectedLine, culprit: Culprit) -> Iterator[str]:
    """Why the likeliest change is not named, and what to do."""
    names = " or ".join(line.names[change] for change in culprit.changes)
    confirmed = culprit.confirmed
    if confirmed is None:
        yield f"  not confirmed: {names}: stacks built again without and with it gave no figures"
        return
    yield f"  not confirmed: {names}: {_built_again(confirmed)}"
    if confirmed.equal(math.log1p(line.search.settings.margin)) or confirmed.needed is None:
        yield "  The measured difference is one of builds, or it is spread over many small changes."
        return
    builds = counted(confirmed.needed, "build")
    yield f"  To show an effect this large among builds that differ this much takes about {builds} of each."


def _built_again(confirmation: Confirmation) -> str:
    """What new builds say of a change."""
    differ = 100 * math.expm1(confirmation.spread)
    return (
        f"with it {_times(confirmation.effect)}, each stack built again {confirmation.builds} times; "
        f"builds of one stack differ by {differ:.2g} % (standard deviation)"
    )


def _times(effect: SpeedEffect) -> str:
    low, middle, high = (math.exp(log) for log in (effect.low, effect.log, effect.high))
    return f"× {middle:.3f} ({low:.3f} to {high:.3f})"


def _reverted(reverted: SpeedEffect | bool) -> str:
    if isinstance(reverted, bool):
        return "fails all the same" if reverted else "does not fail"
    return f"{_times(reverted)} of GOOD"


def _line_as_data(line: BisectedLine) -> dict[str, Any]:
    search = line.search
    reverted = search.reverted
    return {
        "what": line.what,
        "changes": list(line.names),
        "ended": search.ended,
        "kind": search.kind,
        "too_busy": line.too_busy,
        "culprits": [_culprit_as_data(line, culprit) for culprit in search.culprits],
        "not_confirmed": None if search.doubtful is None else _culprit_as_data(line, search.doubtful),
        "probabilities": {line.names[index]: p for index, p in search.probabilities.items()},
        "bad_relative_to_good": _effect_as_data(search.whole),
        "bad_without_culprits": {"fails": reverted}
        if isinstance(reverted, bool)
        else _effect_as_data(reverted),
        "comparison": None if line.ends is None else to_plain(line.ends),
        "builds": line.builds,
        "unbuildable": [{"stack": name, "why": why} for name, why in line.unbuildable],
        "then": line.then,
    }


def _culprit_as_data(line: BisectedLine, culprit: Culprit) -> dict[str, Any]:
    return {
        "changes": [line.names[index] for index in culprit.changes],
        "probability": culprit.probability,
        "built_again": _confirmation_as_data(culprit.confirmed),
        "good_with_it": {"fails": culprit.fails}
        if culprit.fails is not None
        else _effect_as_data(culprit.effect),
        "explains": culprit.explains,
    }


def _confirmation_as_data(confirmation: Confirmation | None) -> dict[str, Any] | None:
    if confirmation is None:
        return None
    return {
        "effect": _effect_as_data(confirmation.effect),
        "builds_of_each": confirmation.builds,
        "spread_of_builds": math.expm1(confirmation.spread),
        "confirmed": confirmation.slower,
    }


def _effect_as_data(effect: SpeedEffect | None) -> dict[str, float] | None:
    if effect is None:
        return None
    return {
        name: math.exp(getattr(effect, attribute))
        for name, attribute in (("ratio", "log"), ("low", "low"), ("high", "high"))
    }
