"""Doubts about load on an LLM server: its client, the requests behind a percentile, and both sides' work."""

from __future__ import annotations

from statistics import fmean

from assay.analyse.doubts.case_kinds import CaseDoubtKind
from assay.analyse.expectations.requirements import few_beyond
from assay.analyse.points.case import Case, Side
from assay.records import DEFAULT_MARGIN, Result
from assay.units import human, percent, significant

LARGEST_LAG = 0.1  # of the median time to first token: the share that the client's own lag may have


def client_late(case: Case) -> str | None:
    """A client that was itself late by a considerable share of the times that it measured."""
    for side in case.sides:
        lags = [(lag / median, lag, median) for lag, median in map(_lag, _results(side)) if lag and median]
        if not lags or max(lags)[0] <= LARGEST_LAG:
            continue
        _, lag, median = max(lags)
        return (
            f"{side.name}: in 1 % of its checks the client was {human(lag, 's')} late, and the median time "
            f"to first token is {human(median, 's')}"
        )
    return None


CLIENT_LATE = CaseDoubtKind(
    code="client-late",
    subject="inference",
    severity="weak",
    means="The client itself was late by more than a tenth of the times that it measured.",
    effect=(
        "A client without CPU time sends and records late, and its lag is included in the server's "
        "latencies. It checks its lag a hundred times per second; the stated value is the 99th percentile."
    ),
    remedy="Give the client its own cores, preferably on a machine other than the server's, or send less.",
    evidence=client_late,
    looks_at="runs",
)


def different_lengths(case: Case) -> str | None:
    """Prompts or answers that are longer on one side by more than the margin."""
    if len(case.sides) < 2:
        return None
    margin = case.margin or DEFAULT_MARGIN
    differing = []
    for what, fact in (("prompts", "mean_input_tokens"), ("answers", "mean_output_tokens")):
        a, b = (_mean(side, fact) for side in case.sides)
        if a and b and abs(b / a - 1) > margin:
            differing.append(
                f"{what} of {significant(a, 4)} and {significant(b, 4)} tokens, {percent(b / a - 1)}"
            )
    if not differing:
        return None
    return " and ".join(differing)


DIFFERENT_LENGTHS = CaseDoubtKind(
    code="different-lengths",
    subject="inference",
    severity="invalid",
    means="Prompts or answers had more tokens on one side than on the other.",
    effect="A server that writes shorter answers handles more requests per second, however fast it is.",
    remedy=(
        "Send both sides prompts with the same number of tokens, and keep answers from ending early: "
        "`extra: {ignore_eos: true}` if the server supports it."
    ),
    evidence=different_lengths,
    looks_at="runs",
)


FEW_BEYOND = CaseDoubtKind(
    code="few-beyond-percentile",
    subject="inference",
    severity="biased",
    means="On average, fewer than ten requests of a run are beyond the percentile.",
    effect=(
        "The figure is that of a few requests. The 99th percentile of 100 requests is 9 % too high on "
        "average, and if one request resembles the next (as in a queue), up to 30 % too low. A requirement "
        "on it is undecided."
    ),
    remedy="Raise `requests` or `min_duration_s`, or require a lower percentile.",
    rates=(
        "From ten requests beyond it on, a requirement that is exactly met is called met in 5 % and failed "
        "in 7 % of cases with independent requests, and met in 15 % where neighbors correlate by 0.95."
    ),
    evidence=few_beyond,
)


def other_rank(case: Case) -> str | None:
    """Percentiles that an earlier version of the client took at another rank."""
    if len(case.sides) < 2 or "percentile" not in case.sides[0].group.point.labels:
        return None
    a, b = ({_rank(result) for result in _results(side)} for side in case.sides)
    if a == b or not all(result.reading.facts.get("requests") for s in case.sides for result in _results(s)):
        return None
    return f"{case.sides[0].name}: rank {', '.join(sorted(a))}; {case.sides[1].name}: {', '.join(sorted(b))}"


OTHER_RANK = CaseDoubtKind(
    code="percentile-rank-differs",
    subject="inference",
    severity="biased",
    means="One side's percentiles are from an earlier version of Assay, which took them at rank n p.",
    effect=(
        "At rank n p, the 99th percentile is lower: by 17 % with 100 requests, 4 % with 500, 2 % with 1,000."
    ),
    remedy="Measure both sides with one version of Assay.",
    evidence=other_rank,
)


def _rank(result: Result) -> str:
    return str(result.reading.facts.get("percentile_rank", "n p"))


def _results(side: Side) -> list[Result]:
    return [sample.result for sample in side.group.samples]


def _lag(result: Result) -> tuple[float | None, float | None]:
    """The client's lag, and its median time to first token, seconds; None if not stated."""
    lag = result.reading.facts.get("client_lag_p99_s")
    median = next(
        (m.value for m in result.reading.measurements if (m.metric, m.labels) == ("first_token", _MEDIAN)),
        None,
    )
    return lag if isinstance(lag, float) else None, median


_MEDIAN = {"percentile": 50.0}


def _mean(side: Side, fact: str) -> float | None:
    """The mean over the side's runs; None if any of them doesn't state it."""
    values = [result.reading.facts.get(fact) for result in _results(side)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return fmean(numbers) if numbers and len(numbers) == len(values) else None
