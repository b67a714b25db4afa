"""Efficiency over sizes whose ranks did not have the same CPUs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace

import pytest
from rich.console import Console

from assay.analyse.judgement import scaling_with_doubts
from assay.analyse.scaling.curve import curves
from assay.records import Doubt, NodeCounts, Provenance, Result, Scalar
from assay.view import report, terminal, verdicts
from assay.view.contents import gather
from stated_runs import metrics, result


def size(shape: str, job_cpu_s: float | None, facts: Mapping[str, Scalar], **probe: Scalar) -> list[Result]:
    """Three runs of ten seconds."""
    made = [result(100.0 + block, shape=shape, block=block) for block in (1, 2, 3)]
    node = NodeCounts(elapsed_s=10.0, cpus=2, job_cpu_s=job_cpu_s)
    return [
        replace(
            of,
            run=replace(of.run, nodes=(node,)),
            reading=replace(of.reading, facts=facts),
            provenance=Provenance(({"host": "node", **probe},)),
        )
        for of in made
    ]


def doubted(*sizes: list[Result]) -> Doubt | None:
    [curve] = [
        scaling_with_doubts(curve) for curve in curves([r for of in sizes for r in of], metrics=metrics())
    ]
    return {d.code: d for d in curve.points[-1].doubts}.get("unequal-cpus")


CPU = {"device": "cpu"}
UNEQUAL = [*size("1x1", 19.0, {**CPU, "threads": 2}), *size("2x1", 19.2, {**CPU, "threads": 1})]


def test_a_report_and_the_tables_of_run_and_scale_carry_the_doubt() -> None:
    contents = gather({"here": UNEQUAL}, metrics())
    assert "unequal-cpus" in report.markdown_text(contents)
    raised = [doubt for curve in contents.curves for point in curve.points for doubt in point.doubts]
    for blocks in (verdicts.scaling(contents.curves), [verdicts.doubts_in_short(raised)]):
        console = Console(width=160, file=io.StringIO(), record=True)
        console.print(terminal.shown(blocks))
        assert "unequal-cpus" in console.export_text()


def test_one_rank_with_all_cores_against_two_that_share_them_is_doubted_with_what_each_wanted_and_got() -> (
    None
):
    found = doubted(size("1x1", 19.0, {**CPU, "threads": 2}), size("2x1", 19.2, {**CPU, "threads": 1}))
    assert found is not None
    assert found.evidence.startswith(
        "1x1: 2 threads per rank, 1.9 CPUs used per rank; 2x1: 1 thread per rank, 0.96 CPUs"
    )
    assert "OMP_NUM_THREADS" in found.remedy


def test_a_program_that_does_not_state_its_threads_is_judged_by_what_it_used() -> None:
    found = doubted(size("1x1", 19.0, {}), size("2x1", 19.2, {}))
    assert found is not None
    assert found.evidence.startswith("1x1: 1.9 CPUs used per rank; 2x1: 0.96 CPUs used per rank")


@pytest.mark.parametrize("facts", [{}, {**CPU, "threads": 1}], ids=["unstated", "equal threads"])
def test_more_ranks_than_cpus_are_doubted_where_they_kept_these_busy(facts: Mapping[str, Scalar]) -> None:
    found = doubted(size("1x1", 2.3, facts), size("64x1", 15.0, facts))
    assert found is not None
    assert "64x1" in found.evidence
    assert "64 ranks on 2 CPUs" in found.evidence
    assert "at most as many ranks as CPUs" in found.remedy


def test_ranks_that_run_one_after_the_other_count_the_cpus_of_a_node_once() -> None:
    pods = (NodeCounts(elapsed_s=10.0, cpus=2, cpu_set="a 0-1", job_cpu_s=6.0),) * 2
    machines = tuple(replace(pod, cpu_set=name) for pod, name in zip(pods, "ab", strict=True))
    for nodes, is_crowded in ((pods, True), (machines, False)):
        large = [replace(of, run=replace(of.run, nodes=nodes)) for of in size("4x1", None, {})]
        assert (doubted(size("1x1", 6.0, {}), large) is not None) == is_crowded


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (size("1x1", 0.1, {}), size("64x1", 2.0, {})),  # ranks that sleep
        (size("1x1", 9.5, {**CPU, "threads": 1}), size("2x1", 19.0, {**CPU, "threads": 1})),
        (size("1x1", 9.5, {}), size("2x1", 14.0, {})),  # two ranks that wait for each other
        (
            size("1x1", 19.0, {"device": "cuda", "threads": 2}),
            size("1x2", 19.0, {"device": "cuda", "threads": 1}),
        ),
        (size("1x1", 19.0, {}, **{"gpu.count": 2}), size("1x2", 19.0, {}, **{"gpu.count": 2})),
        (size("1x1", None, {}), size("2x1", None, {})),
    ],
    ids=[
        "idle ranks",
        "equal threads",
        "waiting",
        "on GPUs",
        "a node with GPUs",
        "nothing known",
    ],
)
def test_equal_cpus_gpus_and_what_is_not_known_raise_nothing(
    first: list[Result], second: list[Result]
) -> None:
    assert doubted(first, second) is None
