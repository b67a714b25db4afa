"""Time to train of two sets: what is the system's, what is chance, and what can't be told."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from assay.analyse.mlperf.decompose import Decomposition, decompose
from assay.records import Result, from_json, to_json
from assay.view.sentences.split import evidence
from trained_results import imported, trained

NAMES = ("a", "b")


def only(a: list[Result], b: list[Result]) -> Decomposition:
    made, not_made = decompose(a, b, margin=0.02, names=NAMES)
    assert not not_made
    [found] = made
    return found


def paces(n: int, pace: float, seed: int = 1) -> list[float]:
    dice = random.Random(seed)
    return [pace * dice.lognormvariate(0, 0.003) for _ in range(n)]


def test_more_epochs_on_an_equal_system_are_convergence_and_the_system_is_equivalent() -> None:
    a = trained([38, 40, 42, 39, 41], paces(5, 1))
    b = trained([48, 50, 52, 49, 51], paces(5, 1, seed=2), system="there")
    found = only(a, b)
    assert found.time is not None
    assert found.convergence is not None
    assert found.convergence.low is not None
    assert found.convergence.low > 1.1
    assert found.verdict == "equivalent"
    assert found.convergence.value * found.system.value == pytest.approx(found.time.value, rel=1e-12)
    assert from_json(Decomposition, to_json(found)) == found


def test_the_causes_lead_from_as_minutes_to_bs() -> None:
    found = only(trained([38, 40, 42], paces(3, 1)), trained([50, 48, 49], paces(3, 1.1), system="there"))
    assert [cause.name for cause in found.causes] == [
        *("epochs to the target", "number of evaluations", "start"),
        *("training time per epoch", "time per evaluation", "rest"),
    ]
    reached = found.a.mean.minutes + math.fsum(cause.minutes for cause in found.causes)
    assert reached == pytest.approx(found.b.mean.minutes, rel=1e-12)


def test_a_sets_minutes_are_its_length_times_its_minutes_per_epoch() -> None:
    found = only(trained([38, 40, 42], paces(3, 1)), trained([38, 41, 42], paces(3, 1), system="there"))
    for of_set in (found.a, found.b):
        assert of_set.minutes is not None
        assert of_set.length is not None
        assert of_set.minutes.value == pytest.approx(
            of_set.length.value * of_set.minutes_per_unit.value, rel=1e-12
        )


def test_runs_that_stop_at_one_evaluation_have_the_grids_resolution_and_no_interval() -> None:
    a = trained([36] * 5, paces(5, 1), grid=4)
    b = trained([40] * 5, paces(5, 1, seed=2), system="there", grid=4)
    found = only(a, b)
    assert found.convergence is not None
    assert (found.convergence.low, found.convergence.high) == (None, None)
    assert found.grid is not None
    low, high = found.grid
    assert low == pytest.approx(1, abs=0.02)  # 36 after 36 is possible
    assert high == pytest.approx(40 / 32, abs=0.02)
    assert "at 40 epochs of a grid of 4 (10 %)" in found.undecided
    assert found.verdict == "equivalent"


def test_runs_that_did_not_converge_leave_convergence_undecided_and_the_system_judged() -> None:
    a = trained([38, 40, 42, 39, 41], paces(5, 1))
    b = trained(
        [60, 50, 52, 49, 51], paces(5, 1.2), system="there", converged=[False, True, True, True, True]
    )
    found = only(a, b)
    assert (found.time, found.convergence, found.grid, found.causes) == (None, None, None, ())
    assert found.undecided == "1 of 5 runs of b did not converge: only a lower bound of the length is known"
    assert (found.b.minutes, found.b.length) == (None, None)
    assert found.verdict == "slower"
    assert found.system.value == pytest.approx(1.2, rel=0.01)


def test_a_run_that_failed_otherwise_is_no_evidence() -> None:
    a = trained([38, 40, 42], paces(3, 1))
    broken = Result(
        a[0].run, a[0].reading.__class__(problems=("rank 1 is missing",), training=a[0].reading.training)
    )
    assert only([*a, broken], trained([38, 40, 42], paces(3, 1), system="there")).a.runs == 3


def test_sizes_may_differ_where_each_side_has_one_and_are_a_difference() -> None:
    found = only(
        trained([38, 40, 42], paces(3, 1)), trained([38, 40, 42], paces(3, 0.6), system="there", shape="2x8")
    )
    assert [(d.name, d.a, d.b) for d in found.likeness.differences] == [("accelerators", "8", "16")]
    assert found.likeness.stands == "limited"


def test_other_data_in_an_epoch_leaves_no_verdict() -> None:
    found = only(
        trained([38, 40, 42], paces(3, 1)), trained([38, 40, 42], paces(3, 0.5), system="x", samples=500)
    )
    assert (found.likeness.stands, found.verdict) == ("none", "undecided")
    assert "an epoch is not the same work" in found.reason


def test_several_sizes_are_held_against_their_likes() -> None:
    both = [trained([38, 40, 42], paces(3, 1), shape=s) for s in ("1x8", "2x8")]
    other = trained([38, 40, 42], paces(3, 1), system="there", shape="2x8")
    made, _ = decompose([*both[0], *both[1]], other, margin=0.02, names=NAMES)
    assert [(d.a.shape, d.b.shape) for d in made] == [("2x8", "2x8")]


def test_with_several_sessions_a_side_sessions_are_what_is_replicated() -> None:
    def side(system: str, levels: list[float]) -> list[Result]:
        return [
            r
            for at, level in enumerate(levels)
            for r in trained(
                [40, 41], paces(2, level, seed=at), system=system, session=f"2026030{at + 1}-000000"
            )
        ]

    found = only(side("here", [1, 1.03, 1.06]), side("there", [1.02, 1.05, 1.0]))
    assert found.replication == "sessions"
    assert found.system.n == 6
    assert found.verdict == "undecided"


def test_logs_that_tell_no_length_are_not_split_and_say_why() -> None:
    a = trained([38, 40], paces(2, 1))
    b = trained([0, 0], paces(2, 1), system="there", samples=None)
    made, [left] = decompose(a, b, margin=0.02, names=NAMES)
    assert made == ()
    assert "how many epochs or samples" in left.why


def test_batch_size_is_no_system_verdict_without_a_warning(mlperf_logs: Path, tmp_path: Path) -> None:
    openshift = mlperf_logs / "v3.1" / "Supermicro-RedHat" / "AS-4125GS-TNRT-RedHat-OpenShift" / "resnet"
    found = only(
        imported(tmp_path, "ubuntu", mlperf_logs / "v3.0"), imported(tmp_path, "openshift", openshift)
    )
    assert ("global batch size", "3200", "3520") in [(d.name, d.a, d.b) for d in found.likeness.differences]
    assert ("caches dropped", "yes", "no") in [(d.name, d.a, d.b) for d in found.likeness.differences]
    assert found.likeness.stands == "limited"
    assert "not a verdict on the systems alone" in found.likeness.claim
    assert "global batch size 3200 and 3520" in found.likeness.claim
    assert found.time is not None
    assert found.time.value == pytest.approx(20.9329 / 21.0455, abs=1e-5)
    assert "35 epochs of a grid of 4" in found.undecided
    assert found.verdict == "equivalent"


def test_hpes_two_nodes_halve_the_time_of_an_epoch_and_need_more_of_them(
    mlperf_logs: Path, tmp_path: Path
) -> None:
    hpe = "HPE-ProLiant-XL675d-Gen10-Plus_A100-SXM-80GB"
    one, two = (
        imported(tmp_path, name, mlperf_logs / "v2.1" / "HPE" / folder)
        for name, folder in (("one", f"{hpe}_pytorch"), ("two", f"{hpe}_2N_pytorch"))
    )
    found = only(one, two)
    assert found.convergence is not None
    assert found.system.value == pytest.approx(0.506, abs=0.001)
    assert found.convergence.value == pytest.approx(1.19, abs=0.01)
    # train_samples is 4572 and 2286: batches of 256 and 512, the same data
    assert "data" not in {d.kind for d in found.likeness.differences}


def test_a_real_run_that_did_not_converge_has_a_system_factor_only(mlperf_logs: Path, tmp_path: Path) -> None:
    found = only(
        imported(tmp_path, "ubuntu", mlperf_logs / "v3.0"),
        imported(tmp_path, "other", mlperf_logs / "v3.1" / "Supermicro" / "SYS-681E-TR"),
    )
    assert found.convergence is None
    assert found.system.value == pytest.approx(1.035, abs=0.005)
    assert found.undecided.startswith("1 of 1 run of b did not converge")


def test_the_verdict_on_the_system_allows_for_the_looks_where_runs_were_looked_at() -> None:
    sides = [trained([38, 40, 42, 39, 41], paces(5, 1, seed), system=s) for seed, s in ((1, "a"), (2, "b"))]
    plain = only(*sides)
    looks = (3, 5, 8, 12, 20)
    looked = only(*([replace(r, run=replace(r.run, looks=looks)) for r in side] for side in sides))
    assert plain.system.confidence == 0.95
    assert looked.system.confidence > 0.98
    assert (looked.system.low or 0) < (plain.system.low or 0)
    assert "98.9 % intervals, so that 95 % hold over all planned looks" in evidence(looked).lower()
    assert "looks" not in evidence(plain)
