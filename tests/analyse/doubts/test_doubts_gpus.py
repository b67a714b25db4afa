"""Doubts about what the GPUs did while the runs ran: what raises each, what must not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.analyse.doubts import of
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import group
from assay.records import Doubt, Estimate, GpuUse, Provenance, Result, Shape
from assay.telemetry import recorded
from assay.telemetry.gpu_use import gpu_energy, gpu_uses
from stated_runs import metrics, result

GPU = GpuUse(0, 0, 59.0, utilization=0.97, power_w=610.0, clock_hz=1.7e9, slowed_s=0.0, capped_s=30.0)
IDLE = replace(GPU, utilization=0.001, power_w=70.0, clock_hz=None, capped_s=0.0)


def runs(*gpus: GpuUse, limit_w: float = 700.0, system: str = "a", **facts: Any) -> list[Result]:
    """Three runs of a minute on these GPUs; the shape has one rank."""
    stated = {"device": "cuda", "world_size": 1, **facts}
    found = []
    for block in range(1, 4):
        made = result(100 + 0.1 * block, block=block, system=system)
        run = replace(made.run, started_at=1000.0, ended_at=1060.0)
        uses = tuple(replace(gpu, gpu=number) for number, gpu in enumerate(gpus))
        table = {f"gpu.{number}.power_limit_w": limit_w for number in range(len(gpus))}
        reading = replace(made.reading, gpus=uses, facts={**made.reading.facts, **stated})
        found.append(Result(run, reading, Provenance((table,))))
    return found


def raised(*sides: Sequence[Result], margin: float | None = None) -> dict[str, Doubt]:
    """The doubts about GPUs, by code."""
    found = []
    for name, results in zip("AB", sides, strict=False):
        [at] = group(results, metrics()).values()
        found.append(Side(name, at))
    doubts = of(Case(tuple(found), Estimate(1.0, None, None, 3, ""), margin))
    return {d.code: d for d in doubts if d.code.startswith(("gpu-", "power-limits"))}


def test_healthy_gpus_raise_nothing_and_neither_do_gpus_at_their_power_limit() -> None:
    assert raised(runs(GPU)) == {}
    assert raised(runs(GPU, IDLE, IDLE), runs(GPU, IDLE, IDLE, system="b"), margin=0.02) == {}
    assert raised(runs()) == {}


def test_a_throttled_gpu_is_named_with_its_share_and_clock() -> None:
    hot = replace(GPU, slowed_s=5.9, clock_hz=1.2e9)
    (doubt,) = raised(runs(GPU, hot, world_size=2)).values()
    assert doubt.code == "gpu-throttled"
    assert "10 % of the time over 3 runs" in doubt.evidence
    assert "GPU 1 of node 0, 10 %, at 1,200 MHz under load" in doubt.evidence
    assert raised(runs(replace(GPU, slowed_s=0.5))) == {}  # 0.85 %
    assert raised(runs(replace(GPU, slowed_s=None))) == {}
    (doubt,) = raised(runs(GPU), runs(hot, system="b"), margin=0.02).values()
    assert doubt.evidence.endswith("the effect on A hardly matters, the effect on B may have slowed it down")


def test_more_gpus_at_work_than_ranks_are_neighbors() -> None:
    (doubt,) = raised(runs(GPU, GPU, IDLE)).values()
    assert doubt.code == "gpu-neighbours"
    assert "2 GPUs of the job's nodes worked, the job has 1 rank" in doubt.evidence
    assert raised(runs(GPU, GPU, device="cpu")) == {}
    assert raised(runs(GPU, GPU, world_size=2)) == {}  # the program says otherwise, another doubt's subject
    assert raised(runs(GPU, replace(GPU, utilization=None))) == {}
    assert raised(runs(GPU, replace(GPU, sampled_s=20.0))) == {}


def test_fewer_gpus_at_work_than_ranks_are_idle() -> None:
    eight = [
        replace(one, run=replace(one.run, trial=replace(one.run.trial, shape=Shape(1, 8))))
        for one in runs(*[GPU] * 7, IDLE, world_size=8)
    ]
    (doubt,) = raised(eight).values()
    assert doubt.code == "gpu-idle"
    assert doubt.evidence.endswith("7 GPUs worked for 8 ranks; not GPU 7 of node 0")


def test_sides_at_different_power_limits_are_compared_by_energy() -> None:
    (doubt,) = raised(runs(GPU), runs(GPU, limit_w=500.0, system="b"), margin=0.02).values()
    assert doubt.code == "power-limits-differ"
    assert doubt.evidence == "per GPU: A 700 W, B 500 W"
    assert "gpu_energy_per_work" in doubt.remedy
    assert raised(runs(GPU), runs(GPU, limit_w=690.0, system="b"), margin=0.02) == {}


def sampled(
    directory: Path, columns: Sequence[str], rows: Sequence[str], node_samples: int = 60
) -> tuple[GpuUse, ...]:
    header = {
        "version": 1, "started_at": 1000.0, "period_s": 1.0, "node": ["memory_available_bytes"],
        "gpu": columns, "gpus": [{"index": 0}],
    }  # fmt: skip
    (directory / "logs").mkdir(parents=True)
    of_node = (f"n {t} 5 ." for t in range(node_samples))
    text = "\n".join([f":::ASSAY-TELEMETRY {json.dumps(header)}", *of_node, *rows])
    (directory / "logs/telemetry-0.log").write_text(text + "\n")
    before = gpu_uses(directory)
    recorded.store(directory)
    assert gpu_uses(directory) == before
    return before


def test_the_drivers_count_is_taken_before_the_samples_reasons(tmp_path: Path) -> None:
    columns = ("utilization_percent", "power_watts", "sm_clock_hertz", "clock_reasons")
    rows = [
        f"g {t} 0 {'98 600 1.7e9' if t >= 10 else '0 600 3e8'} {64 if t >= 48 else 4} ." for t in range(60)
    ]
    (use,) = sampled(tmp_path / "reasons", columns, rows)
    assert (use.sampled_s, use.power_w, use.clock_hz) == (59.0, 600.0, 1.7e9)
    assert use.utilization == pytest.approx(0.98 * 50 / 60)
    assert (use.slowed_s, use.capped_s) == (12.0, 47.0)
    counted = (*columns, "thermal_hardware_seconds_total", "thermal_software_seconds_total")
    # a reset after half a minute costs one step
    own = [row.removesuffix(".") + f"{t / 10 if t < 30 else (t - 30) / 10} 0 ." for t, row in enumerate(rows)]
    (use,) = sampled(tmp_path / "counted", counted, own)
    assert use.slowed_s == pytest.approx(2.9 + 2.9)
    assert use.capped_s == 47.0


def test_a_gpu_that_two_pods_of_a_node_sampled_counts_once(tmp_path: Path) -> None:
    header = {
        "version": 1, "started_at": 1000.0, "period_s": 1.0, "node": ["memory_available_bytes"],
        "gpu": ("power_watts",), "gpus": [{"index": 0, "uuid": "GPU-a"}],
    }  # fmt: skip
    (tmp_path / "logs").mkdir(parents=True)
    rows = [line for t in range(60) for line in (f"n {t} 5 .", f"g {t} 0 300 .")]
    for pod in range(2):
        text = "\n".join([f":::ASSAY-TELEMETRY {json.dumps(header)}", *rows])
        (tmp_path / f"logs/telemetry-{pod}.log").write_text(text + "\n")
    assert [use.power_w for use in gpu_uses(tmp_path)] == [300.0]
    energy = gpu_energy(tmp_path, 60.0)
    assert energy is not None
    assert (energy.gpus, energy.watts) == (1, 300.0)


def test_what_the_driver_does_not_say_is_unknown(tmp_path: Path) -> None:
    (use,) = sampled(tmp_path, ("power_watts",), [f"g {t} 0 - ." for t in range(60)])
    assert use == GpuUse(0, 0, 59.0)
    assert gpu_uses(tmp_path / "nothing") == ()


def test_two_sources_that_differ_are_doubted() -> None:
    made = [
        replace(one, reading=replace(one.reading, disagreements=("power of GPU 0 of node 0: …", "more")))
        for one in runs(GPU)
    ]
    found = []
    [at] = group(made, metrics()).values()
    found = [
        d for d in of(Case((Side("A", at),), Estimate(1.0, None, None, 3, ""), None)) if "telemetry" in d.code
    ]
    (doubt,) = found
    assert doubt.code == "telemetry-disagrees"
    assert doubt.evidence.endswith("power of GPU 0 of node 0: … and 1 more")


@pytest.mark.parametrize(
    ("seconds", "duration_s", "nodes", "words"),
    [
        (3, 9.0, 1, ("node 0: 3 s of 9 s",)),
        (9, 9.0, 1, ()),
        (1, 3.0, 1, ()),  # less than 2.5 periods are missing
        (49, 60.0, 1, ()),  # a busy node's samples are late
        (60, 60.0, 2, ("node 1: 0 s of 60 s",)),
    ],
)
def test_a_sampler_that_ended_before_the_run_leaves_a_part_of_it_unsampled(
    tmp_path: Path, seconds: int, duration_s: float, nodes: int, words: tuple[str, ...]
) -> None:
    sampled(tmp_path, ("power_watts",), [], node_samples=seconds)
    assert recorded.uncovered(tmp_path, duration_s, nodes) == words
    assert recorded.uncovered(tmp_path / "nothing", duration_s, nodes) == ()


def test_telemetry_of_a_part_of_the_run_is_doubted() -> None:
    made = [
        replace(one, reading=replace(one.reading, unsampled=("node 0: 3 s of 9 s",))) for one in runs(GPU)
    ]
    [at] = group(made, metrics()).values()
    doubts = of(Case((Side("A", at),), Estimate(1.0, None, None, 3, ""), None))
    [doubt] = [doubt for doubt in doubts if doubt.code == "telemetry-incomplete"]
    assert doubt.evidence.startswith("A, ")
    assert "node 0: 3 s of 9 s were sampled; in all, 3 runs" in doubt.evidence
