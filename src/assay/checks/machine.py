"""Checks of the machine itself: what slows or disturbs trials, and what limits them."""

from __future__ import annotations

from assay.checks import Check, Facts, State, fitting, number, text
from assay.units import human

GIB = 2**30
LITTLE_MEMORY_BYTES, TOO_LITTLE_MEMORY_BYTES = 4e9, 2e9  # a process that trains ResNet-50 uses 2 to 4 GB
LITTLE_DISK_BYTES, TOO_LITTLE_DISK_BYTES = 10e9, 1e9
LITTLE_FILES, TOO_FEW_FILES = 1024, 256
BUSY_LOAD_PER_CORE = 0.25
# NVIDIA starts its own training containers with --shm-size=1g --ulimit memlock=-1 (NCCL user guide)
SHM_BYTES, SHM_BYTES_PER_GPU = GIB, GIB // 8
READ_WITHOUT_SYSTEM_CALL = {"tsc", "kvm-clock", "arch_sys_counter", "timebase", "hyperv_clocksource_tsc_page"}
SLOW_CLOCKS = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"}
CLOCK_FILE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_DATA = "data"
_FEWEST_ROUNDS = 3  # needed for a verdict
_MEASURE_MORE = "for a more precise measurement, use assay run with the workload `disk`"


def cores(facts: Facts) -> Check:
    """Cores that a process may use, and whether a quota throttles it."""
    logical, allowed = number(facts, "cpu.logical"), number(facts, "cpu.allowed")
    quota = number(facts, "cpu.quota")
    if allowed is None:
        return Check("cores", "unknown", "the number of allowed cores could not be read")
    evidence = f"{allowed:g} allowed" + ("" if logical is None else f" of {logical:g}")
    if quota is not None and quota < allowed:
        remedy = fitting(
            facts,
            here="allot whole cores instead of a share of time: docker --cpuset-cpus, or cpuset.cpus",
            container="set `cpuset: 0-7` instead of cpus for the system in systems.yaml",
            pod="set `pin_cpus: true` for the system, and a whole number for cpu under resources; needs "
            "nodes with the static CPU manager",
        )
        return Check("cores", "warn", f"{evidence}, throttled to the time of {quota:g} cores", remedy)
    if allowed < 2:
        remedy = "allow more cores; until then, measure with one worker only (`shapes: [1x1]`)"
        return Check("cores", "warn", f"{evidence}: two processes would share it", remedy)
    return Check("cores", "ok", evidence)


def memory(facts: Facts) -> Check:
    """Memory that a process may use, and how much of it is free now."""
    total, limit = number(facts, "memory.total_bytes"), number(facts, "memory.limit_bytes")
    free = number(facts, "memory.available_bytes")
    if total is None:
        return Check("memory", "unknown", "its size could not be read")
    allowed = total if limit is None else min(total, limit)
    evidence = human(allowed, "B") + (
        "" if limit is None else f" (a cgroup's limit; {human(total, 'B')} here)"
    )
    if free is not None:
        evidence += f", {human(free, 'B')} free on the machine"
    usable = allowed if free is None else min(allowed, free)
    if usable < LITTLE_MEMORY_BYTES:
        state: State = "fail" if usable < TOO_LITTLE_MEMORY_BYTES else "warn"
        remedy = "see what uses it: ps aux --sort=-rss | head; raise the cgroup's limit, or reduce batch_size"
        return Check("memory", state, evidence, remedy)
    return Check("memory", "ok", evidence)


def load(facts: Facts) -> Check:
    """Whether something else keeps the cores busy."""
    average, allowed = number(facts, "load.1min"), number(facts, "cpu.allowed")
    if average is None or allowed is None:
        return Check("load", "unknown", "the load average could not be read")
    evidence = f"{average:g} over the last minute on {allowed:g} cores"
    if average > BUSY_LOAD_PER_CORE * allowed:
        return Check("load", "warn", f"{evidence}: something else is running", "ps aux --sort=-pcpu | head")
    return Check("load", "ok", evidence)


