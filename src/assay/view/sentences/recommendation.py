"""The opening of a report: what to do after reading it, what was found, and from which runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from assay.analyse.comparison.sides import OpenQuestion
from assay.analyse.comparison.verdict import more_runs_may_decide, obstacle
from assay.analyse.doubts import KINDS
from assay.analyse.doubts.design import FAILED_RUNS_LEFT_OUT
from assay.analyse.scaling.doubts import SUPERLINEAR
from assay.records import Comparison, Doubt, Requirement
from assay.units import all_of
from assay.view import figures
from assay.view.contents import Contents
from assay.view.sentences import sentences
from assay.view.sentences.exchange import first_transport_line
from assay.view.sentences.sentences import in_two_sessions, is_speed, verdict_word
from assay.view.sentences.why import undecided_reason

if TYPE_CHECKING:
    from assay.analyse.rankings import Ranking

_LOST = FAILED_RUNS_LEFT_OUT.code  # how far it may have shifted the measurements is part of the answer
_FINAL = ("Accept", "Do not accept")
_GRAVE = ("invalid", "biased")


@dataclass(frozen=True)
class Recommendation:
    """An action, the reason in one sentence, and the gravest doubt's severity: `invalid`, `biased` or ""."""

    action: str
    sentence: str
    severity: str = ""


def recommendation(contents: Contents) -> Recommendation:
    """The recommendation of a report."""
    comparisons = [c for question in contents.questions for c in question.comparisons]
    if not comparisons and not contents.requirements and contents.rankings:
        if doubts := [doubt for ranking in contents.rankings for doubt in ranking.doubts]:
            sentence = f"{', '.join(_codes(doubts, 'invalid'))} ({doubts[0].evidence}). {doubts[0].remedy}."
            return Recommendation("Fix first", sentence, "invalid")
        return Recommendation(
            "Choose from the rankings",
            "Without a baseline, nothing is accepted or rejected. To compare two, run assay compare A B.",
        )
    if (
        not (comparisons or contents.open or contents.requirements)
        and contents.studies
        and len(contents.sides) > 1
    ):
        return _sizes(contents)
    return advised(comparisons, contents.requirements, contents.open)


def advised(
    comparisons: Sequence[Comparison],
    requirements: Sequence[Requirement] = (),
    open_questions: Sequence[OpenQuestion] = (),
) -> Recommendation:
    """What follows from the verdicts and their doubts; an `invalid` doubt outweighs every verdict."""
    doubts = [d for c in comparisons for d in c.doubts] + [d for r in requirements for d in r.doubts]
    severity = gravest(doubts)
    action, why = _decided(requirements, comparisons, open_questions)
    codes = ", ".join(_codes(doubts, severity))
    if severity == "invalid":
        first = next(doubt for doubt in doubts if _severity(doubt) == severity)
        sentence = f"{why.removesuffix('.')}, but {codes} ({first.evidence}). {first.remedy}."
        return Recommendation("Fix first", sentence, severity)
    if severity == "biased":
        lost = next((f" {d.evidence}." for d in doubts if d.code == _LOST), "")
        sentence = (
            f"{why} {codes} may have shifted the results: remove the cause and run again to be sure.{lost}"
        )
        return Recommendation(f"{action} for now" if action in _FINAL else action, sentence, severity)
    return Recommendation(action, why)


def gravest(doubts: Sequence[Doubt]) -> str:
    """`invalid` or `biased` if a doubt is that grave, else ""."""
    present = {_severity(doubt) for doubt in doubts}
    return next((severity for severity in _GRAVE if severity in present), "")


def _severity(doubt: Doubt) -> str:
    return KINDS[doubt.code].severity


def _codes(doubts: Sequence[Doubt], severity: str) -> list[str]:
    return list(dict.fromkeys(doubt.code for doubt in doubts if _severity(doubt) == severity))


