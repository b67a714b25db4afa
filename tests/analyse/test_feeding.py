"""How many accelerators a storage feeds: with simulated runs, and on a disk throttled to two speeds."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assay import api
from assay.analyse.feeding import checkpoint_costs, different_trainings, feedings, read_sample_bytes
from assay.analyse.judgement import feeding_with_doubts
from assay.errors import InputError
from assay.questions.evidence import run_set
from assay.read import metrics
from assay.records import Measurement, NodeCounts, Result, Shape
from conftest import require
from made_results import quickstart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from assay.analyse.feeding import Feeding
    from assay.analyse.points.groups import Metrics

BYTES = 110e3  # of a sample


def supplies(results: Sequence[Result], declared: Metrics, sizes: Mapping[str, float]) -> list[Feeding]:
    """Every supply with its demand, with doubts."""
    return [feeding_with_doubts(*supply) for supply in feedings(results, declared, sizes)]


def runs_of(
    benchmark: str,
    workload: str,
    params: Mapping[str, object],
    shape: Shape,
    values: Sequence[Sequence[tuple[str, float, str, Mapping[str, str]]]],
) -> list[Result]:
    """One run for each list of measurements: metric, value, unit, labels."""
    _, made = quickstart(systems=("here",), shapes=(shape,), benchmarks=("resnet50",), blocks=len(values))
    found = []
    for result, measured in zip(made, values, strict=True):
        named = f"{benchmark}-{shape}-r{result.run.trial.block:02d}"
        trial = replace(
            result.run.trial, id=named, benchmark=benchmark, workload=workload, params={**params}, shape=shape
        )
        told = tuple(Measurement(m, v, u, labels, "rank-0.log", 1) for m, v, u, labels in measured)
        run = replace(result.run, id=f"here/{named}", trial=trial)
        found.append(replace(result, run=run, reading=replace(result.reading, measurements=told)))
    return found


def spread(dice: random.Random, mean: float, runs: int = 5, share: float = 0.02) -> list[float]:
    return [mean * dice.lognormvariate(0, share) for _ in range(runs)]


def training(values: Sequence[float], ranks: int = 4, mode: str = "synthetic") -> list[Result]:
    params = {"mode": mode, "target": None, "profile": 0}
    return runs_of(
        f"train-{mode}",
        "resnet50",
        params,
        Shape(1, ranks),
        [[("throughput", x, "images/s", {})] for x in values],
    )


def loader(values: Sequence[float]) -> list[Result]:
    params = {"mode": "data-only", "target": None, "profile": 0}
    told = [[("throughput", x, "images/s", {}), ("read_rate", x * BYTES, "B/s", {})] for x in values]
    return runs_of("load", "resnet50", params, Shape(1, 4), told)


def storage(values: Sequence[float], save_s: float = 30.0) -> list[Result]:
    params = {"directory": "/data", "checkpoint_bytes": 2**30}
    told = [
        [
            ("read_bandwidth", x, "B/s", {"phase": "random-read"}),
            ("checkpoint_time", save_s * x / values[0], "s", {"operation": "save"}),
        ]
        for x in values
    ]
    return runs_of("reads", "storage", params, Shape(2, 1), told)


def test_the_supply_over_the_demand_of_one_accelerator_is_what_it_feeds() -> None:
    found = [
        feeding_with_doubts(*fed)
        for fed in feedings([*training([4000.0] * 3), *loader([12000.0] * 3)], metrics, {})
    ]
    [one] = found
    assert one.accelerators.value == pytest.approx(12.0)  # 12,000 images/s, of which each takes 1,000
    assert (one.demand.rate.value, one.demand.rate.unit) == (pytest.approx(1000.0), "images/s")
    assert one.pattern == ""


def test_bytes_of_a_sample_come_from_what_the_loader_read_unless_they_are_stated() -> None:
    results = [*training([4000.0] * 3), *loader([12000.0] * 3), *storage([2.2e9] * 3)]
    assert read_sample_bytes(results) == {"resnet50": pytest.approx(BYTES)}
    by_pattern = {one.pattern: one for one in supplies(results, metrics, {})}
    assert by_pattern["random-read"].accelerators.value == pytest.approx(20.0)
    stated = {one.pattern: one for one in supplies(results, metrics, {"resnet50": 2 * BYTES})}
    assert stated["random-read"].accelerators.value == pytest.approx(10.0)
    assert stated[""].accelerators.value == pytest.approx(12.0)


def test_storage_without_the_bytes_of_a_sample_feeds_nothing_known() -> None:
    assert [
        feeding_with_doubts(*fed)
        for fed in feedings([*training([4000.0] * 3), *storage([2.2e9] * 3)], metrics, {})
    ] == []


def test_one_run_has_a_mean_but_no_interval_and_says_whose_runs_are_few() -> None:
    [supply] = loader([12000.0])
    elsewhere = replace(supply, run=replace(supply.run, session="20260302-101500"))
    [one] = supplies([*training([4000.0, 4010.0]), elsewhere], metrics, {})
    assert (one.accelerators.low, one.at_least) == (None, None)
    assert one.why.startswith("the supply has only one run")


@pytest.mark.parametrize(("waited_s", "promised"), [(0.0, True), (1.0, True), (9.0, False)])
def test_a_demand_that_others_slowed_down_promises_less_or_nothing_and_is_doubted(
    waited_s: float, promised: bool
) -> None:
    alone = NodeCounts(
        elapsed_s=10.0, cpus=2, busy_cpu_s=10.0, job_cpu_s=9.99, stolen_cpu_s=0.0, cpu_wait_s=0.1
    )
    busy = replace(alone, busy_cpu_s=19.0, job_cpu_s=15.0, cpu_wait_s=waited_s)
    demand = training([4000.0, 4010.0, 3990.0])
    slowed = [replace(one, run=replace(one.run, nodes=(busy if waited_s else alone,))) for one in demand]
    supply = loader([12000.0, 12010.0, 11990.0])
    [quiet], [one] = (supplies([*of, *supply], metrics, {}) for of in (demand, slowed))
    assert quiet.accelerators.low is not None
    assert (one.at_least is not None) == promised
    assert ("busy-neighbours" in {doubt.code for doubt in one.doubts}) == (waited_s > 0)
    if one.accelerators.low is not None:
        lost = 0.1 * waited_s  # the demand may have been higher by so much
        assert one.accelerators.low == pytest.approx(quiet.accelerators.low * (1 - lost))
    else:
        assert "nothing is promised above 20 %" in one.why


def changed(result: Result, session: str = "", **params: object) -> Result:
    trial = result.run.trial
    run = replace(result.run, trial=replace(trial, params={**trial.params, **params}))
    return replace(result, run=replace(run, session=session, id=f"{session}/{run.id}") if session else run)


def test_a_loader_that_reads_for_another_training_is_not_compared_and_what_differs_is_named() -> None:
    load = [changed(result, batch_size=2, workers=9) for result in loader([12000.0] * 3)]
    train = [changed(result, batch_size=16) for result in training([4000.0] * 3)]
    assert supplies([*train, *load], metrics, {}) == []
    [apart] = different_trainings([*train, *load], metrics)
    assert apart.endswith("batch_size 2 and 16")
    assert (
        len(
            [
                feeding_with_doubts(*fed)
                for fed in feedings([*training([4000.0] * 3), *loader([12000.0] * 3)], metrics, {})
            ]
        )
        == 1
    )


def test_doubts_of_both_sides_are_those_of_the_answer() -> None:
    [one] = [
        feeding_with_doubts(*fed)
        for fed in feedings([*training([4000.0, 4010.0]), *loader([12000.0, 12010.0])], metrics, {})
    ]
    codes = {doubt.code for doubt in one.doubts}
    assert "too-few-runs" in codes
    assert codes.isdisjoint({"different-parameters", "different-work"})  # they do different things by design


def test_sessions_that_are_named_together_widen_the_interval_by_what_lies_between_them() -> None:
    dice, found = random.Random(5), {}
    results: list[Result] = []
    for number, factor in enumerate((0.8, 1.0, 1.25, 0.9)):
        session = f"2026010{number + 1}T000000Z"
        results += [changed(one, session) for one in training(spread(dice, 4000.0, 4, 0.003))]
        results += [changed(one, session) for one in loader(spread(dice, 12000.0 * factor, 4, 0.003))]
        [found[number]] = [
            feeding_with_doubts(*fed)
            for fed in feedings(results[-8:] if number == 3 else results, metrics, {})
        ]
    [whole] = supplies(results, metrics, {})
    assert whole.at_least is not None
    assert found[3].at_least is not None
    assert whole.at_least < found[3].at_least
    assert len(whole.supply.sessions) == 4


@pytest.mark.long
def test_its_interval_holds_the_truth_as_often_as_it_says() -> None:
    dice, held, runs = random.Random(20261124), 0, 600
    for _ in range(runs):
        results = [
            *training(spread(dice, 4000.0, 4)),
            *loader(spread(dice, 12000.0, 5, 0.04)),
        ]
        [one] = supplies(results, metrics, {})
        assert one.accelerators.low is not None
        assert one.accelerators.high is not None
        held += one.accelerators.low <= 12.0 <= one.accelerators.high
    assert 0.93 <= held / runs <= 0.99


def test_what_checkpoints_cost_a_day_follows_from_the_time_of_one() -> None:
    [cost] = checkpoint_costs(storage([2.2e9] * 3, save_s=30.0), metrics, 1770.0)
    assert cost.bytes_ == 2 * 2**30
    assert cost.day_s.value == pytest.approx(86400 * 30 / 1800)
    [spread_out] = checkpoint_costs(storage([2.2e9, 2.3e9, 2.1e9], save_s=30.0), metrics, 1770.0)
    assert spread_out.day_s.low is not None
    assert spread_out.day_s.high is not None
    assert spread_out.day_s.low < spread_out.day_s.value < spread_out.day_s.high


def test_runs_without_a_supply_say_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("system,metric,run,value\nhere,throughput,1,5\n")
    api.import_(tmp_path / "numbers.csv", runs=tmp_path / "runs")
    with pytest.raises(InputError, match="no supply with its demand: name runs of the workload storage"):
        api.feeds("numbers", runs=tmp_path / "runs")
    with pytest.raises(InputError, match="run the workload storage with its phase checkpoint-save"):
        api.feeds("numbers", checkpoint_every="30min", runs=tmp_path / "runs")
    with pytest.raises(InputError, match="expected more than 0"):
        api.feeds("numbers", sample_bytes=0, runs=tmp_path / "runs")


SUITE = """\
suite: supply
systems: [here]
repeats: 3
benchmarks:
  reads:
    workload: storage
    shapes: [1x2]
    params:
      directory: {directory}
      phases: [sequential-write, random-read]
      size_bytes: 33554432
      jobs: 2
      depth: 2
      seconds: 3
      ramp_seconds: 1
