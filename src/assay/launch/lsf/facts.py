"""What LSF reports about itself, verified by a small job of the user's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.errors import InputError
from assay.launch.batch.doctor_job import tried_out
from assay.launch.batch.queue import QueueSilentError, not_installed
from assay.launch.lsf.commands import AWAY, Lsf
from assay.launch.lsf.launcher import LsfLauncher
from assay.launch.lsf.members import hosts_of
from assay.launch.lsf.options import LsfSystem
from assay.records import Scalar

COMMANDS = ("bsub", "bjobs", "bkill", "bhosts", "bqueues", "lsid")
_FREE = {"ok"}


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
