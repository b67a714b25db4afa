"""A report's questions with their answers: comparisons, requirements and scaling in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.records import Doubt
from assay.report import figures, sentences
from assay.report.contents import Contents


@dataclass(frozen=True)
class Answer:
    """One sentence, what it rests on, and the codes of what is to be doubted about it.

    verdict  a verdict's word, or `scaling` where there is none
    """

    verdict: str
    symbol: str
    sentence: str
    evidence: str
    doubts: tuple[str, ...]


def answers(contents: Contents) -> tuple[Answer, ...]:
    """All of them: what was compared, what was required, how it scales."""
    return (*_compared(contents), *_required(contents), *_scaled(contents))


def _compared(contents: Contents) -> list[Answer]:
    return [
        Answer(
            q.verdict,
            sentences.SYMBOLS[q.verdict],
            sentences.answer(q),
            sentences.evidence(q),
            _codes(q.doubts),
        )
        for q in contents.questions
    ]


def _required(contents: Contents) -> list[Answer]:
    made = []
    for r in contents.requirements:
        value, interval, n = figures.measured(r.estimate)
        evidence = f"measured {value}; 90 % interval {interval}; {n} runs"
        symbol = sentences.REQUIREMENT_SYMBOLS[r.verdict]
        made.append(Answer(r.verdict, symbol, sentences.requirement(r), evidence, _codes(r.doubts)))
    return made


def _scaled(contents: Contents) -> list[Answer]:
    made = []
    for curve in contents.curves:
        unit, texts = figures.column([p.value.value for p in curve.points], curve.unit)
        for point, text in zip(curve.points[1:], texts[1:], strict=True):
            evidence = f"{text} {unit} against {texts[0]} {unit}; {point.value.n} runs"
            made.append(
                Answer("scaling", "↗", sentences.scaled(curve, point), evidence, _codes(point.doubts))
            )
    return made


def _codes(doubts: Sequence[Doubt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(doubt.code for doubt in doubts))
