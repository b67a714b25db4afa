"""What every launcher sends for a job: the keeper's spec, Assay's programs, the task's files."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from assay import redact, secret_reference, units
from assay.errors import InputError, OptionsError, Problem
from assay.launch import job_directory
from assay.records import Job, RenderedJob, SecretReference
from assay.secret_reference import EnvironmentValue
from assay_payloads.keeping.relay import Stamp

PROBE_TIMEOUT_S = 20.0
START_TIMEOUT_S = 90.0  # if all nodes exist before a job is sent: covers a keeper's start and its probe
VARIABLES = "variables.json"  # the name that the keeper expects
KEEPER, PROBE = "assay_payloads.keeping.keeper", "assay_payloads.probing.probe"
SAMPLER = "assay_payloads.sampling.sampler"
PROGRAMS = (KEEPER, PROBE, SAMPLER)  # run on each node of every job
OWN_VARIABLES = frozenset({
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK",
    "MASTER_ADDR", "MASTER_PORT", "ASSAY_TOKEN", "ASSAY_SEED",
})  # fmt: skip
Grace = Annotated[float, BeforeValidator(units.seconds), Field(ge=0)]
GRACE_HELP = "Time between asking a trial to end and killing it: seconds, or like 10s, 1min."
ENV_HELP = (
    "Variables added to the environment of every trial: text, or where to find the value when the trial "
    "is submitted (the value is stored nowhere): {from_env: NAME}, {from_file: PATH}, "
    "{from_kubernetes_secret: {name: …, key: …}}."
)
PIN_HELP = "Give each rank its own cores: contiguous, disjoint, and the same number for each."
_OTHER_SOURCE = {
    False: "this launcher can't read Secrets of a cluster; write {from_env: NAME} or {from_file: PATH}",
    True: "a value from this machine would be written into an object of the cluster; store it in a Secret "
    "(kubectl create secret generic NAME --from-file=KEY=FILE) and write "
    "{from_kubernetes_secret: {name: NAME, key: KEY}}",
}
HOST_PYTHON: Final = "host"
HOST_PYTHON_HELP: Final = "host: the interpreter that runs Assay, mounted read-only at the same path"


def check_env(env: Mapping[str, EnvironmentValue]) -> Mapping[str, EnvironmentValue]:
    """Variables that a user may set. Raises ValueError for others."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ValueError(f"{name!r} is not a valid variable name, or its value contains a NUL")
        if name in OWN_VARIABLES:
            raise ValueError(f"the launcher sets {name} for each rank; remove it")
    return env


# Options that mean the same on every system
Env = Annotated[dict[str, EnvironmentValue], AfterValidator(check_env)]


def check_task(job: Job, env: Mapping[str, EnvironmentValue], *, in_cluster: bool = False) -> None:
    """Raise InputError for a task that can't be sent: a variable, a file name, a directory.

    env         the system's variables
    in_cluster  values come from the cluster's Secrets only
    """
    for name, reference in secrets(job, env).items():
        if in_cluster != (reference.source == "from_kubernetes_secret"):
            problem = Problem("env", f"{name}: {reference}: {_OTHER_SOURCE[in_cluster]}")
            raise InputError([problem]) if name in job.task.secrets else OptionsError([problem])
    try:
        check_env(job.task.env)
    except ValueError as error:
        raise InputError(f"{job.trial_id}: env: {error}") from error
    for name in (*(file.name for file in job.task.files), *job.task.outputs):
        job_directory.check_output_name(name)
    if job.task.cwd is not None and not Path(job.task.cwd).is_absolute():
        raise InputError(f"{job.trial_id}: cwd: found {job.task.cwd!r}; expected an absolute path")


def variables(job: Job, env: Mapping[str, EnvironmentValue]) -> dict[str, str]:
    """The system's variables, then the task's, without those whose values are looked up on submission."""
    own = {**env, **job.task.env, **job.task.secrets}
    return secret_reference.texts(own)


def secrets(job: Job, env: Mapping[str, EnvironmentValue]) -> dict[str, SecretReference]:
    """Variables whose values are looked up on submission."""
    own = {**env, **job.task.env, **job.task.secrets}
    return secret_reference.references(own)


def values(job: Job, env: Mapping[str, EnvironmentValue]) -> dict[str, str]:
    """Their values. Raises InputError (OptionsError for the system's) that names each one without a value."""
    here = {
        n: reference
        for n, reference in secrets(job, env).items()
        if reference.source != "from_kubernetes_secret"
    }
    own = {name: reference for name, reference in here.items() if name in job.task.secrets}
    try:
        of_system = secret_reference.values({n: reference for n, reference in here.items() if n not in own})
    except InputError as error:
        raise OptionsError(error.problems) from error
    return {**of_system, **secret_reference.values(own)}


def all_variables(job: Job, env: Mapping[str, EnvironmentValue]) -> dict[str, str]:
    """What every rank gets in addition to what its keeper sets. Raises as `values` does."""
    return {**variables(job, env), **values(job, env)}


def argv(job: Job, python: str) -> list[str]:
    """A rank's command, with the system's interpreter."""
    return _with_python(job.task.argv, python)


def argv_before(job: Job, python: str) -> list[str]:
    """The command that each node runs first; empty if there is none."""
    return [] if job.task.before is None else _with_python(job.task.before.argv, python)


