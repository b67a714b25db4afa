"""What to do after reading a report: accept, reject, repeat or fix, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.analyse import explanations
from assay.records import Comparison, Doubt
from assay.report.contents import Contents
from assay.report.sentences import needed

_GRAVE = ("invalid", "biased")


@dataclass(frozen=True)
class Recommendation:
    """An action, why in a sentence, and the severity of the gravest doubt: `invalid`, `biased` or ""."""

    action: str
    sentence: str
    severity: str = ""


def recommendation(contents: Contents) -> Recommendation:
    """What the verdicts and their doubts come to; a doubt of invalid figures outweighs every verdict."""
    comparisons = [c for question in contents.questions for c in question.comparisons]
    found = [d for c in comparisons for d in c.doubts] + [d for r in contents.requirements for d in r.doubts]
    severity = gravest(found)
    action, why = _decided(contents, comparisons)
    codes = ", ".join(_codes(found, severity))
    if severity == "invalid":
        return Recommendation("Fix first", f"{codes}: until then, decide nothing on these figures.", severity)
    if severity == "biased":
        words = f"{why} {codes} may have shifted the figures: remove the cause and run again to be sure."
        return Recommendation(action if action == "Repeat" else f"{action} for now", words, severity)
    return Recommendation(action, why)


def gravest(doubts: Sequence[Doubt]) -> str:
    """`invalid` or `biased` where a doubt is as grave as that, else ""."""
    present = {_severity(doubt) for doubt in doubts}
    return next((severity for severity in _GRAVE if severity in present), "")


def _severity(doubt: Doubt) -> str:
    return explanations.EXPLANATIONS[doubt.code].severity


def _codes(doubts: Sequence[Doubt], severity: str) -> list[str]:
    return list(dict.fromkeys(doubt.code for doubt in doubts if _severity(doubt) == severity))


def _decided(contents: Contents, comparisons: Sequence[Comparison]) -> tuple[str, str]:
    slower = [c for c in comparisons if c.verdict == "slower"]
    failing = [r for r in contents.requirements if r.verdict == "fails"]
    if slower or failing:
        parts = [_slower(slower, comparisons)] if slower else []
        parts += [f"{_of(len(failing), len(contents.requirements), 'requirement')} fail"] if failing else []
        return "Do not accept", f"{_capital('; '.join(parts))}."
    open_ones = [c for c in comparisons if c.verdict == "undecided"]
    unmet = [r for r in contents.requirements if r.verdict == "undecided"]
    if open_ones or unmet:
        parts = [f"{_of(len(open_ones), len(comparisons), 'comparison')} undecided"] if open_ones else []
        parts += [f"{_of(len(unmet), len(contents.requirements), 'requirement')} undecided"] if unmet else []
        return "Repeat", "; ".join(filter(None, [*parts, needed(open_ones)])) + "."
    if comparisons:
        held = f" and {_all(len(contents.requirements), 'requirement')} hold" if contents.requirements else ""
        return "Accept", f"{_fast(comparisons)}{held}."
    if contents.requirements:
        return "Accept", f"{_capital(_all(len(contents.requirements), 'requirement'))} hold."
    if contents.studies and len(contents.sides) > 1:
        return _sizes(contents)
    return (
        "Nothing to decide",
        "One system was measured alone: add a second one, or requirements under expect.",
    )


def _sizes(contents: Contents) -> tuple[str, str]:
    """Of sizes of one system: those to repeat, because a larger one shows that they lost speed."""
    remedies = [d.remedy for found in contents.studies for d in found.doubts if d.code == "superlinear"]
    if remedies:
        return "Repeat", f"{'. '.join(remedies)}."
    return (
        "Nothing to decide",
        "These are sizes of one system: add a second one, or requirements under expect.",
    )


def _slower(slower: Sequence[Comparison], of: Sequence[Comparison]) -> str:
    names = ", ".join(dict.fromkeys(c.b for c in slower))
    return f"{names} is slower than {slower[0].a} in {_of(len(slower), len(of), 'comparison')}"


def _fast(comparisons: Sequence[Comparison]) -> str:
    names = ", ".join(dict.fromkeys(c.b for c in comparisons))
    words = "faster than" if all(c.verdict == "faster" for c in comparisons) else "at least as fast as"
    places = "the one comparison" if len(comparisons) == 1 else _all(len(comparisons), "comparison")
    return f"{names} is {words} {comparisons[0].a} in {places}"


def _of(count: int, whole: int, noun: str) -> str:
    return f"{count} of {whole} {noun}{'s' if whole != 1 else ''}"


def _all(count: int, noun: str) -> str:
    return f"the one {noun}" if count == 1 else f"{'both' if count == 2 else f'all {count}'} {noun}s"


def _capital(words: str) -> str:
    """The first letter of a sentence; names at its beginning stay as they are."""
    return words if words.partition(" ")[0] not in ("the", "all", "both") else words[0].upper() + words[1:]
