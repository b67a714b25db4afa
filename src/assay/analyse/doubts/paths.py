"""Doubts whether ranks used the fastest path between them: NVLink, shared memory, InfiniBand."""

from __future__ import annotations

import re
from collections.abc import Mapping

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted
from assay.analyse.exchange import fabrics
from assay.analyse.expectations.references import matching
from assay.analyse.expectations.shares import accelerator_name
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import probed
from assay.analyse.points.ratio import mean
from assay.records import Result, Scalar, Shape
from assay.units import convert, human

_LOST = (
    "GPUs in separate workers of a node can't use NVLink or shared memory, so every hop goes through the "
    "network"
)
LARGE_BYTES = 16 * 2**20  # from this payload on, bandwidth limits an all-reduce, not latency
PCIE_4_X16 = 32e9  # B/s in one direction: the maximum for GPUs without NVLink or a switch between them

_BETWEEN_NODES = frozenset({"GPUDirect RDMA", "InfiniBand", "sockets", "network"})
_MEANT = {  # NCCL mode → the transports that it leaves
    "tcp": ("sockets",),
    "infiniband": ("InfiniBand",),
    "gpudirect": ("GPUDirect RDMA",),
}

_ONE_SWITCH = "allows GPUDirect only between a GPU and an adapter behind the same PCIe switch"
_RESTRICTIONS = (  # variable, its values, effect; NCCL reads levels 0 to 4 as LOC, PIX, PXB, PHB, SYS
    ("env.NCCL_P2P_DISABLE", ("1",), "switches off NVLink and PCIe between GPUs"),
    ("env.NCCL_P2P_LEVEL", ("LOC", "0"), "switches off NVLink and PCIe between GPUs"),
    ("env.NCCL_SHM_DISABLE", ("1",), "switches off shared memory between processes"),
    ("env.NCCL_IB_DISABLE", ("1",), "switches off InfiniBand and RoCE"),
    ("env.NCCL_NET", ("Socket", "socket"), "switches off InfiniBand and RoCE"),
    ("env.NCCL_NET_GDR_LEVEL", ("LOC", "0"), "switches off GPUDirect between GPU and network"),
    ("env.NCCL_NET_GDR_LEVEL", ("PIX", "1"), _ONE_SWITCH),
    ("env.NCCL_DMABUF_ENABLE", ("0",), "switches off GPUDirect by DMA-BUF"),
)


def fast_path_off(case: Case) -> str | None:
    """Variables that disable or restrict a fast path between GPUs or nodes, or a backend without one."""
    for side in case.sides:
        restrictions: dict[str, None] = {}
        for sample in side.group.samples:
            facts = sample.result.reading.facts
            if facts.get("device") == "cuda" and facts.get("backend") == "gloo":
                restrictions["the backend is gloo: GPUs exchange through the hosts' memory and sockets"] = (
                    None
                )
            for table in probed(sample.result):
                if not table.get("gpu.count"):
                    continue
                for name, values, effect in _RESTRICTIONS:
                    if str(table.get(name)) in values:
                        restrictions[f"{name.removeprefix('env.')}={table[name]} {effect}"] = None
        if restrictions:
            return f"{side.name}: {'; '.join(restrictions)}"
    return None


FAST_PATH_OFF = CaseDoubtKind(
    code="fast-path-off",
    subject="machines",
    severity="biased",
    means=(
        "A variable disables or restricts NVLink, shared memory, InfiniBand or GPUDirect, or GPUs "
        "exchange through gloo."
    ),
    effect="Communication uses a slower path than the machine has.",
    remedy="Unset it, unless you want to measure that path; `NCCL_DEBUG=INFO` shows the path in use.",
    evidence=fast_path_off,
)


def other_transport(case: Case) -> str | None:
    """NCCL was configured for one transport between nodes, and its log reports another."""
    for side in case.sides:
        for sample in side.group.samples:
            mismatch = asked_and_used(sample.result)
            if mismatch:
                return f"{side.name}: {mismatch}"
    return None


OTHER_TRANSPORT = CaseDoubtKind(
    code="other-transport",
    subject="machines",
    severity="invalid",
    means=(
        "NCCL was configured to use TCP, InfiniBand or GPUDirect RDMA between nodes, and its log reports "
        "another transport for some links."
    ),
    effect=(
        "The result is listed under a mode that was not measured: sockets have a tenth of InfiniBand's rate."
    ),
    remedy=(
        "Read the network messages in the log of rank 0. Make sure that the pod or process has the device "
        "(/dev/infiniband), the right to lock memory (memlock, IPC_LOCK) and, for GPUDirect, nvidia-peermem "
        "or DMA-BUF; then run again and check the table of links."
    ),
    evidence=other_transport,
)


def asked_and_used(result: Result) -> str:
    """`requested gpudirect, but NCCL reports 16 links by sockets`; "" if it used what was requested."""
    facts = result.reading.facts
    kinds = _MEANT.get(str(facts.get("nccl_mode")), ())
    used = {
        name.removeprefix("nccl_links."): int(str(links))
        for name, links in facts.items()
        if name.startswith("nccl_links.")
    }
    others = {kind: links for kind, links in used.items() if kind in _BETWEEN_NODES - set(kinds)}
    if not kinds or not others:
        return ""
    links_used = ", ".join(f"{counted(links, 'link')} by {kind}" for kind, links in others.items())
    return f"requested {facts['nccl_mode']}, but NCCL reports {links_used}"


