"""A report's questions with their answers: comparisons, requirements and scaling in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.records import Doubt, Requirement
from assay.view import figures
from assay.view.contents import Contents
from assay.view.sentences import sentences, split
from assay.view.sentences import why as why_words
from assay.view.sentences.recommendation import gravest
from assay.view.tables import gathered


@dataclass(frozen=True)
class ReportedAnswer:
    """One sentence, its evidence, and the codes of its doubts.

    verdict  the verdict, or the efficiency if there is no verdict
    why      for a slower side: observations that can explain it, each a sentence
    severity of its gravest doubt, if that is `invalid` or `biased`
    """

    verdict: str
    symbol: str
    sentence: str
    evidence: str
    doubts: tuple[str, ...]
    why: tuple[str, ...] = ()
    severity: str = ""

    @property
    def kind(self) -> str:
        """The verdict, or `scaling`."""
        return self.verdict if self.symbol else "scaling"


@dataclass(frozen=True)
class Answers:
    """Answers of one kind; `doubts` concern every one of them and are shown once."""

    title: str
    answers: tuple[ReportedAnswer, ...]
    doubts: tuple[str, ...]


def answers(contents: Contents) -> tuple[Answers, ...]:
    """All answers: what was compared, what was required, how it scales."""
    kinds = {
        "Is it as fast?": _compared(contents),
        "What makes the difference in time to train?": _split(contents),
        "Does it meet the requirements?": _required(contents),
        "How far does it scale?": _scaled(contents),
    }
    return tuple(_with_common_doubts(title, group) for title, group in kinds.items() if group)


def _with_common_doubts(title: str, group: Sequence[ReportedAnswer]) -> Answers:
    common = [code for code in group[0].doubts if all(code in a.doubts for a in group)]
    own = [replace(a, doubts=tuple(code for code in a.doubts if code not in common)) for a in group]
    return Answers(title, tuple(own), tuple(common))


def _compared(contents: Contents) -> list[ReportedAnswer]:
    return [
        ReportedAnswer(
            q.verdict,
            sentences.SYMBOLS[q.verdict],
            sentences.answer(q),
            sentences.evidence(q),
            _codes([d for c in q.comparisons for d in c.doubts]),
            why_words.sentences(q, contents.sides, contents.margin),
            gravest([d for c in q.comparisons for d in c.doubts]),
        )
        for q in contents.questions
    ] + [
        ReportedAnswer(
            "undecided",
            sentences.SYMBOLS["undecided"],
            f"{question}.",
            f"{question.metric} is its primary metric",
            (),
        )
        for question in contents.open
    ]


def _split(contents: Contents) -> list[ReportedAnswer]:
    return [
        ReportedAnswer(d.verdict, sentences.SYMBOLS[d.verdict], split.sentence(d), split.evidence(d), ())
        for d in contents.splits
    ]


def _required(contents: Contents) -> list[ReportedAnswer]:
    answers = []
    for group in gathered(
        contents.requirements, lambda r: (r.point.benchmark, r.point.metric, r.expectation.written)
    ):
        verdicts = {r.verdict for r in group}
        verdict = next(v for v in ("fails", "undecided", "holds") if v in verdicts)
        doubts = _codes([d for r in group for d in r.doubts])
        symbol = sentences.REQUIREMENT_SYMBOLS[verdict]
        answers.append(
            ReportedAnswer(
                verdict,
                symbol,
                sentences.requirement(group),
                _measured(group),
                doubts,
                severity=gravest([d for r in group for d in r.doubts]),
            )
        )
    return answers


def _measured(group: Sequence[Requirement]) -> str:
    known = [r.estimate for r in group if r.estimate is not None]
    if not known:
        return "Nothing was measured"
    unit, texts = figures.column([min(e.value for e in known), max(e.value for e in known)], known[0].unit)
    span = texts[0] if len(known) == 1 else f"{texts[0]} to {texts[1]}"
    evidence = f"Measured {span} {unit}; each by its one-sided 95 % bound"
    return "; ".join(filter(None, (evidence, sentences.looked_at(known))))


def _scaled(contents: Contents) -> list[ReportedAnswer]:
    points = [(curve, point) for curve in contents.curves for point in curve.points[1:]]
    return [
        ReportedAnswer(
            sentences.efficiency(group),
            "",
            sentences.scaled(group),
            sentences.scaling_evidence(group),
            _codes([d for _, p in group for d in p.doubts]),
            severity=gravest([d for _, p in group for d in p.doubts]),
        )
        for group in gathered(
            points,
            lambda curve_point: (curve_point[0].benchmark, curve_point[0].metric, curve_point[1].shape),
        )
    ]


def _codes(doubts: Sequence[Doubt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(doubt.code for doubt in doubts))
