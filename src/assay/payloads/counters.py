"""What the kernel of this node counts: looked at before and after a job, the difference is what it met.

Lies beside keeper.py, which imports it; runs with the standard library alone (3.9 or newer). Looking takes
about a millisecond. What this kernel does not count is absent, never 0, and so is a count that ran backwards
(CPUs taken off-line, a group made anew). Times are in seconds.

Sources: proc(5) for /proc/stat and /proc/vmstat; the kernel's Documentation/accounting/psi.rst,
scheduler/sched-bwc.rst, admin-guide/cgroup-v2.rst; arch/x86/kernel/cpu/mce/therm_throt.c.
"""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Iterator
from typing import Any

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CPUS = "/sys/devices/system/cpu"

NO_LIMIT_BYTES = 1 << 60  # version 1 has a number for none: nearly 2^63

NO_COUNTS = ("groups", "cpu_set")

Look = dict[str, Any]
"""Counts since the node or this process started, by name; `groups` by directory of a group with a quota;
`cpu_set`: whose counts they are."""


def look(root: str = "") -> Look:
    """All counters now. root stands before every path of the kernel's."""
    allowed = os.sched_getaffinity(0)
    return {
        "elapsed_s": time.monotonic(),
        **job_use(),
        **cpu_times(root, allowed),
        **pressures(root),
        **swapping(root),
        **heat(root, allowed),
        **cpu_set(root),
        "groups": dict(groups_with_quota(root)),
    }


def between(before: Look, after: Look) -> dict[str, Any]:
    """What was counted between two looks, as `NodeCounts` has it."""
    counted = {
        name: round(after[name] - count, 6)
        for name, count in before.items()
        if name not in NO_COUNTS and name in after and after[name] >= count
    }
    whose = {"cpus": len(os.sched_getaffinity(0)), **{k: after[k] for k in ("cpu_set",) if k in after}}
    return {**whose, **counted, **throttling(before["groups"], after["groups"])}


def throttling(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The tightest quota, and what the group that was stopped longest counted; nothing without a quota."""
    counts = [
        {name: count - was[name] for name, count in after[path].items() if name in was and name != "cores"}
        for path, was in before.items()
        if path in after
    ]
    worst = max(counts, key=lambda count: count.get("throttled_s", 0), default={})
    cores = min((group["cores"] for group in before.values()), default=None)
    return {} if cores is None else {"quota_cores": cores, **worst}


# Counters ------------------------------------------------------------------------------------------------


def job_use() -> dict[str, float]:
    """CPU time and page faults from the disk of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "job_cpu_s": sum(use.ru_utime + use.ru_stime for use in used),
        "job_major_faults": sum(use.ru_majflt for use in used),
    }


def cpu_set(root: str) -> dict[str, str]:
    """Which CPUs of which running kernel: parts of a job that tell the same use the same ones."""
    boot = read(f"{root}/proc/sys/kernel/random/boot_id").strip()
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", read(f"{root}/proc/self/status"), re.MULTILINE)
    return {"cpu_set": f"{boot} {allowed[1]}"} if boot and allowed is not None else {}


def cpu_times(root: str, cpus: set[int]) -> dict[str, float]:
    """Seconds that these CPUs were busy with anything, and that their host withheld from them.

    Nothing where they were never busy: some sandboxes show zeros for what they don't tell.
    """
    busy = stolen = 0
    lines = [line.split() for line in read(f"{root}/proc/stat").splitlines() if line.startswith("cpu")]
    for name, *fields in lines:
        if name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    return {"busy_cpu_s": busy / TICKS_PER_S, "stolen_cpu_s": stolen / TICKS_PER_S} if busy else {}


def pressures(root: str) -> dict[str, float]:
    """Seconds in which some task of the node waited for a CPU, and for memory."""
    found = {}
    for name, kind in (("cpu_wait_s", "cpu"), ("memory_wait_s", "memory")):
        total = re.search(r"some .*total=(\d+)", read(f"{root}/proc/pressure/{kind}"))
        if total is not None:
            found[name] = int(total[1]) / 1e6
    return found


def swapping(root: str) -> dict[str, int]:
    """Bytes that the node read from and wrote to its swap."""
    counts = dict(line.split() for line in read(f"{root}/proc/vmstat").splitlines())
    names = {"swapped_in_bytes": "pswpin", "swapped_out_bytes": "pswpout"}
    return {ours: int(counts[name]) * PAGE_BYTES for ours, name in names.items() if name in counts}


