"""Doubts about which nodes were measured, and whether the network between two of them was the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted
from assay.analyse.exchange.fabrics import port_bytes_per_s
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import probed
from assay.analyse.points.ratio import mean
from assay.formats.figures import ONLY_HOST
from assay.records import Result, Scalar, Shape
from assay.units import human, listed, percent, significant

NEARLY_ALL = 0.9  # of a core, or of a node's cores
# By the formula of Mathis et al. (1997), rate <= 1.22 MSS / (RTT sqrt(loss)), one stream with segments of
# 1448 bytes and a round trip of 0.1 ms reaches at most 4.5 Gbit/s if one segment in 1000 is lost.
MOST_RETRANSMITTED = 1e-3
LARGE_BYTES = 2**20  # from this message size on, bandwidth reflects the link, not the latency
FAR_BELOW = 0.8  # of a port's data rate; headers take 2 to 8 % of it
_TWO_ENDS = ("iperf3", "perftest")  # workloads that measure between two workers
_OF_TCP = ("bandwidth", "bandwidth_sent")
_A_THREAD_EACH_STREAM = (3, 16)  # version of iperf3; earlier versions have one thread for all streams
_NODE_NAMES = ("kubernetes.node", "ssh.host", "host")


def cpu_limited(case: Case) -> str | None:
    """TCP bandwidth limited by the CPU at one end."""
    for side in case.sides:
        busy = [busy_end for result in _of_iperf3(side) for busy_end in _busy(side, result)]
        if busy:
            return f"{side.name}: {max(busy)[1]}"
    return None


CPU_LIMITED = CaseDoubtKind(
    code="cpu-limited",
    subject="network",
    severity="biased",
    means=(
        "iperf3 used 90 % or more of the cores that it can use at one end (one core before version 3.16, "
        "since then one per stream, up to the node's number of cores), or all CPUs of a node were busy for "
        "90 % of the run."
    ),
    effect=(
        "The result is the CPU's, not the network's: a faster link would not raise it, and a slower one "
        "might not lower it."
    ),
    remedy=(
        "Use more streams with iperf3 3.16 or newer (it has a thread for each), larger segments (MTU), or "
        "nodes with nothing else to do. The workload perftest measures RDMA, which bypasses the CPU."
    ),
    evidence=cpu_limited,
)


def many_retransmits(case: Case) -> str | None:
    """TCP bandwidth limited by lost segments."""
    for side in case.sides:
        shares = [
            (share, result.run.trial.id)
            for result in _of_iperf3(side)
            if (share := _measured(result, "retransmit_share", side.group.point.labels)) is not None
        ]
        if shares and max(shares)[0] > MOST_RETRANSMITTED:
            worst, trial = max(shares)
            return f"{side.name}: {percent(worst)} of the segments were retransmitted (in {trial})"
    return None


MANY_RETRANSMITS = CaseDoubtKind(
    code="many-retransmits",
    subject="network",
    severity="biased",
    means="TCP retransmitted more than one segment in 1,000, in the run with the most retransmissions.",
    effect=(
        "Loss limits TCP, not the link: by the formula of Mathis et al. (1997), one stream with segments of "
        "1,448 bytes and a round trip of 0.1 ms reaches at most 4.5 Gbit/s at that loss. BBR is less "
        "sensitive."
    ),
    remedy=(
        "Look for drops along the path (`ethtool -S`, the switch's counters), a policer, an MTU that differs "
        "between the ends, or buffers that are too small for the rate."
    ),
    evidence=many_retransmits,
)


def below_link_rate(case: Case) -> str | None:
    """RDMA bandwidth far below the rate that the port negotiated."""
    for side in case.sides:
        point, size = side.group.point, side.group.point.labels.get("payload_bytes")
        if point.metric != "bandwidth" or not isinstance(size, int) or size < LARGE_BYTES:
            continue
        rates = [_link_rate(sample.result, point.labels) for sample in side.group.samples]
        rate = min((known for known in rates if known is not None), default=None)
        reached = mean(side.group.values)
        if rate is not None and reached < FAR_BELOW * rate:
            return (
                f"{side.name}: {human(reached, 'B/s')} at {human(size, 'B')} over a port of "
                f"{human(rate, 'B/s')}, {percent(reached / rate)}"
            )
    return None


BELOW_LINK_RATE = CaseDoubtKind(
    code="below-link-rate",
    subject="network",
    severity="biased",
    means=(
        "perftest's bandwidth for messages of 1 MiB or more is below 80 % of the data rate that the port "
        "negotiated (twice that in both directions at once)."
    ),
    effect=(
        "The link does not limit the result, but the card's PCIe slot, the NUMA node, one queue pair on a "
        "fast link, or the path to a GPU's memory."
    ),
    remedy=(
        "Check the card's PCIe slot (LnkSta in `lspci -vv`), run on the card's NUMA node, use more "
        "`queue_pairs`; with `cuda_device`, use a GPU below the same PCIe switch."
    ),
    evidence=below_link_rate,
)


def _link_rate(result: Result, labels: Mapping[str, Scalar]) -> float | None:
    """Rate of the slower port in the measured directions, bytes per second; None if unknown.

    From the fact that the program reported: `port.mlx5_0:1` is `InfiniBand, 200 Gb/sec (4X HDR)`.
    """
    if result.run.trial.workload != "perftest":
        return None
    stated = str(result.reading.facts.get(f"port.{labels.get('device')}:{labels.get('port')}", ""))
    rates = [port_bytes_per_s(end.partition(", ")[2]) for end in stated.split(" and ")]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates):
        return None
    return min(known) * (2 if labels.get("direction") == "both" else 1)


def slow_clock(case: Case) -> str | None:
    """A warning from perftest that the CPU does not run at its highest clock."""
    for side in case.sides:
        warned = [s for s in side.group.samples if s.result.reading.facts.get("cpu_clock_warning") is True]
        if warned:
            return (
                f"{side.name}: perftest warned in {len(warned)} of {counted(len(side.group.samples), 'run')} "
                "that the CPU is not at its highest clock"
            )
    return None


SLOW_CLOCK = CaseDoubtKind(
    code="slow-clock",
    subject="network",
    severity="biased",
    means="perftest reported that its CPU does not run at its highest clock, or at several clocks.",
    effect="Latencies are longer than necessary, and vary with what else the node does.",
    remedy="Set the governor on both nodes: `cpupower frequency-set -g performance`.",
    evidence=slow_clock,
)


def one_host(case: Case) -> str | None:
    """Both ends of a measurement between two nodes were on one node."""
    for side in case.sides:
        hosts = {_only_host(sample.result) for sample in side.group.samples} - {None}
        if hosts:
            return f"{side.name}: both ends ran on {hosts.pop()}, so no network was between them"
    return None


ONE_HOST = CaseDoubtKind(
    code="one-host",
    subject="network",
    severity="invalid",
    means="iperf3 or perftest ran with both ends on one host.",
    effect=(
        "The result reflects the host's memory or the card's own loopback; no network was between the ends."
    ),
    remedy="Give the shape two nodes (2x1x2) and the system two hosts.",
    evidence=one_host,
)


def different_placement(case: Case) -> str | None:
    """Workers that shared a node on one side, and had more nodes on the other."""
    if len(case.sides) < 2:
        return None
    a, b = case.sides
    if a.group.point.shape != b.group.point.shape:  # then the placement is what is compared
        return None
    of_a, of_b = (_most_nodes(side) for side in (a, b))
    if not of_a or not of_b or len(of_a) == len(of_b):
        return None
    fewer, more = ((a, of_a), (b, of_b)) if len(of_a) < len(of_b) else ((b, of_b), (a, of_a))
    workers = counted(Shape.parse(a.group.point.shape).workers, "worker")
    return f"{workers} ran on {_listed_nodes(*fewer)} and on {_listed_nodes(*more)}"


DIFFERENT_PLACEMENT = CaseDoubtKind(
    code="different-placement",
    subject="network",
    severity="biased",
    means="The workers of one side shared fewer nodes than the same workers of the other side.",
    effect=(
        "Workers on one node exchange through memory and share its CPUs and memory bandwidth; workers on "
        "several nodes exchange through a network. The ratio contains this difference."
    ),
    remedy=(
        "To compare the platforms alone, give both sides the same number of nodes, or compare a shape with "
        "one worker. Keep it if the placement is your question."
    ),
    evidence=different_placement,
    looks_at="runs",
)


def _most_nodes(side: Side) -> set[str]:
    """Names of the nodes that one of the side's runs used, the one with the most; empty if unknown."""
    return max((_nodes(sample.result) for sample in side.group.samples), key=len, default=set())


