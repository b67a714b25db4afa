"""Speed-up and efficiency over sizes, and when there is no such thing."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from assay import store
from assay.analyse.judgement import scaling_with_doubts
from assay.analyse.scaling.curve import curves
from assay.cli import assay
from assay.errors import InputError
from assay.records import Result, Scaling
from stated_runs import metrics, side


def curve(results: list[Result], **options: object) -> Scaling:
    """The one curve of these runs."""
    [found] = [scaling_with_doubts(curve) for curve in curves(results, **{"metrics": metrics(), **options})]  # type: ignore[arg-type]
    return found


ONE, TWO, FOUR = [100.02, 101.1, 102.3], [196.1, 199.3, 200.4], [360.2, 362.1, 371.3]


def test_speedup_and_efficiency_are_against_the_smallest_size() -> None:
    found = curve(side(FOUR, shape="2x2") + side(ONE) + side(TWO, shape="2x1"))
    assert [(p.shape, p.ranks) for p in found.points] == [("1x1", 1), ("2x1", 2), ("2x2", 4)]
    first, _, last = found.points
    assert (first.speedup.value, first.efficiency.value, first.speedup.low) == (1.0, 1.0, None)
    assert last.speedup.value == pytest.approx(stats.gmean(FOUR) / stats.gmean(ONE))
    assert last.efficiency.value == pytest.approx(last.speedup.value / 4)
    assert last.efficiency.low == pytest.approx((last.speedup.low or 0) / 4)


def test_sizes_that_shared_blocks_are_paired_and_others_are_not() -> None:
    theirs = stats.ttest_rel(np.log(TWO), np.log(ONE)).confidence_interval(0.95)
    paired = curve(side(ONE) + side(TWO, shape="2x1")).points[1]
    assert paired.method == "paired"
    assert paired.speedup.low == pytest.approx(math.exp(theirs.low))
    alone = curve(side(ONE, interleaved=False) + side(TWO, shape="2x1", interleaved=False)).points[1]
    assert alone == paired, "one system's sizes share blocks, whether or not there is another system"
    other_day = curve(side(ONE) + side(TWO, shape="2x1", session="s2")).points[1]
    imported = {"interleaved": False, "source": "logs"}
    others = curve(side(ONE, **imported) + side(TWO, shape="2x1", **imported)).points[1]
    assert other_day.method == others.method == "welch"


def test_the_smallest_size_need_not_be_one_rank() -> None:
    found = curve(side(TWO, shape="2x1") + side(FOUR, shape="4x1"))
    assert found.points[1].efficiency.value == pytest.approx(stats.gmean(FOUR) / stats.gmean(TWO) / 2)


def test_a_time_is_inverted() -> None:
    found = curve(
        side([10.0, 10.1], unit="s") + side([5.0, 5.2], shape="2x1", unit="s"), metrics=metrics("lower")
    )
    point = found.points[1]
    assert point.speedup.value == pytest.approx(stats.gmean([10.0, 10.1]) / stats.gmean([5.0, 5.2]))
    assert point.speedup.low is not None
    assert point.speedup.high is not None
    assert point.speedup.low < point.speedup.value < point.speedup.high


def test_one_run_a_size_has_a_speedup_without_an_interval() -> None:
    point = curve(side([100.0]) + side([190.0], shape="2x1")).points[1]
    assert (point.speedup.value, point.speedup.low, point.method) == (pytest.approx(1.9), None, "")


def test_two_shapes_of_equal_ranks_are_two_points() -> None:
    found = curve(side(ONE) + side(TWO, shape="2x1") + side(TWO, shape="1x2"))
    assert [(p.shape, p.ranks) for p in found.points] == [("1x1", 1), ("1x2", 2), ("2x1", 2)]


def test_threads_that_follow_from_the_shape_are_no_doubt_and_a_kernel_is() -> None:
    def runs(kernel: str) -> list[Result]:
        two = {"env.OMP_NUM_THREADS": "1", "kernel": kernel}
        return side(ONE, facts={"env.OMP_NUM_THREADS": "2", "kernel": "6.1"}) + side(
            TWO, shape="2x1", facts=two
        )

    assert "different-software" not in [d.code for d in curve(runs("6.1")).points[1].doubts]
    [doubt] = [d for d in curve(runs("6.2")).points[1].doubts if d.code == "different-software"]
    assert doubt.evidence == "kernel 6.1 and 6.2"


def test_each_system_and_swept_point_has_its_own_curve() -> None:
    runs = [
        r
        for system in "ab"
        for size in (64, 128)
        for shape in ("1x1", "2x1")
        for r in side(ONE, system=system, shape=shape, varied={"size": size})
    ]
    found = [scaling_with_doubts(curve) for curve in curves(runs, metrics=metrics())]
    assert [(c.system, c.labels["size"]) for c in found] == [("a", 64), ("a", 128), ("b", 64), ("b", 128)]


@pytest.mark.parametrize(
    "declared",
    [metrics(scales=False), metrics(better=None), lambda _run: {}],
    ids=["does not scale", "no direction", "not declared"],
)
def test_a_metric_without_an_ideal_has_no_curve(declared: object) -> None:
    assert curves(side(ONE) + side(TWO, shape="2x1"), metrics=declared) == []  # type: ignore[arg-type]


def test_one_size_is_no_curve() -> None:
    assert curves(side(ONE), metrics=metrics()) == []


def test_the_command_prints_the_curves(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.read.metrics", metrics())
    store.update(tmp_path, side(ONE) + side(TWO, shape="2x1"))  # type: ignore[arg-type]
    ran = CliRunner().invoke(assay, ["scale", "suite", "--json", "--runs", str(tmp_path)])
    [found] = json.loads(ran.stdout)["curves"]
    assert found["points"][1]["speedup"]["value"] == pytest.approx(stats.gmean(TWO) / stats.gmean(ONE))
    text = CliRunner().invoke(assay, ["scale", "suite", "--runs", str(tmp_path)]).stdout
    assert "98 %" in text


def test_the_command_says_why_there_is_no_curve(tmp_path: object) -> None:
    store.update(tmp_path, side(ONE))  # type: ignore[arg-type]
    ran = CliRunner().invoke(assay, ["scale", "suite", "--runs", str(tmp_path)])
    assert isinstance(ran.exception, InputError)
    assert "two sizes" in str(ran.exception)
