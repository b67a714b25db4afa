"""Why a side can be slower: where its ranks lay, what an exchange took, what its nodes met; and the times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from assay.analyse.comparison.why import Reasons, why
from assay.analyse.times import Times, mean_times, times
from assay.records import Measurement, Metric, NodeCounts, Point, Provenance, Result, Scalar
from assay.view import terminal, verdicts
from assay.view.contents import gather
from assay.view.report import html_page, markdown_text
from assay.view.sentences import why as why_words
from stated_runs import result

NAMES = ("metal", "pods")
MB = 10**6
BOOT = {"probe.version": 1, "boot_id": "one", "cpu.allowed": 2}
POD = {"net.eth0.mtu_bytes": 1450, "kubernetes.pod": "p"}
QUIET = NodeCounts(elapsed_s=10, cpus=2, busy_cpu_s=10, job_cpu_s=9.9, stolen_cpu_s=0, swapped_in_bytes=0)


def made(
    *tables: dict[str, Scalar], system: str, nodes: Sequence[NodeCounts] = (QUIET,), **more: Any
) -> Result:
    found = result(system=system, shape=more.pop("shape", "2x1"), **more)
    return replace(
        found,
        run=replace(found.run, nodes=tuple(nodes)),
        reading=replace(found.reading, facts={"backend": "gloo", "gradient_bytes": 100 * MB}),
        provenance=Provenance(tables or (BOOT,)),
    )


def asked(a: Sequence[Result], b: Sequence[Result], shape: str = "2x1") -> Reasons:
    point = Point("train", shape, "throughput", "images/s", "higher", {})
    return why(a, b, point, names=NAMES, margin=0.02)


def pods(*nodes: str, **more: Any) -> Result:
    return made(*({**BOOT, **POD, "kubernetes.node": node} for node in nodes), system="pods", **more)


METAL = made(system="metal")


def test_ranks_in_several_pods_are_told_with_their_nodes_and_their_network() -> None:
    (reason,) = asked([METAL], [pods("node1", "node2")]).reasons
    assert reason == (
        "its 2 ranks run in 2 pods on node1, node2, which are one machine, and communicate over eth0 (MTU "
        "1450 B), those of metal together on one node"
    )


def test_ranks_that_exchange_nothing_have_no_path() -> None:
    alone = pods("node1", shape="1x1")
    assert asked([made(system="metal", shape="1x1")], [alone], "1x1").reasons == ()


def test_as_many_places_on_both_sides_explain_nothing() -> None:
    assert asked([pods("node1", "node2")], [pods("node3", "node4")]).reasons == ()


def exchanged(system: str, step_s: float, exchange_s: float, *more: dict[str, Scalar]) -> list[Result]:
    step = Measurement("step_time", step_s, "s", {}, "rank-0.log", 8)
    latency = Measurement("latency", exchange_s, "s", {"payload_bytes": 100 * MB}, "rank-0.log", 9)
    trained = made(*more, system=system, more=[step])
    alone = made(*more, system=system, benchmark="exchange", more=[latency])
    trial = replace(alone.run.trial, workload="allreduce")
    return [trained, replace(alone, run=replace(alone.run, trial=trial))]


def test_a_slower_exchange_is_held_against_how_much_longer_a_step_takes() -> None:
    (reason,) = asked(exchanged("metal", 0.5, 0.07), exchanged("pods", 0.7, 0.19)).reasons
    assert reason == (
        "one exchange of its 100 MB of gradients, measured on its own, takes 190 ms, and 70 ms on metal: "
        "120 ms more, while a step takes 200 ms longer"
    )
    assert asked(exchanged("metal", 0.5, 0.19), exchanged("pods", 0.7, 0.07)).reasons == ()


def test_a_quota_is_told_with_what_it_stopped_and_is_ruled_out_where_there_is_none() -> None:
    stopped = replace(QUIET, quota_cores=0.5, periods=100, throttled_periods=40, throttled_s=3.3)
    found = asked([METAL], [made({**BOOT, "cpu.quota": 0.5}, system="pods", nodes=[stopped])])
    assert found.reasons == (
        "a quota gives it 0.5 cores' worth of CPU time per node; metal has none",
        "a CPU quota stopped it for 25 % of its CPU time, compared with 0 % on metal",
    )
    assert "stops by a CPU quota" in asked([METAL], [made(system="pods")]).ruled_out


def test_other_processes_are_a_reason_only_where_they_took_more_than_on_the_other_side() -> None:
    busy = replace(QUIET, busy_cpu_s=19.0, cpu_wait_s=9.0)
    here = [made(system="metal", nodes=[busy])]
    assert asked([METAL], [made(system="pods", nodes=[busy])]).reasons == (
        "other processes contended for 48 % of the CPU time, compared with 0.64 % on metal",
    )
    assert "other processes" in asked(here, [made(system="pods", nodes=[busy])]).ruled_out


def test_what_nobody_counted_is_neither_a_reason_nor_ruled_out() -> None:
    unknown = made(system="pods", nodes=[])
    assert asked([METAL], [unknown]) == Reasons((), ("stops by a CPU quota",))  # of that the probe tells
    assert asked([METAL], [replace(unknown, provenance=None)]) == Reasons((), ())


def test_fewer_cpus_are_a_reason() -> None:
    assert asked([METAL], [made({**BOOT, "cpu.allowed": 1}, system="pods")]).reasons == (
        "it may use 1 CPU, metal 2",
    )


def table(_run: object) -> dict[str, Metric]:
    return {"throughput": Metric("throughput", "images/s", "higher", "speed")}


def report(pods_value: float) -> str:
    blocks = range(1, 6)
    sides = {
        "metal": [made(system="metal", block=b, value=100.0 + b / 10) for b in blocks],
        "pods": [pods("node1", "node2", block=b, value=pods_value + b / 10) for b in blocks],
    }
    contents = gather(sides, table)
    assert "Where the time of a trial went" in html_page(contents)
    assert ("Why slower:" in html_page(contents)) is (pods_value < 100)
    return markdown_text(contents)


@pytest.mark.long
def test_a_report_tells_why_beside_the_verdict_of_what_is_slower_and_of_nothing_else() -> None:
    assert "  - Its 2 ranks run in 2 pods on node1, node2" in report(90.0)
    assert "Not higher than on metal: stops by a CPU quota, other processes" in report(90.0)
    assert "ranks run in" not in report(100.0)


def test_the_parts_of_a_trials_time_add_up() -> None:
    slow = pods("node1")
    facts = {**BOOT, "kubernetes.queue_s": 1.0, "kubernetes.pull_s": 4.0}
    late = {**BOOT, "kubernetes.queue_s": 2.0, "kubernetes.pull_s": 0.0}
    run = replace(slow.run, created_at=100.0, started_at=107.5, ended_at=120.0, collected_at=121.0)
    found = times(replace(slow, run=run, provenance=Provenance((facts, late))))
    assert found == Times(queue=2.0, pull=4.0, start=1.5, run=12.5, collect=1.0)
    assert found.whole == 121.0 - 100.0


def test_what_a_platform_does_not_have_is_unknown_and_not_nothing() -> None:
    found = times(METAL)
    assert found is not None
    assert (found.queue, found.pull, found.collect) == (None, None, None)


def test_imported_and_adopted_runs_have_no_times() -> None:
    adopted = replace(METAL, run=replace(METAL.run, adopted=True))
    assert mean_times([adopted, result(source="log.txt")]) is None
    assert mean_times([METAL, adopted]) == (times(METAL), 1)


def test_a_terminal_tells_it_below_the_verdicts() -> None:
    blocks = range(1, 6)
    sides = {
        "metal": [made(system="metal", block=b, value=100.0 + b / 10) for b in blocks],
        "pods": [pods("node1", "node2", block=b, value=90.0 + b / 10) for b in blocks],
    }
    console = Console(width=200, record=True, file=StringIO())
    console.print(terminal.shown(verdicts.whys(gather(sides, table).comparisons, sides, 0.02)))
    told = console.export_text()
    assert "Why pods is slower at train on 2 workers:\n  Its 2 ranks run in 2 pods on node1, node2" in told
    (slower,) = why_words.plain(gather(sides, table).comparisons, sides, 0.02)
    assert (slower["a"], slower["b"], slower["benchmark"]) == ("metal", "pods", "train")
    assert slower["why"][0].startswith("Its 2 ranks run in 2 pods on node1, node2")
