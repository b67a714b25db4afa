"""What the kernel of this node counts, read before and after a job: the difference is what the job met.

Runs with only the standard library (3.9 or newer). Reading takes about a millisecond. What this kernel does
not count is absent, never 0, and so is a count that decreased (CPUs taken offline, a group re-created).
Times are in seconds.

Sources: proc(5) for /proc/stat and /proc/vmstat; the kernel's Documentation/accounting/psi.rst,
scheduler/sched-bwc.rst, scheduler/sched-stats.rst; arch/x86/kernel/cpu/mce/therm_throt.c.
"""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Iterator
from typing import Any

from assay_payloads.keeping import cgroups
from assay_payloads.keeping.file_tree import THIS_NODE, FileTree

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CPUS = "/sys/devices/system/cpu"

NO_COUNTS = ("groups", "cpu_set")

Look = dict[str, Any]
"""Counters since the node or this process started, by name; `groups`: by directory of a cgroup with a quota;
`cpu_set`: the CPUs that they cover."""


def look(tree: FileTree = THIS_NODE) -> Look:
    """All counters now."""
    allowed = os.sched_getaffinity(0)
    return {
        **cpu_times(tree, allowed),
        "elapsed_s": time.monotonic(),  # right after the CPUs' times: a delay between would look like use
        **job_use(),
        **pressures(tree),
        **queues(tree, allowed),
        **swapping(tree),
        **heat(tree, allowed),
        **cpu_set(tree),
        "groups": dict(groups_with_quota(tree)),
    }


def between(before: Look, after: Look) -> dict[str, Any]:
    """What was counted between two readings, in the form of `NodeCounts`."""
    counted = {
        name: round(after[name] - count, 6)
        for name, count in before.items()
        if name not in NO_COUNTS and name in after and after[name] >= count
    }
    whose = {"cpus": len(os.sched_getaffinity(0)), **{k: after[k] for k in ("cpu_set",) if k in after}}
    return {**whose, **counted, **throttling(before["groups"], after["groups"])}


def throttling(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The tightest quota, and the counts of the group that was throttled longest; empty without a quota."""
    counts = [
        {name: count - was[name] for name, count in after[path].items() if name in was and name != "cores"}
        for path, was in before.items()
        if path in after
    ]
    worst = max(counts, key=lambda count: count.get("throttled_s", 0), default={})
    cores = min((group["cores"] for group in before.values()), default=None)
    return {} if cores is None else {"quota_cores": cores, **worst}


def job_use() -> dict[str, float]:
    """CPU time and major page faults of this process and of all children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "job_cpu_s": sum(use.ru_utime + use.ru_stime for use in used),
        "job_major_faults": sum(use.ru_majflt for use in used),
    }


def resident_bytes(tree: FileTree) -> int:
    """Resident memory of this process now; 0 if the kernel does not report it."""
    fields = (tree.text("/proc/self/statm") or "").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def cpu_set(tree: FileTree) -> dict[str, str]:
    """Which CPUs of which booted kernel: parts of a job that report the same use the same CPUs."""
    boot = tree.text("/proc/sys/kernel/random/boot_id")
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", tree.text("/proc/self/status") or "", re.MULTILINE)
    return {"cpu_set": f"{boot} {allowed[1]}"} if boot and allowed is not None else {}


def cpu_times(tree: FileTree, cpus: set[int]) -> dict[str, float]:
    """Seconds that these CPUs were busy with anything, and that their host withheld from them.

    Empty if they were never busy: some sandboxes show zeros for what they don't report.
    """
    busy = stolen = 0
    lines = [line.split() for line in tree.lines("/proc/stat") if line.startswith("cpu")]
    for name, *fields in lines:
        if name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    return {"busy_cpu_s": busy / TICKS_PER_S, "stolen_cpu_s": stolen / TICKS_PER_S} if busy else {}


def pressures(tree: FileTree) -> dict[str, float]:
    """Seconds in which some task waited for a CPU, and for memory.

    For a CPU: from the innermost group around this process whose pressure is counted, otherwise from the
    node.
    """
    groups = (tree.text(f"{path}/cpu.pressure") for path in cgroups.directories(tree, "cpu"))
    own_group = next((text for text in groups if text), None)
    texts = {
        "cpu_wait_s": own_group or tree.text("/proc/pressure/cpu"),
        "memory_wait_s": tree.text("/proc/pressure/memory"),
    }
    return {name: waited for name, text in texts.items() if (waited := waited_s(text)) is not None}


