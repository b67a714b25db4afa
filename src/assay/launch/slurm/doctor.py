"""The doctor of a Slurm cluster: what Slurm reports about itself and a small job finds, and what it means."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.checks import Check, Facts, number, text
from assay.checks.examine import Hosts
from assay.launch.batch.doctor import doctor_job, examined, tried_out
from assay.launch.batch.queue import QueueSilentError, not_installed
from assay.launch.batch.script import NAME
from assay.launch.platform import DoctorRequest, Examination
from assay.launch.slurm import SlurmSystem
from assay.launch.slurm.commands import Slurm
from assay.launch.slurm.launcher import SlurmLauncher, batch_script
from assay.records import Scalar

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")


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
    return examined(facts, (commands, controller), (partition, nodes, resources, accounting, options), seen)


def examination(system: SlurmSystem, request: DoctorRequest) -> Examination:
    """What the doctor finds."""
    request.report("Querying Slurm and running a short job …")
    facts, nodes = facts_of(system, request.directory, request.data)
    return Examination({**facts, **nodes}, examine(facts, nodes))


def facts_of(
    system: SlurmSystem, directory: Path, data: str | None = None
) -> tuple[dict[str, Scalar], dict[str, Mapping[str, Scalar]]]:
    """What the checks judge: facts of the cluster, and of each node on which one short job ran.

    directory  an existing directory on the disk that will hold the runs
    data       directory on the nodes whose files to read

    Never raises for an unusable Slurm: `slurm.missing`, `slurm.silent`, and `job.error` say why.
    """
    slurm = Slurm(system.cluster)
    if missing := not_installed(slurm.run, COMMANDS, "--version"):
        return {"slurm.missing": ", ".join(missing)}, {}
    facts: dict[str, Scalar] = {"slurm.version": slurm.run("sinfo", "--version").stdout.strip()}
    try:
        config = slurm.run("scontrol", "show", "config")
        if not config.ok:
            return {**facts, "slurm.silent": config.words}, {}
        facts |= _configured(config.stdout)
        facts |= _partition(slurm, system)
        facts |= _node_facts(slurm, str(facts.get("partition.name", "")))
        facts |= _accepted(slurm, system)
    except QueueSilentError as error:
        return {**facts, "slurm.silent": str(error)}, {}
    if "options.error" in facts:
        return facts, {}
    nodes = 2 if int(str(facts["nodes.free"])) >= 2 else 1
    tried, seen = tried_out(lambda spool: SlurmLauncher(system, spool), directory, nodes, data)
    return facts | tried, seen


def _configured(text: str) -> Iterator[tuple[str, Scalar]]:
    settings = dict(re.findall(r"^(\w+)\s*= (.*)$", text, re.MULTILINE))
    yield "slurm.cluster", settings.get("ClusterName")
    yield "slurm.accounting", not settings.get("AccountingStorageType", "").endswith("/none")
    for name, key in (("kill_wait_s", "KillWait"), ("remembers_s", "MinJobAge")):
        seconds = re.match(r"\d+", settings.get(key, ""))
        if seconds is not None:
            yield f"slurm.{name}", int(seconds[0])


def _partition(slurm: Slurm, system: SlurmSystem) -> Iterator[tuple[str, Scalar]]:
    """The requested partition, otherwise the default."""
    names = slurm.run("sinfo", "--noheader", "--format=%P").stdout.split()
    default = next((name.rstrip("*") for name in names if name.endswith("*")), None)
    chosen_name = system.partition or default
    yield "partition.all", ", ".join(sorted({name.rstrip("*") for name in names}))
    if chosen_name is None:
        return
    yield "partition.name", chosen_name
    shown = slurm.run("scontrol", "show", "partition", "--oneliner", chosen_name.partition(",")[0])
    fields = dict(re.findall(r"(\w+)=(\S*)", shown.stdout)) if shown.ok else {}
    for name, key in (("state", "State"), ("max_time", "MaxTime"), ("max_nodes", "MaxNodes")):
        if key in fields:
            yield f"partition.{name}", fields[key]


def _node_facts(slurm: Slurm, partition: str) -> Iterator[tuple[str, Scalar]]:
    """How many nodes are in each state, which are unusable and why, and their generic resources."""
    chosen = [f"--partition={partition}"] if partition else []
    listing = slurm.run("sinfo", "--noheader", "--Node", *chosen, "--format=%N|%T|%G")
    rows = sorted({tuple(line.split("|", 2)) for line in listing.stdout.splitlines() if line.count("|") >= 2})
    states = Counter(state.rstrip("*~#!%$@^-") for _, state, _ in rows)
    yield "nodes.count", len(rows)
    yield "nodes.free", states["idle"] + states["mixed"]
    yield "nodes.states", ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield "nodes.unusable", "; ".join(slurm.unusable_nodes(partition))
    yield "nodes.gres", ", ".join(sorted({gres for _, _, gres in rows if gres != "(null)"}))


def _accepted(slurm: Slurm, system: SlurmSystem) -> Iterator[tuple[str, Scalar]]:
    """Whether sbatch would accept a job with the system's options."""
    script = batch_script(doctor_job(1), system, "python3", f"{NAME}doctor")
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script)
        file.flush()
        trial = slurm.run("sbatch", "--test-only", file.name)
    yield ("options.accepted" if trial.ok else "options.error"), trial.words