def _decided(
    requirements: Sequence[Requirement],
    comparisons: Sequence[Comparison],
    open_questions: Sequence[OpenQuestion],
) -> tuple[str, str]:
    slower = [c for c in comparisons if c.verdict == "slower"]
    failing = [r for r in requirements if r.verdict == "fails"]
    if slower or failing:
        parts = [_slower(slower, comparisons)] if slower else []
        if failing:
            parts.append(_count(len(failing), len(requirements), "requirement", "fails", "fail"))
        return "Do not accept", f"{_capital('; '.join(parts))}."
    open_ones = [c for c in comparisons if c.verdict == "undecided"]
    unmet = [r for r in requirements if r.verdict == "undecided"]
    if open_ones or unmet or open_questions:
        parts = [
            _count(len(undecided), len(judged), noun, "is undecided", "are undecided")
            for undecided, judged, noun in (
                (open_ones, comparisons, "comparison"),
                (unmet, requirements, "requirement"),
            )
            if undecided
        ]
        parts += [undecided_reason(open_ones), *map(str, open_questions)]
        text = "; ".join(filter(None, parts))
        if not (open_ones or unmet):
            return "Measure on both sides", f"{text}."
        return _remedy(open_ones if not unmet else ()), f"{_capital(text)}."
    if comparisons:
        met = _count(len(requirements), len(requirements), "requirement", "holds", "hold")
        held = f" and {met}" if requirements else ""
        return "Accept", f"{_fast(comparisons)}{held}."
    if requirements:
        met = _count(len(requirements), len(requirements), "requirement", "holds", "hold")
        return "Accept", f"{_capital(met)}."
    return (
        "Nothing to decide",
        "Only one system was measured: add a second system, or requirements under expect.",
    )


def _sizes(contents: Contents) -> Recommendation:
    """For sizes of one system: which sizes to repeat, because a larger one shows that they lost speed."""
    remedies = [d.remedy for study in contents.studies for d in study.doubts if d.code == SUPERLINEAR.code]
    if remedies:
        return Recommendation("Repeat", f"{'. '.join(remedies)}.")
    return Recommendation(
        "Nothing to decide",
        "These are sizes of one system: add a second system, or requirements under expect.",
    )


def _slower(slower: Sequence[Comparison], comparisons: Sequence[Comparison]) -> str:
    names = ", ".join(dict.fromkeys(c.b for c in slower))
    verdicts = " or ".join(dict.fromkeys(map(verdict_word, slower)))
    where = (
        "the only comparison"
        if len(comparisons) == 1
        else _part_of(len(slower), len(comparisons), "comparison")
    )
    return f"{in_two_sessions(slower).capitalize()}{names} is {verdicts} than {slower[0].a} in {where}"


def _fast(comparisons: Sequence[Comparison]) -> str:
    names = ", ".join(dict.fromkeys(c.b for c in comparisons))
    speed = all(is_speed(c.point) for c in comparisons)
    claim, within = f"at least as {'fast' if speed else 'good'} as", ""
    if all(c.verdict == "faster" for c in comparisons):
        claim = f"{'faster' if speed else 'better'} than"
    if all(c.verdict == "equivalent" for c in comparisons):
        claim = f"as {'fast' if speed else 'good'} as"
        within = f", within {' or '.join(dict.fromkeys(figures.percent(c.margin) for c in comparisons))},"
    places = all_of(len(comparisons), "comparison")
    bound = in_two_sessions(comparisons).capitalize()
    return f"{bound}{names} is {claim} {comparisons[0].a}{within} in {places}"


def _remedy(open_ones: Sequence[Comparison]) -> str:
    """What to do if nothing but these comparisons is undecided."""
    if open_ones and all(obstacle(c) == "no direction" for c in open_ones):
        return "State which direction is better"
    if open_ones and all(obstacle(c) == "lost time" and not more_runs_may_decide(c) for c in open_ones):
        return "Run again on an idle machine"
    return "Repeat"


def _count(count: int, whole: int, noun: str, is_so: str, are_so: str) -> str:
    """`the only requirement fails`, `both requirements fail`, `1 of 3 requirements fails`."""
    who = all_of(whole, noun) if count == whole else _part_of(count, whole, noun)
    return f"{who} {is_so if count == 1 else are_so}"


def _part_of(count: int, whole: int, noun: str) -> str:
    return f"{count} of {whole} {noun}{'s' if whole != 1 else ''}"


