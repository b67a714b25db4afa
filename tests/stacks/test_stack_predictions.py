"""Indicators that predict a workload: found where they do, not used where they don't."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from advised_stacks import advised_from
from assay import cli, store
from assay.api import stack_advice
from assay.api.stack_indicators import stack_indicators
from assay.errors import InputError
from assay.records import HardwareClass, Observation, Stack, StackMetric, StackWorkload
from assay.stacks.predictions import IndicatorPrediction, predictions
from observed_stacks import results
from package_index import PackageIndex, Release

FULL = StackWorkload("resnet50", "1x1", {})
RATE = StackMetric("throughput", "images/s", "higher")
MACHINE_CLASS = HardwareClass("CPU")
YEARS = f"{20 * 365 * 86400}s"  # the made runs are of a day in the past


def indicator(name: str) -> tuple[StackWorkload, StackMetric]:
    metric = StackMetric("step_time", "s", "lower", {"indicator": name, "dtype": "fp32"})
    return StackWorkload("indicators", "1x1", {"framework": "torch"}), metric


def observed(
    dice: random.Random,
    names: tuple[str, ...],
    *,
    versions: int = 9,
    threads: tuple[str, ...] = ("1", "2"),
    alike: float = 0.0,
    dominating: float = 0.3,
    day: float = 0.05,
) -> list[Observation]:
    """Every version with every thread count, in a session of each thread count and in one that links them.

    alike       correlation of what versions do to the indicators with what they do to the workload
    dominating  standard deviation of what the threads do to each figure, versions doing 0.03
    day         that of what a session does to all of its figures
    """
    found = []
    shifts = {session: dice.gauss(0, day) for session in ("all", *threads)}
    true = [dice.gauss(0, 0.03) for _ in range(versions)]
    for workload, metric in [(FULL, RATE), *map(indicator, names)]:
        own = [dice.gauss(0, 0.03) for _ in range(versions)]
        level = true
        if workload is not FULL:
            level = [alike * a + math.sqrt(1 - alike**2) * b for a, b in zip(true, own, strict=True)]
        steps = {thread: dice.gauss(0, dominating) for thread in threads}
        for session in shifts:
            for version in range(versions):
                for thread in threads if session == "all" else (session,):
                    log = level[version] + steps[thread] + shifts[session] + dice.gauss(0, 0.002)
                    value = math.exp(-log if metric.better == "lower" else log)
                    stack = Stack({}, {"torch": f"2.{version}"}, settings={"env.OMP_NUM_THREADS": thread})
                    one = Observation(stack, MACHINE_CLASS, workload, metric, f"s/{session}", 1.0)
                    found.append(
                        Observation(**{**vars(one), "primary": True, "values": ((1, value), (2, value))})
                    )
    return found


def used(names: tuple[str, ...], tries: int, **planted: float) -> float:
    """Share of cases in which an indicator is used."""
    dice = random.Random(5)
    hits = 0
    for _ in range(tries):
        found = predictions(observed(dice, names, **planted))  # type: ignore[arg-type]
        assert len(found) == len(names)
        hits += any(one.predicts for one in found)
    return hits / tries


def test_an_indicator_that_tells_nothing_is_rarely_used_though_threads_and_days_move_both() -> None:
    assert used(("conv2d",), 200) <= 0.06  # 2.5 % plus 3 standard errors


def test_the_best_of_eight_that_tell_nothing_is_rarely_used() -> None:
    names = ("matmul", "conv1d", "conv2d", "attention", "embedding", "optimizer", "data", "import")
    assert used(names, 60) <= 0.1  # 2.5 % plus 4 standard errors


def test_an_indicator_that_orders_versions_like_the_workload_is_used() -> None:
    assert used(("conv2d",), 30, alike=0.97) >= 0.9


def the_prediction(found: list[Observation]) -> IndicatorPrediction:
    (one,) = predictions(found)
    return one


def test_thread_counts_alone_are_too_few_stacks_however_well_they_agree() -> None:
    one = the_prediction(observed(random.Random(1), ("conv2d",), versions=1))
    assert not one.predicts
    assert (
        one.why_not == "no two stacks that both measured can be compared: they differ in settings or Python"
    )
    few = the_prediction(observed(random.Random(1), ("conv2d",), versions=4, alike=1.0))
    assert not few.predicts
    assert few.correlation is not None
    assert few.correlation.low is None
    assert few.why_not == "too few independent stacks: 4; an interval needs 6"


def test_libraries_of_a_wheel_make_no_stacks_of_their_own() -> None:
    found = observed(random.Random(1), ("conv2d",), threads=("1",), alike=1.0)
    with_nccl = [
        Observation(
            **{
                **vars(one),
                "stack": Stack(
                    {},
                    {**one.stack.packages, "nvidia-nccl-cu12": one.stack.packages["torch"][-1]},
                    settings=one.stack.settings,
                ),
            }
        )
        for one in found
    ]
    assert the_prediction(with_nccl).correlation == the_prediction(found).correlation


# On the command line ---------------------------------------------------------------------------------------

SPEEDS = {
    "1.0": 1.0,
    "1.1": 0.94,
    "1.2": 1.08,
    "1.3": 1.02,
    "1.4": 0.97,
    "1.5": 1.05,
    "1.6": 0.92,
    "1.7": 1.11,
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with many versions, and a machine of the class that the made runs are from."""
    releases = [Release("fastmath", version, []) for version in (*SPEEDS, "2.0", "2.1")]
    with advised_from(releases, tmp_path, monkeypatch) as served:
        yield served


