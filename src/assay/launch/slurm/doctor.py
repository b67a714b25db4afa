"""Checks of a Slurm cluster, in the order in which people mend things. Pure; the facts: facts.py."""

from __future__ import annotations

from collections.abc import Callable

from assay.checks.check import Check, Facts, number, text
from assay.checks.side_by_side import Hosts
from assay.launch.batch import checks


def examine(facts: Facts, seen: Hosts | None = None) -> tuple[Check, ...]:
    """All that the facts allow to be asked: without an answer from Slurm only why there is none.

    seen  what a job found on its nodes, of which each check of a machine is made
    """
    first = commands(facts), controller(facts)
    if any(check.state == "fail" for check in first):
        return tuple(check for check in first if check.state != "unknown")
    return (*first, *(check(facts) for check in CHECKS), *checks.on_nodes(seen or {}))


def commands(facts: Facts) -> Check:
    """Whether Slurm's commands are here."""
    missing = text(facts, "slurm.missing")
    if missing is not None:
        return Check("commands", "fail", f"not found: {missing}", "run Assay on a login node of the cluster")
    return Check("commands", "ok", text(facts, "slurm.version") or "there")


def controller(facts: Facts) -> Check:
    """Whether the controller answers."""
    silent, cluster = text(facts, "slurm.silent"), text(facts, "slurm.cluster")
    if silent is not None:
        return Check(
            "controller", "fail", silent, "scontrol ping; where Slurm has no usual place: SLURM_CONF"
        )
    if cluster is None:
        return Check("controller", "unknown", "it was not asked")
    return Check("controller", "ok", f"cluster {cluster} answers")


def partition(facts: Facts) -> Check:
    """Whether the partition exists and takes jobs, and how long they may be."""
    name, state, there = (text(facts, f"partition.{what}") for what in ("name", "state", "all"))
    if name is None:
        return Check("partition", "fail", f"there is no default among {there}", "set `partition`")
    if state is None:
        return Check("partition", "fail", f"{name}: there is none of this name", f"choose from {there}")
    evidence = f"{name} is {state}, at most {text(facts, 'partition.max_time')} a job"
    if state != "UP":
        return Check("partition", "fail", evidence, f"choose another from {there}, or wait until it is up")
    return Check("partition", "ok", f"{evidence}, {text(facts, 'partition.max_nodes')} nodes")


def nodes(facts: Facts) -> Check:
    """Which nodes are free, and which are of no use."""
    count, free = number(facts, "nodes.count"), number(facts, "nodes.free")
    if not count:
        return Check("nodes", "fail", "the partition has none", "choose another partition")
    evidence, unusable = text(facts, "nodes.states") or "", text(facts, "nodes.unusable")
    if unusable:
        remedy = "as an administrator: scontrol update NodeName=NAME State=RESUME, once its reason is mended"
        return Check("nodes", "warn", f"{evidence}; of no use: {unusable}", remedy)
    if not free:
        return Check("nodes", "warn", f"{evidence}: trials will wait", "squeue --start tells how long")
    return Check("nodes", "ok", evidence)


def resources(facts: Facts) -> Check:
    """Generic resources that the nodes announce."""
    found = text(facts, "nodes.gres")
    if not found:
        return Check("gres", "ok", "none: ranks run on CPUs")
    return Check("gres", "ok", f"{found}; a system with `gres: {found.split(':')[0]}` gives each rank one")


def accounting(facts: Facts) -> Check:
    """For how long Slurm remembers how a job ended."""
    if facts.get("slurm.accounting"):
        return Check("accounting", "ok", "on: sacct tells how a job ended, however long ago")
    remembered_s = number(facts, "slurm.remembers_s")
    if remembered_s is None:
        return Check("accounting", "unknown", "off, and for how long Slurm remembers a job is not told")
    evidence = (
        f"off: {remembered_s:g} s after its end Slurm forgets a job. The ranks' own words stay; why a node "
        "was lost is known only to an Assay that watched"
    )
    return Check("accounting", "ok", evidence)


def options(facts: Facts) -> Check:
    """Whether sbatch takes the system's options."""
    error, accepted = text(facts, "options.error"), text(facts, "options.accepted")
    if error is not None:
        return Check("options", "fail", error, "mend the system in systems.yaml")
    return Check("options", "ok", accepted or "sbatch takes them")


CHECKS: tuple[Callable[[Facts], Check], ...] = (
    partition,
    nodes,
    resources,
    accounting,
    options,
    checks.test_job,
    checks.interpreter,
)
