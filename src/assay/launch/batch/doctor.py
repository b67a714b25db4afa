"""The doctor's short job in a batch system: whether jobs run, reach each other, and see their directory."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.checks import Check, Facts, number, text
from assay.checks import examine as machine
from assay.checks.examine import Hosts, placed_at, worst_of_each
from assay.errors import HostError, LaunchError
from assay.launch import programs
from assay.launch.batch.launcher import BatchLauncher
from assay.records import Handle, Job, JobState, Scalar, Shape, Task, TaskFile

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


def doctor_job(nodes: int, data: str | None = None) -> Job:
    """A job of one rank per node; the ranks connect to each other and report the doctor's facts."""
    commands = [command for command in programs.doctor_commands(data) if command[0] != programs.TORCH]
    argv, files = programs.in_turn(*commands)
    meet = TaskFile(f"{_MEET}.py", _TELL.encode())  # first, so that all reach it at about the same time
    task = Task((*argv[:3], _MEET, *argv[3:]), files=(meet, *files))
    return Job(uuid.uuid4().hex, "doctor", Shape(nodes, 1, nodes), task, 0, _JOB_S)


def tried_out(
    launcher_of: Callable[[Path], BatchLauncher[Any]], directory: Path, nodes: int, data: str | None
) -> tuple[dict[str, Scalar], dict[str, Mapping[str, Scalar]]]:
    """`job.…` facts of a job sent with the launcher itself, and its facts about the nodes that it ran on.

    launcher_of  makes the launcher with this directory; `directory`: an existing one to put it in
    data         directory on the nodes whose files to read
    """
    with tempfile.TemporaryDirectory(prefix=".assay-doctor-", dir=directory) as spool:
        launcher = launcher_of(Path(spool))
        facts: dict[str, Scalar] = {"job.directory": str(launcher.directory), "job.nodes": nodes}
        try:
            handle = launcher.submit(doctor_job(nodes, data))
        except (LaunchError, HostError) as error:
            return {**facts, "job.error": str(error)}, {}
        job, seen = _followed(launcher, handle)
        launcher.forget(handle)
    return facts | job, seen


def _followed(
    launcher: BatchLauncher[Any], handle: Handle
) -> tuple[dict[str, Scalar], dict[str, Mapping[str, Scalar]]]:
    began = time.monotonic()
    output_by_stream: dict[str, bytes] = {}
    for output in launcher.follow(handle, {}):
        if output is not None:
            output_by_stream[output.stream] = output_by_stream.get(output.stream, b"") + output.data
        elif not output_by_stream and time.monotonic() - began > WAIT_FOR_START_S:
            waits = launcher.status(handle).cause or "it has not started"
            launcher.cancel(handle)
            return {"job.waits": waits}, {}
    ranks = {
        name: data.decode(errors="replace")
        for name, data in output_by_stream.items()
        if name.startswith("rank-")
    }
    status = launcher.status(handle)
    if status.state is not JobState.SUCCEEDED:
        text = ranks.get("rank-1", ranks.get("rank-0", ""))
        last = (programs.sections(text).get(_MEET) or text).strip().splitlines()[-1:]
        return {"job.error": ": ".join([status.cause or status.state.value, *last])}, {}
    parts = [programs.sections(text) for _, text in sorted(ranks.items())]
    reports = [json.loads(section.pop(_MEET)) for section in parts]
    job: dict[str, Scalar] = {
        "job.hosts": ", ".join(report["host"] for report in reports),
        "job.python": ", ".join(sorted({report["python"] for report in reports})),
        "job.torch": all(report["torch"] for report in reports),
    }
    return job, {
        report["host"]: programs.combined_facts(section)
        for report, section in zip(reports, parts, strict=True)
    }


BatchCheck = Callable[[Facts], Check]


def examined(
    facts: Facts, first: Sequence[BatchCheck], others: Sequence[BatchCheck], seen: Hosts | None
) -> tuple[Check, ...]:
    """All checks that the facts allow; if the batch system does not respond, only the reason.

    first   whether it is installed and responds
    others  what it reports about itself, before the checks of a test job
    seen    what the job found on its nodes, the basis of each machine check
    """
    answers = [check(facts) for check in first]
    if any(check.state == "fail" for check in answers):
        return tuple(check for check in answers if check.state != "unknown")
    of_system = [check(facts) for check in (*others, test_job, interpreter)]
    return (*answers, *of_system, *on_nodes(seen or {}))


def test_job(facts: Facts) -> Check:
    """Whether a job ran, its directory was seen, and its nodes reached each other."""
    error, waits, directory = (text(facts, f"job.{name}") for name in ("error", "waits", "directory"))
    if waits is not None:
        return Check("test job", "unknown", f"it did not start in time and was cancelled: {waits}")
    if error is not None:
        return Check("test job", "fail", error, _job_remedy(error))
    hosts = text(facts, "job.hosts")
    if hosts is None:
        return Check("test job", "unknown", "it was not run")
    meeting = ", which reached each other" if number(facts, "job.nodes") == 2 else ""
    return Check("test job", "ok", f"ran on {hosts}{meeting}; {directory} is visible there")


def _job_remedy(error: str) -> str:
    if "does not reach" in error:
        return "let the nodes reach each other on ports 10000 to 29999, which the ranks use"
    if "the job's directory" in error:
        return "set the system's `directory` to one that this machine and all nodes share"
    return "set `python` to the interpreter on the nodes; put commands that it needs first into `before`"


def interpreter(facts: Facts) -> Check:
    """What the nodes' Python provides."""
    version = text(facts, "job.python")
    if version is None:
        return Check("python", "unknown", "no job reported it")
    if not facts.get("job.torch"):
        remedy = (
            "set an interpreter that has torch: `python: /path/to/python`; or load its module in `before`"
        )
        return Check("python", "warn", f"{version} on the nodes, without torch", remedy)
    return Check("python", "ok", f"{version} on the nodes, with torch")


def on_nodes(seen: Hosts) -> list[Check]:
    """Each check of a machine, with the worst node's result."""
    return worst_of_each(placed_at(seen, "node"), machine.examine_machine)
