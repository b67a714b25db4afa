"""A run of MLPerf inference held against the official settings of its scenario.

LoadGen's VALID only says that a run met the settings it was given. Its own defaults are shorter than the
rules', so VALID with short settings is a measurement but no compliant result.

Source: MLPerf inference rules, "Scenarios", and the mlperf.conf that goes with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from assay.analyse.log_rules import Check, State
from assay.records import Doubt, InferenceRun

MIN_DURATION_MS: Final = 600_000
_SEEDS: Final = ("effective_qsl_rng_seed", "effective_sample_index_rng_seed", "effective_schedule_rng_seed")
_TEST_MODES: Final = ("effective_performance_issue_unique", "effective_performance_issue_same")


@dataclass(frozen=True)
class Setting:
    """What the rules ask of a setting: at least `value`, or exactly it.

    keys  the first that the logs state counts: the summary knows fewer
    """

    name: str
    keys: tuple[str, ...]
    value: float
    exact: bool = False
    remark: str = ""


_DURATION = Setting("minimum duration", ("effective_min_duration_ms",), MIN_DURATION_MS)
_PERCENTILE = ("effective_target_latency_percentile",)
_OFFICIAL: Final[dict[str, tuple[Setting, ...]]] = {
    "SingleStream": (_DURATION, Setting("percentile", _PERCENTILE, 0.9, exact=True)),
    "MultiStream": (
        _DURATION,
        Setting("minimum queries", ("effective_min_query_count",), 662),
        Setting("samples a query", ("effective_samples_per_query",), 8, exact=True),
        Setting("percentile", _PERCENTILE, 0.99, exact=True),
    ),
    "Server": (_DURATION, Setting("percentile", _PERCENTILE, 0.99, exact=True)),
    "Offline": (
        _DURATION,
        Setting(
            "minimum samples",
            ("effective_min_sample_count", "effective_samples_per_query"),
            24_576,
            remark="; a smaller data set is used whole",
        ),
    ),
}


@dataclass(frozen=True)
class Reference:
    """What the reference implementation reaches, in fp32, on the whole data set of the rules.

    samples   of that data set
    size      height and width of the images, or tokens
    accuracy  share of 1
    """

    samples: int
    size: int
    accuracy: float


# Models that are the rules' own. Source: MLPerf inference rules, "Benchmarks": ImageNet's validation set, the
# part of OpenImages that MLPerf chose, and the windows of 384 tokens of SQuAD v1.1's questions.
_REFERENCES: Final = {
    "resnet50": Reference(50_000, 224, 0.7646),
    "retinanet": Reference(24_781, 800, 0.3755),
    "bert-large": Reference(10_833, 384, 0.90874),
}
_ASKED_SHARE: Final = 0.99


def asked_accuracy(stated: Mapping[str, object]) -> float | None:
    """The accuracy that the closed division asks for; None where model, data or size are not the rules'.

    >>> asked_accuracy({"model": "retinanet", "samples": 24_781, "image_size": 800})
    0.371745
    """
    reference = _REFERENCES.get(str(stated.get("model")))
    if reference is None:
        return None
    size = stated.get("image_size", stated.get("sequence_length"))
    if (stated.get("samples"), size) != (reference.samples, reference.size):
        return None
    return round(_ASKED_SHARE * reference.accuracy, 9)


def check_inference(run: InferenceRun) -> tuple[Check, ...]:
    """Every check of one run: LoadGen's own verdict, then the settings that it was given."""
    return (
        _performance(run),
        *_settings(run),
        _seeds(run),
        _no_test_mode(run),
        _errors(run),
        _agreement(run),
    )


def doubts_of_inference(run: InferenceRun) -> tuple[Doubt, ...]:
    """What speaks against a run's figures as a result of MLPerf; nothing where it is no result at all."""
    if run.problem:
        return ()
    checks = check_inference(run)
    short = unmet_settings(run.scenario, {key: said.value for key, said in run.stated.items()})
    found = []
    if short:
        remedy = "repeat it with the official settings (mlperf.conf) before calling it a result of MLPerf"
        word = run.validity or "no validity stated"
        found.append(Doubt("short-settings", f"{word}, but {'; '.join(short)}", remedy))
    for code, rule, remedy in _OTHER_DOUBTS:
        found += [Doubt(code, c.evidence, remedy) for c in checks if c.rule == rule and c.state == "fail"]
    if run.validity is None:
        evidence = "the program states no validity: neither duration nor number of queries was checked"
        found.append(Doubt("no-validity", evidence, "take the figures from LoadGen's own logs"))
    return tuple(found)


