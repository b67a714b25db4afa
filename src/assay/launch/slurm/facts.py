"""What a Slurm tells of itself, and a small job of the user's own makes sure of."""

from __future__ import annotations

import json
import re
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.errors import HostError, LaunchError
from assay.launch import programs
from assay.launch.batch.script import NAME
from assay.launch.slurm.launcher import SlurmLauncher
from assay.launch.slurm.options import SlurmSystem
from assay.launch.slurm.script import batch_script
from assay.launch.slurm.states import Slurm
from assay.records import Handle, Job, JobState, Scalar, Shape, Task, TaskFile
from assay.shell import Completed, ProgramMissing

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
WAIT_FOR_START_S, MEET_WITHIN_S = 60.0, 20
_JOB_S = 180.0  # the test job's own time limit
_MEET = "meet"
_TELL = f"""
import importlib.util, json, os, platform, socket, time
told = {{"host": socket.gethostname(), "python": platform.python_version(),
        "torch": importlib.util.find_spec("torch") is not None}}
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
until = time.monotonic() + {MEET_WITHIN_S}
if os.environ["WORLD_SIZE"] == "2" and os.environ["RANK"] == "0":
    with socket.create_server(("", address[1])) as server:
        server.settimeout({MEET_WITHIN_S})
        server.accept()
while os.environ["RANK"] == "1":
    try:
        socket.create_connection(address, timeout=5).close()
        break
    except OSError as error:
        if time.monotonic() > until:
            raise SystemExit(f"{{told['host']}} does not reach {{address[0]}}:{{address[1]}}: {{error}}")
        time.sleep(0.1)
print(json.dumps(told))
"""


def facts_of(
    system: SlurmSystem, directory: Path, data: str | None = None
) -> tuple[dict[str, Scalar], dict[str, Mapping[str, Scalar]]]:
    """What the checks judge: facts of the cluster, and of each node on which one short job of ours ran.

    directory  an existing one on the disk that will hold the runs
    data       directory on the nodes whose files are to be read

    Never raises for a Slurm that can't be used: `slurm.missing`, `slurm.silent` and `job.error` say why.
    """
    slurm = Slurm(system.cluster)
    facts: dict[str, Scalar] = {}
    missing = [name for name in COMMANDS if not _there(slurm, name)]
    if missing:
        return {"slurm.missing": ", ".join(missing)}, {}
    facts["slurm.version"] = slurm.run("sinfo", "--version").stdout.strip()
    config = slurm.run("scontrol", "show", "config")
    if not config.ok:
        return {**facts, "slurm.silent": _said(config)}, {}
    facts |= _configured(config.stdout)
    facts |= _partition(slurm, system)
    facts |= _nodes(slurm, str(facts.get("partition.name", "")))
    facts |= _accepted(slurm, system)
    if "options.error" in facts:
        return facts, {}
    nodes = 2 if int(str(facts["nodes.free"])) >= 2 else 1
    tried, seen = _tried(system, directory, nodes, data)
    return facts | tried, seen


def _there(slurm: Slurm, name: str) -> bool:
    try:
        slurm.run(name, "--version")
    except ProgramMissing:
        return False
    return True


def _said(command: Completed) -> str:
    return " ".join((command.stderr.strip() or command.stdout.strip()).split())


def _configured(text: str) -> Iterator[tuple[str, Scalar]]:
    found = dict(re.findall(r"^(\w+)\s*= (.*)$", text, re.MULTILINE))
    yield "slurm.cluster", found.get("ClusterName")
    yield "slurm.accounting", not found.get("AccountingStorageType", "").endswith("/none")
    for name, key in (("kill_wait_s", "KillWait"), ("remembers_s", "MinJobAge")):
        seconds = re.match(r"\d+", found.get(key, ""))
        if seconds is not None:
            yield f"slurm.{name}", int(seconds[0])


def _partition(slurm: Slurm, system: SlurmSystem) -> Iterator[tuple[str, Scalar]]:
    """The one that is asked for, else the default."""
    names = slurm.run("sinfo", "--noheader", "--format=%P").stdout.split()
    default = next((name.rstrip("*") for name in names if name.endswith("*")), None)
    wanted = system.partition or default
    yield "partition.all", ", ".join(sorted({name.rstrip("*") for name in names}))
    if wanted is None:
        return
    yield "partition.name", wanted
    said = slurm.run("scontrol", "show", "partition", "--oneliner", wanted.partition(",")[0])
    fields = dict(re.findall(r"(\w+)=(\S*)", said.stdout)) if said.ok else {}
    for name, key in (("state", "State"), ("max_time", "MaxTime"), ("max_nodes", "MaxNodes")):
        if key in fields:
            yield f"partition.{name}", fields[key]


