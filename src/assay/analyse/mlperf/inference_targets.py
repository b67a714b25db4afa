"""What MLPerf inference's rounds require of a benchmark: its data set, its accuracy and its latency.

A benchmark has the name of its folder: `bert-99.9` requires 99.9 % of the reference's accuracy, a name
without a share 99 %. What is not in the table is unknown here, and nothing is compared with it.

Sources: MLPerf inference rules, "Benchmarks"; MODEL_CONFIG, LLM_LATENCY_LIMITS and
OFFLINE_MIN_SPQ_SINCE_V4 of mlcommons/inference, tools/submission, of v4.1 and v6.0. Targets marked there as
placeholders are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

OFFLINE_MINIMUM: Final = 24_576  # samples; a smaller data set is used completely
_FIRST_ROUND: Final = (2, 0)  # minimums and scenarios differed before it
_LAST_ROUND: Final = (6, 0)
_NAME: Final = re.compile(r"(.+?)(?:-(95|99(?:\.9)?))?")
_SAME: Final = {  # other names of a benchmark
    "resnet50": "resnet",
    "ssd-resnet34": "retinanet",
    "llama2-70b-interactive": "llama2-70b",
    "llama3_1-405b": "llama3.1-405b",
    "llama3_1-8b": "llama3.1-8b",
    "llama3_1-8b-edge": "llama3.1-8b-edge",
}


@dataclass(frozen=True)
class AcceptedRange:
    """Values of a metric that the closed division accepts; `most` None: no upper limit."""

    least: float
    most: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a value is accepted."""
        return value >= self.least and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least:.6g}"
        return f"{self.least:.6g} to {self.most:.6g}"


@dataclass(frozen=True)
class InferenceTask:
    """A benchmark of some rounds.

    samples          of its data set
    accuracy         metric, as in its accuracy.txt, → accepted values; empty: unknown here
    offline_minimum  minimum samples of an Offline query
    """

    samples: int
    accuracy: Mapping[str, AcceptedRange]
    offline_minimum: int


@dataclass(frozen=True)
class _Row:
    """reference  metric → the reference's value, a share of which is required; length: absolute bounds."""

    samples: int
    reference: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, AcceptedRange] = field(default_factory=dict)
    share: float = 0.99
    offline_minimum: int | None = None
    since: tuple[int, int] = _FIRST_ROUND
    until: tuple[int, int] = _LAST_ROUND


def _length(metric: str, reference: float, longest: float | None = None) -> dict[str, AcceptedRange]:
    """Answers may be a tenth shorter than the reference's; longest: what they may exceed by a tenth."""
    return {metric: AcceptedRange(0.9 * reference, None if longest is None else 1.1 * longest)}


def _rouge(unigrams: float, bigrams: float, longest: float) -> dict[str, float]:
    return {"ROUGE1": unigrams, "ROUGE2": bigrams, "ROUGEL": longest}


_TABLE: Final[Mapping[str, tuple[_Row, ...]]] = {
    "resnet": (_Row(50_000, {"accuracy": 76.46}),),
    "retinanet": (_Row(24_781, {"mAP": 37.55}),),
    "bert": (_Row(10_833, {"F1": 90.874}),),
    "3d-unet": (_Row(43, {"DICE": 0.86170}),),
    "rnnt": (_Row(2_513, {"word accuracy": 100 - 7.452}),),
    "dlrm-v2": (_Row(330_067, {"AUC": 80.31}),),
    "gptj": (_Row(13_368, _rouge(42.9865, 20.1235, 29.9881), _length("GEN_LEN", 4_016_878)),),
    "llama2-70b": (
        _Row(24_576, _rouge(44.4312, 22.0352, 28.6162), _length("TOKENS_PER_SAMPLE", 294.45, 294.45)),
    ),
    "stable-diffusion-xl": (
        _Row(
            5_000,
            bounds={
                "CLIP_SCORE": AcceptedRange(31.68631873, 31.81331801),
                "FID_SCORE": AcceptedRange(23.01085758, 23.95007626),
            },
        ),
    ),
    "mixtral-8x7b": (
        _Row(
            15_000,
            {**_rouge(45.4911, 23.2829, 30.3615), "gsm8k": 73.78, "mbxp": 60.12},
            _length("TOKENS_PER_SAMPLE", 145.9, 145.9),
            until=(4, 1),
        ),
        _Row(
            15_000,
            {**_rouge(45.5989, 23.3526, 30.4608), "gsm8k": 73.66, "mbxp": 60.16},
            _length("TOKENS_PER_SAMPLE", 144.84, 145.9),
            since=(5, 0),
        ),
    ),
    "llama3.1-405b": (
        _Row(
            8_313,
            {"ROUGEL": 21.6666, "exact_match": 90.1335},
            _length("TOKENS_PER_SAMPLE", 684.68, 684.68),
        ),
    ),
    "llama3.1-8b": (
        _Row(
            13_368,
            {**_rouge(38.7792, 15.9075, 24.4957), "ROUGELSUM": 35.793},
            _length("GEN_LEN", 8_167_644, 8_167_644),
        ),
    ),
    "llama3.1-8b-edge": (
        _Row(
            5_000,
            {**_rouge(39.06, 16.1147, 24.6375), "ROUGELSUM": 36.124},
            _length("GEN_LEN", 3_051_113, 3_051_113),
        ),
    ),
    "deepseek-r1": (
        _Row(4_388, {"exact_match": 81.3582}, _length("TOKENS_PER_SAMPLE", 3886.2274, 3886.2274)),
    ),
    "whisper": (_Row(1_633, {"word accuracy": 100 - 2.0671}),),
    "rgat": (_Row(788_379, {"accuracy": 0.7286}, offline_minimum=788_379),),
    "pointpainting": (_Row(39_987, {"mAP": 0.5425}, share=0.999),),
    "yolo": (_Row(1_525, {"mAP": 53.4}),),
    "gpt-oss-120b": (_Row(6_396),),
}


