"""What MLPerf training's rounds ask for, as tables: runs, keys of a log, and the targets of `assay.targets`.

Sources: MLPerf training rules and policies of v0.5 to v5.1 ("Benchmark Results", "Benchmarks"); the keys, the
limits of initialisation and the fractions of v0.7's BLEU scores from mlperf-logging's compliance rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assay.targets import ROUNDS, Target, era_of

# Runs of a result ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How a benchmark's runs become one score.

    runs      that a result needs
    counted   of them, the first that converged; None: all count
    dropped   of the fastest and of the slowest, each
    failures  runs that may fail to converge, each taken for a slowest one
    """

    runs: int
    dropped: int = 1
    failures: int = 1
    counted: int | None = None


_FIVE, _TEN, _THREE = Rule(runs=5), Rule(runs=10), Rule(runs=3)
_UNET3D = Rule(runs=40, dropped=4, failures=4)
_NCF_V05 = Rule(runs=100, failures=50, counted=50)
_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("resnet", "ssd", "retinanet", "maskrcnn", "dlrm"), _FIVE),
    **dict.fromkeys(("gnmt", "transformer", "ncf", "minigo", "bert", "rnnt", "dlrm_dcnv2"), _TEN),
    **dict.fromkeys(("stable_diffusion", "gnn", "rgat", "llama2_70b_lora", "llama31_8b", "flux1"), _TEN),
    **dict.fromkeys(("gpt3", "llama31_405b"), _THREE),
    "unet3d": _UNET3D,
}


def rule_for(benchmark: str | None, round_: str | None) -> Rule | None:
    """The rule of a benchmark, by the name of its result folder; None where no rule is known.

    >>> rule_for("unet3d", "v3.1")
    Rule(runs=40, dropped=4, failures=4, counted=None)
    """
    if (benchmark, round_) == ("ncf", "v0.5"):
        return _NCF_V05
    return _RULES.get(benchmark or "")


# Keys of a log -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keys:
    """What a log of a round has to state.

    once    exactly once; ranks that repeat each other word for word do no harm
    some    at least once
    either  at least one of each group
    """

    once: tuple[str, ...]
    some: tuple[str, ...]
    either: tuple[tuple[str, ...], ...] = ()


_V05 = Keys(once=("run_start", "run_stop", "run_final"), some=("run_clear_caches", "eval_accuracy"))
_RUN = ("init_stop", "run_start", "run_stop")
_SUBMISSION = ("submission_benchmark", "submission_division")
_SUBMITTER = ("submission_org", "submission_platform")
_STATUS, _SAMPLES = ("submission_status",), ("train_samples", "eval_samples")
_ACCUMULATION = ("gradient_accumulation_steps",)
_SOME = ("cache_clear", "init_start", "eval_accuracy")
_EITHER = (("epoch_start", "block_start"), ("epoch_stop", "block_stop"))
_EVALUATIONS = (("eval_start", "block_start"), ("eval_stop", "block_stop"))
_SINCE: Final[Mapping[str, Keys]] = {
    "v0.5": _V05,
    "v0.6": Keys(
        once=(*_SUBMISSION, *_SUBMITTER, *_STATUS, "submission_poc_name", "submission_entry", *_RUN),
        some=(*_SOME, "eval_start", "eval_stop"),
        either=_EITHER,
    ),
    "v0.7": Keys((*_SUBMISSION, *_SUBMITTER, *_STATUS, *_RUN, *_SAMPLES), _SOME, (*_EITHER, *_EVALUATIONS)),
    "v1.0": Keys(
        (*_SUBMISSION, *_SUBMITTER, *_STATUS, *_RUN, *_SAMPLES, *_ACCUMULATION),
        _SOME,
        (*_EITHER, *_EVALUATIONS),
    ),
    "v4.1": Keys(
        (*_SUBMISSION, *_SUBMITTER, *_RUN, *_SAMPLES, *_ACCUMULATION), _SOME, (*_EITHER, *_EVALUATIONS)
    ),
    "v5.0": Keys((*_SUBMISSION, *_RUN, *_SAMPLES, *_ACCUMULATION), _SOME, (*_EITHER, *_EVALUATIONS)),
    "v5.1": Keys(
        (*_SUBMISSION, *_SUBMITTER, *_RUN, *_SAMPLES, *_ACCUMULATION), _SOME, (*_EITHER, *_EVALUATIONS)
    ),
}
OPEN_DIVISION_FREE: Final = frozenset(_ACCUMULATION)  # asked for in the closed division only


def keys_of(round_: str | None) -> Keys | None:
    """What a log has to state in a round; None where the round isn't known."""
    if round_ not in ROUNDS:
        return None
    at = ROUNDS.index(round_)
    return _SINCE[max((since for since in _SINCE if ROUNDS.index(since) <= at), key=ROUNDS.index)]


VALUES: Final[Mapping[str, frozenset[str]]] = {
    "submission_division": frozenset({"closed", "open"}),
    "submission_status": frozenset({"cloud", "onprem", "preview", "research"}),
}
"""The words that a key may have, where it stands in a log."""


def init_limit_minutes(round_: str | None, division: str | None) -> float | None:
    """Minutes that initialisation may take, outside the score; None where no limit is known.

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


# All of a round ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundRules:
    """What a benchmark's results have to meet in a round; None where it isn't known.

    targets  empty where the round has none that a number can be held against
    """

    benchmark: str | None
    round: str | None
    runs: Rule | None
    targets: tuple[Target, ...]
    keys: Keys | None

    def __str__(self) -> str:
        named = f"{self.benchmark or 'unknown benchmark'} in {self.round or 'an unknown round'}"
        if self.runs is None:
            return f"{named}: no rule is known"
        parts = [f"{self.runs.runs} runs"]
        if self.runs.counted:
            parts.append(f"the first {self.runs.counted} that converge count")
        of = "" if self.runs.dropped == 1 else f"{self.runs.dropped} "
        parts.append(f"without the {of}fastest and the {of}slowest")
        parts.append(f"at most {self.runs.failures} may fail to converge")
        reach = " and ".join(str(target) for target in self.targets) or "not known as a number"
        return f"{named}: {', '.join(parts)}; target {reach}; times the factor of scaling.json"


def rules_of(benchmark: str | None, round_: str | None) -> RoundRules:
    """The rules of a benchmark, by the name of its result folder, in a round like `v3.1`."""
    era = era_of(benchmark, round_)
    targets = era.targets if era else ()
    return RoundRules(benchmark, round_, rule_for(benchmark, round_), targets, keys_of(round_))
