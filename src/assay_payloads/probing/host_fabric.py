"""InfiniBand and RoCE on the host: ports, subnet manager, verbs devices, GPUDirect RDMA."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from assay_payloads.keeping.file_tree import FileTree

DEVICES, VERBS = "/sys/class/infiniband", "/dev/infiniband"
PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
ToolOutput = Callable[..., "str | None"]  # like `Tools.output_of`, which tests replace

TOOL_PATIENCE_S = 10.0  # without a subnet manager, `sminfo` waits forever


def fabric(tree: FileTree, output_of: ToolOutput) -> Iterator[tuple[str, Any]]:
    """What the probe omits about ports: `fabric.DEVICE.portN.phys_state` and `.sm_lid`; the verbs devices.

    sm_lid is the subnet manager's address, 0 if none has configured the port. `fabric.manager` is what
    `sminfo` says and `fabric.hosts` how many hosts `ibhosts` lists, if these programs are installed.
    """
    names = tree.names(DEVICES)
    yield "fabric.devices", len(names)
    for name in names:
        for port in tree.names(f"{DEVICES}/{name}/ports"):
            place, called = f"{DEVICES}/{name}/ports/{port}", f"fabric.{name}.port{port}"
            yield f"{called}.phys_state", tree.text(f"{place}/phys_state")
            manager = tree.text(f"{place}/sm_lid") or ""
            yield f"{called}.sm_lid", int(manager, 16) if re.fullmatch(r"0x[0-9a-f]+", manager) else None
    loaded = [name for name in PEER_MEMORY if tree.has(f"/sys/module/{name}")]
    yield "fabric.peer_memory", loaded[0] if loaded else None
    if names:
        yield from verbs(tree)
        yield "fabric.manager", " ".join((output_of("sminfo") or "").split())
        hosts = re.findall(r'^Ca\s*:.*ports \d+ "(\S+)', output_of("ibhosts") or "", re.MULTILINE)
        yield "fabric.hosts", len(set(hosts)) or None


def verbs(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """How many verbs devices exist, and how many of them this user can open."""
    devices = tree.names(VERBS, r"uverbs\d+$")
    yield "verbs.devices", len(devices)
    opened = 0
    for name in devices:
        try:
            os.close(os.open(tree.path(f"{VERBS}/{name}"), os.O_RDWR | os.O_CLOEXEC))
            opened += 1
        except OSError as error:
            yield "verbs.refused", f"{VERBS}/{name}: {error.strerror}"
    yield "verbs.opened", opened
    yield "verbs.connection_manager", tree.has(f"{VERBS}/rdma_cm")


class Tools:
    """Runs programs, and records failures."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def output_of(self, *argv: str, fine: tuple[int, ...] = (0,)) -> str | None:
        """A program's output; None if it is not installed, or failed, which `refused` then records.

        fine  exit codes that don't mean failure
        """
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, errors="replace", timeout=TOOL_PATIENCE_S, check=False
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            return None
        except subprocess.TimeoutExpired:
            self.refused.append(f"{' '.join(argv)}: no answer within {TOOL_PATIENCE_S:g} s")
            return None
        if done.returncode not in fine:
            why = " ".join((done.stderr.strip() or done.stdout.strip()).split())[:200]
            self.refused.append(f"{' '.join(argv)}: exit code {done.returncode}: {why}")
            return None
        return done.stdout
