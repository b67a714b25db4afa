"""The opening of a report: what was found, and from which runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from assay.analyse.rankings.ranking import Ranking
from assay.report import figures
from assay.report.contents.contents import Contents
from assay.report.sentences import scaling as scaling_words
from assay.report.sentences import sentences
from assay.report.sentences import transports as transport_words

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
        return " ".join(f"{study.curve.benchmark}: {scaling_words.lead(study)}" for study in contents.studies)
    otherwise = transport_words.first_line([r for side in contents.sides.values() for r in side])
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
