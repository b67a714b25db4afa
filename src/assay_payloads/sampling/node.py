"""A node's counters, and those of the job on it, in one row of numbers.

Sources: proc(5) for /proc/stat, meminfo, net/dev, PID/stat and PID/io; the kernel's
Documentation/admin-guide/iostats.rst for diskstats, accounting/psi.rst, infiniband/sysfs.rst: port_xmit_data
counts in units of four bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from assay_payloads.keeping import cgroups
from assay_payloads.keeping.counters import PAGE_BYTES, TICKS_PER_S, throttled, waited_s
from assay_payloads.keeping.file_tree import FileTree, keyed_lines

SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own sectors are
INFINIBAND = "/sys/class/infiniband"
LOOK_BELOW_EVERY = 10  # samples; in between, only children of known processes' first threads are looked for
PORT_ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
COLUMNS = (
    "cpu_busy_seconds_total",
    "cpu_iowait_seconds_total",
    "cpu_stolen_seconds_total",
    "cpu_throttled_seconds_total",
    "cpu_pressure_seconds_total",
    "memory_pressure_seconds_total",
    "io_pressure_seconds_total",
    "memory_available_bytes",
    "memory_page_cache_bytes",
    "job_cpu_seconds_total",
    "job_memory_bytes",
    "job_processes",
    "job_read_bytes_total",
    "job_written_bytes_total",
    "network_received_bytes_total",
    "network_sent_bytes_total",
    "infiniband_received_bytes_total",
    "infiniband_sent_bytes_total",
    "infiniband_errors_total",
    "disk_read_bytes_total",
    "disk_written_bytes_total",
)

Row = dict[str, float]


class NodeSource:
    """Reads this node, and a job's processes. What the kernel does not count here is unknown in each row."""

    columns = COLUMNS

    def __init__(self, tree: FileTree, job: JobProcesses) -> None:
        self._tree, self._job = tree, job
        self._groups = [path for path in cgroups.directories(tree, "cpu") if cgroups.quota_cores(tree, path)]
        self._interfaces = interfaces(tree)
        self._disks = {name for name in tree.names("/sys/block") if tree.has(f"/sys/block/{name}/device")}
        self._ports = [
            f"{INFINIBAND}/{device}/ports/{port}/counters"
            for device in tree.names(INFINIBAND)
            for port in tree.names(f"{INFINIBAND}/{device}/ports")
        ]

    def has_job(self) -> bool:
        """Whether the job's first process still runs."""
        return self._job.runs()

    def values(self) -> list[float | None]:
        """A value for each column, now; None if it is unknown."""
        self._tree.unreadable.clear()  # refused files are unknown values; over days, their list would grow
        row: Row = {
            **self._cpu(),
            **self._pressure(),
            **self._memory(),
            **self._job.values(),
            **self._network(),
            **self._infiniband(),
            **self._disk(),
        }
        return [row.get(column) for column in COLUMNS]

    def _cpu(self) -> Row:
        first = (self._tree.text("/proc/stat", 512) or "").split("\n", 1)[0].split()[1:]
        ticks = [int(field) for field in first]
        row = {}
        if len(ticks) >= 8 and any(ticks):  # some sandboxes show zeros for what they don't report
            user, nice, system, _idle, iowait, irq, softirq, steal = ticks[:8]
            row = {
                "cpu_busy_seconds_total": (user + nice + system + irq + softirq) / TICKS_PER_S,
                "cpu_iowait_seconds_total": iowait / TICKS_PER_S,
                "cpu_stolen_seconds_total": steal / TICKS_PER_S,
            }
        waits = [throttled(self._tree, path).get("throttled_s") for path in self._groups]
        known = [wait for wait in waits if wait is not None]
        return {**row, **({"cpu_throttled_seconds_total": max(known)} if known else {})}

    def _pressure(self) -> Row:
        row = {}
        for what in ("cpu", "memory", "io"):
            seconds = waited_s(self._tree.text(f"/proc/pressure/{what}"))
            if seconds is not None:
                row[f"{what}_pressure_seconds_total"] = seconds
        return row

    def _memory(self) -> Row:
        table = keyed_lines(self._tree.text("/proc/meminfo"))
        names = {"memory_available_bytes": "MemAvailable", "memory_page_cache_bytes": "Cached"}
        return {ours: int(table[name].split()[0]) * 1024.0 for ours, name in names.items() if name in table}

    def _network(self) -> Row:
        received = sent = 0
        for line in self._tree.lines("/proc/net/dev")[2:]:
            name, _, rest = line.partition(":")
            if name.strip() in self._interfaces:
                fields = rest.split()
                received, sent = received + int(fields[0]), sent + int(fields[8])
        names = ("network_received_bytes_total", "network_sent_bytes_total")
        return dict(zip(names, (received, sent))) if self._interfaces else {}  # noqa: B905 - newer than 3.9

    def _infiniband(self) -> Row:
        row: Row = {}
        for port in self._ports:
            counts = {
                "infiniband_received_bytes_total": (4, ("port_rcv_data",)),
                "infiniband_sent_bytes_total": (4, ("port_xmit_data",)),
                "infiniband_errors_total": (1, PORT_ERRORS),
            }
            for name, (scale, files) in counts.items():
                for file in files:
                    count = self._tree.number(f"{port}/{file}")
                    if count is not None:
                        row[name] = row.get(name, 0) + count * scale
        return row

    def _disk(self) -> Row:
        read = written = 0
        for line in self._tree.lines("/proc/diskstats"):
            fields = line.split()
            if fields[2] in self._disks:
                read, written = read + int(fields[5]), written + int(fields[9])
        names = ("disk_read_bytes_total", "disk_written_bytes_total")
        counts = (read * SECTOR_BYTES, written * SECTOR_BYTES)
        return dict(zip(names, counts)) if self._disks else {}  # noqa: B905


