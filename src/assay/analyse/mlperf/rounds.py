"""What MLPerf training's rounds require, as tables: runs, keys of a log, and the targets of `assay.targets`.

Sources: MLPerf training rules and policies of v0.5 to v6.1 ("Benchmark Results", "Benchmarks"); the keys, the
limits of initialization and the fractions of v0.7's BLEU scores from mlperf-logging's compliance rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from assay.records import Scalar
from assay.targets import ROUNDS, QualityTarget, binds_open_division, era_of
from assay.units import counted


@dataclass(frozen=True)
class ScoringRule:
    """How a benchmark's runs become one score.

    runs      that a result needs
    counted   the first of them that converged, this many; None: all count
    dropped   number of the fastest and of the slowest runs, each
    failures  runs that may fail to converge, each counted as a slowest one
    """

    runs: int
    dropped: int = 1
    failures: int = 1
    counted: int | None = None


_FIVE, _TEN, _THREE = ScoringRule(runs=5), ScoringRule(runs=10), ScoringRule(runs=3)
_UNET3D = ScoringRule(runs=40, dropped=4, failures=4)
_NCF_V05 = ScoringRule(runs=100, failures=50, counted=50)
_RULES: Final[Mapping[str, ScoringRule]] = {
    **dict.fromkeys(("resnet", "ssd", "retinanet", "maskrcnn", "dlrm"), _FIVE),
    **dict.fromkeys(("gnmt", "transformer", "ncf", "minigo", "bert", "rnnt", "dlrm_dcnv2"), _TEN),
    **dict.fromkeys(("stable_diffusion", "gnn", "rgat", "llama2_70b_lora", "llama31_8b", "flux1"), _TEN),
    **dict.fromkeys(("gpt_oss_20b", "dlrmv4"), _TEN),
    **dict.fromkeys(("gpt3", "llama31_405b", "deepseekv3_671b", "qwen35_397b_grpo"), _THREE),
    "unet3d": _UNET3D,
}


def rule_for(benchmark: str | None, round_: str | None) -> ScoringRule | None:
    """The rule of a benchmark, by the name of its result folder; None if no rule is known.

    >>> rule_for("unet3d", "v3.1")
    Rule(runs=40, dropped=4, failures=4, counted=None)
    """
    if (benchmark, round_) == ("ncf", "v0.5"):
        return _NCF_V05
    return _RULES.get(benchmark or "")


@dataclass(frozen=True)
class RequiredKeys:
    """What a log of a round must state.

    once    exactly once; identical repetitions by ranks are allowed
    some    at least once
    either  at least one of each group
    """

    once: tuple[str, ...]
    some: tuple[str, ...]
    either: tuple[tuple[str, ...], ...] = ()


_V05 = RequiredKeys(once=("run_start", "run_stop", "run_final"), some=("run_clear_caches", "eval_accuracy"))
_RUN = ("init_stop", "run_start", "run_stop")
_SUBMISSION = ("submission_benchmark", "submission_division")
_SUBMITTER = ("submission_org", "submission_platform")
_STATUS, _SAMPLES = ("submission_status",), ("train_samples", "eval_samples")
_ACCUMULATION = ("gradient_accumulation_steps",)
_PRECISIONS = tuple(f"lowest_numerical_precision_in_{part}" for part in ("linear", "attn", "comm"))
_PARALLELISM = (
    *(f"{kind}_parallelism" for kind in ("tensor", "pipeline", "context", "expert")),
    "micro_batch_size",
)
_CONFIG = ("config_filename",)
_SOME = ("cache_clear", "init_start", "eval_accuracy")
_EITHER = (("epoch_start", "block_start"), ("epoch_stop", "block_stop"))
_EVALUATIONS = (("eval_start", "block_start"), ("eval_stop", "block_stop"))
_SINCE: Final[Mapping[str, RequiredKeys]] = {
    "v0.5": _V05,
    "v0.6": RequiredKeys(
        once=(*_SUBMISSION, *_SUBMITTER, *_STATUS, "submission_poc_name", "submission_entry", *_RUN),
        some=(*_SOME, "eval_start", "eval_stop"),
        either=_EITHER,
    ),
    "v0.7": RequiredKeys(
        (*_SUBMISSION, *_SUBMITTER, *_STATUS, *_RUN, *_SAMPLES), _SOME, (*_EITHER, *_EVALUATIONS)
    ),
    "v1.0": RequiredKeys(
        (*_SUBMISSION, *_SUBMITTER, *_STATUS, *_RUN, *_SAMPLES, *_ACCUMULATION),
        _SOME,
        (*_EITHER, *_EVALUATIONS),
    ),
    "v4.1": RequiredKeys(
        (*_SUBMISSION, *_SUBMITTER, *_RUN, *_SAMPLES, *_ACCUMULATION), _SOME, (*_EITHER, *_EVALUATIONS)
    ),
    "v5.0": RequiredKeys((*_SUBMISSION, *_RUN, *_SAMPLES, *_ACCUMULATION), _SOME, (*_EITHER, *_EVALUATIONS)),
    "v5.1": RequiredKeys(
        (*_SUBMISSION, *_SUBMITTER, *_RUN, *_SAMPLES, *_ACCUMULATION), _SOME, (*_EITHER, *_EVALUATIONS)
    ),
    "v6.1": RequiredKeys(
        (*_SUBMISSION, *_SUBMITTER, *_RUN, *_SAMPLES, *_ACCUMULATION, *_PRECISIONS, *_PARALLELISM, *_CONFIG),
        _SOME,
        (*_EITHER, *_EVALUATIONS),
    ),
}
OPEN_DIVISION_FREE: Final = frozenset(_ACCUMULATION)  # required only in the closed division


def keys_of(round_: str | None) -> RequiredKeys | None:
    """What a log must state in a round; None if the round is unknown."""
    if round_ not in ROUNDS:
        return None
    index = ROUNDS.index(round_)
    return _SINCE[max((since for since in _SINCE if ROUNDS.index(since) <= index), key=ROUNDS.index)]


@dataclass(frozen=True)
class AllowedValues:
    """What keys may state, if they are in a log, in the rounds from `since` to `until`.

    expected  what `accepts` requires, as text
    until     the last round that requires it; None: still required
    """

    keys: tuple[str, ...]
    since: str
    expected: str
    accepts: Callable[[Scalar], bool]
    until: str | None = None


def _one_of(
    allowed: Collection[str], keys: tuple[str, ...], since: str, until: str | None = None
) -> AllowedValues:
    return AllowedValues(keys, since, ", ".join(sorted(allowed)), lambda value: value in allowed, until)


def _is_whole(value: Scalar) -> bool:
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )


def _counts(value: Scalar) -> bool:
    return _is_whole(value) and isinstance(value, int | float) and value >= 1


_FORMATS_V60 = (
    "fp64", "fp32", "tf32", "fp16", "fp8", "nvfp4", "mxfp4", "bfloat16", "Graphcore FLOAT 16.16",
    "int8", "uint8", "int4", "uint4",
)  # fmt: skip
_STATUSES = ("cloud", "onprem", "preview", "research")
_ALLOWED: Final = (
    _one_of(("closed", "open"), ("submission_division",), "v0.5"),
    _one_of(_STATUSES, ("submission_status",), "v0.5", until="v4.0"),  # later logs may leave it empty
    AllowedValues(_SUBMITTER, "v0.7", "a name", lambda value: value != ""),
    _one_of(_FORMATS_V60, _PRECISIONS, "v6.0", until="v6.0"),
    _one_of((*_FORMATS_V60, "mxfp6"), _PRECISIONS, "v6.1"),
    AllowedValues(_PARALLELISM, "v6.0", "a whole number", _is_whole, until="v6.0"),
    AllowedValues(_PARALLELISM, "v6.1", "a whole number of at least 1", _counts),
    AllowedValues(_CONFIG, "v6.1", "a name", lambda value: value != ""),
)


def allowed_values(round_: str | None) -> dict[str, AllowedValues]:
    """What a round's keys may state, by key; an unknown round counts as the first.

    >>> allowed_values("v6.1")["micro_batch_size"].expected, "micro_batch_size" in allowed_values("v5.1")
    ('a whole number of at least 1', False)
    """
    index = ROUNDS.index(round_) if round_ in ROUNDS else 0
    return {
        key: allowed
        for allowed in _ALLOWED
        for key in allowed.keys
        if ROUNDS.index(allowed.since) <= index
        and (allowed.until is None or index <= ROUNDS.index(allowed.until))
    }


def init_limit_minutes(round_: str | None, division: str | None) -> float | None:
    """Minutes that initialization may take, outside the score; None if no limit is known.

    >>> init_limit_minutes("v3.1", "closed"), init_limit_minutes("v3.1", "open")
    (30.0, 240.0)
    """
    if round_ not in ROUNDS or round_ == "v0.5":
        return None
    if ROUNDS.index(round_) < ROUNDS.index("v1.0"):
        return 20.0
    if ROUNDS.index(round_) >= ROUNDS.index("v2.0") and division == "open":
        return 240.0
    return 30.0


@dataclass(frozen=True)
class RoundRules:
    """What a benchmark's results must meet in a round; None if unknown.

    targets     empty if the round has none that is a number
    binds_open  whether they also apply in the open division
    """

    benchmark: str | None
    round: str | None
    runs: ScoringRule | None
    targets: tuple[QualityTarget, ...]
    keys: RequiredKeys | None
    binds_open: bool = False

    def __str__(self) -> str:
        named = f"{self.benchmark or 'unknown benchmark'} in {self.round or 'an unknown round'}"
        if self.runs is None:
            return f"{named}: no rule is known"
        parts = [counted(self.runs.runs, "run")]
        if self.runs.counted:
            parts.append(f"the first {self.runs.counted} that converge count")
        dropped = "" if self.runs.dropped == 1 else f"{self.runs.dropped} "
        parts.append(f"without the {dropped}fastest and the {dropped}slowest")
        parts.append(f"at most {self.runs.failures} may fail to converge")
        reach = " and ".join(str(target) for target in self.targets) or "unknown as a number"
        closed = " (closed division)" if self.targets and not self.binds_open else ""
        return f"{named}: {', '.join(parts)}; target {reach}{closed}; times the factor of scaling.json"


def rules_of(benchmark: str | None, round_: str | None) -> RoundRules:
    """The rules of a benchmark, by the name of its result folder, in a round like `v3.1`."""
    era = era_of(benchmark, round_)
    targets = era.targets if era else ()
    return RoundRules(
        benchmark,
        round_,
        rule_for(benchmark, round_),
        targets,
        keys_of(round_),
        binds_open_division(benchmark, round_),
    )
