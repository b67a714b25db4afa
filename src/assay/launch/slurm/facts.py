"""What Slurm reports about itself, verified by a small job of the user's."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.launch.batch.doctor_job import doctor_job, tried_out
from assay.launch.batch.queue import QueueSilentError, not_installed
from assay.launch.batch.script import NAME
from assay.launch.slurm.launcher import SlurmLauncher
from assay.launch.slurm.options import SlurmSystem
from assay.launch.slurm.script import batch_script
from assay.launch.slurm.states import Slurm
from assay.records import Scalar

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")


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
        facts |= _nodes(slurm, str(facts.get("partition.name", "")))
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


def _nodes(slurm: Slurm, partition: str) -> Iterator[tuple[str, Scalar]]:
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
