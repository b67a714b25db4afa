"""A short job of the doctor that verifies that jobs run, reach each other, and see their directory."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