def heat(root: str, cpus: set[int]) -> dict[str, float]:
    """How often and how long the packages of these CPUs were slowed down for heat, all together."""
    found: dict[str, float] = {}
    left = set(cpus)
    while left:
        cpu = f"{root}{CPUS}/cpu{min(left)}"
        left -= {min(left)} | listed(read(f"{cpu}/topology/package_cpus_list"))
        for name, count, scale in (("heat_events", "count", 1), ("heat_s", "total_time_ms", 1e-3)):
            text = read(f"{cpu}/thermal_throttle/package_throttle_{count}")
            if text:
                found[name] = found.get(name, 0) + int(text) * scale
    return found


def listed(text: str) -> set[int]:
    """The numbers in the kernel's notation of a set: `0-3,8`."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}


# Groups --------------------------------------------------------------------------------------------------


def groups_with_quota(root: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Each cgroup around this process that has a CPU quota: its cores' worth of time, and its counts."""
    for path in group_paths(root):
        cores = quota_cores(path)
        if cores is not None:
            yield path, {"cores": cores, **throttled(path)}


def quota_cores(path: str) -> float | None:
    """Cores' worth of time that a group allows, of version 2 or 1; None without a limit."""
    limit = read(f"{path}/cpu.max").split() or [
        read(f"{path}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")
    ]
    unlimited = not limit[0].isdigit() or int(limit[0]) <= 0  # "max", "-1", "" where there is no such file
    return None if unlimited else int(limit[0]) / int(limit[1])


def throttled(path: str) -> dict[str, float]:
    """Periods, those in which the group was stopped, and for how long, all its CPUs together."""
    counts = dict(line.split() for line in read(f"{path}/cpu.stat").splitlines())
    names = {
        "periods": ("nr_periods", 1),
        "throttled_periods": ("nr_throttled", 1),
        "throttled_s": ("throttled_usec", 1e-6) if "throttled_usec" in counts else ("throttled_time", 1e-9),
    }
    return {ours: int(counts[name]) * scale for ours, (name, scale) in names.items() if name in counts}


def memory_groups(root: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Each cgroup around this process with a memory limit: the limit, the most that was used, both bytes,
    and how many processes the kernel killed in it for want of memory.
    """
    for path in group_paths(root, "memory"):
        limit = read_first(f"{path}/memory.max", f"{path}/memory.limit_in_bytes")
        used = read_first(f"{path}/memory.peak", f"{path}/memory.max_usage_in_bytes")
        kills = re.search(
            r"oom_kill (\d+)", read_first(f"{path}/memory.events", f"{path}/memory.oom_control")
        )
        if limit.isdigit() and int(limit) < NO_LIMIT_BYTES and kills is not None:
            peak = {"used_bytes": int(used)} if used else {}
            yield path, {"limit_bytes": int(limit), "oom_kills": int(kills[1]), **peak}


def group_paths(root: str, controller: str = "cpu") -> list[str]:
    """Directories of a controller for this process's group and all above it, versions 1 and 2.

    In a container the mount shows only the container's own part, while the path may be the host's: the part
    that the mount hides is cut off, and the mount itself always counts.
    """
    mounts = {}  # the line's name of the hierarchy in /proc/self/cgroup → root of the mount, its place
    for line in read(f"{root}/proc/self/mountinfo").splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(" ")[-1].split(",")):
            mounts[controller if kind == "cgroup" else ""] = fields.split(" ")[3:5]
    paths = []
    for line in read(f"{root}/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        for name in set(names.split(",")) & set(mounts):
            above, place = mounts[name]
            inside = path[len(above) :] if above != "/" and path.startswith(above) else path
            parts = [part for part in inside.split("/") if part not in ("", "..")]
            paths += ["/".join([root + place, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return paths


def read(path: str) -> str:
    """A small file of the kernel's; "" where this kernel has none or does not tell."""
    try:
        with open(path) as file:  # noqa: PTH123 - as cheap as it can be
            return file.read()
    except OSError:
        return ""


def read_first(*paths: str) -> str:
    """The first of these files that says something: version 2 of the kernel's groups, then version 1."""
    return next((text for path in paths if (text := read(path).strip())), "")
