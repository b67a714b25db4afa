"""Checks of an LSF cluster, in the order in which people fix things. Pure; facts.py collects the facts."""

from __future__ import annotations

from assay.checks.check import Check, Facts, number, text
from assay.checks.examine import Hosts
from assay.launch.batch import checks


def commands(facts: Facts) -> Check:
    """Whether LSF's commands are installed."""
    missing = text(facts, "lsf.missing")
    if missing is not None:
        remedy = "source LSF's profile (. /path/to/lsf/conf/profile.lsf), on a machine of the cluster"
        return Check("commands", "fail", f"not found: {missing}", remedy)
    return Check("commands", "ok", f"LSF {text(facts, 'lsf.version') or 'of an unknown version'}")


def cluster(facts: Facts) -> Check:
    """Whether LSF responds, in a format that Assay can read."""
    silent, name = text(facts, "lsf.silent"), text(facts, "lsf.cluster")
    if silent is not None:
        return Check("cluster", "fail", silent, "lsid and badmin showstatus show what LSF waits for")
    if name is None:
        return Check("cluster", "unknown", "it was not queried")
    if (error := text(facts, "lsf.json_error")) is not None:
        remedy = "bjobs supports JSON since LSF 10.1 Fix Pack 2: update LSF"
        return Check("cluster", "fail", f"{name}: {error}", remedy)
    return Check("cluster", "ok", f"{name} answers")


def queue(facts: Facts) -> Check:
    """Whether the queue exists and accepts jobs."""
    name, status, there = (text(facts, f"queue.{what}") for what in ("name", "status", "all"))
    if name is None:
        return Check("queue", "ok", f"LSF's default among {there}")
    if status is None:
        return Check("queue", "fail", f"{name}: no such queue", f"choose from {there}")
    if status != "Open:Active":
        remedy = f"choose another from {there}, or wait until it is open and active"
        return Check("queue", "fail", f"{name} is {status}", remedy)
    return Check("queue", "ok", f"{name} is {status}")


def hosts(facts: Facts) -> Check:
    """Which hosts are free, and which are unusable."""
    count, free = number(facts, "hosts.count"), number(facts, "hosts.free")
    if not count:
        why = text(facts, "hosts.error") or "no host fits the system"
        return Check("hosts", "fail", why, "check the system's `queue`, `hosts`, and `resources`")
    evidence, unusable = text(facts, "hosts.states") or "", text(facts, "hosts.unusable")
    if unusable:
        remedy = "as an administrator: badmin hopen HOST, once its problem is fixed (bhosts -l HOST)"
        return Check("hosts", "warn", f"{evidence}; unusable: {unusable}", remedy)
    if not free:
        return Check("hosts", "warn", f"{evidence}: trials will wait", "bjobs -u all shows who uses them")
    return Check("hosts", "ok", evidence)


def history(facts: Facts) -> Check:
    """For how long LSF can report how a job ended."""
    if facts.get("lsf.history"):
        return Check("history", "ok", "bhist shows how a job ended, however long ago")
    evidence = "bhist is not installed: LSF forgets a job an hour after its end (CLEAN_PERIOD)"
    return Check("history", "ok", evidence)


def examine(facts: Facts, seen: Hosts | None = None) -> tuple[Check, ...]:
    """All checks that the facts allow; `seen`: what a job found on its nodes."""
    return checks.examined(facts, (commands, cluster), (queue, hosts, history), seen)
