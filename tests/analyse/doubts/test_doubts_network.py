"""Doubts about what was measured between two nodes: what raises each, what must not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assay.analyse.doubts import of
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import group
from assay.records import Doubt, Estimate, Measurement, Metric, NodeCounts, Provenance, Result, Scalar
from stated_runs import result

TWO = ({"host": "a"}, {"host": "b"})
IDLE = NodeCounts(10.0, 8, busy_cpu_s=8.0)
DIRECTION = {"direction": "0-to-1"}


def measured(metric: str, value: float, **labels: Scalar) -> Measurement:
    return Measurement(metric, value, "", {**DIRECTION, **labels}, "rank-1.log", 9)


def run(
    *more: Measurement,
    workload: str = "iperf3",
    facts: Mapping[str, Any] | None = None,
    hosts: Sequence[Mapping[str, Any]] = TWO,
    nodes: tuple[NodeCounts, ...] = (IDLE, IDLE),
) -> Result:
    """A run whose client and server took little of their cores, but for what is said."""
    quiet = [measured("cores", 0.4, end=end) for end in ("client", "server")]
    said = {(m.metric, str(m.labels)) for m in more}
    others = [m for m in quiet if (m.metric, str(m.labels)) not in said]
    made = result(1e9, metric="bandwidth", unit="B/s", labels=DIRECTION, more=[*more, *others])
    trial = replace(made.run.trial, workload=workload)
    stated = {"iperf3_version": "3.12", "num_streams": 4, **(facts or {})}
    return Result(
        replace(made.run, trial=trial, nodes=nodes),
        replace(made.reading, facts=stated),
        Provenance(tuple(hosts)),
    )


def over_a_port(value: float, stated: str, **labels: Scalar) -> Result:
    """A run of perftest with this bandwidth of 8 MiB, over a port that is said to be so."""
    at = {"device": "mlx5_0", "port": 1, **DIRECTION, "payload_bytes": 2**23, **labels}
    made = run(workload="perftest", facts={"port.mlx5_0:1": stated})
    own = Measurement("bandwidth", value, "B/s", at, "rank-1.log", 9)
    return replace(made, reading=replace(made.reading, measurements=(own,)))


def raised(found: Result) -> dict[str, Doubt]:
    table = {"bandwidth": Metric("bandwidth", "B/s", "higher", "what arrived", scales=False)}
    at = next(one for key, one in group([found], lambda _: table).items() if key.metric == "bandwidth")
    return {d.code: d for d in of(Case((Side("A", at),), Estimate(1.0, None, None, 1, "")))}


def compared(a: Result, b: Result) -> dict[str, Doubt]:
    table = {"bandwidth": Metric("bandwidth", "B/s", "higher", "what arrived", scales=False)}
    sides = (
        Side(name, next(g for at, g in group([r], lambda _: table).items() if at.metric == "bandwidth"))
        for name, r in (("A", a), ("B", b))
    )
    return {d.code: d for d in of(Case(tuple(sides), Estimate(1.0, None, None, 1, "")))}


CODES = {"one-host", "cpu-limited", "many-retransmits", "below-link-rate", "slow-clock"}


def test_a_network_that_was_the_limit_raises_nothing() -> None:
    assert not CODES & set(raised(run(measured("retransmit_share", 0.0005))))


@pytest.mark.parametrize(
    ("version", "used", "doubted"),
    [("3.12", 0.95, True), ("3.12", 0.8, False), ("3.17", 0.95, False), ("3.17", 3.7, True)],
)
def test_a_program_that_used_the_cores_that_it_can_is_limited_by_them(
    version: str, used: float, doubted: bool
) -> None:
    found = raised(run(measured("cores", used, end="server"), facts={"iperf3_version": version}))
    assert ("cpu-limited" in found) is doubted
    if doubted:
        assert f"the server's iperf3 {version} used {used:.2g} of" in found["cpu-limited"].evidence


def test_no_more_cores_count_than_the_node_has() -> None:
    two = NodeCounts(10.0, 2, busy_cpu_s=8.0)
    used = measured("cores", 1.9, end="client")
    assert (
        "of 2 cores"
        in raised(run(used, facts={"iperf3_version": "3.17"}, nodes=(two, IDLE)))["cpu-limited"].evidence
    )


def test_a_node_whose_cpus_were_all_busy_limits_the_figure() -> None:
    busy = NodeCounts(10.0, 8, busy_cpu_s=76.0)
    assert "busy for 95 % of the time" in raised(run(nodes=(IDLE, busy)))["cpu-limited"].evidence


def test_cores_of_the_other_direction_are_none_of_this_one() -> None:
    assert "cpu-limited" not in raised(run(measured("cores", 1.0, end="server", direction="1-to-0")))


def test_many_segments_sent_again_are_told_with_their_share() -> None:
    found = raised(run(measured("retransmit_share", 0.02)))["many-retransmits"]
    assert "2 % of the segments" in found.evidence


HDR = "InfiniBand, 200 Gb/sec (4X HDR)"
EDR = "InfiniBand, 100 Gb/sec (4X EDR)"


@pytest.mark.parametrize(
    ("value", "stated", "labels", "doubted"),
    [
        (24.3e9, HDR, {}, False),
        (12.1e9, HDR, {}, True),
        (12.1e9, f"{HDR} and {EDR}", {}, False),
        (24.3e9, HDR, {"direction": "both"}, True),
        (1e6, HDR, {"payload_bytes": 8}, False),
        (1e6, "InfiniBand, unknown", {}, False),
        (1e6, HDR, {"device": "mlx5_9"}, False),
    ],
    ids=["near it", "half", "slower end", "both ways", "small", "no rate", "another port"],
)
def test_a_bandwidth_far_below_its_ports_rate_is_told(
    value: float, stated: str, labels: dict[str, Any], doubted: bool
) -> None:
    found = raised(over_a_port(value, stated, **labels))
    assert ("below-link-rate" in found) is doubted


def test_the_rate_of_the_port_stands_in_the_evidence() -> None:
    evidence = raised(over_a_port(12.1e9, HDR))["below-link-rate"].evidence
    assert "12.1 GB/s at 8.389 MB over a port of 25 GB/s, 48 %" in evidence


def test_a_clock_that_perftest_warned_of_is_told() -> None:
    found = raised(run(workload="perftest", facts={"cpu_clock_warning": True}))
    assert "in 1 of 1 run" in found["slow-clock"].evidence


@pytest.mark.parametrize(
    ("hosts", "nodes", "doubted"),
    [
        (({"host": "a"},), (IDLE,), True),
        (
            ({"host": "pod-1", "kubernetes.node": "n"}, {"host": "pod-2", "kubernetes.node": "n"}),
            (IDLE,),
            True,
        ),
        (({"host": "a", "ssh.host": "one"}, {"host": "a", "ssh.host": "two"}), (IDLE, IDLE), False),
        (({"host": "a"}, {"unreadable": "no line"}), (IDLE, IDLE), False),
        ((), (), False),
    ],
    ids=["one machine", "pods of one node", "two of one kernel", "one is not known", "nothing is known"],
)
def test_both_ends_on_one_host_are_told(hosts: Any, nodes: Any, doubted: bool) -> None:
    assert ("one-host" in raised(run(hosts=hosts, nodes=nodes))) is doubted


def test_other_workloads_may_have_one_host() -> None:
    assert "one-host" not in raised(run(workload="allreduce", hosts=({"host": "a"},), nodes=(IDLE,)))


def test_workers_on_one_node_here_and_on_two_there_are_a_doubt() -> None:
    pods = tuple({"host": f"pod-{n}", "kubernetes.node": f"node{n}"} for n in (1, 2))
    together = tuple({"host": f"pod-{n}", "kubernetes.node": "node1"} for n in (1, 2))
    alone = run(workload="allreduce", hosts=({"host": "a"},), nodes=(IDLE,))
    spread, packed = (run(workload="allreduce", hosts=hosts) for hosts in (pods, together))
    doubt = compared(alone, spread)["different-placement"]
    assert "ran on 1 node of A (a) and on 2 nodes of B (node1, node2)" in doubt.evidence
    assert "different-placement" in compared(spread, alone)
    assert "different-placement" not in compared(alone, packed)
    assert "different-placement" not in compared(spread, spread)
    assert "different-placement" not in compared(alone, run(workload="allreduce", hosts=(pods[0], {})))
