"""How much of the time of jobs was useful."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from assay.analyse.goodput.failures import JobAttempt

PARTS: Final = ("productive", "checkpoint", "restart", "lost", "stall")


@dataclass(frozen=True)
class Goodput:
    """Useful time over wall time of jobs, weighted by their nodes.

    parts_s     seconds by part; `unknown`: what no source accounts for
    low, high   goodput if none of the unknown time was useful, and if all was
    """

    wall_s: float
    parts_s: dict[str, float]
    low: float
    high: float


def goodput(attempts: Sequence[JobAttempt]) -> Goodput | None:
    """The goodput of these attempts; None if none ran for any time.

    Raises ValueError if the parts of an attempt are longer than the attempt.
    """
    weights = [max(1, len(attempt.nodes)) for attempt in attempts]
    wall_s = math.fsum(a.duration_s * weight for a, weight in zip(attempts, weights, strict=True))
    if wall_s <= 0:
        return None
    parts = {
        part: math.fsum((getattr(a, f"{part}_s") or 0.0) * w for a, w in zip(attempts, weights, strict=True))
        for part in PARTS
    }
    for attempt in attempts:
        known = math.fsum(getattr(attempt, f"{part}_s") or 0.0 for part in PARTS)
        if known > attempt.duration_s * (1 + 1e-9) + 1e-6:
            raise ValueError(
                f"{attempt.job}: its parts take {known:g} s together, but it ran for {attempt.duration_s:g} s"
            )
    unknown = max(0.0, wall_s - math.fsum(parts.values()))
    parts["unknown"] = unknown
    return Goodput(wall_s, parts, parts["productive"] / wall_s, (parts["productive"] + unknown) / wall_s)
