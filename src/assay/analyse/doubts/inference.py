"""Doubts about inference: LoadGen's runs, and load on an LLM server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from assay.analyse.doubts.case_kinds import CaseDoubtKind
from assay.analyse.expectations.requirements import few_beyond
from assay.analyse.points.case import Case, Side
from assay.records import DEFAULT_MARGIN, Doubt, DoubtKind, InferenceRun, Result, Scalar
from assay.units import human, percent, significant

LOADGENS = ("loadgen", "inference")  # workloads whose runs are LoadGen's: imported ones and our own
# Workload → its scenario with Poisson arrivals, the fact that holds the rate, and the sender.
_ARRIVALS = {
    **dict.fromkeys(LOADGENS, ("Server", "effective_target_qps", "LoadGen")),
    "llm-serving": ("server", "rate", "the client"),
}
_SETTING = re.compile(r"effective_(?!scenario|test_mode)")
_FOLLOW_THE_RATE = ("throughput", "token_throughput", "inferred_token_throughput", "goodput")


def short_settings(case: Case) -> str | None:
    """Runs that LoadGen calls VALID although their settings require less than the rules do."""
    shortfalls = dict.fromkeys(
        unmet
        for workload in LOADGENS
        for params, stated in _runs(case, workload)
        for unmet in _unmet(params, stated)
    )
    if not shortfalls:
        return None
    return "; ".join(shortfalls)


SHORT_SETTINGS = CaseDoubtKind(
    code="short-settings",
    subject="inference",
    severity="invalid",
    means="LoadGen calls a run valid, but its settings require less than the official ones.",
    effect=(
        "VALID means that the run met its own settings. A run that is shorter or has fewer queries is not an "
        "MLPerf result."
    ),
    remedy="Repeat the runs with the official settings (mlperf.conf) before calling them MLPerf results.",
    evidence=short_settings,
)


def _unmet(params: Mapping[str, Any], stated: Mapping[str, Scalar]) -> Sequence[str]:
    from assay.analyse.mlperf.inference_rules import unmet_settings

    benchmark, number = (str(params.get(name) or "") for name in ("benchmark", "round"))
    return unmet_settings(stated.get("scenario"), stated, benchmark, number)


def below_asked_accuracy(case: Case) -> str | None:
    """Runs of the rules' own model and data whose accuracy is below what the closed division requires."""
    shortfalls = []
    for side in case.sides:
        if side.group.point.metric != "accuracy":
            continue
        for sample in side.group.samples:
            facts = sample.result.reading.facts
            required = _asked_accuracy(sample.result)
            if required is not None and sample.value < required:
                shortfalls.append(
                    f"{facts['model']} has {sample.value:.4f}, the rules require {required:.4f}"
                )
    if not shortfalls:
        return None
    return "; ".join(dict.fromkeys(shortfalls))


def _asked_accuracy(result: Result) -> float | None:
    if result.run.trial.workload != "inference":
        return None
    from assay.analyse.mlperf.inference_rules import asked_accuracy

    return asked_accuracy(result.reading.facts)


BELOW_ASKED_ACCURACY = CaseDoubtKind(
    code="below-asked-accuracy",
    subject="inference",
    severity="invalid",
    means=(
        "The accuracy is below the share of the reference accuracy that the benchmark requires (99 % unless "
        "its name says 99.9), or outside its bounds."
    ),
    effect=(
        "The closed division counts a speed only with that accuracy: a less accurate model may be "
        "faster because of what it leaves out."
    ),
    remedy="Use the reference weights and preprocessing, or a precision that keeps the accuracy.",
    evidence=below_asked_accuracy,
)


def rate_was_set(case: Case) -> str | None:
    """Throughput at a fixed arrival rate equals that rate: it only shows that the system kept up."""
    if not all(side.group.point.metric in _FOLLOW_THE_RATE for side in case.sides):
        return None
    rates_sent: dict[str, None] = {}
    for workload, (scenario, rate, sender) in _ARRIVALS.items():
        set_to = [
            s for s in _stated(case, workload) if s.get("scenario") == scenario and not s.get("searched")
        ]
        rates = [s[rate] for s in set_to if rate in s]
        rates_sent |= dict.fromkeys(f"{sender} sent {value} queries/s" for value in rates)
    if not rates_sent:
        return None
    return f"{', '.join(rates_sent)} and the system kept up"


RATE_WAS_SET = CaseDoubtKind(
    code="rate-was-set",
    subject="inference",
    severity="invalid",
    means="Throughput at a fixed arrival rate (LoadGen's Server scenario, llm-serving's) equals that rate.",
    effect="The side with the higher rate looks faster; equal values only show that both sides kept up.",
    remedy="Find the highest rate that each side sustains within its latency bound, and compare those.",
    evidence=rate_was_set,
)


def _stated(case: Case, workload: str) -> list[dict[str, Scalar]]:
    """Facts of all of this workload's runs in the case."""
    return [facts for _, facts in _runs(case, workload)]


def _runs(case: Case, workload: str) -> list[tuple[Mapping[str, Any], dict[str, Scalar]]]:
    """Parameters and facts of all of this workload's runs in the case."""
    return [
        (sample.result.run.trial.params, dict(sample.result.reading.facts))
        for side in case.sides
        for sample in side.group.samples
        if sample.result.run.trial.workload == workload
    ]


