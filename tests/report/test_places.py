"""Where ranks ran: how it is shown, and what is never put into one mean."""

from __future__ import annotations

from dataclasses import replace

import made_results
from assay.analyse.comparison.compare import hold_against
from assay.analyse.points.groups import group, nodes_used
from assay.records import Result
from assay.report.sentences.run_details import describe_placement, placement_lines


def side(system: str, *nodes: str) -> list[Result]:
    """Runs of one shape, one for each entry: `node1 node2` is where its two ranks ran, "" is unknown."""
    runs = [
        r
        for r in made_results.all_reduce((system,), blocks=len(nodes))
        if r.run.trial.shape == made_results.all_reduce((system,), blocks=1)[0].run.trial.shape
    ][: len(nodes)]
    assert len(runs) == len(nodes)
    return [
        replace(r, run=replace(r.run, places=tuple(at.split()))) for r, at in zip(runs, nodes, strict=True)
    ]


TWO, ONE = "node1 node2", "node1 node1"


def test_runs_on_two_nodes_and_on_one_are_never_one_mean() -> None:
    runs = side("here", TWO, ONE, TWO)
    found = group(runs, made_results.metrics)
    assert {point.point.labels.get("nodes") for point in found.values()} == {1, 2}
    assert {len(point.samples) for point in found.values() if point.point.labels["nodes"] == 2} == {2}


def test_runs_that_were_all_placed_alike_or_nobody_knows_where_stay_one_point() -> None:
    for runs in (side("here", TWO, "node3 node1", TWO), side("here", "", "", ""), side("here", TWO, "", TWO)):
        found = group(runs, made_results.metrics)
        assert {len(point.samples) for point in found.values()} == {3}


def test_a_comparison_takes_of_a_mixed_side_only_the_runs_on_as_many_nodes() -> None:
    mixed, even = side("here", TWO, ONE, TWO), side("there", TWO, TWO, ONE)[:3]
    outcome = hold_against(mixed, even, margin=0.02, names=("here", "there"), metrics=made_results.metrics)
    assert {c.point.labels["nodes"] for c in outcome.comparisons} <= {1, 2}
    assert all(set(c.point.labels) >= {"nodes"} for c in outcome.comparisons)


def test_sides_that_are_each_placed_alike_are_compared_whatever_their_nodes() -> None:
    outcome = hold_against(
        side("here", ONE, ONE, ONE),
        side("there", TWO, TWO, TWO),
        margin=0.02,
        names=("here", "there"),
        metrics=made_results.metrics,
    )
    assert outcome.comparisons


def test_the_node_of_each_rank_is_shown() -> None:
    lines = [*placement_lines(side("here", TWO, ONE, TWO))]
    shape = str(side("here", TWO)[0].run.trial.shape)
    assert lines == [
        f"  {shape} ran 2 times with rank 0 on node1, rank 1 on node2",
        f"  {shape} ran once with ranks 0 to 1 on node1",
    ]
    assert describe_placement(("a", "", "b")) == "rank 0 on a, rank 1 on an unknown node, rank 2 on b"


def test_a_rank_whose_node_is_unknown_makes_no_number_of_nodes() -> None:
    (run,) = side("here", TWO)
    assert nodes_used(run) == 2
    assert nodes_used(replace(run, run=replace(run.run, places=("node1", "")))) is None
