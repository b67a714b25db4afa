"""What MLPerf training's rounds ask for, as tables: benchmarks, runs, quality targets, keys of a log.

Sources: MLPerf training rules and policies of v0.5 to v5.1 ("Benchmark Results", "Benchmarks"); the keys, the
limits of initialisation and the fractions of v0.7's BLEU scores from mlperf-logging's compliance rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

ROUNDS: Final = (
    "v0.5", "v0.6", "v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1", "v4.0", "v4.1", "v5.0", "v5.1",
)  # fmt: skip


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


# Quality targets -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """What an evaluation has to reach, in the scale in which the round's logs write it.

    metric  as the log names it; "" where a log writes one number
    """

    relation: Literal[">=", "<="]
    value: float
    metric: str = ""

    def reached(self, value: float) -> bool:
        """Whether an evaluation is as good as this or better."""
        return value >= self.value if self.relation == ">=" else value <= self.value

    def __str__(self) -> str:
        return f"{self.metric} {self.relation} {self.value:g}".lstrip()


@dataclass(frozen=True)
class Era:
    """Rounds through which a benchmark kept its targets; none where they can't be told from a number."""

    first: str
    last: str
    targets: tuple[Target, ...]

    def holds(self, round_: str) -> bool:
        """Whether a round of ROUNDS is one of these."""
        return ROUNDS.index(self.first) <= ROUNDS.index(round_) <= ROUNDS.index(self.last)


def _at_least(value: float) -> tuple[Target, ...]:
    return (Target(">=", value),)


def _at_most(value: float) -> tuple[Target, ...]:
    return (Target("<=", value),)


_BOX_AND_MASK = (Target(">=", 0.377, "BBOX"), Target(">=", 0.339, "SEGM"))
_FID_AND_CLIP = (Target("<=", 90.0, "FID"), Target(">=", 0.15, "CLIP"))
_ERAS: Final[Mapping[str, tuple[Era, ...]]] = {
    "resnet": (Era("v0.5", "v0.5", _at_least(0.749)), Era("v0.6", "v4.0", _at_least(0.759))),
    # from v2.0 on the folder and the log of RetinaNet are still called ssd, until v4.1
    "ssd": (
        Era("v0.5", "v0.5", _at_least(0.212)),
        Era("v0.6", "v1.1", _at_least(0.23)),
        Era("v2.0", "v4.1", _at_least(0.34)),
    ),
    "retinanet": (Era("v2.0", "v5.1", _at_least(0.34)),),
    "maskrcnn": (Era("v0.5", "v3.1", _BOX_AND_MASK),),
    "gnmt": (
        Era("v0.5", "v0.5", _at_least(21.8)),
        Era("v0.6", "v0.6", _at_least(24.0)),
        Era("v0.7", "v0.7", _at_least(0.24)),
    ),
    "transformer": (Era("v0.5", "v0.6", _at_least(25.0)), Era("v0.7", "v0.7", _at_least(0.25))),
    "ncf": (Era("v0.5", "v0.5", _at_least(0.635)),),
    "minigo": (Era("v0.5", "v0.6", ()), Era("v0.7", "v2.1", _at_least(0.5))),  # before: against a checkpoint
    "bert": (Era("v0.7", "v0.7", _at_least(0.712)), Era("v1.0", "v5.0", _at_least(0.72))),
    "dlrm": (Era("v0.7", "v2.1", _at_least(0.8025)),),
    "dlrm_dcnv2": (Era("v3.0", "v5.1", _at_least(0.80275)),),
    "rnnt": (Era("v1.0", "v3.1", _at_most(0.058)),),
    "unet3d": (Era("v1.0", "v4.0", _at_least(0.908)),),
    "gpt3": (Era("v3.0", "v4.1", _at_most(2.69)),),
    "stable_diffusion": (Era("v3.1", "v5.0", _FID_AND_CLIP),),
    "llama2_70b_lora": (Era("v4.0", "v5.1", _at_most(0.925)),),
    "gnn": (Era("v4.0", "v4.1", _at_least(0.72)),),
    "rgat": (Era("v4.0", "v5.1", _at_least(0.72)),),
    "llama31_405b": (Era("v5.0", "v5.1", _at_most(5.6)),),
    "llama31_8b": (Era("v5.1", "v5.1", _at_most(3.3)),),
    "flux1": (Era("v5.1", "v5.1", _at_most(0.586)),),
}


def era_of(benchmark: str | None, round_: str | None) -> Era | None:
    """The era of a benchmark in a round; None where the round, or the benchmark in it, isn't known.

    >>> [str(target) for target in era_of("maskrcnn", "v2.1").targets]
    ['BBOX >= 0.377', 'SEGM >= 0.339']
    >>> era_of("ncf", "v3.1")
    """
    if round_ not in ROUNDS:
        return None
    return next((era for era in _ERAS.get(benchmark or "", ()) if era.holds(round_)), None)


def benchmarks_of(round_: str) -> tuple[str, ...]:
    """The benchmarks of a round of ROUNDS, by the names of their result folders."""
    return tuple(name for name, eras in _ERAS.items() if any(era.holds(round_) for era in eras))


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
