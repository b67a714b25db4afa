"""What the launchers of batch systems share: scripts that start keepers, files on a disk that nodes share.

A batch system provides a `Queue` (queue.py) of `QueuedJob`s (queued_job.py), options (options.py), and a
script (script.py); everything else is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from assay import units
from assay.launch import job_spec


def one_line(value: str) -> str:
    """One line of shell. Raises ValueError if it is not."""
    if not value.strip() or any(c in value for c in "\n\r\0"):
        raise ValueError(f"{value!r} is not one line of shell; write each command as its own item")
    return value


def further_option(value: str, name: str, *, covered: Mapping[str, str], own: Collection[str]) -> str:
    """One of the batch system's own options, `name` without its dashes.

    Raises ValueError for one that an option of the system covers, and for those that the launcher sets.
    """
    if name in covered:
        raise ValueError(f"{value!r}: write it as the option `{covered[name]}` of the system")
    if name in own:
        raise ValueError(f"the launcher sets {value!r} for each job; remove it")
    return value


def _absolute(value: str) -> str:
    if not Path(value).is_absolute() or any(c in value for c in "\n\r\0"):
        raise ValueError(f"{value!r} is not an absolute path")
    return value


Line = Annotated[str, AfterValidator(one_line)]
Seconds = Annotated[float, BeforeValidator(units.seconds), Field(gt=0)]


class BatchSystem(BaseModel):
    """A cluster behind a batch system whose commands work here."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)
    max_nodes: ClassVar[int | None] = None

    directory: Annotated[str, AfterValidator(_absolute)] | None = Field(
        None,
        description="Directory that this machine and all nodes see, for the jobs' files; default: where the "
        "runs are kept.",
    )
    python: str | None = Field(
        None,
        description="Interpreter of the trials on the nodes; default: the one that runs Assay; in a "
        "container, `python3`.",
    )
    env: job_spec.Env = Field(default_factory=dict, description=job_spec.ENV_HELP)
    pin_cpus: bool = Field(False, description=job_spec.PIN_HELP)
    grace: job_spec.Grace = Field(5.0, description=job_spec.GRACE_HELP)

    placement: Literal["spread", "pack"] = Field(
        "spread",
        description="If a shape names no nodes: `spread` puts each worker on its own node, `pack` puts all "
        "on one.",
    )
    exclusive: bool = Field(False, description="Don't share the nodes with other jobs.")
    cpus_per_rank: int = Field(1, ge=1, description="CPUs to request for each rank.")
    startup: Seconds = Field(
        300.0,
        description="Time that a job may take to start and to end, beyond the trial's own time limit: "
        "prolog, `before`, a container's image. The batch system's limit is the sum, in whole minutes.",
    )
    before: tuple[Line, ...] = Field(
        (),
        description="Shell commands that the batch script runs first, on the first node; the ranks get "
        "the variables that they export. A failing command ends the job.",
    )