def waited_s(pressure: str | None) -> float | None:
    """The total of a pressure file: seconds in which some task waited; None if it is not counted."""
    total = re.search(r"some .*total=(\d+)", pressure or "")
    return None if total is None else int(total[1]) / 1e6


def queues(tree: FileTree, cpus: set[int]) -> dict[str, float]:
    """Seconds that tasks waited in the run queues of these CPUs, summed over tasks."""
    waited_ns = [
        int(fields[8])  # after the name: 7 is the time that tasks ran, 8 the time that they waited
        for fields in map(str.split, tree.lines("/proc/schedstat"))
        if fields and fields[0][:3] == "cpu" and fields[0][3:].isdigit() and int(fields[0][3:]) in cpus
    ]
    return {"queue_wait_s": sum(waited_ns) / 1e9} if len(waited_ns) == len(cpus) else {}


def swapping(tree: FileTree) -> dict[str, int]:
    """Bytes that the node read from and wrote to its swap."""
    names = {"swapped_in_bytes": "pswpin", "swapped_out_bytes": "pswpout"}
    pages = virtual_memory_counts(tree, *names.values())
    return {ours: pages[name] * PAGE_BYTES for ours, name in names.items() if name in pages}


def virtual_memory_counts(tree: FileTree, *names: str) -> dict[str, int]:
    """These counts of /proc/vmstat, without those that this kernel lacks."""
    lines = rf"^({'|'.join(names)}) (\d+)$"
    matches = re.findall(lines, tree.text("/proc/vmstat") or "", re.MULTILINE)
    return {name: int(count) for name, count in matches}


def heat(tree: FileTree, cpus: set[int]) -> dict[str, float]:
    """How often and how long the packages of these CPUs were throttled because of heat, in total."""
    totals: dict[str, float] = {}
    left = set(cpus)
    while left:
        cpu = f"{CPUS}/cpu{min(left)}"
        left -= {min(left)} | listed(tree.text(f"{cpu}/topology/package_cpus_list") or "")
        for name, count, scale in (("heat_events", "count", 1), ("heat_s", "total_time_ms", 1e-3)):
            number = tree.number(f"{cpu}/thermal_throttle/package_throttle_{count}")
            if number is not None:
                totals[name] = totals.get(name, 0) + number * scale
    return totals


def listed(text: str) -> set[int]:
    """The numbers in the kernel's notation of a set: `0-3,8`."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}


def groups_with_quota(tree: FileTree) -> Iterator[tuple[str, dict[str, float]]]:
    """Each group around this process with a CPU quota: its quota in cores, and its counts."""
    for path in cgroups.directories(tree, "cpu"):
        cores = cgroups.quota_cores(tree, path)
        if cores is not None:
            yield path, {"cores": cores, **throttled(tree, path)}


def throttled(tree: FileTree, path: str) -> dict[str, float]:
    """Periods, periods in which the group was throttled, and for how long, over all its CPUs."""
    counts = dict(line.split() for line in tree.lines(f"{path}/cpu.stat"))
    names = {
        "periods": ("nr_periods", 1),
        "throttled_periods": ("nr_throttled", 1),
        "throttled_s": ("throttled_usec", 1e-6) if "throttled_usec" in counts else ("throttled_time", 1e-9),
    }
    return {ours: int(counts[name]) * scale for ours, (name, scale) in names.items() if name in counts}


def memory_groups(tree: FileTree) -> Iterator[tuple[str, dict[str, int]]]:
    """Each group around this process with a memory limit: the limit, the peak use, both in bytes,
    and how many processes the kernel killed in it because it ran out of memory.
    """
    for path in cgroups.directories(tree, "memory"):
        limit = cgroups.memory_limit_bytes(tree, path)
        events = tree.text(f"{path}/memory.events") or tree.text(f"{path}/memory.oom_control") or ""
        kills = re.search(r"oom_kill (\d+)", events)
        if limit is not None and kills is not None:
            peak = tree.number(f"{path}/memory.peak") or tree.number(f"{path}/memory.max_usage_in_bytes")
            used = {} if peak is None else {"used_bytes": peak}
            yield path, {"limit_bytes": limit, "oom_kills": int(kills[1]), **used}
