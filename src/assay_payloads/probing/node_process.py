"""What the probe's process may use of its node: limits, and signs of a container around it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import Any

from assay_payloads.keeping import cgroups
from assay_payloads.keeping.file_tree import FileTree, keyed_lines


def limits(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Cores, memory, files, and locked memory that this process may use."""
    yield "cpu.allowed", len(os.sched_getaffinity(0))
    status = keyed_lines(tree.text("/proc/self/status"))
    yield "cpu.allowed_list", status.get("Cpus_allowed_list")
    yield "cpu.quota", cgroups.cores(tree)
    yield "memory.limit_bytes", cgroups.memory_bytes(tree)
    yield "cgroup.version", cgroups.version(tree)
    for name, limit in (
        ("nofile{}", resource.RLIMIT_NOFILE),
        ("memlock{}_bytes", resource.RLIMIT_MEMLOCK),
        ("stack{}_bytes", resource.RLIMIT_STACK),
    ):
        soft, hard = ("unlimited" if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(limit))
        yield f"limits.{name.format('')}", soft
        yield f"limits.{name.format('_hard')}", hard


def container(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Signs of a container around this process, and the file systems it works on."""
    groups = tree.text("/proc/self/cgroup") or ""
    signs = {
        "docker": tree.has("/.dockerenv") or "docker" in groups,
        "podman": tree.has("/run/.containerenv") or "libpod" in groups,
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ or "kubepods" in groups,
        "apptainer": "APPTAINER_NAME" in os.environ or "SINGULARITY_NAME" in os.environ,
        "lxc": "lxc" in groups,
    }
    kinds = {name for name, present in signs.items() if present} | {tree.text("/run/systemd/container") or ""}
    yield "container", ",".join(sorted(kinds - {""}))
    here = os.getcwd()  # noqa: PTH109
    mounts = {}
    for line in tree.lines("/proc/self/mountinfo"):
        fields, _, tail = line.partition(" - ")
        mounts[fields.split(" ")[4]] = tail.split(" ")[0]
    around = [place for place in mounts if (here + "/").startswith(place.rstrip("/") + "/")]
    yield "disk.filesystem", mounts[max(around, key=len)] if around else None
    space = os.statvfs(here)
    yield "disk.free_bytes", space.f_bavail * space.f_frsize
