"""Any program of the user's, with its figures read from its output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from assay import secret_reference
from assay.formats.reader import Params, Reader
from assay.records import FRAMES_FILE, Shape, Task, TaskFile
from assay.secret_reference import EnvironmentValue
from assay.workloads import command_metrics
from assay.workloads.command_metrics import CommandMetric, check_readers
from assay.workloads.data import CHOOSE_HELP, Choose, is_unset
from assay.workloads.workload import WALL_TIME, Workload, absolute, content

NonEmpty = Annotated[str, Field(min_length=1)]


class CommandParams(Params):
    """A program that runs unchanged, once on every rank, never through a shell.

    Ranks find their place in torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
    Figures are read from the output of rank 0 and describe the whole job: a rate is the sum over all ranks.
    If a program runs on several ranks, add up the ranks' rates and print the sum on rank 0. If the ranks run
    independently of each other, only rank 0 is measured, and a speed-up of 1 says nothing about scaling.
    """

    argv: tuple[NonEmpty, ...] = Field(
        min_length=1,
        description="Program and arguments, one element each; `{python}` is the system's interpreter and "
        "`{seed}` the seed of the repeat. Editing a script or configuration file that is named here starts a "
        "new session; files that it imports are not tracked.",
    )
    env: dict[str, EnvironmentValue] = Field(
        {},
        description="Variables added to the environment of every rank: text, or where to find the value "
        "when the job is submitted, as in a system's `env`.",
    )
    cwd: str | None = Field(
        None,
        description="Working directory, relative to the suite's directory; default: the job's own.",
    )
    files: tuple[NonEmpty, ...] = Field(
        (), description="Files copied into the job's own directory, instead of a cwd."
    )
    choose: Choose | None = Field(
        None,
        exclude_if=is_unset,
        description=f"{CHOOSE_HELP} The program finds it as {FRAMES_FILE} in the job's own directory.",
    )
    outputs: tuple[NonEmpty, ...] = Field(
        (), description="Names or globs of files below the working directory to keep."
    )
    image: str | None = Field(None, description="Container image, if the system runs containers.")
    metrics: dict[NonEmpty, CommandMetric] = Field(
        {},
        description="The metrics it reports for all ranks together, by name; the first is the primary one. "
        "Default: `wall_time`, from the start of the ranks to the end of the last.",
    )

    @field_validator("metrics")
    @classmethod
    def _readers_know_them(cls, metrics: dict[str, CommandMetric]) -> dict[str, CommandMetric]:
        check_readers(metrics)
        return metrics

    @field_validator("cwd")
    @classmethod
    def _cwd_is_absolute(cls, cwd: str | None, info: ValidationInfo) -> str | None:
        return None if cwd is None else absolute(cwd, info)

    @field_validator("files")
    @classmethod
    def _files_have_names_of_their_own(cls, files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        paths = tuple(absolute(file, info) for file in files)
        names = [Path(path).name for path in paths]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"several files are called {name}, and all files go into one directory")
        return paths

    @model_validator(mode="after")
    def _files_need_the_jobs_directory(self) -> Self:
        if self.files and self.cwd is not None:
            raise ValueError("files are copied into the job's own directory; leave out either files or cwd")
        if self.choose is not None and self.cwd is not None:
            raise ValueError("choose puts a manifest into the job's own directory; leave out cwd")
        if self.choose is not None and any(Path(file).name == FRAMES_FILE for file in self.files):
            raise ValueError(f"choose makes the file {FRAMES_FILE}; rename the one in files")
        return self


def _task(params: CommandParams, _shape: Shape, seed: int) -> Task:
    return Task(
        argv=tuple(str(seed) if word == "{seed}" else word for word in params.argv),
        env=secret_reference.texts(params.env),
        secrets=secret_reference.references(params.env),
        files=tuple(TaskFile(Path(path).name, content(path)) for path in params.files),
        cwd=params.cwd,
        outputs=params.outputs,
        image=params.image,
        frames=None if params.choose is None else params.choose.choice(),
    )


COMMAND = Workload(
    reader=Reader(
        "command",
        CommandParams,
        metrics=lambda params: command_metrics.metrics_of(params.metrics) or (WALL_TIME,),
        read=lambda logs, params: command_metrics.read(logs, params.metrics),
        version=7,
        formats=True,
    ),
    about="run your own program: figures from patterns or from MLPerf log lines",
    task=_task,
)
