"""Each doubt: what raises it, and what must not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from assay.analyse.doubts import CASE_KINDS, of
from assay.analyse.judgement import compare_with_doubts
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import group
from assay.records import Doubt, Estimate, Measurement, Result, RunState
from stated_runs import metrics, result, side

CLEAN = {"os": "Debian 12", "package.torch": "2.8.0", "cpu.model": "EPYC", "load.1min": 0.1}


def raised(a: list[Result], b: list[Result], margin: float = 0.02) -> dict[str, Doubt]:
    """The doubts about B against A, by code."""
    [found] = compare_with_doubts(a, b, margin=margin, names=("A", "B"), metrics=metrics()).comparisons
    return {doubt.code: doubt for doubt in found.doubts}


def steady(system: str, n: int = 5, **options: object) -> list[Result]:
    """Runs with a spread of a tenth of a percent."""
    return side([100 + 0.1 * (i % 3) for i in range(n)], system=system, **options)


def test_a_clean_comparison_has_no_doubt() -> None:
    a = side([100.0, 100.1, 100.2, 100.0, 100.1], facts=CLEAN)
    b = side([100.1, 100.0, 100.2, 100.1, 100.0], system="b", facts=CLEAN)
    assert list(raised(a, b)) == []


def test_two_figures_of_the_same_runs_raise_each_what_it_raises_alone() -> None:
    """Runs are looked at once for both; of a warm machine, other versions and short runs there are doubts."""
    hot = {**CLEAN, "gpu.0.temperature_c": 90, "cpu.quota": 1.0, "cpu.allowed": 4}
    options = {"params": {"min_time_s": 0.01}}

    def sides(*figures: tuple[str, float]) -> tuple[list[Result], list[Result]]:
        runs = []
        for system, facts in (("a", CLEAN), ("b", {**hot, "package.torch": "2.9.0"})):
            more = [Measurement(name, by, "images/s", {}, "rank-0.log", 8) for name, by in figures[1:]]
            values = [figures[0][1] * (1 + at / 1000) for at in range(5)]
            runs.append(side(values, system=system, facts=facts, metric=figures[0][0], more=more, **options))
        return runs[0], runs[1]

    def found(*figures: tuple[str, float]) -> dict[str, tuple[str, ...]]:
        compared = compare_with_doubts(
            *sides(*figures), margin=0.02, names=("A", "B"), metrics=metrics()
        ).comparisons
        return {c.point.metric: tuple(d.code for d in c.doubts) for c in compared}

    both = found(("throughput", 100.0), ("samples", 50.0))
    assert both == found(("throughput", 100.0)) | {
        "samples": found(("throughput", 1.0), ("samples", 50.0))["samples"]
    }
    for of_figure in both.values():
        assert {"clock-changed", "cpu-quota", "too-short", "different-software"} <= set(of_figure)
    assert "identical-values" in both["samples"]
    assert "identical-values" not in both["throughput"]


def test_every_doubt_has_evidence_in_figures_and_a_remedy() -> None:
    a = side([100.0, 100.0], facts=CLEAN) + side([None], state=RunState.FAILED)
    found = raised(a, side([90.0, 130.0, 100.0], system="b", session="s2", params={"batch_size": 64}))
    assert len(found) >= 5
    assert all(doubt.evidence and doubt.remedy for doubt in found.values())


@pytest.mark.parametrize(("n", "is_raised"), [(2, True), (4, True), (5, False), (9, False)])
def test_too_few_runs(n: int, is_raised: bool) -> None:
    found = raised(steady("a", n), steady("b", 9, session="s2"))
    assert ("too-few-runs" in found) is is_raised
    assert not is_raised or f"A has {n} runs" in found["too-few-runs"].evidence


def test_the_remedy_of_too_few_runs_is_a_new_session_or_the_looks_that_choose_the_number() -> None:
    remedy = raised(steady("a", 4), steady("b", 4))["too-few-runs"].remedy
    assert "a new session starts" in remedy
    assert "resumes" not in remedy
    looked = raised(steady("a", 3, looks=(3, 5, 8)), steady("b", 3, looks=(3, 5, 8)))["too-few-runs"].remedy
    assert looked.startswith("`--until decided` chooses the number of runs")
    assert "Set `repeats`" not in looked


def test_wider_than_margin() -> None:
    wide = side([90.0, 100.0, 110.0, 95.0, 105.0], system="b", session="s2")
    assert "wider-than-margin" in raised(steady("a"), wide)
    assert "wider-than-margin" not in raised(steady("a"), wide, margin=0.5)
    assert "wider-than-margin" not in raised(steady("a"), steady("b", session="s2"))


def test_wider_than_margin_says_of_an_interval_without_1_what_it_leaves_open() -> None:
    less = side([89.0, 94.0, 99.0, 92.0, 96.0], system="b", session="s2")
    evidence = raised(steady("a"), less)["wider-than-margin"].evidence
    assert evidence.endswith("these runs can't show whether a difference exceeds the margin")
    around = side([90.0, 100.0, 110.0, 95.0, 105.0], system="b", session="s2")
    evidence = raised(steady("a"), around)["wider-than-margin"].evidence
    assert evidence.endswith("these runs can't show that the sides are equal")


def test_the_width_of_a_wide_interval_is_a_factor_because_no_ratio_is_minus_294_percent() -> None:
    def said(low: float, high: float) -> str:
        sides = tuple(Side(name, group(steady(name), metrics()).popitem()[1]) for name in "ab")
        case = Case(sides, Estimate(math.sqrt(low * high), low, high, 5, ""), 0.02)
        return {doubt.code: doubt.evidence for doubt in of(case)}["wider-than-margin"]

    assert said(0.31, 4.8).startswith("the ratio is known only within a factor of 3.9, the margin is ±2 %: ")
    assert said(1 / 1.6, 1.6).startswith("the ratio is known only within a factor of 1.6, ")
    assert said(1 / 1.4, 1.4).startswith("the interval is ±40 % wide, the margin is ±2 %: ")


def test_wider_than_margin_is_no_matter_where_the_whole_interval_lies_outside() -> None:
    far = side([190.0, 200.0, 210.0, 195.0, 205.0], system="b", session="s2")
    assert "wider-than-margin" not in raised(steady("a"), far)


def test_not_interleaved() -> None:
    assert "s2" in raised(steady("a"), steady("b", session="s2"))["not-interleaved"].evidence
    assert "not-interleaved" in raised(steady("a", interleaved=False), steady("b", interleaved=False))
    assert "not-interleaved" not in raised(steady("a"), steady("b"))


def outside(results: list[Result], *blocks: int) -> list[Result]:
    """The same runs, those of these blocks repeated after their block."""
    return [replace(r, run=replace(r.run, outside_block=r.run.trial.block in blocks)) for r in results]


def test_runs_outside_their_block_are_counted_by_side_and_the_rest_was_interleaved() -> None:
    a, b = steady("a"), steady("b")
    found = raised(outside(a, 1), outside(b, 2, 3))
    assert found["outside-block"].evidence.startswith("1 of 5 runs of A and 2 of 5 runs of B ran outside")
    assert "not-interleaved" not in found
    assert "not-interleaved" in raised(a, outside(b, 1, 2, 3, 4, 5))
    assert "outside-block" not in raised(a, b)


def test_one_session_beside_several_is_a_doubt_and_sessions_are_never_pooled() -> None:
    two_days = steady("a") + steady("a", session="s2")
    assert "one-session" not in raised(steady("a"), steady("b"))
    assert "pooled-sessions" not in raised(steady("a"), steady("b"))
    found = raised(two_days, steady("b"))
    assert "pooled-sessions" not in found
    assert found["one-session"].evidence.startswith("all runs of B come from one session (")


def test_sessions_that_are_replicated_on_both_sides_are_not_pooled() -> None:
    found = raised(steady("a") + steady("a", session="s2"), steady("b") + steady("b", session="s2"))
    assert "pooled-sessions" not in found
    assert "one-session" not in found


def test_failed_runs_left_out() -> None:
    failed = side(
        [None, None], system="b", session="s2", state=RunState.FAILED, cause="rank 1: out of memory"
    )
    found = raised(steady("a"), steady("b") + failed)["failed-runs-left-out"]
    assert "B: 2 of 7 runs gave no result (2 × rank 1: out of memory)" in found.evidence
    assert "failed-runs-left-out" not in raised(steady("a"), steady("b"))


def test_failures_at_another_point_raise_nothing_here() -> None:
    elsewhere = side([None], system="b", shape="2x1", state=RunState.FAILED, cause="no route to host")
    assert "failed-runs-left-out" not in raised(steady("a"), steady("b") + elsewhere)


def test_runs_that_are_not_over_are_not_failures() -> None:
    running = side([None], system="b", session="s2", state=RunState.RUNNING)
    assert "failed-runs-left-out" not in raised(steady("a"), steady("b") + running)


def test_a_run_that_lacks_the_metric_counts_as_one_without_a_result() -> None:
    silent = [result(None, system="b", block=6)]
    found = raised(steady("a"), steady("b") + silent)["failed-runs-left-out"]
    assert "throughput not reported" in found.evidence


def test_dropped_blocks() -> None:
    assert "1 block" in raised(steady("a", 6), steady("b", 5))["dropped-blocks"].evidence
    assert "dropped-blocks" not in raised(steady("a"), steady("b"))


@pytest.mark.parametrize(
    ("facts", "is_raised"),
    [
        (CLEAN, False),
        (CLEAN | {"package.torch": "2.7.1"}, True),
        (CLEAN | {"env.NCCL_P2P_DISABLE": "1"}, True),
        (CLEAN | {"cpu.model": "Xeon", "load.1min": 3.0, "host": "other"}, False),
        (CLEAN | {"python.executable": "/elsewhere/python"}, False),
        (CLEAN | {"env.SLURM_NNODES": "2"}, False),
        ({}, False),
        (None, False),
    ],
    ids=["equal", "version", "variable", "hardware", "path", "batch-system", "empty", "unknown"],
)
def test_different_software(facts: dict[str, object] | None, is_raised: bool) -> None:
    found = raised(steady("a", facts=CLEAN), steady("b", facts=facts))
    assert ("different-software" in found) is is_raised


def test_a_container_is_different_software_only_where_both_sides_are_of_one_kind() -> None:
    metal = CLEAN | {"container": "lxc"}
    pods = CLEAN | {"container": "podman", "container.image_id": "1"}
    assert "different-software" not in raised(steady("a", facts=metal), steady("b", facts=pods))
    found = raised(steady("a", facts=pods), steady("b", facts=pods | {"container.image_id": "2"}))
    assert found["different-software"].evidence == "container.image_id 1 and 2"


def test_variables_that_systems_yaml_sets_are_what_is_compared() -> None:
    a, b = (steady(name, facts={"host": "n", "env.OMP_NUM_THREADS": n}) for name, n in (("a", 1), ("b", 2)))
    assert "different-software" in raised(a, b)
    declared = [replace(r, run=replace(r.run, declared_env=("OMP_NUM_THREADS",))) for r in b]
    assert "different-software" not in raised(a, declared)


def test_different_software_names_both_versions() -> None:
    found = raised(steady("a", facts=CLEAN), steady("b", facts=CLEAN | {"package.torch": "2.7.1"}))
    assert found["different-software"].evidence == "package.torch 2.8.0 and 2.7.1"


@pytest.mark.parametrize(
    ("facts", "evidence"),
    [
        ({"package.torch": "2.7.1"}, "A: package.torch 2.7.1 and 2.8.0"),
        ({"kernel": "6.1"}, "A: kernel 6.1 and absent"),
        ({"env.JOB": "7"}, None),
        ({"host": "other"}, None),
        ({"python.executable": "/elsewhere/python"}, None),
    ],
)
def test_changed_software(facts: dict[str, object], evidence: str | None) -> None:
    before, after = steady("a", facts=CLEAN), steady("a", facts=CLEAN | facts)
    found = raised([*before[:3], *after[3:]], steady("b", facts=CLEAN))
    assert (found["changed-software"].evidence if "changed-software" in found else None) == evidence
    of_another = steady("b", facts=CLEAN | facts)
    assert "changed-software" not in raised(before, of_another), "that is different-software"


def test_a_fact_that_varies_from_run_to_run_is_not_a_difference_between_sides() -> None:
    varying = [
        result(100 + i / 10, system="b", block=i, facts=CLEAN | {"env.MASTER_PORT": str(i)}) for i in range(5)
    ]
    fixed = steady("a", facts=CLEAN | {"env.MASTER_PORT": "1"})
    assert "different-software" not in raised(fixed, varying)


def test_different_parameters() -> None:
    found = raised(steady("a"), steady("b", params={"batch_size": 64}))
    assert found["different-parameters"].evidence == "batch_size 32 and 64"
    assert "different-parameters" not in raised(steady("a"), steady("b"))
    other = [
        replace(r, run=replace(r.run, trial=replace(r.run.trial, declared_params=("batch_size",))))
        for r in steady("b", params={"batch_size": 64})
    ]
    assert "different-parameters" not in raised(steady("a"), other), "that is what is compared"


def test_identical_values() -> None:
    found = raised(side([10.0] * 5), side([10.0, 10.1, 9.9, 10.0, 10.2], system="b"))
    assert "all 5 runs of A gave 10 images/s" in found["identical-values"].evidence
    assert "identical-values" not in raised(steady("a"), steady("b"))
    assert "identical-values" not in raised(side([10.0]), side([10.0], system="b"))


def test_one_side_alone_can_be_doubted() -> None:
    [found] = group(side([10.0, 10.0]), metrics()).values()
    codes = [doubt.code for doubt in of(Case((Side("a", found),), Estimate(10.0, None, None, 2, "")))]
    assert codes == ["too-few-runs", "identical-values"]


def test_codes_are_the_names_under_which_they_are_listed() -> None:
    seen = raised(
        [*side([10.0] * 4, facts=CLEAN), result(None, block=9, state=RunState.FAILED)],
        side([1.0, 20.0, 9.0], system="b", params={"x": 1}, facts=CLEAN | {"os": "RHEL 9"}),
    )
    assert set(seen) <= {kind.code for kind in CASE_KINDS}
    assert len(seen) >= 6
