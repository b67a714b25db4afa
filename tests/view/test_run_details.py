"""A run besides its figures, as text: its nodes and places."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import made_results
from assay.analyse.judgement import compare_with_doubts
from assay.analyse.points.groups import group, nodes_used
from assay.cli import assay
from assay.records import NodeCounts, Result
from assay.view.sentences.run_details import describe_nodes, describe_placement, placement_lines
from assay.workloads import PLACES
from stated_runs import result


def with_nodes(*nodes: NodeCounts) -> Result:
    made = result()
    return replace(made, run=replace(made.run, nodes=nodes))


def test_what_was_counted_is_told_and_what_was_not_is_not() -> None:
    node = NodeCounts(elapsed_s=10.0, cpus=2, busy_cpu_s=19.036, job_cpu_s=12.0, stolen_cpu_s=0.0)
    line = describe_nodes([with_nodes(node)])
    assert line == "while the runs ran (mean): the job used 1.2 of 2 CPUs, others 0.7, stolen by the host 0 %"


def test_means_are_over_the_nodes_that_counted() -> None:
    two = [NodeCounts(elapsed_s=10.0, cpus=8, job_cpu_s=cpu_s) for cpu_s in (20.0, 60.0)]
    swapped = NodeCounts(
        elapsed_s=10.0, cpus=8, swapped_in_bytes=4096, memory_wait_s=1.0, job_major_faults=12
    )
    line = describe_nodes([with_nodes(*two), with_nodes(swapped)])
    assert line is not None
    assert "the job used 4 of 8 CPUs" in line
    assert "waiting for swap 10 % of the time" in line
    assert line.endswith("12 pages read from disk")


def test_the_memory_is_that_of_the_largest_process_of_all_runs() -> None:
    nodes = [NodeCounts(elapsed_s=10.0, cpus=2, peak_rss_bytes=size) for size in (300_000_000, 1_234_000_000)]
    line = describe_nodes([with_nodes(one) for one in nodes])
    assert line == "while the runs ran (mean): the largest process had up to 1.234 GB"


def test_runs_that_nobody_counted_have_no_words() -> None:
    assert describe_nodes([with_nodes()]) is None
    assert describe_nodes([with_nodes(NodeCounts(elapsed_s=1.0, cpus=1))]) is None


def test_memory_is_a_figure_of_a_run_if_all_of_its_nodes_counted_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACES, "script", "script_workload:SCRIPT")
    monkeypatch.chdir(tmp_path)
    code = "text = b'x' * 300_000_000; print('v', 100)"
    suite = {"suite": "demo", "workload": "script", "params": {"code": code}, "repeats": 1}
    Path("suite.yaml").write_text(json.dumps({**suite, "systems": ["local"], "shapes": ["2x1"]}))
    command = CliRunner()
    ran = command.invoke(assay, ["run", "suite.yaml"])
    assert ran.exit_code == 0, ran.output
    [run] = json.loads(command.invoke(assay, ["show", "demo", "--json"]).stdout)["runs"]
    figures = {one["metric"]: one["value"] for one in run["measurements"]}
    assert 300e6 <= figures["peak_rss"] < 330e6
    assert "the largest process had up to 3" in " ".join(
        command.invoke(assay, ["show", "demo"]).stdout.split()
    )


def test_show_tells_what_a_real_run_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "script", "script_workload:SCRIPT")
    monkeypatch.chdir(tmp_path)
    asked = {"suite": "demo", "workload": "script", "params": {"code": "print('v', 100)"}, "repeats": 1}
    Path("suite.yaml").write_text(json.dumps({**asked, "systems": ["local"]}))
    command = CliRunner()
    ran = command.invoke(assay, ["run", "suite.yaml"])
    assert ran.exit_code == 0, ran.output
    assert "while the runs ran (mean): the job used" in " ".join(
        command.invoke(assay, ["show", "demo"]).stdout.split()
    )
    [run] = json.loads(command.invoke(assay, ["show", "demo", "--json"]).stdout)["runs"]
    [node] = run["nodes"]
    assert node["job_cpu_s"] > 0
    assert node["elapsed_s"] > 0


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
    outcome = compare_with_doubts(
        mixed, even, margin=0.02, names=("here", "there"), metrics=made_results.metrics
    )
    assert {c.point.labels["nodes"] for c in outcome.comparisons} <= {1, 2}
    assert all(set(c.point.labels) >= {"nodes"} for c in outcome.comparisons)


def test_sides_that_are_each_placed_alike_are_compared_whatever_their_nodes() -> None:
    outcome = compare_with_doubts(
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