def _with_python(argv: Sequence[str], python: str) -> list[str]:
    return [python if word == "{python}" else word for word in argv]


def _before(job: Job, python: str) -> dict[str, Any]:
    program = job.task.before
    if program is None:
        return {}
    stated = {"name": program.name, "timeout_s": program.timeout_s, "holds": list(program.holds)}
    return {"before": {**stated, "argv": argv_before(job, python)}}


def spec(
    job: Job,
    *,
    python: str,
    cwd: str,
    nodes: int,
    grace_s: float,
    start_timeout_s: float,
    pin_cpus: bool,
    files_before: Mapping[str, Stamp],
) -> dict[str, Any]:
    """`spec.json` for assay_payloads/keeping/keeper.py, the same on each of a job's nodes.

    It stays as long as the job, so it contains no variables: see `write_variables`.

    python           the interpreter there
    start_timeout_s  longest time that a node waits for the others before its ranks start, without the
                     program that each runs before them
    """
    return {
        "token": job.token,
        "trial": job.trial_id,
        "argv": argv(job, python),
        "cwd": cwd,
        "env": {},
        "ranks": job.shape.ranks // nodes,
        "nodes": nodes,
        "seed": job.seed,
        "timeout_s": job.timeout_s,
        "max_output_bytes": job.max_output_bytes,
        "grace_s": grace_s,
        "start_timeout_s": start_timeout_s + job.longest_s - job.timeout_s,
        "pin_cpus": pin_cpus,
        "probe": PROBE,
        "python": python,
        "probe_timeout_s": PROBE_TIMEOUT_S,
        **_before(job, python),
        **({"sampler": SAMPLER, "sample_every_s": job.sample_every_s} if job.sample_every_s else {}),
        "outputs": list(job.task.outputs),
        "files_before": dict(files_before),
    }


def write_files(job: Job, work: Path) -> None:
    """Write the task's files into its working directory; scripts become executable."""
    work.mkdir(parents=True)
    for file in job.task.files:
        path = work / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        if file.data.startswith(b"#!"):
            path.chmod(0o755)


def write_spec(value: Mapping[str, Any], directory: Path) -> None:
    """Write `spec.json` atomically: a killed Assay leaves no partial file."""
    unfinished = directory / "spec.part"
    unfinished.write_text(json.dumps(value))
    unfinished.replace(directory / "spec.json")


def write_variables(values: Mapping[str, str], directory: Path) -> None:
    """Variables for this keeper only, readable only by its user; the keeper removes the file on start."""
    directory.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(directory / VARIABLES, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(values, file)


@dataclass(frozen=True)
class HostPython:
    """An interpreter and the directories that it needs; absolute, and none inside another."""

    executable: str
    directories: tuple[str, ...]


def host_python() -> HostPython:
    """The interpreter that runs this code, with its environment and the installation that it was made from.

    Its directories are mounted read-only for the trials at their own paths, so that a container or a pod runs
    the same Python, torch, and libraries as a trial outside it. The C library is still the image's.

    Raises InputError if its links lead out of both: then Assay can't tell what it needs.
    """
    places = sorted({Path(sys.prefix), Path(sys.base_prefix)})
    outer = [place for place in places if not any(place.is_relative_to(p) for p in places if p != place)]
    for link in _links(Path(sys.executable)):
        if not any(link.is_relative_to(place) for place in outer):
            message = (
                f"{HOST_PYTHON}: {sys.executable} is a link to {link}, outside "
                f"{' and '.join(map(str, outer))}: "
                "set an interpreter, and list its directories under volumes"
            )
            raise OptionsError([Problem("python", message)])
    return HostPython(sys.executable, tuple(map(str, outer)))


def _links(path: Path) -> Iterator[Path]:
    """The path, and each path that it links to."""
    yield path
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path


ON_ONE_NODE = ("127.0.0.1", "<a free port>")


def without_secrets(job: Job) -> Job:
    """The job as it may be shown: secrets in its arguments and variables are replaced."""
    task = replace(
        job.task, argv=tuple(redact.redacted(job.task.argv)), env=redact.redacted(dict(job.task.env))
    )
    return replace(job, task=task)


def rank_command(job: Job, python: str, *, pin_cpus: bool) -> str:
    """The command line of each rank, as a person would type it; before it, what each node runs first."""
    command = shlex.join(argv(job, python))
    if pin_cpus:  # the equivalent command; the keeper needs no taskset
        command = f"taskset --cpu-list '<cores of the rank>' {command}"
    command = command if job.task.cwd is None else f"cd {shlex.quote(job.task.cwd)} && {command}"
    return "\n".join([*before(job, python), command])


def before(job: Job, python: str) -> list[str]:
    """What each node runs before its ranks, with a heading for them; empty if there is nothing."""
    command = argv_before(job, python)
    return [f"# each node first:\n{shlex.join(command)}\n# then each rank:"] if command else []


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
    shown = {
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": f"<allowed cores / {ranks}, unless set>",
        **variables(job, env),
        **{name: f"<{reference}>" for name, reference in secrets(job, env).items()},
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
        redact.redacted(shown),
        {file.name: f"sha256:{file.sha256}" for file in job.task.files},
    )