def _listed_nodes(side: Side, nodes: set[str]) -> str:
    return f"{counted(len(nodes), 'node')} of {side.name} ({listed(sorted(nodes))})"


def _nodes(result: Result) -> set[str]:
    """Names of the nodes that a run used; empty if some are unknown."""
    tables = probed(result)
    if len(tables) < len(result.run.nodes):
        return set()
    names = {str(next((table[name] for name in _NODE_NAMES if name in table), "")) for table in tables}
    return names if "" not in names else set()


def _only_host(result: Result) -> str | None:
    """The host that both ends ran on; None if there are two, or if some participants are unknown."""
    if stated := result.reading.facts.get(ONLY_HOST):
        return str(stated)
    hosts = _nodes(result) if result.run.trial.workload in _TWO_ENDS else set()
    return hosts.pop() if len(hosts) == 1 else None


def _of_iperf3(side: Side) -> list[Result]:
    """The side's runs, if its metric is one of TCP's rates."""
    if side.group.point.metric not in _OF_TCP:
        return []
    results = side.group.results
    return [result for result in results if result.run.trial.workload == "iperf3"]


def _busy(side: Side, result: Result) -> Iterator[tuple[float, str]]:
    """CPUs of a run that were nearly always busy: the share, and as text."""
    direction, version = side.group.point.labels.get("direction"), result.reading.facts.get("iperf3_version")
    threads = _threads(result, str(version), both=direction == "both")
    cpus = min((node.cpus for node in result.run.nodes), default=threads)
    cores = min(threads, cpus)
    for end in ("client", "server"):
        used = _measured(result, "cores", {"direction": direction, "end": end})
        if used is not None and used >= NEARLY_ALL * cores:
            yield (
                used / cores,
                (
                    f"the {end}'s iperf3 {version} used {significant(used, 2)} of {cores} cores that it can "
                    f"(in {result.run.trial.id})"
                ),
            )
    for node in result.run.nodes:
        share = min(1.0, (node.busy_cpu_s or 0.0) / (node.cpus * node.elapsed_s))
        if share >= NEARLY_ALL:
            yield (
                share,
                f"a node's CPUs were busy for {percent(share)} of the time (in {result.run.trial.id})",
            )


def _threads(result: Result, version: str, *, both: bool) -> int:
    """Threads that the program moves data with, which is the number of cores it can use."""
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    streams = result.reading.facts.get("num_streams")
    if numbers < _A_THREAD_EACH_STREAM or not isinstance(streams, int):
        return 1
    return streams * 2 if both else streams


def _measured(result: Result, metric: str, labels: object) -> float | None:
    return next(
        (m.value for m in result.reading.measurements if (m.metric, m.labels) == (metric, labels)), None
    )
