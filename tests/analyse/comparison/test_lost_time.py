"""Verdicts on a loaded machine: who wanted more CPUs lost more to the same neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from assay.analyse.comparison.families import corrected
from assay.analyse.comparison.verdict import allowing_for, gate_verdict, more_runs_may_decide
from assay.analyse.expectations.requirements import decide as decide_requirement
from assay.analyse.judgement import compare_with_doubts
from assay.records import Better, Comparison, Estimate, NodeCounts, Result
from assay.view.sentences import sentences
from assay.view.sentences.recommendation import advised
from assay.view.sentences.why import undecided_lines, undecided_reason
from stated_runs import metrics, side

ALONE = NodeCounts(elapsed_s=10.0, cpus=2, busy_cpu_s=10.0, job_cpu_s=9.99, stolen_cpu_s=0.0, cpu_wait_s=0.1)
# Four busy competitors on two CPUs: two threads got 0.52 CPUs, one thread 0.61
TWO_THREADS = replace(ALONE, busy_cpu_s=18.6, job_cpu_s=5.2, cpu_wait_s=9.9)
ONE_THREAD = replace(ALONE, busy_cpu_s=19.3, job_cpu_s=6.1, cpu_wait_s=9.8)


def runs(values: Sequence[float], node: NodeCounts, **which: str) -> list[Result]:
    found = side(values, **which)
    return [replace(result, run=replace(result.run, nodes=(node,))) for result in found]


def compared(a: list[Result], b: list[Result], better: Better | None = "higher") -> Comparison:
    [found] = compare_with_doubts(
        a, b, margin=0.02, names=("two-threads", "one-thread"), metrics=metrics(better)
    ).comparisons
    return found


def with_lost(cpu_wait_s: float) -> NodeCounts:
    """A run that may have lost a tenth of this many seconds of its ten."""
    return replace(ALONE, busy_cpu_s=19.0, job_cpu_s=15.0, cpu_wait_s=cpu_wait_s)


FAST, SLOW = [38.0, 39.0, 38.5, 39.5, 38.2], [10.0, 10.2, 9.9, 10.1, 10.0]


def test_neighbours_that_one_side_felt_more_do_not_reverse_a_verdict() -> None:
    found = compared(runs(SLOW, TWO_THREADS), runs(FAST, ONE_THREAD, system="b"))
    assert found.ratio.low is not None
    assert found.ratio.low > 3
    assert (found.verdict, found.by_margin, found.runs_needed) == ("undecided", False, None)
    lost = "others on its CPUs may have held two-threads back by 93 %, and one-thread by 97 %"
    assert lost in found.reason
    assert found.reason.endswith("run again on an idle machine")
    assert gate_verdict(found).answer == "undecided"
    assert {c.verdict for c in corrected([found, found])} == {"undecided"}


def test_the_same_figures_without_neighbours_are_decided() -> None:
    found = compared(runs(SLOW, ALONE), runs(FAST, ALONE, system="b"))
    assert (found.verdict, found.lost_to_others) == ("faster", (0.0, 0.0))


def test_the_headline_and_the_sentence_say_it() -> None:
    asked = sentences.questions([compared(runs(SLOW, TWO_THREADS), runs(FAST, ONE_THREAD, system="b"))])
    said = sentences.headline(asked)
    assert said.startswith("one-thread compared with two-threads: undecided in the only comparison. ")
    assert "May be biased: " in said
    assert "busy-neighbours" in said
    answer = sentences.answer(asked[0])
    assert answer.startswith("It is undecided whether one-thread is as fast as two-threads")
    assert "others on its CPUs may have held two-threads back by 93 %, and one-thread by 97 %" in answer


def test_of_several_pairs_no_sentence_speaks_of_a_and_b() -> None:
    first = runs(SLOW, TWO_THREADS)
    pairs = [compared(first, runs(FAST, ONE_THREAD, system=name)) for name in ("b", "c")]
    found = [pairs[0], replace(pairs[1], b="third")]
    (line,) = undecided_lines(found)
    assert line.startswith(
        "undecided train throughput: others on the CPUs may have held runs back by up to 97 %"
    )


def test_beside_such_a_load_nothing_says_what_more_runs_can_show() -> None:
    found = compared(runs(SLOW, TWO_THREADS), runs(FAST, ONE_THREAD, system="b"))
    (line,) = undecided_lines([found])
    assert line == (
        "undecided train throughput: others on its CPUs may have held two-threads back by 93 %, and "
        "one-thread by 97 %: more runs under such a load decide nothing"
    )
    assert not more_runs_may_decide(found)
    advice = advised([found])
    assert advice.action == "Run again on an idle machine"
    assert advice.sentence.startswith("The only comparison is undecided; others on its CPUs may have held")
    asked = sentences.questions([found])
    assert sentences.resolution(asked) == ""
    assert "detectable" not in sentences.evidence(asked[0])


def test_under_such_a_load_no_doubt_asks_for_more_runs() -> None:
    wide = [10.0, 30.0, 15.0, 25.0, 20.0]
    for node, remedy in (
        (TWO_THREADS, "Run again on an idle machine before you make more runs"),
        (ALONE, "Decide "),
    ):
        found = compared(runs(wide, node), runs(wide[::-1], node, system="b"))
        (doubt,) = (doubt for doubt in found.doubts if doubt.code == "wider-than-margin")
        assert doubt.remedy.startswith(remedy)


def test_a_wait_is_never_more_than_the_whole_time() -> None:
    late = replace(TWO_THREADS, cpu_wait_s=10.2)  # the kernel's stamps are a little apart from the keeper's
    found = compared(runs(SLOW, late), runs(FAST, late, system="b"))
    (doubt,) = (doubt for doubt in found.doubts if doubt.code == "busy-neighbours")
    assert "waited for a CPU 100 % of the time" in doubt.evidence


def test_more_runs_may_decide_where_the_interval_reaches_beyond_what_was_lost() -> None:
    values = [100.0, 100.1, 99.9, 100.05, 99.95]
    a, b = with_lost(0.5), with_lost(0.5)  # 5 % each, where the margin is 2 %
    assert not more_runs_may_decide(compared(runs(values, a), runs(values[::-1], b, system="b")))
    wide = compared(runs(values, a), runs([80.0, 120.0, 99.0, 110.0, 90.0], b, system="b"))
    assert more_runs_may_decide(wide)
    assert undecided_reason([wide]).endswith("run again on an idle machine")


@pytest.mark.parametrize(
    ("lost_s", "better", "verdict"),
    [
        ((1.0, 0.1), "higher", "undecided"),  # A, a tenth slower, may have lost that tenth
        ((0.1, 1.0), "higher", "faster"),  # B lost, and is faster even so
        ((0.5, 0.1), "higher", "faster"),
        ((1.0, 0.1), "lower", "slower"),  # of a time: the loss of A makes B look better
        ((0.1, 1.0), "lower", "undecided"),
        ((3.0, 3.0), "higher", "undecided"),
    ],
)
def test_a_small_loss_stretches_the_interval_towards_the_side_that_lost(
    lost_s: tuple[float, float], better: Better, verdict: str
) -> None:
    a, b = (with_lost(seconds) for seconds in lost_s)
    values = [100.0, 101.0, 99.0, 100.5, 99.5]
    found = compared(runs(values, a), runs([v * 1.08 for v in values[::-1]], b, system="b"), better)
    assert (found.verdict, gate_verdict(found).answer == "undecided") == (verdict, verdict == "undecided")


def test_equal_sides_are_not_called_equivalent_beside_neighbours() -> None:
    values = [100.0, 100.1, 99.9, 100.05, 99.95]
    for seconds, verdict in ((0.1, "equivalent"), (0.5, "undecided")):
        node = with_lost(seconds)
        found = compared(runs(values, node), runs(values[::-1], node, system="b"))
        assert found.verdict == verdict


def test_a_host_that_withholds_cpus_counts_like_neighbours() -> None:
    withheld = replace(ALONE, stolen_cpu_s=4.0)
    found = compared(runs(SLOW, withheld), runs(FAST, ALONE, system="b"))
    assert found.verdict == "undecided"
    assert found.lost_to_others == (pytest.approx(0.3984), 0.0)


def test_a_quota_is_part_of_the_side_and_leaves_its_verdict() -> None:
    quota = replace(ALONE, quota_cores=0.5, periods=100, throttled_periods=90, throttled_s=10.0)
    found = compared(runs(SLOW, quota), runs(FAST, ALONE, system="b"))
    assert found.verdict == "faster"
    assert "cpu-throttled" in sentences.headline(sentences.questions([found]))


def test_a_metric_without_a_direction_is_stretched_both_ways() -> None:
    stretched = allowing_for((0.1, 0.0), Estimate(1.0, 0.99, 1.01, 5, ""), None)
    assert (stretched.low, stretched.high) == (pytest.approx(0.891), pytest.approx(1.01 / 0.9))


@pytest.mark.parametrize(
    ("relation", "needed", "lost", "verdict"),
    [
        (">=", 99.0, 0.9, "holds"),  # they meet it even so
        (">=", 110.0, 0.0, "fails"),
        (">=", 110.0, 0.1, "undecided"),  # alone it may be 101 / 0.9
        (">=", 120.0, 0.1, "fails"),
        (">=", 120.0, 0.3, "undecided"),
        ("<=", 101.0, 0.9, "holds"),
        ("<=", 92.0, 0.1, "undecided"),
        ("<=", 80.0, 0.1, "fails"),
    ],
)
def test_a_requirement_fails_only_where_it_would_fail_alone(
    relation: str, needed: float, lost: float, verdict: str
) -> None:
    estimate = Estimate(100.0, 99.0, 101.0, 5, "images/s", 0.9)
    assert decide_requirement(estimate, relation, needed, lost)[0] == verdict  # type: ignore[arg-type]


def beside_a_neighbour(got: Sequence[float], runnable: float) -> list[NodeCounts]:
    """One run of 10 s per value: so many CPUs of two, one of which others would use up alone."""
    return [
        replace(
            ALONE, cpu_set="0-1", busy_cpu_s=20.0, job_cpu_s=10 * cpus, cpu_wait_s=9.9,
            queue_wait_s=10 * runnable - 20.0,
        )
        for cpus in got
    ]  # fmt: skip


def in_blocks(values: Sequence[float], nodes: Sequence[NodeCounts], system: str) -> list[Result]:
    return [
        replace(result, run=replace(result.run, nodes=(node,)))
        for result, node in zip(side(values, system=system), nodes, strict=True)
    ]


GOT = [1.33, 1.32, 1.34, 1.33, 1.31]
SPEEDS = [10.0, 10.1, 9.9, 10.05, 9.95]
FASTER = [1.2 * speed for speed in SPEEDS]


def test_sides_that_wanted_the_same_cpus_are_decided_beside_a_neighbour() -> None:
    a = in_blocks(SPEEDS, beside_a_neighbour(GOT, 3.0), "a")
    found = compared(a, in_blocks(FASTER, beside_a_neighbour(GOT[::-1], 3.02), "b"))
    assert found.verdict == "faster"
    assert 0 < max(found.lost_to_others) < 0.05
    assert "busy-neighbours" in {doubt.code for doubt in found.doubts}


@pytest.mark.parametrize(
    ("got", "runnable"),
    [([0.66, 0.67, 0.66, 0.65, 0.67], 2.0), (GOT, 2.0), ([1.0, 0.7, 1.3, 0.9, 1.4], 3.0)],
    ids=["one thread", "fewer tasks", "another share in each block"],
)
def test_sides_that_wanted_other_cpus_stay_undecided(got: Sequence[float], runnable: float) -> None:
    a = in_blocks(SPEEDS, beside_a_neighbour(GOT, 3.0), "a")
    found = compared(a, in_blocks(FASTER, beside_a_neighbour(got, runnable), "b"))
    assert found.verdict == "undecided"
    assert "above 20 % there is no verdict" in found.reason


def test_without_the_counts_of_both_sides_the_time_lost_is_allowed_for() -> None:
    nodes = beside_a_neighbour(GOT, 3.0)
    for less in ({"cpu_set": None}, {"queue_wait_s": None}, {"cpu_set": "2-3"}):
        b = [replace(node, **less) for node in nodes]
        found = compared(in_blocks(SPEEDS, nodes, "a"), in_blocks(FASTER, b, "b"))
        assert (found.verdict, min(found.lost_to_others) > 0.2) == ("undecided", True)