_OTHER_DOUBTS: Final = (
    (
        "default-seeds",
        "seeds of a round",
        "use the seeds that the round publishes: the order of queries matters",
    ),
    ("test-mode", "no test mode", "repeat it without the settings of an audit test"),
    ("logged-errors", "no errors", "look at the errors in the detail log before using the figures"),
    ("logs-disagree", "summary and detail log agree", "find out whether both logs are of the same run"),
)


def _performance(run: InferenceRun) -> Check:
    name = "a result of performance"
    validity = run.stated.get("result_validity")
    where = validity.where if validity else ""
    if run.mode is not None and run.mode.startswith("Accuracy"):
        return Check(name, "not applicable", run.problem)
    if run.problem:
        return Check(name, "fail", run.problem, where)
    if validity is None:
        return Check(name, "not applicable", "the program states no validity")
    return Check(name, "ok", f"{run.validity}, {run.mode or 'no mode is stated'}", where)


def unmet_settings(scenario: object, stated: Mapping[str, object]) -> tuple[str, ...]:
    """Settings that fall short of the official ones, each with its figures; by LoadGen's own keys.

    >>> unmet_settings("Server", {"effective_min_duration_ms": 60_000})
    ('minimum duration: effective_min_duration_ms is 60000, the rules ask for at least 600000',)
    """
    found = []
    for setting in _OFFICIAL.get(str(scenario), ()):
        key = next((key for key in setting.keys if key in stated), None)
        if key is not None and _meets(setting, stated[key]) == "fail":
            found.append(f"{setting.name}: {_asked(setting, key, stated[key])}")
    return tuple(found)


def _settings(run: InferenceRun) -> Iterator[Check]:
    for setting in _OFFICIAL.get(run.scenario or "", ()):
        key = next((key for key in setting.keys if key in run.stated), None)
        if key is None:
            yield Check(setting.name, "not applicable", f"the logs don't state {setting.keys[0]}")
            continue
        value, where = run.stated[key].value, run.stated[key].where
        yield Check(setting.name, _meets(setting, value), _asked(setting, key, value), where)


def _asked(setting: Setting, key: str, value: object) -> str:
    asked = f"{'exactly' if setting.exact else 'at least'} {setting.value:g}"
    return f"{key} is {value}, the rules ask for {asked}{setting.remark}"


def _meets(setting: Setting, value: object) -> State:
    if not isinstance(value, int | float):
        return "fail"
    close = abs(value - setting.value) < 1e-9
    return "ok" if close or (value > setting.value and not setting.exact) else "fail"


def _seeds(run: InferenceRun) -> Check:
    name = "seeds of a round"
    stated = [key for key in _SEEDS if key in run.stated]
    zero = [key for key in stated if run.stated[key].value == 0]
    if not stated:
        return Check(name, "not applicable", "the logs state no seeds")
    if zero:
        return Check(name, "fail", f"0, LoadGen's default: {', '.join(zero)}", run.stated[zero[0]].where)
    return Check(name, "ok", f"{len(stated)} seeds are set", run.stated[stated[0]].where)


def _no_test_mode(run: InferenceRun) -> Check:
    name = "no test mode"
    stated = [key for key in _TEST_MODES if key in run.stated]
    on = [key for key in stated if run.stated[key].value]
    if not stated:
        return Check(name, "not applicable", "the logs don't state how queries were issued")
    where = run.stated[(on or stated)[0]].where
    return Check(name, "fail" if on else "ok", f"on: {', '.join(on)}" if on else "none is on", where)


def _errors(run: InferenceRun) -> Check:
    name = "no errors"
    errors = run.stated.get("num_errors")
    if errors is None:
        return Check(name, "not applicable", "no detail log counts them")
    return Check(name, "fail" if errors.value else "ok", f"num_errors is {errors.value}", errors.where)


def _agreement(run: InferenceRun) -> Check:
    name = "summary and detail log agree"
    if len(run.files) < 2:
        return Check(
            name, "not applicable", f"only {run.files[0] if run.files else 'neither'} states anything"
        )
    if run.contradictions:
        return Check(name, "fail", "; ".join(run.contradictions[:3]))
    return Check(name, "ok", "in every key that both state")