def fast_path_unused(case: Case) -> str | None:
    """Bus bandwidth so low that GPUs or nodes can't have used the fastest path between them."""
    slow_path = _worker_cost(case)
    for side in () if slow_path else case.sides:
        slow_path = _against_links(side)
        if slow_path:
            break
    if not slow_path:
        return None
    return slow_path


FAST_PATH_UNUSED = CaseDoubtKind(
    code="fast-path-unused",
    subject="machines",
    severity="biased",
    means=(
        "The bus bandwidth of a large all-reduce (16 MiB or more) is below half of the published value for "
        "the same number of the same GPUs, below one PCIe 4.0 link between NVLink GPUs of one node, below a "
        "quarter of a node's active InfiniBand ports, or below half of what the same number of GPUs reaches "
        "in larger workers."
    ),
    effect=(
        "GPUs of a node in separate pods can use neither NVLink nor shared memory: on two nodes of eight "
        "V100, 16 single-GPU pods reached 5.7 GB/s at 256 MiB, and 2 pods of 8 GPUs reached 55.2 GB/s. Every "
        "step that exchanges gradients waits for it."
    ),
    remedy=(
        "Put the GPUs of a node in one pod, or give the pods a common IPC namespace and shared memory. "
        "Between nodes, make sure that /dev/infiniband exists and memory can be locked. `NCCL_DEBUG=INFO` "
        "shows the path in use."
    ),
    evidence=fast_path_unused,
)


def _worker_cost(case: Case) -> str:
    """Two layouts with the same number of ranks, where the one with smaller workers has less than half."""
    if len(case.sides) != 2 or not all(map(_is_large_busbw, case.sides)):
        return ""
    few, many = sorted(case.sides, key=lambda side: _shape(side).workers)
    if _shape(few).ranks != _shape(many).ranks or _shape(few).workers == _shape(many).workers:
        return ""
    fast, slow = mean(few.group.values), mean(many.group.in_unit(few.group.point.unit).values)
    if slow * 2 > fast:
        return ""
    unit = few.group.point.unit
    return (
        f"{_shape(many)} has {human(slow, unit)} and {_shape(few)} has {human(fast, unit)}, "
        f"{fast / slow:.1f} times as much: {_LOST}"
    )


def _against_links(side: Side) -> str:
    """Bus bandwidth below what the node's links provide; "" if it is not, or if nothing is known."""
    if not _is_large_busbw(side):
        return ""
    rate = convert(mean(side.group.values), side.group.point.unit, "B/s")
    result, shape = side.group.samples[0].result, _shape(side)
    tables = probed(result)
    nodes = shape.nodes or len(tables)
    name = accelerator_name(result) or ""
    known = matching("allreduce", "busbw", name, "", shape.ranks, nodes)
    if known and rate * 2 < min(reference.value for reference in known):
        apart = f"; {_LOST}" if shape.workers > nodes else ""
        return (
            f"{side.name}: {human(rate, 'B/s')} between {shape.ranks} GPUs on {counted(nodes, 'node')}; "
            f"{human(known[0].value, 'B/s')} is published ({known[0].what}; {known[0].source}){apart}"
        )
    if nodes == 1 and shape.ranks > 1 and _has_nvlink(name) and rate < PCIE_4_X16:
        return (
            f"{side.name}: {human(rate, 'B/s')} between {shape.ranks} GPUs of one node, less than one PCIe "
            f"4.0 link ({human(PCIE_4_X16, 'B/s')}), on GPUs that have NVLink"
        )
    links = [link for table in tables if _has_infiniband(table) and (link := fabrics.of_node(table))]
    if nodes > 1 and links and rate * 4 < min(link.bytes_per_s for link in links):
        slowest = min(links, key=lambda link: link.bytes_per_s)
        return (
            f"{side.name}: {human(rate, 'B/s')} between {nodes} nodes that each have {slowest.ports} "
            f"({human(slowest.bytes_per_s, 'B/s')}): typical of sockets, or of only a few of the ports"
        )
    return ""


def _is_large_busbw(side: Side) -> bool:
    point = side.group.point
    size = point.labels.get("payload_bytes")
    return (
        point.metric == "busbw"
        and isinstance(size, int | float)
        and size >= LARGE_BYTES
        and min(side.group.values) > 0
        and accelerator_name(side.group.samples[0].result) is not None
    )


def _has_nvlink(name: str) -> bool:
    """Whether all GPUs of a node have NVLink, by the board's name: SXM, or the kind of memory."""
    return bool(re.search(r"SXM|HBM3|\bH200\b(?! NVL)|B200", name))


def _has_infiniband(table: Mapping[str, Scalar]) -> bool:
    return any(name.startswith("infiniband.") for name in table)


def _shape(side: Side) -> Shape:
    return Shape.parse(side.group.point.shape)