def _nodes(slurm: Slurm, partition: str) -> Iterator[tuple[str, Scalar]]:
    """How many are in which state, which are of no use and why, and their generic resources."""
    chosen = [f"--partition={partition}"] if partition else []
    said = slurm.run("sinfo", "--noheader", "--Node", *chosen, "--format=%N|%T|%G|%E")
    rows = sorted({tuple(line.split("|", 3)) for line in said.stdout.splitlines() if line.count("|") >= 3})
    states = Counter(state.rstrip("*~#!%$@^-") for _, state, _, _ in rows)
    yield "nodes.count", len(rows)
    yield "nodes.free", states["idle"] + states["mixed"]
    yield "nodes.states", ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    unusable = [
        f"{name} {state}" + ("" if reason in ("none", "None") else f" ({reason})")
        for name, state, _, reason in rows
        if re.search(r"down|drain|fail|unknown|\*", state)
    ]
    yield "nodes.unusable", "; ".join(unusable)
    yield "nodes.gres", ", ".join(sorted({gres for _, _, gres, _ in rows if gres != "(null)"}))


def _accepted(slurm: Slurm, system: SlurmSystem) -> Iterator[tuple[str, Scalar]]:
    """Whether sbatch would take a job with the system's options."""
    script = batch_script(_job(1), system, "python3", f"{NAME}doctor")
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script)
        file.flush()
        said = slurm.run("sbatch", "--test-only", file.name)
    yield ("options.accepted" if said.ok else "options.error"), _said(said)


def _job(nodes: int, data: str | None = None) -> Job:
    words = [words for words in programs.asked(data) if words[0] != programs.TORCH]
    argv, files = programs.in_turn(*words)
    meet = TaskFile(f"{_MEET}.py", _TELL.encode())  # first, so that all come to it at about the same time
    task = Task((*argv[:3], _MEET, *argv[3:]), files=(meet, *files))
    return Job(uuid.uuid4().hex, "doctor", Shape(nodes, 1, nodes), task, 0, _JOB_S)


def _tried(
    system: SlurmSystem, directory: Path, nodes: int, data: str | None
) -> tuple[dict[str, Scalar], dict[str, Mapping[str, Scalar]]]:
    """What a job through the launcher itself tells of itself, and of the nodes it ran on."""
    with tempfile.TemporaryDirectory(prefix=".assay-doctor-", dir=directory) as spool:
        launcher = SlurmLauncher(system, Path(spool))
        facts: dict[str, Scalar] = {"job.directory": str(launcher.directory), "job.nodes": nodes}
        try:
            handle = launcher.submit(_job(nodes, data))
        except (LaunchError, HostError) as error:
            return {**facts, "job.error": str(error)}, {}
        job, seen = _followed(launcher, handle)
        launcher.forget(handle)
    return facts | job, seen


def _followed(
    launcher: SlurmLauncher, handle: Handle
) -> tuple[dict[str, Scalar], dict[str, Mapping[str, Scalar]]]:
    began = time.monotonic()
    said: dict[str, bytes] = {}
    for output in launcher.follow(handle, {}):
        if output is not None:
            said[output.stream] = said.get(output.stream, b"") + output.data
        elif not said and time.monotonic() - began > WAIT_FOR_START_S:
            waits = launcher.status(handle).cause or "it has not started"
            launcher.cancel(handle)
            return {"job.waits": waits}, {}
    ranks = {name: data.decode(errors="replace") for name, data in said.items() if name.startswith("rank-")}
    status = launcher.status(handle)
    if status.state is not JobState.SUCCEEDED:
        text = ranks.get("rank-1", ranks.get("rank-0", ""))
        last = (programs.sections(text).get(_MEET) or text).strip().splitlines()[-1:]
        return {"job.error": ": ".join([status.cause or status.state.value, *last])}, {}
    parts = [programs.sections(text) for _, text in sorted(ranks.items())]
    told = [json.loads(of.pop(_MEET)) for of in parts]
    job: dict[str, Scalar] = {
        "job.hosts": ", ".join(one["host"] for one in told),
        "job.python": ", ".join(sorted({one["python"] for one in told})),
        "job.torch": all(one["torch"] for one in told),
    }
    return job, {one["host"]: programs.all_told(of) for one, of in zip(told, parts, strict=True)}
