"""What follows from a scaling curve: its kind, its limit, predictions, layouts, accelerator-hours, doubts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import assay
from assay.analyse.scaling.curve import curves
from assay.analyse.scaling.sizes import steps
from assay.analyse.scaling.study import Study, study
from assay.analyse.spending import Prices
from assay.analyse.statistics.sequential import nominal_p
from assay.cli import assay as command_line
from assay.errors import InputError
from assay.questions.scale import ScalingCurves
from assay.records import Doubt, Metric, Reading, Result
from assay.view import report
from assay.view.contents import gather
from assay.view.sentences import scaling as scaling_words
from assay.view.sentences import sentences
from assay.view.sentences.recommendation import recommendation
from conftest import tries
from stated_runs import metrics, side


def studied(results: Sequence[Result], **options: object) -> Study:
    """The one curve of these runs, studied."""
    better = options.pop("better", "higher")
    [curve] = curves(results, metrics=metrics(better))  # type: ignore[arg-type]
    return study(curve, **options)  # type: ignore[arg-type]


def sweep(
    shapes: Sequence[str], sigma: float, kappa: float = 0.0, *, spread: float = 0.003, **same: object
) -> list[Result]:
    """Five runs of each shape that follow the law but for their luck."""
    rng = np.random.default_rng(5)
    runs: list[Result] = []
    for shape in shapes:
        n = math.prod(int(part) for part in shape.split("x"))
        speed = 100 * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
        runs += side([speed * math.exp(rng.normal(0, spread)) for _ in range(5)], shape=shape, **same)
    return runs


def with_batches(results: Sequence[Result], per_rank: float, fixed: float = 0) -> list[Result]:
    """The same runs, stating a global batch size."""
    return [
        Result(
            r.run,
            Reading(
                r.reading.measurements,
                facts={"global_batch_size": fixed + per_rank * r.run.trial.shape.ranks},
            ),
        )
        for r in results
    ]


SHAPES = ["1x1", "1x2", "1x4", "1x8"]


def test_two_nodes_of_a_dgx_1_lose_three_percent() -> None:
    """7,096 and 13,745 images/s: IBM Redbooks REDP-5610, figure 4-1."""
    found = studied(side([7096.0], shape="1x8") + side([13745.0], shape="2x8"))
    point = found.curve.points[1]
    assert point.speedup.value == pytest.approx(1.937, abs=5e-4)
    assert point.efficiency.value == pytest.approx(0.9685, abs=5e-4)
    assert found.laws[0].serial.value == pytest.approx(
        (16 / 8 * 7096 / 13745 - 1) / (15 - 2 * 7 * 7096 / 13745), rel=0.02
    )
    assert found.limit == "unknown", "single runs have no interval"


def test_four_nodes_are_not_near_linear() -> None:
    """31.5 and 10.67 min on 8 and 32 GPUs are a speed-up of 2.95: 73.8 % of four times."""
    found = studied(
        side([31.5], shape="1x8", unit="min") + side([10.67], shape="4x8", unit="min"), better="lower"
    )
    point = found.curve.points[1]
    assert point.speedup.value == pytest.approx(2.952, abs=5e-4)
    assert point.efficiency.value == pytest.approx(0.738, abs=5e-4)
    assert [s.accelerator_hours.value for s in found.spending] == pytest.approx([4.2, 5.6907], abs=1e-4)


def test_single_gpu_pods_are_held_against_pods_of_equally_many_gpus() -> None:
    """11,632 against 13,745 and 5,918 against 7,096 images/s: IBM Redbooks REDP-5610, figures 4-1 and 4-2."""
    values = {"1x8": 7096.0, "8x1": 5918.0, "2x8": 13745.0, "16x1": 11632.0}
    found = studied([r for shape, value in values.items() for r in side([value], shape=shape)])
    assert [(x.base, x.shape, round(x.speed.value, 3)) for x in found.layouts] == [
        ("1x8", "8x1", 0.834),
        ("2x8", "16x1", 0.846),
    ]
    assert found.laws[0].sizes == (8, 16), "the law is of the shapes with the fewest workers"


def test_a_serial_share_is_named_as_the_limit_and_predicts_beyond() -> None:
    found = studied(sweep(["1x1", "2x1", "4x1", "8x1"], 0.05))
    assert [law.name for law in found.laws] == ["amdahl"]
    assert found.limit == "serial-share"
    near, far = found.predictions
    assert (near.ranks, far.ranks, near.extrapolation, far.far) == (16, 32, True, False)
    assert (near.value.low or 0) < 100 * 16 / 1.75 < (near.value.high or 0)
    assert near.efficiency.value == pytest.approx(1 / 1.75, abs=0.01)
    assert found.laws[0].error is not None
    assert found.laws[0].error < 0.02


def test_coherence_is_seen_from_six_sizes_on() -> None:
    shapes = ["1x1", "1x2", "1x4", "1x8", "2x8", "4x8"]
    found = studied(sweep(shapes, 0.002, 0.001))
    assert [law.name for law in found.laws] == ["usl", "amdahl"]
    assert found.limit == "coherence"
    assert [law.name for law in studied(sweep(shapes[:5], 0.002, 0.001)).laws] == ["amdahl"]


def test_perfect_scaling_has_no_limit_and_no_doubt() -> None:
    found = studied(sweep(SHAPES, 0.0))
    assert found.limit == "none-seen"
    assert found.doubts == ()


def test_sizes_that_are_asked_for_are_predicted_within_and_far_beyond_what_was_measured() -> None:
    found = studied(sweep(SHAPES, 0.05), ranks_requested=(6, 40))
    assert [(p.ranks, p.extrapolation, p.far) for p in found.predictions] == [
        (6, False, False),
        (40, True, True),
    ]


def test_a_time_is_predicted_as_a_time() -> None:
    runs = [
        *side([80.0, 81.0, 80.5], shape="1x1", unit="s"),
        *side([42.0, 42.3, 42.1], shape="2x1", unit="s"),
        *side([23.0, 23.2, 22.9], shape="4x1", unit="s"),
    ]
    [eight, _] = studied(runs, better="lower").predictions
    assert eight.value.unit == "s"
    assert (eight.value.low or 0) < eight.value.value < (eight.value.high or 0)
    assert 12 < eight.value.value < 15


def predicted(speeds: dict[str, float]) -> Study:
    """Five runs of each shape about these speeds, studied."""
    rng = np.random.default_rng(9)
    return studied(
        [
            r
            for shape, speed in speeds.items()
            for r in side([speed * math.exp(rng.normal(0, 0.003)) for _ in range(5)], shape=shape)
        ]
    )


def test_where_no_law_can_be_tested_there_is_no_interval_and_the_reason() -> None:
    two, one_node = predicted({"1x1": 100.0, "2x1": 190.0}), studied(sweep(SHAPES, 0.05))
    assert [(p.value.low, p.efficiency.high, p.laws) for p in two.predictions] == [(None, None, ())] * 2
    assert "no interval: any law fits 2 sizes" in dict(scaling_words.list_conclusions(two))["predicted"]
    assert {p.why_none for p in one_node.predictions} == {
        "all sizes are of one node, so what further nodes cost is not known: measure two nodes"
    }


def test_a_loss_at_one_border_is_named_as_one_and_no_size_is_slow() -> None:
    """Within a node speed grows with the GPUs; the network costs 8 % once."""
    speeds = {f"1x{n}": 100.0 * n for n in (1, 2, 4, 8)} | {f"{n}x8": 92.0 * 8 * n for n in (2, 4)}
    found = predicted(speeds)
    assert found.limit == "border"
    [doubt] = found.doubts
    assert doubt.evidence.startswith(
        "from 8 to 16 ranks, the border between one node and several, 8.1 % of the speed is lost once"
    )
    assert {p.value.low for p in found.predictions} == {None}


def test_a_loss_as_in_a_tree_raises_no_doubt_and_its_interval_holds_the_truth() -> None:
    found = predicted({f"{n}x1": 100.0 * n / (1 + 0.05 * math.log2(n)) for n in (1, 2, 4, 8, 16, 32)})
    assert (found.doubts, found.limit) == ((), "unknown")
    assert "grows with the logarithm of the ranks" in found.limit_reason
    for one in found.predictions:
        truth = 100 * one.ranks / (1 + 0.05 * math.log2(one.ranks))
        assert (one.value.low or 0) < truth < (one.value.high or 0)
        assert "tree" in one.laws


TRUTHS: dict[str, Callable[[int], float]] = {
    "amdahl": lambda n: n / (1 + 0.005 * (n - 1)),
    "tree": lambda n: n / (1 + 0.02 * math.log2(n)),
    "steep": lambda n: n / (1 + 0.0008 * n**1.5),
    "border": lambda n: n * (0.92 if n > 8 else 1),
}


@pytest.mark.parametrize("law", TRUTHS)
@pytest.mark.parametrize("ranks", [(1, 2, 4, 8), (1, 2, 4, 8, 16, 32)])
def test_intervals_beyond_the_sizes_cover_the_truth_or_there_is_none(law: str, ranks: Sequence[int]) -> None:
    """At least 94 % within three standard errors; docs/explanation/statistics.md has more curves."""
    if law == "border" and len(ranks) < 6:
        pytest.skip("a border beyond the sizes can't be seen in them")
    truth, rng, curves_of_law = TRUTHS[law], np.random.default_rng(11), tries(20)
    given = held = named = 0
    for _ in range(curves_of_law):
        runs = [
            r for n in ranks for r in side(list(truth(n) * np.exp(rng.normal(0, 0.01, 5))), shape=f"{n}x1")
        ]
        found = studied(runs)
        named += any("than the curve through" in doubt.evidence for doubt in found.doubts)
        for one in found.predictions:
            given += bool(one.laws)
            held += bool(one.laws) and (one.value.low or 0) <= truth(one.ranks) <= (
                one.value.high or math.inf
            )
    assert held >= given * 0.94 - 3 * math.sqrt(0.06 * 0.94 * given)
    assert named <= 3


def test_the_global_batch_tells_weak_from_strong() -> None:
    runs = sweep(SHAPES, 0.05)
    assert studied(runs).kind == "unknown"
    assert studied(with_batches(runs, 0, 256)).kind == "strong"
    assert studied(with_batches(runs, 32)).kind == "weak"
    assert studied(with_batches(runs, 32, 8)).kind == "mixed"
    assert studied(with_batches(runs, 32)).limit == "contention", "weak scaling has no serial share"


def test_a_size_faster_than_its_ranks_allow_is_doubted() -> None:
    runs = side([100.0, 101.0, 102.0]) + side([220.0, 221.0, 223.0], shape="2x1")
    assert [d.code for d in studied(runs).doubts] == ["superlinear"]
    times = side([10.0, 10.1, 10.0], unit="s") + side([4.0, 4.1, 4.05], shape="2x1", unit="s")
    assert [d.code for d in studied(times, better="lower").doubts] == ["superlinear"]
    assert studied(side([100.0]) + side([201.0], shape="2x1")).doubts == ()


def test_a_size_that_lies_off_the_others_curve_is_doubted() -> None:
    runs = sweep([*SHAPES, "2x8"], 0.02)
    slow = [r for r in runs if str(r.run.trial.shape) != "1x4"] + side(
        [300.0, 301.0, 299.0, 302.0, 300.0], shape="1x4"
    )
    step, size = studied(slow).doubts
    assert (step.code, size.code) == ("superlinear", "off-the-curve")
    assert size.evidence.startswith("4 ranks are 20 % slower")


def test_the_middle_of_three_sizes_that_is_slow_has_lost_and_the_largest_is_not_called_fast() -> None:
    rng = np.random.default_rng(1)
    speeds = {"1x8": 1000, "2x8": 1000 * 2 / 1.005 * 0.9, "4x8": 1000 * 4 / 1.015}
    runs = [
        r
        for shape, speed in speeds.items()
        for r in side(list(speed * np.exp(rng.normal(0, 0.003, 5))), shape=shape)
    ]
    for found in (studied(runs), studied(with_batches(runs, 0, 4096)), studied(with_batches(runs, 128))):
        [doubt] = found.doubts
        assert doubt.code == "superlinear"
        assert doubt.evidence.startswith(
            "4x8 is 2.20 times as fast as 2x8, but 2 times the ranks can give at most 2"
        )
        assert doubt.evidence.endswith("2x8 lost at least 8.7 %")
        assert scaling_words.lead(found).startswith(f"{doubt.evidence}. Repeat 2x8 on other nodes")
        assert "not known" not in scaling_words.lead(found)


def test_a_slow_largest_size_can_be_coherence_so_no_size_is_doubted_and_no_interval_given() -> None:
    runs = sweep(["1x8", "2x8"], 0.0005) + side([2840.0, 2846.0, 2842.0, 2838.0, 2844.0], shape="4x8")
    found = studied(runs)
    assert (found.doubts, found.limit) == ((), "unknown")
    assert {p.value.low for p in found.predictions} == {None}


@pytest.mark.parametrize("ranks", [(1, 2, 4, 8), (1, 2, 4, 8, 16)])
def test_curves_that_follow_usl_exactly_raise_no_doubt_seldom_a_limit_and_have_intervals_that_hold(
    ranks: Sequence[int],
) -> None:
    rng, doubted, named, given, held = np.random.default_rng(37), 0, 0, 0, 0
    for _ in range(tries(30)):
        runs = [
            r
            for n in ranks
            for r in side(
                list(100 * n / (1 + 0.01 * (n - 1) + 0.0003 * n * (n - 1)) * np.exp(rng.normal(0, 0.01, 5))),
                shape=f"{n}x1",
            )
        ]
        found = studied(runs)
        doubted += bool(found.doubts)
        named += found.limit == "serial-share"
        for one in found.predictions:
            n = one.ranks
            truth = 100 * n / (1 + 0.01 * (n - 1) + 0.0003 * n * (n - 1))
            given += bool(one.laws)
            held += bool(one.laws) and (one.value.low or 0) <= truth <= (one.value.high or math.inf)
    assert named <= tries(30) / 5
    assert doubted <= tries(30) * 0.05 + 3 * math.sqrt(0.05 * 0.95 * tries(30))
    assert held >= given * 0.94 - 3 * math.sqrt(0.06 * 0.94 * given)


def test_a_step_that_a_fuller_rank_explains_is_repeated_with_its_batch() -> None:
    runs = with_batches(side([100.0, 100.5, 99.8], shape="1x4"), 0, 448) + with_batches(
        side([274.0, 273.0, 275.0], shape="2x4"), 0, 1536
    )
    [doubt] = studied(runs).doubts
    assert doubt.evidence.endswith(", to its smaller batch per rank or to something else")
    assert doubt.remedy.startswith("Repeat 1x4 with a global batch of 768 instead of 448")


def test_other_batches_advise_no_metric_that_the_runs_lack() -> None:
    runs = [
        *with_batches(side([900.0, 905.0], shape="1x8", metric="time_to_train", unit="s"), 0, 256),
        *with_batches(side([500.0, 505.0], shape="2x8", metric="time_to_train", unit="s"), 0, 512),
    ]
    [curve] = curves(runs, metrics=lambda _run: {"time_to_train": Metric("time_to_train", "s", "lower", "")})
    [doubt] = study(curve).doubts
    assert (doubt.code, doubt.remedy) == ("batch-differs", "Repeat the sizes with one global batch")


def test_sizes_with_another_batch_are_left_out_of_the_law_and_kept_in_the_curve() -> None:
    runs = with_batches(sweep(["1x1", "1x2", "1x4"], 0.02), 32) + with_batches(sweep(["1x8"], 0.02), 0, 128)
    found = studied(runs)
    assert (found.kind, found.left_out, found.laws[0].sizes) == ("mixed", ("1x8",), (1, 2, 4))
    assert found.limit == "unknown"
    assert "3 sizes with this scatter can't distinguish a serial share from" in found.limit_reason
    assert "1x8 trained with another batch size and is left out of the law." in scaling_words.lead(found)
    assert [p.ranks for p in found.curve.points] == [1, 2, 4, 8]
    assert [p.ranks for p in found.predictions] == [16, 32]


def test_throughput_per_rank_is_the_curve_s_own_or_stated_next_to_it() -> None:
    own = studied(sweep(SHAPES, 0.0, spread=1e-6))
    assert [round(rate.value, 2) for rate in own.per_rank] == [100.0] * 4
    shown = dict(scaling_words.list_conclusions(own))["speed per rank"]
    assert shown.startswith("1x1 100.0 images/s · 1x2 100.0 images/s · ")
    times = side([80.0, 81.0], shape="1x1", unit="s") + side([42.0, 42.3], shape="2x1", unit="s")
    assert studied(times, better="lower").per_rank == (), "nothing states how many samples"


def test_accelerator_hours_always_and_cost_and_energy_where_they_are_known() -> None:
    runs = side([100.0, 100.0, 101.0]) + side([190.0, 191.0, 192.0], shape="2x1")
    one, two = studied(runs).spending
    assert (one.per, one.cost, one.energy) == ("million images", None, None)
    assert one.accelerator_hours.value == pytest.approx(1e6 / 100.332 / 3600, rel=1e-5)
    assert (two.accelerator_hours.low or 0) < two.accelerator_hours.value < (two.accelerator_hours.high or 0)
    _, priced = studied(runs, prices=Prices(3.0, 700.0)).spending
    assert priced.cost is not None
    assert priced.energy is not None
    assert priced.cost.value == pytest.approx(3 * two.accelerator_hours.value)
    assert priced.energy.value == pytest.approx(700 * 3600 * two.accelerator_hours.value)


def test_systems_of_one_size_each_are_one_curve_and_two_of_one_size_are_not() -> None:
    runs = side([100.0, 101.0], system="a") + side([190.0, 191.0], system="b", shape="2x1")
    assert curves(runs, metrics=metrics()) == []
    [curve] = curves(runs, metrics=metrics(), across="both")
    assert [p.shape for p in curve.scaling().points] == ["1x1", "2x1"]
    with pytest.raises(InputError, match="a and c both have train at 1x1"):
        curves([*runs, *side([99.0], system="c")], metrics=metrics(), across="all")


@pytest.mark.long
def test_perfect_curves_seldom_have_an_impossible_step_and_a_slow_size_mostly_shows_one() -> None:
    """At most 5 % and three standard errors; docs/explanation/statistics.md has more of both."""
    rng, raised, seen = np.random.default_rng(3), 0, 0
    for table in rng.normal(0, 0.01, (120, len(SHAPES), 5)):
        for loss in (0.0, 0.05):
            runs = [
                r
                for shape, luck in zip(SHAPES, table, strict=True)
                for r in side(
                    list(int(shape[2:]) * (1 - loss * (shape == "1x4")) * np.exp(luck)), shape=shape
                )
            ]
            [curve] = curves(runs, metrics=metrics())
            impossible = any(step.impossible for step in steps(curve.groups, curve.better))
            raised += impossible and not loss
            seen += impossible and bool(loss)
    assert raised / 120 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 120)
    assert seen / 120 >= 0.9


@pytest.mark.slow
@pytest.mark.long
def test_perfect_curves_seldom_raise_a_doubt() -> None:
    rng = np.random.default_rng(3)
    raised = 0
    for _ in range(100):
        runs = [
            r
            for shape in SHAPES
            for r in side(list(100 * int(shape[2:]) * np.exp(rng.normal(0, 0.02, 4))), shape=shape)
        ]
        raised += bool(studied(runs).doubts)
    assert raised <= 16, "two doubts of at most 5 % each, and three standard errors of 100 curves"


@pytest.mark.long
def test_three_published_sets_are_one_curve(tmp_path: Path, mlperf_logs: Path) -> None:
    """HPE's RetinaNet on 8, 16 and 32 A100, MLPerf Training v2.1."""
    stem = mlperf_logs / "v2.1" / "HPE" / "HPE-ProLiant-XL675d-Gen10-Plus_A100-SXM-80GB"
    names = {"": "eight", "_2N": "sixteen", "_4N": "thirty-two"}
    for tail, name in names.items():
        folder = f"{stem}{tail}_pytorch"
        ran = CliRunner().invoke(command_line, ["import", folder, "--name", name, "--runs", str(tmp_path)])
        assert ran.exit_code == 0, ran.output
    asked = ["scale", *names.values(), "--metric", "time_per_epoch", "--metric", "time_to_train"]
    ran = CliRunner().invoke(command_line, [*asked, "--json", "--runs", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    per_epoch, to_train = document["curves"]
    assert per_epoch["system"] == "HPE-ProLiant-XL675d-Gen10-Plus_A100-SXM-80GB"
    assert [p["ranks"] for p in per_epoch["points"]] == [8, 16, 32]
    assert [round(p["speedup"]["value"], 2) for p in per_epoch["points"]] == [1.0, 1.98, 3.58]
    assert [round(p["speedup"]["value"], 2) for p in to_train["points"]] == [1.0, 1.65, 3.74]
    of_epochs, of_training = document["studies"]
    for found in (of_epochs, of_training):
        assert found["laws"][0]["sizes"] == [8, 32], "batches of 256, 512 and 256: two are one training"
        assert found["left_out"] == ["2x8"]
    assert of_epochs["doubts"] == []
    step, batch = of_training["doubts"]
    assert (step["code"], batch["code"]) == ("superlinear", "batch-differs")
    assert step["evidence"].startswith(
        "4x8 is 2.26 times as fast as 2x8, but 2 times the ranks can give at most 2"
    )
    assert step["evidence"].endswith("that a batch of 512 instead of 256 takes, or to something else")
    assert batch["remedy"] == (
        "Judge the system by `--metric time_per_epoch` or `--metric throughput`, or repeat the sizes with "
        "one global batch"
    )
    text = " ".join(CliRunner().invoke(command_line, [*asked, "--runs", str(tmp_path)]).stdout.split())
    assert "accelerator-hours" in text
    assert "2x8 trained with another batch size and is left out of the law." in text
    lead = "4x8 is 3.578 (3.510 to 3.647) times as fast as 1x8 on 4 times the ranks: efficiency 89.5 %"
    assert text.index(lead) < text.index("speed-up") < text.index("! not-interleaved")
    assert "as if 3.4 of the 32 ranks were idle; the limit is unknown." in text
    assert len(assay.scale(*names.values(), runs=tmp_path)) == 1


def test_layouts_of_one_size_alone_are_compared_and_follow_no_law() -> None:
    found = studied(side([100.0, 101.0, 102.0], shape="1x2") + side([150.0, 151.0, 152.0], shape="2x1"))
    assert (found.laws, found.predictions, found.limit) == ((), (), "unknown")
    assert found.limit_reason == "one size has no law"
    assert [round(x.speed.value, 2) for x in found.layouts] == [1.5]
    assert found.doubts == (), "a faster layout is not superlinear"


def test_the_report_says_what_follows_from_the_scaling() -> None:
    runs = with_batches(sweep(SHAPES, 0.05), 0, 256)
    contents = gather({"a": runs}, metrics())
    assert [s.limit for s in contents.studies] == ["serial-share"]
    words = report.markdown_text(contents)
    assert "What follows from the scaling" in words
    assert "strong scaling: global batch 256, 256, 256, 256 on 1, 2, 4, 8 ranks" in words
    assert "accelerator-hours per million images" in words
    assert "limited by" in report.html_page(contents)
    doubted = gather({"a": side([100.0, 101.0]) + side([230.0, 231.0], shape="2x1")}, metrics())
    assert "superlinear" in [doubt.code for doubt, _ in doubted.doubts]


def sized(shapes: Sequence[str], **same: object) -> dict[str, list[Result]]:
    """Imported sets of one machine, one a size, each a system of its own."""
    return {
        f"{shape[0]}xXE8545": sweep([shape], 0.005, system=f"{shape[0]}xXE8545", source="logs", **same)
        for shape in shapes
    }


def test_a_report_on_sizes_of_one_machine_shows_their_curve() -> None:
    contents = gather(sized(["1x4", "2x4", "4x4"]), metrics())
    assert [(c.system, [p.shape for p in c.points]) for c in contents.curves] == [
        ("XE8545", ["1x4", "2x4", "4x4"])
    ]
    assert (contents.comparisons, contents.uncompared, contents.splits) == ((), (), ())
    words = report.markdown_text(contents)
    assert "train: 4x4 is 3.7" in words
    assert "measured alone" not in words
    assert "no run of" not in words
    assert recommendation(contents).sentence.startswith("These are sizes of one system")


def test_a_report_on_sizes_says_which_to_repeat() -> None:
    sides = sized(["1x4", "2x4", "4x4"])
    slow = [300.0, 301.0, 299.0, 300.5, 299.5]
    sides["1xXE8545"] = side(slow, system="1xXE8545", shape="1x4", source="logs")
    made = recommendation(gather(sides, metrics()))
    assert made.action == "Repeat"
    assert made.sentence.startswith("Repeat 1x4 on other nodes")


def test_sides_that_share_a_size_or_no_name_are_no_curve() -> None:
    sides = sized(["1x4", "2x4"])
    assert gather({**sides, "9xXE8545": sweep(["1x4"], 0.005, system="9xXE8545")}, metrics()).curves == ()
    unlike = gather({"a": sweep(["1x4"], 0.0, system="a"), "b": sweep(["2x4"], 0.0, system="b")}, metrics())
    assert unlike.curves == ()
    assert unlike.uncompared


LOOKS = (3, 5, 8, 12, 20)


def test_every_interval_of_a_curve_that_was_looked_at_allows_for_the_looks_and_says_so() -> None:
    shapes = ["1x1", "1x2", "2x1", "1x4", "1x8", "2x8"]
    plain, looked = studied(sweep(shapes, 0.02)), studied(sweep(shapes, 0.02, looks=LOOKS))
    level = 1 - nominal_p(20, paired=True)
    for found, confidence in ((plain, 0.95), (looked, level)):
        estimates = [e for p in found.curve.points[1:] for e in (p.value, p.speedup, p.efficiency)]
        estimates += [found.laws[0].serial, *(e for p in found.predictions for e in (p.value, p.efficiency))]
        estimates += [layout.speed for layout in found.layouts]
        assert {e.confidence for e in estimates} == {confidence}
    for of_plain, of_looked in (
        (plain.curve.points[1].speedup, looked.curve.points[1].speedup),
        (plain.laws[0].serial, looked.laws[0].serial),
        (plain.predictions[0].value, looked.predictions[0].value),
        (plain.layouts[0].speed, looked.layouts[0].speed),
    ):
        assert (of_looked.low or 0) < (of_plain.low or 0) < (of_plain.high or 0) < (of_looked.high or 0)
    said = "98.7 % intervals, so that 95 % hold over all planned looks"
    assert said in str(ScalingCurves((looked,)))
    assert said in sentences.scaling_evidence([(looked.curve, looked.curve.points[1])])


@pytest.mark.long
def test_no_speed_up_misses_the_truth_at_any_look_in_more_than_5_of_100_sequences() -> None:
    rng, sets, missed = np.random.default_rng(8), 300, 0
    for table in np.exp(rng.normal(0, 0.02, (sets, 2, LOOKS[-1]))).tolist():
        for n in LOOKS:
            runs = [side(row[:n], shape=s, looks=LOOKS) for s, row in zip(("1x1", "1x2"), table, strict=True)]
            [curve] = curves(runs[0] + runs[1], metrics=metrics())
            speedup = curve.scaling().points[1].speedup
            if not (speedup.low or 0) <= 1 <= (speedup.high or 0):
                missed += 1
                break
    assert missed / sets <= 0.088  # 5 % and three standard errors


def test_hours_are_written_for_people_and_under_one_unit() -> None:
    found = studied(sweep(SHAPES, 0.05))
    hours = [s.accelerator_hours.value for s in found.spending]
    many = [
        replace(s, accelerator_hours=replace(s.accelerator_hours, value=12_260.3 * s.ranks))
        for s in found.spending
    ]
    assert max(hours) < 10
    [(name, text)] = scaling_words.spending(many)
    assert name == "accelerator-hours per million images"
    assert text.startswith("1x1 12,260 h · 1x2 24,521 h")
    few = [
        replace(s, accelerator_hours=replace(s.accelerator_hours, value=0.0001 * s.ranks))
        for s in found.spending
    ]
    assert scaling_words.spending(few)[0][0] == "accelerator time per million images"


def test_the_sentence_of_a_curve_names_doubts_under_which_it_does_not_hold() -> None:
    found = studied(side([100.0, 101.0, 102.0]) + side([150.0, 151.0, 152.0], shape="1x2"))
    assert scaling_words.lead(found).startswith("1x2 is 1.495 (1.477 to 1.514) times as fast as 1x1")
    base, most = found.curve.points
    doubted = replace(most, doubts=(Doubt("different-work", "batch 1 against 2", "same"), *most.doubts))
    curve = replace(found.curve, points=(base, doubted))
    words = scaling_words.lead(replace(found, curve=curve))
    assert words.endswith("Fix before you decide: different-work.")
