"""How a job is shown before it is sent: each rank's command and variables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from assay import redact
from assay.launch import job_spec
from assay.records import Job, RenderedJob
from assay.secret_reference import EnvironmentValue

ON_ONE_NODE = ("127.0.0.1", "<a free port>")


def without_secrets(job: Job) -> Job:
    """The job as it may be shown: secrets in its arguments and variables are replaced."""
    task = replace(
        job.task, argv=tuple(redact.redacted(job.task.argv)), env=redact.redacted(dict(job.task.env))
    )
    return replace(job, task=task)


def rank_command(job: Job, python: str, *, pin_cpus: bool) -> str:
    """The command line of each rank, as a person would type it; before it, what each node runs first."""
    command = shlex.join(job_spec.argv(job, python))
    if pin_cpus:  # the equivalent command; the keeper needs no taskset
        command = f"taskset --cpu-list '<cores of the rank>' {command}"
    command = command if job.task.cwd is None else f"cd {shlex.quote(job.task.cwd)} && {command}"
    return "\n".join([*before(job, python), command])


def before(job: Job, python: str) -> list[str]:
    """What each node runs before its ranks, with a heading for them; empty if there is nothing."""
    argv = job_spec.argv_before(job, python)
    return [f"# each node first:\n{shlex.join(argv)}\n# then each rank:"] if argv else []


def rendered(
    job: Job,
    command: str,
    env: Mapping[str, EnvironmentValue],
    *,
    nodes: int = 1,
    node: str = "0",
    meeting: tuple[str, str] = ON_ONE_NODE,
) -> RenderedJob:
    """The command with the variables and files of every rank; values known only later are in angle brackets.

    env      the system's variables; the task's override them
    node     placeholder for the node's number
    meeting  address and port of rank 0 if there are several nodes
    """
    ranks = str(job.shape.ranks // nodes)
    address, port = meeting if nodes > 1 else ON_ONE_NODE
    variables = {
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": f"<allowed cores / {ranks}, unless set>",
        **job_spec.variables(job, env),
        **{name: f"<{reference}>" for name, reference in job_spec.secrets(job, env).items()},
        "WORLD_SIZE": str(job.shape.ranks),
        "LOCAL_WORLD_SIZE": ranks,
        "GROUP_RANK": node,
        "NODE_RANK": node,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "ASSAY_TOKEN": "<token>",
        "ASSAY_SEED": str(job.seed),
    }
    return RenderedJob(
        redact.text(command),
        redact.redacted(variables),
        {file.name: f"sha256:{file.sha256}" for file in job.task.files},
    )
