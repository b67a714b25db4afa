"""Checks of InfiniBand and RoCE: ports, subnet manager, GPUDirect RDMA, paths from GPU to adapter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.checks import Check, Facts, State, number, pci, text

# Nearest first. Source: legend of `nvidia-smi topo -m`
PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
FULL_LANES = "4X"  # the width of every adapter's cable; a bad cable falls back to fewer lanes
DMABUF_KERNEL = (5, 12)  # with the open kernel module. Source: NVIDIA, GPUDirect RDMA, "Using DMA-BUF"


def devices(facts: Facts) -> bool:
    """Whether there is an InfiniBand or RoCE device."""
    return bool(number(facts, "fabric.devices"))


def _ports(facts: Facts, fact: str) -> dict[str, str]:
    """`mlx5_0 port 1` → the fact as text, for ports that have it; from the probe or host_check.py."""
    values_by_port = {}
    for name, value in facts.items():
        match = re.fullmatch(rf"(?:infiniband|fabric)\.(.+)\.port(\d+)\.{fact}", name)
        if match is not None:
            values_by_port[f"{match[1]} port {match[2]}"] = str(value)
    return values_by_port


def ports(facts: Facts) -> Check:
    """Whether each port is up with all its lanes."""
    name = "fabric"
    if not devices(facts):
        return Check(name, "ok", "no InfiniBand or RoCE (/sys/class/infiniband); trials use TCP")
    states, rates = _ports(facts, "state"), _ports(facts, "rate")
    layers = _ports(facts, "link_layer")
    up = [port for port, state in states.items() if "ACTIVE" in state]
    active = ", ".join(f"{port} {rates.get(port, '')} {layers.get(port, '')}".strip() for port in up)
    waiting = [port for port, state in states.items() if "INIT" in state or "ARMED" in state]
    if waiting:
        evidence = f"{', '.join(waiting)} linked, but no subnet manager has brought it up"
        return Check(name, "fail", evidence, "see `subnet manager`; then as root: ibportstate, ibdiagnet")
    if not up:
        evidence = ", ".join(f"{port} {state}" for port, state in states.items()) or "devices without ports"
        return Check(
            name, "fail", evidence, "check cable and switch: ibstat, ibdiagnet; for RoCE: ip link set DEV up"
        )
    down = [port for port in states if port not in up]
    wide = [port for port in up if layers.get(port) == "InfiniBand"]  # Ethernet links may have one lane
    lame = [port for port in wide if "X " in rates.get(port, "") and FULL_LANES not in rates[port]]
    if lame:
        evidence = f"{active}; fewer lanes than {FULL_LANES} on {', '.join(lame)}"
        return Check(name, "warn", evidence, "replace the cable or use another port: ibdiagnet --lw 4x")
    if down:
        remedy = "connect it, or exclude it with NCCL_IB_HCA"
        return Check(name, "warn", f"{active}; not up: {', '.join(down)}", remedy)
    return Check(name, "ok", active)


def manager(facts: Facts) -> Check | None:
    """Whether a subnet manager has configured each InfiniBand port; Ethernet needs none."""
    name = "subnet manager"
    layers, lids = _ports(facts, "link_layer"), _ports(facts, "sm_lid")
    wanting = [port for port, layer in layers.items() if layer == "InfiniBand"]
    linked = [port for port in wanting if "LinkUp" in _ports(facts, "phys_state").get(port, "LinkUp")]
    if not linked:
        return None
    without = [port for port in linked if lids.get(port) == "0"]
    if without:
        remedy = "as root on one node, or on the switch: systemctl enable --now opensm"
        return Check(name, "fail", f"none has configured {', '.join(without)} (sm_lid is 0)", remedy)
    if any(port not in lids for port in linked):
        return Check(name, "unknown", "sm_lid can't be read for every port")
    configured = ", ".join(sorted({f"at lid {lids[port]}" for port in linked}))
    manager_name, hosts = text(facts, "fabric.manager"), number(facts, "fabric.hosts")
    manager_name = f"; {manager_name}" if manager_name else ""
    return Check(
        name, "ok", configured + manager_name + (f"; ibhosts lists {hosts:g} hosts" if hosts else "")
    )


def verbs(facts: Facts) -> Check | None:
    """Whether this user can open the devices that programs use to send."""
    if not devices(facts):
        return None
    name, inside = "verbs devices", text(facts, "container") is not None
    there, opened = number(facts, "verbs.devices"), number(facts, "verbs.opened")
    if not there:
        remedy = "as root: modprobe ib_uverbs; install rdma-core"
        if inside:
            remedy = (
                "pass them to the container: --device=/dev/infiniband; in a pod, request the device plugin's "
                "rdma/… resource"
            )
        return Check(name, "fail", "none in /dev/infiniband: NCCL silently falls back to TCP", remedy)
    if opened != there:
        remedy = (
            "as root: udevadm trigger, with rdma-core's rules; until then: chmod 0666 /dev/infiniband/uverbs*"
        )
        evidence = f"{opened or 0:g} of {there:g} can be opened; {text(facts, 'verbs.refused')}"
        return Check(name, "fail", evidence, remedy)
    manager_there = facts.get("verbs.connection_manager")
    more = "" if manager_there else "; no rdma_cm, which ib_write_bw -R and MPI's rdmacm need"
    return Check(name, "ok", f"{there:g} in /dev/infiniband can be opened{more}")


def direct(facts: Facts) -> Check | None:
    """Whether adapters can reach GPU memory, through DMA-BUF or a peer memory module."""
    name, driver = "GPUDirect RDMA", text(facts, "driver.loaded")
    if driver is None or not devices(facts):
        return None
    module, flavor = text(facts, "fabric.peer_memory"), text(facts, "driver.flavor")
    if module is not None:
        return Check(name, "ok", f"module {module} is loaded")
    kernel = re.match(r"(\d+)\.(\d+)", text(facts, "kernel") or "")
    if kernel is None or flavor is None:
        return Check(name, "unknown", "no peer memory module; the kernel version or driver flavor is unknown")
    version = int(kernel[1]), int(kernel[2])
    if flavor == "open" and version >= DMABUF_KERNEL:
        return Check(name, "ok", f"through DMA-BUF: open driver {driver}, kernel {kernel[0]}")
    evidence = f"neither nvidia_peermem nor DMA-BUF: {flavor} driver {driver}, kernel {kernel[0]}"
    remedy = "as root: modprobe nvidia-peermem; or the open kernel module on kernel 5.12 or newer"
    return Check(name, "warn", f"{evidence}: every message goes through host memory", remedy)


def affinity(facts: Facts) -> Check | None:
    """Which adapter is nearest to each GPU, and whether a GPU has none on its side of the machine."""
    name, near = "GPU to adapter", dict(_nearest(facts))
    if not near:
        if devices(facts) and pci.devices(facts, "gpu"):
            return Check(name, "unknown", "neither nvidia-smi topo -m nor sysfs shows the path between them")
        return None
    by_path: dict[str, list[str]] = {}
    for gpu, (path, nics) in near.items():
        by_path.setdefault(f"{'/'.join(nics)} ({path})", []).append(gpu)
    nearest = "; ".join(f"{', '.join(gpus)} → {nics}" for nics, gpus in by_path.items())
    evidence = f"{nearest}, from {text(facts, 'path.source')}"
    far = [gpu for gpu, (path, _) in near.items() if path == "SYS"]
    state: State = "warn" if far else "ok"
    if not far:
        return Check(name, state, evidence)
    remedy = (
        "move an adapter to a slot of that socket; on a virtual machine, use a GPU and an adapter of the "
        "same host NUMA node (assay cluster openstack)"
    )
    return Check(name, state, f"{evidence}; {', '.join(far)} only across sockets", remedy)


def _nearest(facts: Facts) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """GPU → its best path to an adapter, and the adapters at the end of such a path."""
    table: dict[str, dict[str, str]] = {}
    for name, value in facts.items():
        match = re.fullmatch(r"path\.(GPU\d+)\.(.+)", name)
        if match is not None:
            table.setdefault(match[1], {})[match[2]] = str(value)
    for gpu, path_by_nic in sorted(table.items(), key=lambda row: int(row[0][3:])):
        best = min(path_by_nic.values(), key=PATHS.index)
        yield gpu, (best, sorted(nic for nic, path in path_by_nic.items() if path == best))