_LATENCY: Final = "result_99.00_percentile_latency_ns"
_TTFT: Final = "result_first_token_99.00_percentile_latency_ns"
_TPOT: Final = "result_time_to_output_token_99.00_percentile_ns"


def _tokens(first_ms: float, each_ms: float) -> dict[str, float]:
    return {_TTFT: first_ms * 1e6, _TPOT: each_ms * 1e6}


_LATENCY_NS: Final[Mapping[tuple[str, str], Mapping[str, float]]] = {
    ("resnet", "server"): {_LATENCY: 15e6},
    ("retinanet", "server"): {_LATENCY: 100e6},
    ("bert", "server"): {_LATENCY: 130e6},
    ("rnnt", "server"): {_LATENCY: 1e9},
    ("dlrm-v2", "server"): {_LATENCY: 60e6},
    ("gptj", "server"): {_LATENCY: 20e9},
    ("stable-diffusion-xl", "server"): {_LATENCY: 20e9},
    ("mixtral-8x7b", "server"): _tokens(2000, 200),
    ("llama2-70b", "server"): _tokens(2000, 200),
    ("llama2-70b", "interactive"): _tokens(450, 40),
    ("llama2-70b-interactive", "server"): _tokens(450, 40),
    ("llama3.1-405b", "server"): _tokens(6000, 175),
    ("llama3.1-405b", "interactive"): _tokens(4500, 80),
    ("llama3.1-8b", "server"): _tokens(2000, 100),
    ("llama3.1-8b", "interactive"): _tokens(500, 30),
    ("deepseek-r1", "server"): _tokens(2000, 80),
    ("deepseek-r1", "interactive"): _tokens(1500, 15),
    ("gpt-oss-120b", "server"): _tokens(3000, 80),
}


def latency_bounds_ns(benchmark: str, scenario: str, round_: str = "") -> Mapping[str, float]:
    """LoadGen's key of a 99th percentile → the maximum that the rules allow, ns; empty if unknown.

    scenario  named like its folder

    >>> latency_bounds_ns("resnet50", "Server")
    {'result_99.00_percentile_latency_ns': 15000000.0}
    """
    match = _NAME.fullmatch(benchmark.lower())
    if match is None or (round_ and not _FIRST_ROUND <= round_number(round_) <= _LAST_ROUND):
        return {}
    names = (match[1], _SAME.get(match[1], match[1]))
    return next((_LATENCY_NS[key] for name in names if (key := (name, scenario.lower())) in _LATENCY_NS), {})


def inference_task(benchmark: str, round_: str = "") -> InferenceTask | None:
    """The benchmark by its folder's name; None if it, its round, or which of two it is, is unknown.

    round_  `v4.1`; "" if unknown, which is enough if every round has the same

    >>> inference_task("bert-99.9", "v4.1").accuracy["F1"].least
    90.783126
    >>> inference_task("mixtral-8x7b") is None
    True
    """
    match = _NAME.fullmatch(benchmark.lower())
    if match is None:
        return None
    rows = _TABLE.get(_SAME.get(match[1], match[1]), ())
    if round_:
        rows = tuple(row for row in rows if row.since <= round_number(round_) <= row.until)
    if len(rows) != 1:
        return None
    [row] = rows
    share = float(match[2]) / 100 if match[2] else row.share
    required = {metric: AcceptedRange(round(share * value, 9)) for metric, value in row.reference.items()}
    minimum = row.offline_minimum or min(OFFLINE_MINIMUM, row.samples)
    return InferenceTask(row.samples, {**required, **row.bounds}, minimum)


def round_number(round_: str) -> tuple[int, int]:
    """`v4.1` as numbers that compare. Raises ValueError on anything else."""
    major, minor = round_.removeprefix("v").split(".")
    return int(major), int(minor)


def has_todays_scenarios(round_: str) -> bool:
    """Whether the official settings known here apply to a round; for an unknown round they are assumed to.

    >>> has_todays_scenarios("v0.7"), has_todays_scenarios("v5.1"), has_todays_scenarios("")
    (False, True, True)
    """
    return not round_ or round_number(round_) >= _FIRST_ROUND
