"""What a GPU did while a job ran."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuUse:
    """One GPU over a run, from samples; None where the driver did not say.

    node, gpu    the node's number within the job, and the GPU's index on it, both from 0
    sampled_s    time that samples cover; the others are about this time
    utilization  mean share of the time in which a kernel ran, 0 to 1
    power_w      mean
    clock_hz     mean SM clock of the samples at work (use of at least 50 %)
    slowed_s     time at clocks that heat, the hardware's slowdown or a power brake lowered
    capped_s     time at clocks that the power limit lowered
    """

    node: int
    gpu: int
    sampled_s: float
    utilization: float | None = None
    power_w: float | None = None
    clock_hz: float | None = None
    slowed_s: float | None = None
    capped_s: float | None = None

    def __str__(self) -> str:
        return f"GPU {self.gpu} of node {self.node}"
