"""The nodes of a Slurm partition: states, switches, and the commands that keep jobs off slow ones."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import InputError
from assay.launch.batch.queue import no_answer
from assay.launch.platform import KeepOffMethod, Losses, Member, NodeQuery, chosen, reason
from assay.launch.slurm.commands import Slurm
from assay.launch.slurm.options import SlurmSystem

SWITCH = "switch"  # what nodes share, as the value of `--by`
# Source: sinfo(1), NODE STATE CODES: the word may be followed by a mark; * means that the node does not
# respond
_STATE = re.compile(r"([a-z_]+)([^a-z_]*)")
_TAKES_JOBS = {"idle", "mixed", "allocated", "completing", "planned"}
_RESERVED = {"reserved", "maint"}
_ALL_OF = re.compile(r"[A-Za-z0-9_.:+-]+(&[A-Za-z0-9_.:+-]+)*")


def members(system: SlurmSystem, query: NodeQuery) -> list[Member]:
    """The nodes by name.

    Raises InputError for a system whose nodes Slurm can't list, QueueSilentError if it does not respond.
    """
    slurm, by = Slurm(system.cluster), query.by
    if by and by != SWITCH:
        raise InputError(f"--by {by}: only the switch of Slurm's nodes is known; write --by {SWITCH}")
    states = dict(sorted(_states(slurm, system)))
    switches = dict(_switches(slurm)) if by else {}
    names = chosen(states, _hosts(slurm, ",".join(query.named)) if query.named else ())
    return [_member(name, states[name], switches.get(name), system, idle=query.idle) for name in names]


def _member(name: str, state: str, switch: str | None, system: SlurmSystem, *, idle: bool) -> Member:
    shared = {} if switch is None else {SWITCH: switch}
    match = _STATE.fullmatch(state)
    word, marks = (match[1], match[2]) if match else (state, "")
    if "*" in marks or word not in _TAKES_JOBS | (_RESERVED if system.reservation else set()):
        return Member(name, f"{state} according to Slurm", shared=shared)
    return Member(name, used=f"{state} according to Slurm" if idle and word != "idle" else "", shared=shared)


def _states(slurm: Slurm, system: SlurmSystem) -> Iterator[tuple[str, str]]:
    """Each node that the system's jobs may run on, and its state."""
    features = _features(system.constraint)
    only = set(_hosts(slurm, system.nodelist)) if system.nodelist else None
    never = set(_hosts(slurm, system.exclude)) if system.exclude else set()
    for line in _output_lines(slurm, "sinfo", "--noheader", "--Node", "--format=%N|%P|%T|%f"):
        name, partition, state, has = line.split("|", 3)
        if system.partition is None:
            in_partition = partition.endswith("*")  # the default one
        else:
            in_partition = partition.rstrip("*") in system.partition.split(",")
        in_lists = name not in never and (only is None or name in only)
        if in_partition and in_lists and features <= {*has.split(",")}:
            yield name, state


def _features(constraint: str | None) -> set[str]:
    """The required features."""
    if constraint is None:
        return set()
    if _ALL_OF.fullmatch(constraint) is None:
        raise InputError(
            f"constraint: Slurm decides for each job which nodes have {constraint}; set the system's "
            "`nodelist` instead"
        )
    return {*constraint.split("&")}


def _switches(slurm: Slurm) -> Iterator[tuple[str, str]]:
    """Each node and its leaf switch. Raises InputError if Slurm knows of no switches."""
    topology = slurm.run("scontrol", "show", "topology")
    leaves = re.findall(r"^SwitchName=(\S+) Level=0 .*?\bNodes=(\S+)", topology.stdout, re.MULTILINE)
    if not leaves:
        why = topology.stderr.strip() or "it knows of no switches"
        raise InputError(f"--by {SWITCH}: Slurm has no TopologyPlugin that lists switches ({why})")
    for switch, nodes in leaves:
        for node in _hosts(slurm, nodes):
            yield node, switch


def _hosts(slurm: Slurm, nodes: str) -> list[str]:
    """`gpu[01-02]` → gpu01, gpu02."""
    return _output_lines(slurm, "scontrol", "show", "hostnames", nodes)


def _output_lines(slurm: Slurm, *argv: str) -> list[str]:
    command = slurm.run(*argv)
    if not command.ok:
        raise no_answer(slurm.called, command)
    return [line.strip() for line in command.stdout.splitlines() if line.strip()]


def keep_off_methods(_definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Draining, with its reason."""

    def update(node: str, *settings: str) -> str:
        return shlex.join(["scontrol", "update", f"NodeName={node}", *settings])

    return (
        KeepOffMethod(
            "drain",
            "no new jobs; running jobs stay",
            tuple(update(node, "State=DRAIN", f"Reason={reason(losses)}") for node, losses in slow.items()),
            tuple(update(node, "State=RESUME") for node in slow),
        ),
    )