def clock_source(facts: Facts) -> Check:
    """Whether reading the clock is fast, or needs a system call or a slow timer."""
    source = text(facts, "clock.source")
    if source in READ_WITHOUT_SYSTEM_CALL:
        return Check("clock source", "ok", source)
    if source not in SLOW_CLOCKS:
        return Check("clock source", "unknown", f"{source or 'could not be read'}; its speed is unknown")
    if "tsc" in (text(facts, "clock.available") or "").split():
        remedy = f"as root: echo tsc > {CLOCK_FILE}"
    else:
        remedy = "the kernel refuses tsc: dmesg | grep -i tsc says why"
    return Check("clock source", "warn", f"{source}: each clock reading takes microseconds", remedy)


def governor(facts: Facts) -> Check:
    """Whether the cores stay at their highest frequency."""
    name, current, under = "cpu governor", text(facts, "cpu.governor"), text(facts, "virtualisation")
    if current == "performance":
        return Check(name, "ok", current)
    if current is not None:
        remedy = "as root: cpupower frequency-set --governor performance"
        return Check(name, "warn", f"{current}: the frequency follows the load", remedy)
    if under not in (None, "none"):
        remedy = "ask the host's administrator for the governor `performance`"
        return Check(
            name, "unknown", f"not visible in a virtual machine ({under}); the host controls it", remedy
        )
    return Check(name, "unknown", "the kernel does not report a governor")


def smt(facts: Facts) -> Check:
    """Whether hardware threads share cores."""
    active, logical, physical = facts.get("cpu.smt"), number(facts, "cpu.logical"), number(facts, "cpu.cores")
    if active is None:
        return Check("smt", "unknown", "the kernel does not say whether threads share a core")
    if active is False:
        return Check("smt", "ok", "off: each thread has its own core")
    shared = "on" if logical is None or physical is None else f"on: {logical:g} threads on {physical:g} cores"
    remedy = "set `pin_cpus: true` for the system; or as root: echo off > /sys/devices/system/cpu/smt/control"
    return Check("smt", "warn", f"{shared}, so processes may slow each other", remedy)


def disk(facts: Facts) -> Check:
    """Free space where runs are kept, and whether temporary files can be written."""
    if (error := text(facts, "disk.temporary_error")) is not None:
        why, _, remedy = error.partition(": ")
        return Check("disk", "fail", why, remedy)
    free, kind = number(facts, "disk.free_bytes"), text(facts, "disk.filesystem")
    if free is None:
        return Check("disk", "unknown", "the free space where runs are kept could not be read")
    evidence = f"{human(free, 'B')} free where runs are kept" + ("" if kind is None else f" ({kind})")
    if free < LITTLE_DISK_BYTES:
        state: State = "fail" if free < TOO_LITTLE_DISK_BYTES else "warn"
        return Check(
            "disk", state, evidence, "free up space, or keep runs elsewhere: export ASSAY_RUNS=/path/to/runs"
        )
    return Check("disk", "ok", evidence)


def open_files(facts: Facts) -> Check:
    """Files and sockets that a process may have open."""
    soft, hard = number(facts, "limits.nofile"), number(facts, "limits.nofile_hard")
    if facts.get("limits.nofile") == "unlimited":
        return Check("open files", "ok", "unlimited")
    if soft is None:
        return Check("open files", "unknown", "the limit could not be read")
    if soft >= LITTLE_FILES:
        return Check("open files", "ok", f"{soft:,.0f} allowed")
    remedy = "ulimit -n 65536"
    if hard is not None and hard < LITTLE_FILES:
        remedy = "as root: echo '* - nofile 65536' >> /etc/security/limits.conf, then log in again"
    state: State = "fail" if soft < TOO_FEW_FILES else "warn"
    return Check(
        "open files", state, f"{soft:,.0f} allowed; jobs with many processes open more sockets", remedy
    )


def locked_memory(facts: Facts) -> Check:
    """Memory that may be locked: InfiniBand and RoCE register every buffer they use."""
    limit = facts.get("limits.memlock_bytes")
    if limit is None:
        return Check("locked memory", "unknown", "the limit could not be read")
    if limit == "unlimited":
        return Check("locked memory", "ok", "unlimited")
    evidence = f"{human(number(facts, 'limits.memlock_bytes') or 0.0, 'B')} allowed"
    if not any(name.startswith("infiniband.") for name in facts):
        return Check("locked memory", "ok", f"{evidence}; enough without InfiniBand")
    by_hand = "start the container with docker run --ulimit memlock=-1 …"
    of_host = "as root: echo '* - memlock unlimited' >> /etc/security/limits.conf, then log in again"
    remedy = fitting(
        facts,
        here=of_host if text(facts, "container") is None else by_hand,
        container="set `ulimits: {memlock: -1}` for the system in systems.yaml",
        pod="set `capabilities: [IPC_LOCK]` for the system in systems.yaml",
    )
    return Check("locked memory", "fail", f"{evidence}, but InfiniBand locks every buffer it uses", remedy)


