"""The hosts of a system's jobs: which accept jobs, and the commands that keep jobs off slow ones."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from assay.errors import InputError
from assay.launch.lsf.commands import Lsf
from assay.launch.lsf.options import LsfSystem
from assay.launch.platform import KeepOffMethod, Losses, Member, NodeQuery, chosen, reason

# Source: bhosts(1), STATUS: a host that is full or busy accepts jobs again once its jobs have ended
_TAKES_JOBS = {"ok", "closed_Full", "closed_Excl", "closed_Busy", "closed_cu_Excl"}
_SELECT = re.compile(r"select\s*\[[^\]]*\]")


def members(system: LsfSystem, query: NodeQuery) -> list[Member]:
    """The hosts by name.

    Raises InputError for what LSF does not know, QueueSilentError if it does not respond.
    """
    if query.by:
        raise InputError(
            f"--by {query.by}: LSF does not report what hosts share; remove it, or list the hosts of one "
            "switch with --nodes"
        )
    records = dict(sorted(hosts_of(Lsf(), system).items()))
    return [_member(records[name], idle=query.idle) for name in chosen(records, query.named)]


def hosts_of(lsf: Lsf, system: LsfSystem) -> dict[str, Mapping[str, str]]:
    """Each host that the system's jobs may run on, from bhosts: the hosts of the queue, of `hosts`, and
    those that `resources` select.
    """
    groups = _of_queue(lsf, system.queue) if system.queue is not None else ()
    host_records = _hosts(lsf, system, groups)
    if system.hosts:
        named = _hosts(lsf, system, system.hosts)
        host_records = {name: record for name, record in host_records.items() if name in named}
    return host_records


def _hosts(lsf: Lsf, system: LsfSystem, groups: tuple[str, ...]) -> dict[str, Mapping[str, str]]:
    selection = " ".join(
        selection for expression in system.resources for selection in _SELECT.findall(expression)
    )
    only = ("-R", selection) if selection else ()
    fields = "host_name status max njobs run"
    records = lsf.records("bhosts", "-json", "-o", fields, *only, *groups)
    return {record["HOST_NAME"]: record for record in records}


def _of_queue(lsf: Lsf, queue: str) -> tuple[str, ...]:
    """Hosts and host groups of a queue as `bqueues -l` lists them, `gpu+2 rack1/`; () for all hosts."""
    command = lsf.run("bqueues", "-l", queue)
    match = re.search(r"^HOSTS:\s+(.+)$", command.stdout, re.MULTILINE)
    if match is None:
        raise InputError(f"queue {queue}: bqueues does not list its hosts: {command.words[:200]}")
    names = tuple(re.sub(r"(/|\+\d*)+$", "", word) for word in match[1].split())
    return () if names in (("all",), ("none",)) else names


def _member(record: Mapping[str, str], *, idle: bool) -> Member:
    name, status = record["HOST_NAME"], record["STATUS"]
    if status not in _TAKES_JOBS:
        return Member(name, f"{status} according to LSF")
    jobs = record.get("NJOBS", "0")
    if idle and (status != "ok" or jobs not in ("0", "", "-")):
        return Member(name, used=f"{jobs} slots used, {status} according to LSF")
    return Member(name)


def keep_off_methods(_definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Closing hosts, with the reason as the administrator's comment."""
    return (
        KeepOffMethod(
            "drain",
            "no new jobs; running jobs stay",
            tuple(
                shlex.join(["badmin", "hclose", "-C", reason(losses), node]) for node, losses in slow.items()
            ),
            tuple(shlex.join(["badmin", "hopen", node]) for node in slow),
        ),
    )
