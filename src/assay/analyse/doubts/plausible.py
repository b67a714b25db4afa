"""Doubts about figures that can't be, or that say that the machine was hardly used."""

from __future__ import annotations

import re
from dataclasses import dataclass

from assay.analyse.doubts.case import Case, Side, accelerator, stated
from assay.analyse.ratio import mean
from assay.records import Doubt, Shape


@dataclass(frozen=True)
class Reached:
    """Training of ResNet-50 at 224×224 that others reached, images a second on one accelerator.

    least, most  the slowest and fastest of the sources, both with 16-bit arithmetic
    mfu          of the slowest, with 24.3 GFLOP an image
    """

    accelerator: re.Pattern[str]
    least: float
    most: float
    mfu: float
    source: str


RESNET50 = (
    Reached(
        re.compile(r"V100", re.IGNORECASE),
        887,
        1040,
        0.17,
        "tf_cnn_benchmarks on DGX-1; NVIDIA DeepLearningExamples",
    ),
    Reached(
        re.compile(r"A100", re.IGNORECASE),
        2470,
        3397,
        0.19,
        "NVIDIA DeepLearningExamples; MLPerf Training v2.1",
    ),
    Reached(
        re.compile(r"\b(G?H100|G?H200)\b", re.IGNORECASE),
        2790,
        7950,
        0.07,
        "Lambda's PyTorch benchmark; MLPerf Training v4.0",
    ),
)


def above_best_known(case: Case) -> Doubt | None:
    """A throughput that nobody has reached on this accelerator."""
    for side in case.sides:
        found = _resnet50(side)
        if found is None:
            continue
        each, reached = found
        if each > reached.most:
            return Doubt(
                "above-best-known",
                f"{side.name}: {each:,.0f} images/s on one accelerator; the fastest known is "
                f"{reached.most:,.0f} ({reached.source})",
                "Look for steps that the clock did not wait for (no synchronisation with the GPU), a smaller "
                "image, skipped gradients, or ranks counted twice",
            )
    return None


def far_below_reference(case: Case) -> Doubt | None:
    """Less than half of the slowest reference with 16-bit arithmetic on this accelerator."""
    for side in case.sides:
        found = _resnet50(side)
        if found is None or stated(side, "precision") not in ("bf16", "fp16", "amp"):
            continue
        each, reached = found
        if each < reached.least / 2:
            mfu = reached.mfu * each / reached.least
            return Doubt(
                "mfu-far-below",
                f"{side.name}: {each:,.0f} images/s on one accelerator, an MFU of {mfu:.1%}; others reach "
                f"{reached.least:,.0f} to {reached.most:,.0f}, from {reached.mfu:.0%} on ({reached.source})",
                "Raise the batch, check channels_last and 16-bit arithmetic, and that no GPU waits for data",
            )
    return None


def _resnet50(side: Side) -> tuple[float, Reached] | None:
    """Images a second on one accelerator, and what others reached; None where that can't be told."""
    point = side.group.point
    if "resnet" not in point.benchmark.lower() and _workload(side) != "resnet50":
        return None
    if (
        point.unit != "images/s"
        or point.metric != "throughput"
        or stated(side, "image_size") not in (None, 224)
    ):
        return None
    device = accelerator(side)
    reached = next((known for known in RESNET50 if device and known.accelerator.search(device)), None)
    if reached is None:
        return None
    return mean(side.group.values) / Shape.parse(point.shape).ranks, reached


def _workload(side: Side) -> str:
    return side.group.samples[0].result.run.trial.workload
