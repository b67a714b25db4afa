"""A slow time of a run is found, not where nothing was slow, and its telemetry names the cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assay.telemetry import recorded
from assay.telemetry.stalls import explained, slow_windows

RUNS = 500


def curve(rates: np.ndarray) -> list[tuple[float, float]]:
    """Windows of equal work, from 1,000 s on."""
    ends = 1000 + np.cumsum(10.0 / rates)
    return list(zip(ends.tolist(), rates.tolist(), strict=True))


@pytest.mark.parametrize(
    ("spread", "windows", "at_most"), [(0.2, 10, 0.045), (0.2, 50, 0.012), (0.1, 10, 0.02)]
)
def test_healthy_runs_have_stalls_as_rarely_as_stated(spread: float, windows: int, at_most: float) -> None:
    rng = np.random.default_rng(7)
    found = [slow_windows(curve(np.exp(rng.normal(0, spread, windows)))) for _ in range(RUNS)]
    assert sum(map(bool, found)) / RUNS <= at_most


def test_a_run_at_half_its_speed_for_some_windows_has_one_stall() -> None:
    rng = np.random.default_rng(7)
    for _ in range(RUNS):
        rates = np.exp(rng.normal(0, 0.05, 40))
        rates[20:23] /= 2
        points = curve(rates)
        (stall,) = slow_windows(points)
        assert (stall.begin_at, stall.end_at) == (points[19][0], points[22][0])
        assert stall.lost_s == pytest.approx(30, rel=0.25)


@pytest.mark.parametrize("rates", [[], [1.0] * 8, [1.0, 1, 1, 0.1], [0.0] * 20, [1.0] * 3 + [0.1] * 30])
def test_what_has_no_usual_speed_has_no_stall(rates: list[float]) -> None:
    ends = [1000.0 + 10 * n for n in range(len(rates))]
    assert slow_windows(list(zip(ends, rates, strict=True))) == []


# Causes

NODE = (
    "cpu_busy_seconds_total", "job_cpu_seconds_total", "cpu_pressure_seconds_total",
    "cpu_throttled_seconds_total", "memory_pressure_seconds_total", "io_pressure_seconds_total",
    "infiniband_errors_total",
)  # fmt: skip
USUAL = (2.0, 1.9, 0.02, 0.0, 0.0, 0.01, 0.0)  # per second


def sampled(directory: Path, then: tuple[float, ...], reasons: int = 0) -> Path:
    """An attempt that was sampled from 1,000 to 1,060 s, in which these rates hold from 1,020 to 1,030 s."""
    header = {
        "version": 1, "started_at": 1000.0, "period_s": 1.0, "node": NODE, "gpu": ["clock_reasons"],
        "gpus": [{"index": 0}],
    }  # fmt: skip
    counts, lines = np.zeros(len(NODE)), [f":::ASSAY-TELEMETRY {json.dumps(header)}"]
    for second in range(60):
        slow = 20 < second <= 30
        counts += then if slow else USUAL
        lines.append(f"n {second} {' '.join(f'{count:.6f}' for count in counts)} .")
        lines.append(f"g {second} 0 {4 | (reasons if slow else 0)} .")
    (directory / "logs").mkdir(parents=True)
    (directory / "logs/telemetry-0.log").write_text("\n".join(lines) + "\n")
    recorded.store(directory)
    return directory


def slow() -> list[tuple[float, float]]:
    ends = np.arange(1002, 1060, 2.0)
    return [(end, 0.3 if 1020 < end <= 1030 else 1.0) for end in ends.tolist()]


@pytest.mark.parametrize(
    ("then", "reasons", "cause", "evidence"),
    [
        (USUAL, 0x40, "throttling", "GPUs were throttled 100 % of the time, usually 0 %"),
        ((1.0, 0.9, 0.02, 0.6, 0, 0.01, 0), 0, "CPU quota", "held the job back 60 % of the time"),
        ((2.0, 0.5, 0.9, 0, 0, 0.01, 0), 0, "other process", "other processes used 1.5 CPUs, usually 0.1"),
        ((0.3, 0.2, 0.02, 0, 0, 0.8, 0), 0, "data wait", "input and output 80 % of the time, usually 1 %"),
        ((0.3, 0.2, 0.02, 0, 0.7, 0.8, 0), 0, "memory", "waited for memory 70 %"),
        ((2.0, 1.9, 0.02, 0, 0, 0.01, 5), 0, "network", "InfiniBand ports counted errors"),
        (USUAL, 4, "", ""),
    ],
)  # fmt: skip
def test_the_telemetry_names_the_cause(
    tmp_path: Path, then: tuple[float, ...], reasons: int, cause: str, evidence: str
) -> None:
    (stall,) = explained(slow_windows(slow()), sampled(tmp_path, then, reasons))
    assert stall.cause == cause
    assert evidence in stall.evidence
    assert (stall.begin_at, stall.end_at) == (1020.0, 1030.0)


@pytest.mark.parametrize("lay_out", [lambda path: path.mkdir(), lambda path: path.touch()])
def test_without_telemetry_the_cause_is_unknown(tmp_path: Path, lay_out: Callable[[Path], None]) -> None:
    lay_out(tmp_path / "attempt-1")
    (stall,) = explained(slow_windows(slow()), tmp_path / "attempt-1")
    assert (stall.cause, stall.evidence) == ("", "")