def runs_with(tmp_path: Path, speeds_of_indicator: dict[str, float]) -> Path:
    """Eight versions measured with both; 2.0 and 2.1 with the indicator only."""
    runs = tmp_path / "runs"
    software = {version: {"package.fastmath": version} for version in (*SPEEDS, "2.0", "2.1")}
    full = {version: facts for version, facts in software.items() if version in SPEEDS}
    made = results(full, speeds=SPEEDS, sessions=2, blocks=2)
    speeds = {"2.0": 1.3, "2.1": 1.0, **speeds_of_indicator}
    made += results(
        software, speeds=speeds, sessions=4, blocks=2, suite="pieces", workload="indicators", seed=2
    )
    store.update(runs, made)
    return runs


def advise(runs: Path, *words: str) -> Result:
    return CliRunner().invoke(
        cli.assay, ["stack", "advise", "fastmath>=2", "--runs", str(runs), "--max-age", YEARS, *words]
    )


def test_an_indicator_that_predicts_is_used_where_the_workload_says_nothing(
    tmp_path: Path, index: PackageIndex
) -> None:
    runs = runs_with(tmp_path, SPEEDS)
    done = advise(runs)
    assert done.exit_code == 3, done.output  # predicted is not measured
    assert done.stderr.startswith("Predicted by an indicator, not measured: for performance on AMD EPYC")
    assert "torch matmul fp32 predicts matmul 1x1 flop_rate: rank correlation 1.00" in done.stderr
    assert "To measure them here: assay stack explore" in done.stderr
    assert "fastmath==2.0" in done.stdout  # and not 2.1, the newest
    said = json.loads(advise(runs, "--json").stdout)
    assert said["indicator"]["predicts"]
    assert not said["decided"]


def test_an_indicator_that_does_not_predict_is_not_used_and_it_says_so(
    tmp_path: Path, index: PackageIndex
) -> None:
    odd = dict(zip(SPEEDS, [1.0, 1.02, 0.98, 1.04, 0.96, 1.06, 0.94, 0.99], strict=True))
    done = advise(runs_with(tmp_path, odd))
    assert done.exit_code == 3
    assert "Nothing measured on" in done.stderr
    assert "not used: it is not shown to order stacks as the workload does" in done.stderr
    assert "fastmath==2.1" in done.stdout
    with pytest.raises(InputError, match="name the workload that you run"):
        stack_advice.advise_stack("fastmath", workload="indicators", runs=tmp_path / "runs")


def test_the_predictions_are_shown(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, SPEEDS)
    done = CliRunner().invoke(cli.assay, ["stack", "indicators", "--runs", str(runs)])
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()
    assert first.startswith(
        "matmul 1x1 flop_rate on AMD EPYC 7763 64-Core Processor (8 CPUs): 1 of 1 indicator"
    )
    assert second.startswith("  torch matmul fp32  rank correlation 1.00 (")
    assert second.endswith("1.00), 8 stacks: 100 % of pairs in the same order")
    said = json.loads(
        CliRunner().invoke(cli.assay, ["stack", "indicators", "--runs", str(runs), "--json"]).stdout
    )
    assert said["predictions"][0]["correlation"]["low"] > 0
    assert stack_indicators(workload="bert", runs=runs).predictions == ()


def test_without_indicators_it_says_what_to_run(tmp_path: Path) -> None:
    store.update(tmp_path, results())
    done = CliRunner().invoke(cli.assay, ["stack", "indicators", "--runs", str(tmp_path)])
    assert "Run the workload indicators" in done.stdout
