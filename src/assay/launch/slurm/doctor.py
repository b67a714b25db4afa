"""Checks of a Slurm cluster, in the order in which people fix things. Pure; facts.py collects the facts."""

from __future__ import annotations

from assay.checks.check import Check, Facts, number, text
from assay.checks.examine import Hosts
from assay.launch.batch import checks


def commands(facts: Facts) -> Check:
    """Whether Slurm's commands are installed."""
    missing = text(facts, "slurm.missing")
    if missing is not None:
        return Check("commands", "fail", f"not found: {missing}", "run Assay on a login node of the cluster")
    return Check("commands", "ok", text(facts, "slurm.version") or "there")


def controller(facts: Facts) -> Check:
    """Whether the controller responds."""
    silent, cluster = text(facts, "slurm.silent"), text(facts, "slurm.cluster")
    if silent is not None:
        return Check(
            "controller", "fail", silent, "run scontrol ping; if Slurm is in an unusual place, set SLURM_CONF"
        )
    if cluster is None:
        return Check("controller", "unknown", "it was not queried")
    return Check("controller", "ok", f"cluster {cluster} responds")


def partition(facts: Facts) -> Check:
    """Whether the partition exists and accepts jobs, and how long they may run."""
    name, state, there = (text(facts, f"partition.{what}") for what in ("name", "state", "all"))
    if name is None:
        return Check("partition", "fail", f"there is no default among {there}", "set `partition`")
    if state is None:
        return Check("partition", "fail", f"{name}: no such partition", f"choose from {there}")
    evidence = f"{name} is {state}, with at most {text(facts, 'partition.max_time')} per job"
    if state != "UP":
        return Check("partition", "fail", evidence, f"choose another from {there}, or wait until it is up")
    return Check("partition", "ok", f"{evidence}, {text(facts, 'partition.max_nodes')} nodes")


def nodes(facts: Facts) -> Check:
    """Which nodes are free, and which are unusable."""
    count, free = number(facts, "nodes.count"), number(facts, "nodes.free")
    if not count:
        return Check("nodes", "fail", "the partition has none", "choose another partition")
    evidence, unusable = text(facts, "nodes.states") or "", text(facts, "nodes.unusable")
    if unusable:
        remedy = "as an administrator: scontrol update NodeName=NAME State=RESUME, once its problem is fixed"
        return Check("nodes", "warn", f"{evidence}; unusable: {unusable}", remedy)
    if not free:
        return Check("nodes", "warn", f"{evidence}: trials will wait", "squeue --start shows how long")
    return Check("nodes", "ok", evidence)


def resources(facts: Facts) -> Check:
    """Generic resources that the nodes announce."""
    gres = text(facts, "nodes.gres")
    if not gres:
        return Check("gres", "ok", "none: ranks run on CPUs")
    return Check("gres", "ok", f"{gres}; a system with `gres: {gres.split(':')[0]}` gives each rank one")


def accounting(facts: Facts) -> Check:
    """For how long Slurm remembers how a job ended."""
    if facts.get("slurm.accounting"):
        return Check("accounting", "ok", "on: sacct shows how a job ended, however long ago")
    remembered_s = number(facts, "slurm.remembers_s")
    if remembered_s is None:
        return Check("accounting", "unknown", "off; how long Slurm remembers a job is unknown")
    evidence = (
        f"off: Slurm forgets a job {remembered_s:g} s after its end. The ranks' own output remains; why a "
        "node was lost is known only if Assay was watching"
    )
    return Check("accounting", "ok", evidence)


def options(facts: Facts) -> Check:
    """Whether sbatch accepts the system's options."""
    error, accepted = text(facts, "options.error"), text(facts, "options.accepted")
    if error is not None:
        return Check("options", "fail", error, "correct the system in systems.yaml")
    return Check("options", "ok", accepted or "sbatch accepts them")


def examine(facts: Facts, seen: Hosts | None = None) -> tuple[Check, ...]:
    """All checks that the facts allow; `seen`: what a job found on its nodes."""
    return checks.examined(
        facts, (commands, controller), (partition, nodes, resources, accounting, options), seen
    )
