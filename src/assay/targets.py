"""The quality targets of MLPerf training's benchmarks, by round, and whether an evaluation reaches them.

Source: MLPerf training rules of v0.5 to v6.1 ("Benchmarks"); the fractions of v0.7's BLEU scores, and which
targets bind the open division, from mlperf-logging's compliance rules (`open_BENCHMARK.yaml`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

ROUNDS: Final = (
    "v0.5", "v0.6", "v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1", "v4.0", "v4.1", "v5.0", "v5.1",
    "v6.0", "v6.1",
)  # fmt: skip


@dataclass(frozen=True)
class QualityTarget:
    """What an evaluation has to reach, on the scale of the round's logs.

    metric  as the log names it; "" if a log writes one number
    """

    relation: Literal[">=", ">", "<="]
    value: float
    metric: str = ""

    def reached(self, value: float) -> bool:
        """Whether an evaluation is as good as this or better; for ">", only better."""
        if self.relation == "<=":
            return value <= self.value
        return value > self.value if self.relation == ">" else value >= self.value

    @property
    def largest(self) -> float:
        """The largest value that an evaluation can have: of a share 1, of a score in percent 100."""
        if self.relation == "<=":  # a loss, an error rate, or a distance
            return math.inf
        return 1.0 if self.value <= 1 else 100.0

    def value_in(self, by_metric: Mapping[str, tuple[float, int]]) -> tuple[float, int] | None:
        """The value of this target's metric; if the log has only one metric, that one."""
        if self.metric not in by_metric and len(by_metric) == 1 and not self.metric:
            return next(iter(by_metric.values()))
        return by_metric.get(self.metric)

    def __str__(self) -> str:
        return f"{self.metric} {self.relation} {self.value:g}".lstrip()


@dataclass(frozen=True)
class Era:
    """Rounds in which a benchmark had the same targets; empty if no number decides."""

    first: str
    last: str
    targets: tuple[QualityTarget, ...]

    def holds(self, round_: str) -> bool:
        """Whether a round of ROUNDS is one of these."""
        return ROUNDS.index(self.first) <= ROUNDS.index(round_) <= ROUNDS.index(self.last)


def _at_least(value: float) -> tuple[QualityTarget, ...]:
    return (QualityTarget(">=", value),)


def _at_most(value: float) -> tuple[QualityTarget, ...]:
    return (QualityTarget("<=", value),)


_BOX_AND_MASK = (QualityTarget(">=", 0.377, "BBOX"), QualityTarget(">=", 0.339, "SEGM"))
_FID_AND_CLIP = (QualityTarget("<=", 90.0, "FID"), QualityTarget(">=", 0.15, "CLIP"))
_ERAS: Final[Mapping[str, tuple[Era, ...]]] = {
    "resnet": (Era("v0.5", "v0.5", _at_least(0.749)), Era("v0.6", "v4.0", _at_least(0.759))),
    # From v2.0 to v4.1, the folder and the log of RetinaNet are still called ssd.
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
    "minigo": (
        Era("v0.5", "v0.6", ()),
        Era("v0.7", "v2.1", _at_least(0.5)),
    ),  # before: relative to a checkpoint
    "bert": (Era("v0.7", "v0.7", _at_least(0.712)), Era("v1.0", "v5.0", _at_least(0.72))),
    "dlrm": (Era("v0.7", "v2.1", _at_least(0.8025)),),
    "dlrm_dcnv2": (Era("v3.0", "v6.0", _at_least(0.80275)),),
    "rnnt": (Era("v1.0", "v3.1", _at_most(0.058)),),
    "unet3d": (Era("v1.0", "v4.0", _at_least(0.908)),),
    "gpt3": (Era("v3.0", "v4.1", _at_most(2.69)),),
    "stable_diffusion": (Era("v3.1", "v5.0", _FID_AND_CLIP),),
    "dlrmv4": (Era("v6.1", "v6.1", _at_least(0.75)),),
    "llama2_70b_lora": (Era("v4.0", "v6.1", _at_most(0.925)),),
    "gnn": (Era("v4.0", "v4.1", _at_least(0.72)),),
    "rgat": (Era("v4.0", "v5.1", _at_least(0.72)),),
    "llama31_405b": (Era("v5.0", "v6.0", _at_most(5.6)),),
    "llama31_8b": (Era("v5.1", "v6.1", _at_most(3.3)),),
    "flux1": (Era("v5.1", "v6.1", _at_most(0.586)),),
    "gpt_oss_20b": (Era("v6.0", "v6.1", _at_most(3.34)),),
    "deepseekv3_671b": (Era("v6.0", "v6.1", _at_most(3.6)),),
    "qwen35_397b_grpo": (Era("v6.1", "v6.1", (QualityTarget(">", 0.69),)),),
}
_LAST_WITH_OPEN_TARGETS: Final = "v0.7"
_TARGETS_OF_OPEN: Final = frozenset(
    {"gpt3", "llama31_405b", "flux1", "gpt_oss_20b", "deepseekv3_671b", "dlrmv4", "qwen35_397b_grpo"}
)


def era_of(benchmark: str | None, round_: str | None) -> Era | None:
    """The era of a benchmark in a round; None if the round, or the benchmark in it, is unknown.

    >>> [str(target) for target in era_of("maskrcnn", "v2.1").targets]
    ['BBOX >= 0.377', 'SEGM >= 0.339']
    >>> era_of("ncf", "v3.1")
    """
    if round_ not in ROUNDS:
        return None
    return next((era for era in _ERAS.get(benchmark or "", ()) if era.holds(round_)), None)


def binds_open_division(benchmark: str | None, round_: str | None) -> bool:
    """Whether the target of a benchmark in a round also applies in the open division.

    Otherwise a run of the open division may stop by any criterion.

    >>> binds_open_division("gpt_oss_20b", "v6.0"), binds_open_division("llama31_8b", "v6.0")
    (True, False)
    """
    if round_ not in ROUNDS:
        return False
    return benchmark in _TARGETS_OF_OPEN or ROUNDS.index(round_) <= ROUNDS.index(_LAST_WITH_OPEN_TARGETS)


def benchmarks_of(round_: str) -> tuple[str, ...]:
    """The benchmarks of a round of ROUNDS, by the names of their result folders."""
    return tuple(name for name, eras in _ERAS.items() if any(era.holds(round_) for era in eras))


def relation_of(benchmark: str | None, round_: str | None) -> Literal[">=", ">", "<="] | None:
    """The direction of a benchmark's evaluations; None if no single number decides.

    Without a known round, by all rounds that had the benchmark.

    >>> relation_of("resnet", "v3.0"), relation_of("gpt3", None), relation_of("maskrcnn", None)
    ('>=', '<=', None)
    """
    era = era_of(benchmark, round_)
    eras = _ERAS.get(benchmark or "", ()) if era is None else (era,)
    targets = [target for of_era in eras for target in of_era.targets]
    relations = {target.relation for target in targets}
    several = any(target.metric for target in targets)
    return relations.pop() if len(relations) == 1 and not several else None