def shared_memory(facts: Facts) -> Check:
    """Size of /dev/shm, which processes on a node use to exchange data."""
    size, free = number(facts, "shm.size_bytes"), number(facts, "shm.free_bytes")
    name = "/dev/shm"  # noqa: S108 - a word on the screen
    if size is None or free is None:
        return Check(name, "unknown", "its size could not be read")
    needed = max(SHM_BYTES, SHM_BYTES_PER_GPU * (number(facts, "gpu.count") or 0))
    evidence = f"{human(free, 'B')} free of {human(size, 'B')}"
    if free >= needed:
        return Check(name, "ok", evidence)
    if size >= needed:
        return Check(name, "warn", evidence, "see what fills it: ls -lS /dev/shm | head")
    gib = f"{needed / GIB:g}"
    of_host = f"as root: mount -o remount,size={gib}G /dev/shm"
    remedy = fitting(
        facts,
        here=of_host if text(facts, "container") is None else f"docker run --shm-size={gib}g …",
        container=f"set `shm_size: {gib}g` for the system in systems.yaml",
        pod=f"set `shm: {gib}Gi` for the system in systems.yaml, with enough memory for it",
    )
    return Check(name, "warn", f"{evidence}; processes that exchange data through it may fail", remedy)


def surroundings(facts: Facts) -> Check:
    """What is between the trials and the hardware; recorded because it is part of what is measured."""
    under, container = text(facts, "virtualisation"), text(facts, "container")
    inside = f"container ({container})" if container is not None else "no sign of a container"
    if (version := number(facts, "cgroup.version")) is not None:
        inside += f", cgroup v{version:g}"
    if under is None:
        return Check("surroundings", "unknown", f"{inside}; can't tell whether the machine is virtual")
    machine = "no hypervisor" if under == "none" else f"virtual machine ({under})"
    return Check("surroundings", "ok", f"{machine}, {inside}")


def data_speed(facts: Facts, at_least: float | None) -> Check:
    """The speed at which a directory's files were read, compared with the required one, bytes/s."""
    where, error, rate = (facts.get(f"data.{name}") for name in ("directory", "error", "rate"))
    if error is not None:
        remedy = "check the path where the trials run: the system's volumes define what is mounted there"
        return Check(_DATA, "fail", str(error), remedy)
    low, high = number(facts, "data.rate_low"), number(facts, "data.rate_high")
    if not isinstance(rate, int | float) or low is None or high is None:
        return Check(_DATA, "unknown", text(facts, "data.unmeasured") or "its speed was not measured")
    read = (
        f"{human(number(facts, 'data.read_bytes') or 0.0, 'B')} of {_files(facts)} in "
        f"{where} ({text(facts, 'data.file_system')}), page cache {text(facts, 'data.page_cache')}"
    )
    spread = f"{human(low, 'B/s')} to {human(high, 'B/s')} in {facts.get('data.rates')} rounds"
    evidence = f"{human(rate, 'B/s')} ({spread}), {read}"
    if at_least is None:
        return Check(_DATA, "ok", evidence)
    evidence += f"; required {human(at_least, 'B/s')}"
    if (number(facts, "data.rates") or 0) < _FEWEST_ROUNDS:
        remedy = "name a directory that takes longer to read"
        return Check(_DATA, "unknown", f"{evidence}: too few rounds to decide", remedy)
    if low >= at_least:
        return Check(_DATA, "ok", f"{evidence}: fast enough in every round")
    state: State = "fail" if high < at_least else "warn"
    verdict = "too slow in every round" if state == "fail" else "too slow in some rounds: undecided"
    return Check(_DATA, state, f"{evidence}: {verdict}", _MEASURE_MORE)


def _files(facts: Facts) -> str:
    more = "" if facts.get("data.files_all_listed", True) else " listed first"
    return f"{facts.get('data.files')} files{more}"