"""


@contextmanager
def throttled(device: str, bytes_per_s: int) -> Iterator[Path]:
    """A cgroup whose processes read from a disk no faster; its directory."""
    root = Path("/sys/fs/cgroup/blkio")
    there = os.geteuid() == 0 and (root / "blkio.throttle.read_bps_device").is_file()
    if not there:
        pytest.skip("throttling a disk needs root and cgroup v1's blkio")
    group = root / f"assay-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_per_s}")
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(pid)
        group.rmdir()


def disk_of(path: Path) -> str:
    found = path.stat().st_dev
    device = f"{os.major(found)}:{os.minor(found)}"
    if not Path("/sys/dev/block", device).exists():
        pytest.skip(f"{path} is not on a disk")
    return device


@pytest.mark.long
@pytest.mark.usefixtures("no_neighbours")
@pytest.mark.parametrize("bytes_per_s", [20_000_000, 50_000_000])
def test_a_disk_throttled_on_purpose_feeds_what_its_speed_allows(tmp_path: Path, bytes_per_s: int) -> None:
    require("fio", shutil.which("fio") is not None, "install fio")
    (tmp_path / "data").mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE.format(directory=tmp_path / "data"))
    (tmp_path / "systems.yaml").write_text("here: {launcher: local}\n")
    with throttled(disk_of(tmp_path), bytes_per_s) as group:

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        subprocess.run(
            [sys.executable, "-m", "assay", "run", "suite.yaml"],
            cwd=tmp_path,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            preexec_fn=enter,
            stdout=subprocess.DEVNULL,
            check=True,
        )
    supply = run_set(tmp_path / "runs", "supply").results
    results = [*training([4000.0, 4001.0, 3999.0]), *supply]
    [one] = supplies(results, metrics, {"resnet50": 5e3})
    truth = bytes_per_s / (1000.0 * 5e3)
    assert one.accelerators.value == pytest.approx(truth, rel=0.05)
    assert one.accelerators.low is not None
    assert one.at_least is not None
    assert one.at_least <= truth * 1.02
    assert one.at_least >= truth * 0.85 - 1