def _capital(sentence: str) -> str:
    """Capitalize the first letter of a sentence; a name at the beginning stays unchanged."""
    return (
        sentence
        if sentence.partition(" ")[0] not in ("the", "all", "both")
        else sentence[0].upper() + sentence[1:]
    )


MOST_LED = 3  # benchmarks for which the first sentence names the best system


def lead(contents: Contents) -> str:
    """A summary in one or two sentences."""
    if contents.questions:
        questions = contents.questions
        parts = (sentences.headline(questions), sentences.resolution(questions))
        return " ".join(filter(None, parts))
    if contents.open:
        return "".join(f"{question}. " for question in contents.open).rstrip()
    if contents.rankings:
        return f"{len(contents.sides)} systems, ranked by benchmark. {_firsts(contents.rankings)}"
    held = [r.verdict for r in contents.requirements]
    if held:
        return f"{held.count('holds')} of {len(held)} requirements hold."
    if contents.studies and len(contents.sides) > 1:
        from assay.view.sentences import scaling as scaling_words  # a run of one size needs none

        return " ".join(f"{study.curve.benchmark}: {scaling_words.lead(study)}" for study in contents.studies)
    otherwise = first_transport_line([r for side in contents.sides.values() for r in side])
    alone = f"{next(iter(contents.sides))}, measured alone."
    return f"{alone} It {otherwise}." if otherwise else alone


def _firsts(rankings: Sequence[Ranking]) -> str:
    """The best system of each benchmark, as far as it can be named; before that, what to fix first."""
    named = [(r, best) for r in rankings if (best := r.best()) is not None]
    doubted = [_place(r) for r in rankings if r.doubts]
    unnamed = [_place(r) for r in rankings if r.best() is None]
    sentences = []
    if doubted:
        codes = ", ".join(dict.fromkeys(doubt.code for r in rankings for doubt in r.doubts))
        sentences.append(f"Fix before you choose: {codes} in {_listed(doubted)}.")
    if named:
        first = [f"{best.name} ({_place(r)})" for r, best in named[:MOST_LED]]
        others = f" and others in {len(named) - MOST_LED} more benchmarks" if len(named) > MOST_LED else ""
        sentences.append(f"First by the mean: {', '.join(first)}{others}.")
    if unnamed:
        sentences.append(
            f"No best system can be named in {_listed(unnamed)}, because some systems are not ranked."
        )
    return " ".join(sentences)


def _place(ranking: Ranking) -> str:
    return ", ".join(filter(None, (ranking.benchmark, figures.labels(ranking.labels))))


def _listed(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - MOST_LED} more" if len(tasks) > MOST_LED else ""
    return f"{', '.join(tasks[:MOST_LED])}{more}"


def together(contents: Contents) -> str:
    """What the verdicts on the primary metrics claim jointly; "" if there is nothing to add."""
    return sentences.together([c for question in contents.questions for c in question.comparisons])


def about(contents: Contents) -> list[tuple[str, str]]:
    """Systems, runs, sessions, times and margin, as (name, value) pairs."""
    results = [r for side in contents.sides.values() for r in side]
    sessions = list(dict.fromkeys((r.run.suite, r.run.session) for r in results))
    imported = all(r.run.source is not None for r in results)
    systems = str(len(contents.sides)) if contents.rankings else ", ".join(contents.sides)
    failed = f", {len(contents.failures)} failed" if contents.failures else ""
    unfinished = f", {contents.unfinished} unfinished" if contents.unfinished else ""
    return [
        ("Systems" if len(contents.sides) > 1 else "System", systems),
        ("Runs", f"{len(results)}{failed}{unfinished}"),
        ("Session", sessions[0][1] if len(sessions) == 1 else f"{len(sessions)} sessions"),
        ("Imported", _span([r.run.created_at for r in results]))
        if imported
        else ("When", _span([r.run.started_at or r.run.created_at for r in results])),
        ("Margin", f"±{figures.percent(contents.margin)}"),
    ]


def _span(times: list[float]) -> str:
    first, last = (
        datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M") for moment in (min(times), max(times))
    )
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[11:] if last[:10] == first[:10] else last} UTC"
