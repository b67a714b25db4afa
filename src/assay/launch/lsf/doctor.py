"""The doctor of an LSF cluster: what LSF reports about itself and a small job finds, and what it means."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.checks import Check, Facts, number, text
from assay.checks.examine import Hosts
from assay.errors import InputError
from assay.launch.batch.doctor import examined, tried_out
from assay.launch.batch.queue import QueueSilentError, not_installed
from assay.launch.lsf import LsfSystem
from assay.launch.lsf.commands import AWAY, Lsf, hosts_of
from assay.launch.lsf.launcher import LsfLauncher
from assay.launch.platform import DoctorRequest, Examination
from assay.records import Scalar

COMMANDS = ("bsub", "bjobs", "bkill", "bhosts", "bqueues", "lsid")
_FREE = {"ok"}


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
    return examined(facts, (commands, cluster), (queue, hosts, history), seen)


def examination(system: LsfSystem, request: DoctorRequest) -> Examination:
    """What the doctor finds."""
    request.report("Querying LSF and running a short job …")
    facts, nodes = facts_of(system, request.directory, request.data)
    return Examination({**facts, **nodes}, examine(facts, nodes))


def facts_of(
    system: LsfSystem, directory: Path, data: str | None = None
) -> tuple[dict[str, Scalar], dict[str, Mapping[str, Scalar]]]:
    """What the checks judge: facts of the cluster, and of each host on which one short job ran.

    directory  an existing directory on the disk that will hold the runs
    data       directory on the hosts whose files to read

    Never raises for an unusable LSF: `lsf.missing`, `lsf.silent`, and `job.error` say why.
    """
    lsf = Lsf()
    if missing := not_installed(lsf.run, COMMANDS, "-V"):
        return {"lsf.missing": ", ".join(missing)}, {}
    facts: dict[str, Scalar] = {"lsf.history": not not_installed(lsf.run, ["bhist"], "-V")}
    try:
        facts |= _cluster(lsf)
        if "lsf.silent" in facts:
            return facts, {}
        facts |= _queue(lsf, system.queue)
        facts |= _hosts(lsf, system)
    except QueueSilentError as error:
        return {**facts, "lsf.silent": str(error)}, {}
    nodes = 2 if int(str(facts.get("hosts.free", 0))) >= 2 else 1
    tried, seen = tried_out(lambda spool: LsfLauncher(system, spool), directory, nodes, data)
    return facts | tried, seen


def _cluster(lsf: Lsf) -> Iterator[tuple[str, Scalar]]:
    """Version, name, and whether bjobs supports JSON, which it does since 10.1 Fix Pack 2."""
    lsid = lsf.run("lsid")
    name = re.search(r"My cluster name is (\S+)", lsid.stdout)
    if version := re.search(r"^.*(?:LSF|Spectrum).*?(\d+(?:\.\d+)+)", lsid.stdout, re.MULTILINE):
        yield "lsf.version", version[1]
    if name is None:
        yield "lsf.silent", lsid.words
        return
    yield "lsf.cluster", name[1]
    try:
        lsf.queued()
    except QueueSilentError as error:
        yield "lsf.json_error", str(error)


def _queue(lsf: Lsf, queue: str | None) -> Iterator[tuple[str, Scalar]]:
    record_by_queue = {
        record["QUEUE_NAME"]: record for record in lsf.records("bqueues", "-json", "-o", "queue_name status")
    }
    yield "queue.all", ", ".join(sorted(record_by_queue))
    yield "queue.name", queue
    if queue in record_by_queue:
        yield "queue.status", record_by_queue[queue]["STATUS"]


def _hosts(lsf: Lsf, system: LsfSystem) -> Iterator[tuple[str, Scalar]]:
    """How many hosts are in each state, and which are unusable."""
    try:
        records = hosts_of(lsf, system)
    except InputError as error:
        yield "hosts.error", str(error)
        return
    states = Counter(record["STATUS"] for record in records.values())
    yield "hosts.count", len(records)
    yield "hosts.free", sum(states[state] for state in _FREE)
    yield "hosts.states", ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    useless = [
        f"{name} {record['STATUS']}"
        for name, record in sorted(records.items())
        if record["STATUS"] in (*AWAY, "closed_Adm", "closed_Lock", "unlicensed")
    ]
    yield "hosts.unusable", "; ".join(useless)
