"""The control groups around this process, versions 1 and 2, and their limits.

Sources: the kernel's Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst, proc(5).
"""

from __future__ import annotations

import re
from functools import lru_cache

from assay_payloads.keeping.file_tree import FileTree, keyed_lines

NO_LIMIT_BYTES = 1 << 60  # version 1 uses a number for no limit: nearly 2^63


@lru_cache(maxsize=16)
def directories(tree: FileTree, controller: str) -> tuple[str, ...]:
    """The groups of a controller around this process: its own and all above it. Found once for each tree.

    In a container, the mount shows only the container's part, while the path may be the host's: the part
    that the mount hides is removed, and the mount itself always counts.
    """
    mounts: dict[str, tuple[str, str]] = {}  # controller, "" for version 2 → root of the mount, its path
    for line in tree.lines("/proc/self/mountinfo"):
        fields, _, tail = line.partition(" - ")
        kind, _, options = [*tail.split(" ", 2), "", ""][:3]
        place = fields.split(" ")[3:5]
        if kind == "cgroup2":
            mounts[""] = (place[0], place[1])
        elif kind == "cgroup" and controller in options.split(","):
            mounts[controller] = (place[0], place[1])
    dirs = []
    for line in tree.lines("/proc/self/cgroup"):
        _, names, path = line.split(":", 2)
        for name in {*names.split(",")} & {*mounts}:
            root, place_of = mounts[name]
            inside = path[len(root) :] if root != "/" and path.startswith(root) else path
            parts = [part for part in inside.split("/") if part not in ("", "..")]
            dirs += ["/".join([place_of, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return tuple(dirs)


def version(tree: FileTree) -> int | None:
    """The version of cgroups that limits the CPUs of this process; None if the kernel has none."""
    lines = tree.lines("/proc/self/cgroup")
    names = {name for line in lines for name in line.split(":", 2)[1].split(",")}
    return None if not names else 1 if "cpu" in names else 2


def cores(tree: FileTree) -> float | None:
    """CPU time that the tightest group allows, in cores; None if there is no limit."""
    quotas = (quota_cores(tree, path) for path in directories(tree, "cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def quota_cores(tree: FileTree, directory: str) -> float | None:
    """CPU time that one group allows, in cores; None without a limit: "max", -1, or no such file."""
    text = tree.text(f"{directory}/cpu.max") or " ".join(
        tree.text(f"{directory}/cpu.cfs_{name}_us") or "" for name in ("quota", "period")
    )
    match = re.fullmatch(r"([1-9]\d*) ([1-9]\d*)", text)
    return None if match is None else int(match[1]) / int(match[2])


def memory_bytes(tree: FileTree) -> int | None:
    """Memory that the tightest group allows, bytes; None if no group allows less than the machine has."""
    total = int(keyed_lines(tree.text("/proc/meminfo")).get("MemTotal", "0").split()[0]) * 1024
    limits = (memory_limit_bytes(tree, path) for path in directories(tree, "memory"))
    return min((limit for limit in limits if limit and limit < (total or NO_LIMIT_BYTES)), default=None)


def memory_limit_bytes(tree: FileTree, directory: str) -> int | None:
    """Memory that one group allows; None without a limit."""
    limit = tree.number(f"{directory}/memory.max")
    if limit is None:
        limit = tree.number(f"{directory}/memory.limit_in_bytes")
    return limit if limit is not None and limit < NO_LIMIT_BYTES else None


def process_limit(tree: FileTree) -> int | None:
    """Processes and threads that the tightest group allows; None without a limit."""
    limits = (tree.number(f"{path}/pids.max") for path in directories(tree, "pids"))
    return min((limit for limit in limits if limit is not None), default=None)