NO_ACCURACY = DoubtKind(
    code="no-accuracy",
    subject="inference",
    severity="invalid",
    means=("The run is in MLPerf's result tree, and its accuracy run is missing or states no accuracy."),
    effect=(
        "A speed is an MLPerf result only together with the accuracy reached at the same settings: a faster "
        "but less accurate model looks better."
    ),
    remedy=(
        "Make an accuracy run with the same settings, and keep its accuracy.txt next to its logs: without "
        "it, a speed is not an MLPerf result."
    ),
)


LATENCY_ABOVE_BOUND = DoubtKind(
    code="latency-above-bound",
    subject="inference",
    severity="invalid",
    means="A 99th-percentile latency is above the bound that the rules set for the benchmark.",
    effect=(
        "LoadGen checks only the bound that it was given: with a wider one, a server handles more queries."
    ),
    remedy="Find the highest rate that meets the benchmark's own bound, and compare that.",
)


OTHER_DATA_SET = DoubtKind(
    code="other-data-set",
    subject="inference",
    severity="invalid",
    means="The run used a data set of another size than the benchmark's.",
    effect="Part of the data fits into caches and may be easier: the values are not the benchmark's.",
    remedy="Repeat it on the rules' complete data set before calling it an MLPerf result.",
)


DEFAULT_SEEDS = DoubtKind(
    code="default-seeds",
    subject="inference",
    severity="weak",
    means="The run did not use the seeds that its round publishes.",
    effect=(
        "The order and the choice of queries determine caching and lengths, so the run is not comparable "
        "with the round's."
    ),
    remedy="Use the seeds that the round publishes: the order of queries matters.",
)


TEST_MODE = DoubtKind(
    code="test-mode",
    subject="inference",
    severity="invalid",
    means="The run was made with settings of an audit test.",
    effect="Such settings change what is sent, so the values are not performance results.",
    remedy="Repeat it without the settings of an audit test.",
)


LOGGED_ERRORS = DoubtKind(
    code="logged-errors",
    subject="inference",
    severity="invalid",
    means="The detail log contains errors.",
    effect="A run that LoadGen reported errors for may have done less work, or other work, than stated.",
    remedy="Read the errors in the detail log before you use the values.",
)


LOGS_DISAGREE = DoubtKind(
    code="logs-disagree",
    subject="inference",
    severity="invalid",
    means=(
        "Summary and detail log state different values, or one states what its other lines rule out: VALID "
        "although a condition is not met, or a rate that is not its samples over its time."
    ),
    effect="They are from two runs, or one of them was changed.",
    remedy="Find out whether the logs are those that one run wrote, and score both files of that run.",
)


NO_VALIDITY = DoubtKind(
    code="no-validity",
    subject="inference",
    severity="weak",
    means="The program states no validity.",
    effect="Nobody checked whether the run was long enough or had enough queries for its percentile.",
    remedy="Use the values from LoadGen's own logs.",
)


SETTINGS_UNKNOWN = DoubtKind(
    code="settings-unknown",
    subject="inference",
    severity="weak",
    means="The logs have a verdict of LoadGen and none of the settings that it is based on.",
    effect="VALID means that the run met its own settings, which may be shorter than the official ones.",
    remedy="Use the whole log: LoadGen states the settings at the end of its summary and in its detail log.",
)


_OF_CHECKS: Sequence[tuple[DoubtKind, str]] = (  # the doubt that a failed check of this name raises
    (NO_ACCURACY, "accuracy run"),
    (BELOW_ASKED_ACCURACY, "accuracy target"),
    (LATENCY_ABOVE_BOUND, "latency bound"),
    (OTHER_DATA_SET, "data set"),
    (DEFAULT_SEEDS, "seeds of a round"),
    (TEST_MODE, "no test mode"),
    (LOGGED_ERRORS, "no errors"),
    (LOGS_DISAGREE, "summary and detail log agree"),
)


def doubts_of_inference(run: InferenceRun) -> tuple[Doubt, ...]:
    """What speaks against a run's values as an MLPerf result; empty if it is no result at all."""
    if run.problem:
        return ()
    from assay.analyse.mlperf.inference_rules import check_inference, task_of, unmet_settings

    checks = check_inference(run)
    stated = {key: statement.value for key, statement in run.stated.items()}
    short = unmet_settings(run.scenario, stated, *task_of(run))
    doubts = []
    if short:
        doubts.append(SHORT_SETTINGS.doubt(f"{run.validity or 'no validity stated'}, but {'; '.join(short)}"))
    for kind, rule in _OF_CHECKS:
        doubts += [kind.doubt(c.evidence) for c in checks if c.rule == rule and c.state == "fail"]
    if run.validity is not None and not any(_SETTING.match(key) for key in stated):
        doubts.append(SETTINGS_UNKNOWN.doubt("the log ends before the settings of the run, or lacks them"))
    if run.validity is None:
        evidence = "the program states no validity: neither duration nor number of queries was checked"
        doubts.append(NO_VALIDITY.doubt(evidence))
    return tuple(doubts)


LARGEST_LAG = 0.1  # of the median time to first token: the share that the client's own lag may have


def client_late(case: Case) -> str | None:
    """A client that was itself late by a considerable share of the times that it measured."""
    for side in case.sides:
        lags = [
            (lag / median, lag, median) for lag, median in map(_lag, side.group.results) if lag and median
        ]
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
    a, b = ({_rank(result) for result in side.group.results} for side in case.sides)
    if a == b or not all(
        result.reading.facts.get("requests") for s in case.sides for result in s.group.results
    ):
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
    values = [result.reading.facts.get(fact) for result in side.group.results]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return fmean(numbers) if numbers and len(numbers) == len(values) else None