def interfaces(tree: FileTree) -> set[str]:
    """Network interfaces with hardware; in a container, which has none, all but the loopback."""
    names = tree.names("/sys/class/net")
    with_hardware = {name for name in names if tree.has(f"/sys/class/net/{name}/device")}
    return with_hardware or {name for name in names if name != "lo"}


class JobProcesses:
    """A process and everything below it, except this process.

    A process that has ended is counted in the times of its parent, which waits for it. CPU time therefore
    only decreases if a parent ends first, and a process outside the job inherits what ends after it.
    """

    def __init__(self, tree: FileTree, pid: int) -> None:
        self._tree, self._first, self._sample = tree, pid, 0
        self._started = self._start_ticks()
        self._below: set[int] = set()  # all others of the job
        self._transferred: dict[int, tuple[int, int]] = {}  # bytes, also of processes that have ended

    def runs(self) -> bool:
        """Whether the first process still runs; not if it is a zombie, or another got its process ID."""
        return self._started is not None and self._start_ticks() == self._started

    def values(self) -> Row:
        """CPU time, resident memory, number of processes, bytes read and written."""
        self._below = self._all_below() if self._sample % LOOK_BELOW_EVERY == 0 else self._children_too()
        self._sample += 1
        seconds = memory = count = 0
        for pid in (self._first, *self._below):
            fields = self._stat(pid)
            if not fields:
                self._below.discard(pid)
                continue
            seconds += sum(map(int, fields[11:15]))
            memory += int(fields[21])
            count += 1
            table = keyed_lines(self._tree.text(f"/proc/{pid}/io"))
            if "read_bytes" in table:
                self._transferred[pid] = (int(table["read_bytes"]), int(table["write_bytes"]))
        row = {
            "job_cpu_seconds_total": seconds / TICKS_PER_S,
            "job_memory_bytes": float(memory * PAGE_BYTES),
            "job_processes": float(count),
        }
        if self._transferred:
            read, written = map(sum, zip(*self._transferred.values()))  # noqa: B905
            row |= {"job_read_bytes_total": float(read), "job_written_bytes_total": float(written)}
        return row

    def _stat(self, pid: int) -> list[str]:
        """Fields of /proc/PID/stat from the state on; [] if there is no such process."""
        fields = (self._tree.text(f"/proc/{pid}/stat") or "").rpartition(") ")[2].split()
        return fields if len(fields) > 21 else []

    def _start_ticks(self) -> int | None:
        fields = self._stat(self._first)
        return int(fields[19]) if fields and fields[0] not in "ZX" else None

    def _all_below(self) -> set[int]:
        parents: dict[int, list[int]] = {}
        for name in self._tree.names("/proc", r"\d+$"):
            fields = self._stat(int(name))
            if fields:
                parents.setdefault(int(fields[1]), []).append(int(name))
        return self._closed(lambda pid: parents.get(pid, []), self._roots())

    def _roots(self) -> Iterable[int]:
        """Processes of the job that are not below the first one."""
        return ()

    def _children_too(self) -> set[int]:
        def children(pid: int) -> list[int]:
            named = self._tree.text(f"/proc/{pid}/task/{pid}/children") or ""
            return list(map(int, named.split()))

        return self._closed(children, self._below)

    def _closed(self, children: Callable[[int], list[int]], known: Iterable[int]) -> set[int]:
        closed, todo = set(known), [self._first, *known]
        while todo:
            for child in children(todo.pop()):
                if child not in closed and child != os.getpid():
                    closed.add(child)
                    todo.append(child)
        return closed - {self._first}
