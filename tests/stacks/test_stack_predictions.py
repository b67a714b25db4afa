"""Indicators that predict a workload: found where they do, not used where they don't."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from advised_stacks import advised_from
from assay import cli, store
from assay.errors import InputError
from assay.stacks import advise as advise_stack_question
from assay.stacks.indicators import IndicatorPrediction, predictions, stack_indicators
from assay.stacks.stack import HardwareClass, Observation, Stack, StackMetric, StackWorkload
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
    versions: int = 12,
    threads: tuple[str, ...] = ("1", "2"),
    alike: float = 0.0,
    dominating: float = 0.3,
    day: float = 0.05,
    building: bool = False,
) -> list[Observation]:
    """Every version with every thread count, in a session of each thread count and in one that links them.

    alike       correlation of what versions do to the indicators with what they do to the workload
    dominating  standard deviation of what the threads do to each figure, versions doing 0.03
    day         that of what a session does to all of its figures
    building    each version has what its predecessors had
    """

    def effects() -> list[float]:
        own = [dice.gauss(0, 0.03) for _ in range(versions)]
        return list(itertools.accumulate(own)) if building else own

    found = []
    shifts = {session: dice.gauss(0, day) for session in ("all", *threads)}
    true = effects()
    for workload, metric in [(FULL, RATE), *map(indicator, names)]:
        own, level = effects(), true
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
    assert used(("conv2d",), 60) <= 0.09  # 2.5 % plus 3 standard errors


@pytest.mark.long
def test_an_indicator_that_tells_nothing_is_rarely_used_where_versions_build_on_others() -> None:
    assert used(("conv2d",), 40, building=True, versions=20) <= 0.1  # 2.5 % plus 3 standard errors


@pytest.mark.long
def test_the_best_of_eight_that_tell_nothing_is_rarely_used() -> None:
    names = ("matmul", "conv1d", "conv2d", "attention", "embedding", "optimizer", "data", "import")
    assert used(names, 20, building=True) <= 0.13  # 2.5 % plus 3 standard errors


@pytest.mark.long
@pytest.mark.parametrize("versions", [8, 12, 20])
@pytest.mark.parametrize("building", [False, True])
def test_an_indicator_that_tells_nothing_is_used_in_at_most_two_and_a_half_percent(
    versions: int, building: bool
) -> None:
    assert used(("conv2d",), 600, building=building, versions=versions) <= 0.035
    assert used(("matmul", "conv2d", "attention"), 300, building=building, versions=versions) <= 0.04


@pytest.mark.parametrize("building", [False, True])
def test_an_indicator_that_moves_with_versions_like_the_workload_is_used(building: bool) -> None:
    assert used(("conv2d",), 20, alike=0.97, building=building) >= 0.9


def the_prediction(found: list[Observation]) -> IndicatorPrediction:
    (one,) = predictions(found)
    return one


def test_a_version_without_a_place_in_the_order_makes_no_step() -> None:
    found = observed(random.Random(1), ("conv2d",), versions=8)
    odd = [
        replace(one, stack=replace(one.stack, packages={"torch": "main-4f2a"}))
        if one.stack.packages["torch"] == "2.3"
        else one
        for one in found
    ]
    counts = [c.n for c in (the_prediction(of).correlation for of in (found, odd)) if c is not None]
    assert counts == [7, 6]


def test_a_workload_whose_steps_do_not_repeat_between_sessions_says_so() -> None:
    noise = random.Random(2)
    steady = observed(random.Random(1), ("conv2d",), threads=("1",))  # in two sessions
    repeated = the_prediction(steady).reliability
    assert repeated is not None
    assert repeated.value > 0.9
    noisy = [replace(one, values=((1, math.exp(noise.gauss(0, 1))),)) for one in steady]
    found = the_prediction(noisy).reliability
    assert found is not None
    assert found.low is not None
    assert found.low < 0.3
    once = [one for one in steady if one.session == "s/all"]
    assert the_prediction(once).reliability is None


def test_thread_counts_alone_are_no_steps_however_well_they_agree() -> None:
    one = the_prediction(observed(random.Random(1), ("conv2d",), versions=1))
    assert not one.predicts
    assert one.why_not == (
        "too few of the stacks that both measured differ in nothing but the next version of a package"
    )
    few = the_prediction(observed(random.Random(1), ("conv2d",), versions=4, alike=1.0))
    assert not few.predicts
    assert few.correlation is not None
    assert few.correlation.low is None
    assert few.why_not == "too few steps from version to version: 3; an interval needs 6"


def with_packages(found: list[Observation], packages: Callable[[str], dict[str, str]]) -> list[Observation]:
    """The observations with other packages next to torch, by its version."""
    made = []
    for one in found:
        more = packages(one.stack.packages["torch"])
        stack = Stack({}, {**one.stack.packages, **more}, settings=one.stack.settings)
        made.append(Observation(**{**vars(one), "stack": stack}))
    return made


def test_a_step_of_one_package_is_one_step_beside_however_many_versions_of_another() -> None:
    found = observed(random.Random(1), ("conv2d",), versions=5, threads=("1",), alike=1.0)
    both = [
        *with_packages(found, lambda _: {"numpy": "2.9"}),
        *with_packages(found, lambda _: {"numpy": "2.10"}),
    ]
    correlation = the_prediction(both).correlation
    assert correlation is not None
    assert correlation.n == 5  # four of torch, and one of numpy: 2.10 comes after 2.9
    assert the_prediction(both).stacks == 10


def test_stacks_that_differ_in_two_packages_at_once_make_no_step() -> None:
    found = observed(random.Random(1), ("conv2d",), versions=4, threads=("1",), alike=1.0)
    numpy = {"2.0": "1", "2.1": "2", "2.2": "2", "2.3": "1"}
    scipy = {"2.0": "1", "2.1": "2", "2.2": "1", "2.3": "2"}
    apart = with_packages(found, lambda torch: {"torch": "2.0", "numpy": numpy[torch], "scipy": scipy[torch]})
    diagonal = [one for one in apart if one.stack.packages["numpy"] == one.stack.packages["scipy"]]
    assert the_prediction(apart).correlation is not None
    assert the_prediction(diagonal).correlation is None


def test_libraries_of_a_wheel_make_no_stacks_of_their_own() -> None:
    found = observed(random.Random(1), ("conv2d",), threads=("1",), alike=1.0)
    nccl = with_packages(found, lambda version: {"nvidia-nccl-cu12": version[-1]})
    assert the_prediction(nccl).correlation == the_prediction(found).correlation


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
    assert "not used: it is not shown to rank steps as the workload does" in done.stderr
    assert "fastmath==2.1" in done.stdout
    with pytest.raises(InputError, match="name the workload that you run"):
        advise_stack_question.advise_stack("fastmath", workload="indicators", runs=tmp_path / "runs")


def test_the_predictions_are_shown(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, SPEEDS)
    done = CliRunner().invoke(cli.assay, ["stack", "indicators", "--runs", str(runs)])
    assert done.exit_code == 0
    first, repeated, second = done.stdout.splitlines()
    assert first.startswith(
        "matmul 1x1 flop_rate on AMD EPYC 7763 64-Core Processor (8 CPUs): 1 of 1 indicator"
    )
    assert "its own steps" in repeated
    assert second.startswith("  torch matmul fp32  rank correlation 1.00 (")
    assert second.endswith("1.00) over 7 steps, 8 stacks: 100 % of pairs of steps ordered alike")
    said = json.loads(
        CliRunner().invoke(cli.assay, ["stack", "indicators", "--runs", str(runs), "--json"]).stdout
    )
    assert said["predictions"][0]["correlation"]["low"] > 0
    assert stack_indicators(workload="bert", runs=runs).predictions == ()


def test_without_indicators_it_says_what_to_run(tmp_path: Path) -> None:
    store.update(tmp_path, results())
    done = CliRunner().invoke(cli.assay, ["stack", "indicators", "--runs", str(tmp_path)])
    assert "Run the workload indicators" in done.stdout
