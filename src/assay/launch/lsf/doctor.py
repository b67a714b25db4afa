"""Checks of an LSF cluster, in the order in which people fix things. Pure; the facts: facts.py."""

from __future__ import annotations

from collections.abc import Callable

from assay.checks.check import Check, Facts, number, text
from assay.checks.side_by_side import Hosts
from assay.launch.batch import checks


def examine(facts: Facts, seen: Hosts | None = None) -> tuple[Check, ...]:
    """All checks that the facts allow; without an answer from LSF only why there is none.

    seen  what a job found on its hosts, of which each check of a machine is made
    """
    first = commands(facts), cluster(facts)
    if any(check.state == "fail" for check in first):
        return tuple(check for check in first if check.state != "unknown")
    return (*first, *(check(facts) for check in CHECKS), *checks.on_nodes(seen or {}))


def commands(facts: Facts) -> Check:
    """Whether LSF's commands are here."""
    missing = text(facts, "lsf.missing")
    if missing is not None:
        remedy = "source LSF's profile (. /path/to/lsf/conf/profile.lsf), on a machine of the cluster"
        return Check("commands", "fail", f"not found: {missing}", remedy)
    return Check("commands", "ok", f"LSF {text(facts, 'lsf.version') or 'of an unknown version'}")


def cluster(facts: Facts) -> Check:
    """Whether LSF answers, and in a form that can be read."""
    silent, name = text(facts, "lsf.silent"), text(facts, "lsf.cluster")
    if silent is not None:
        return Check("cluster", "fail", silent, "lsid and badmin showstatus tell what LSF waits for")
    if name is None:
        return Check("cluster", "unknown", "it was not asked")
    if (error := text(facts, "lsf.json_error")) is not None:
        remedy = "bjobs prints JSON from LSF 10.1 Fix Pack 2 on: update LSF"
        return Check("cluster", "fail", f"{name}: {error}", remedy)
    return Check("cluster", "ok", f"{name} answers")


def queue(facts: Facts) -> Check:
    """Whether the queue exists and takes jobs."""
    name, status, there = (text(facts, f"queue.{what}") for what in ("name", "status", "all"))
    if name is None:
        return Check("queue", "ok", f"LSF's default among {there}")
    if status is None:
        return Check("queue", "fail", f"{name}: there is none of this name", f"choose from {there}")
    if status != "Open:Active":
        remedy = f"choose another from {there}, or wait until it is open and active"
        return Check("queue", "fail", f"{name} is {status}", remedy)
    return Check("queue", "ok", f"{name} is {status}")


def hosts(facts: Facts) -> Check:
    """Which hosts are free, and which are of no use."""
    count, free = number(facts, "hosts.count"), number(facts, "hosts.free")
    if not count:
        why = text(facts, "hosts.error") or "no host fits the system"
        return Check("hosts", "fail", why, "look at `queue`, `hosts` and `resources` of the system")
    evidence, unusable = text(facts, "hosts.states") or "", text(facts, "hosts.unusable")
    if unusable:
        remedy = "as an administrator: badmin hopen HOST, once its reason is fixed (bhosts -l HOST)"
        return Check("hosts", "warn", f"{evidence}; of no use: {unusable}", remedy)
    if not free:
        return Check("hosts", "warn", f"{evidence}: trials will wait", "bjobs -u all shows who has them")
    return Check("hosts", "ok", evidence)


def history(facts: Facts) -> Check:
    """For how long LSF can tell how a job ended."""
    if facts.get("lsf.history"):
        return Check("history", "ok", "bhist tells how a job ended, however long ago")
    evidence = "bhist is not here: an hour after its end (CLEAN_PERIOD) LSF has forgotten a job"
    return Check("history", "ok", evidence)


CHECKS: tuple[Callable[[Facts], Check], ...] = (
    queue,
    hosts,
    history,
    checks.test_job,
    checks.interpreter,
)
