"""A Slurm cluster as a platform."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from assay.launch.batch import BatchSystem, Line, further_option, one_line
from assay.launch.platform import Binding, NodeAccess, Platform, late

# What sbatch accepts as an unquoted value; not `%`, which Slurm replaces in file names
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;=+/@&|*!~()\[\]-]+")
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z-]*(?:[= ].+)?")

# The trial or an option of the system sets these, or they would separate Assay from its job
_OWN_OPTIONS = frozenset({
    "job-name", "J", "comment", "output", "o", "error", "e", "input", "i", "open-mode", "chdir", "D",
    "nodes", "N", "ntasks", "n", "ntasks-per-node", "cpus-per-task", "c", "time", "t", "array", "a",
    "requeue", "no-requeue", "wait", "W", "wrap", "parsable", "test-only", "signal",
})  # fmt: skip
_HAS_OPTION = {
    "partition": "partition", "p": "partition", "account": "account", "A": "account",
    "qos": "qos", "q": "qos", "gres": "gres", "mem": "mem", "constraint": "constraint", "C": "constraint",
    "exclusive": "exclusive", "reservation": "reservation", "nodelist": "nodelist", "w": "nodelist",
    "exclude": "exclude", "x": "exclude", "clusters": "cluster", "M": "cluster",
}  # fmt: skip


def _check_plain(value: str) -> str:
    if _PLAIN.fullmatch(value) is None:
        raise ValueError(
            f"{value!r} is not a value for Slurm: it must not contain spaces, quotes, %, or line ends"
        )
    return value


def _sbatch_option(value: str) -> str:
    """An option of sbatch that the system's options don't cover; otherwise raises ValueError."""
    one_line(value)
    if _OPTION.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not an option of sbatch; write it like --switches=1")
    name = re.split(r"[= ]", value.lstrip("-"), maxsplit=1)[0]
    return further_option(value, name, covered=_HAS_OPTION, own=_OWN_OPTIONS)


def _mount(value: str) -> str:
    parts = value.split(":")
    if not 2 <= len(parts) <= 3 or "," in value or not all(p.startswith("/") for p in parts[:2]):
        raise ValueError(f"{value!r} is not a mount; write /on/the/node:/in/the/container")
    return one_line(value)


Plain = Annotated[str, AfterValidator(_check_plain)]


class SlurmSystem(BatchSystem):
    """A Slurm cluster as seen from here, where sbatch, squeue and scancel work."""

    cluster: Plain | None = Field(None, description="Cluster, if Slurm has several here (--clusters).")
    partition: Plain | None = Field(None, description="Partition; default: the cluster's default.")
    account: Plain | None = Field(None, description="Account to charge.")
    qos: Plain | None = Field(None, description="Quality of service.")
    reservation: Plain | None = Field(None, description="Reservation to run in.")
    constraint: Plain | None = Field(None, description="Features that the nodes must have, like a100&nvme.")
    nodelist: Plain | None = Field(None, description="Nodes that must be in the job, like gpu[01-02].")
    exclude: Plain | None = Field(None, description="Nodes that must not be in the job.")
    gres: Plain | None = Field(
        None, description="Generic resource of which each rank gets one: gpu, or with a type, gpu:a100."
    )
    mem: Plain | None = Field(None, description="Memory of each node, like 64G; 0: all of it.")
    sbatch: tuple[Annotated[str, AfterValidator(_sbatch_option)], ...] = Field(
        (), description="Further options of sbatch, each as it would follow #SBATCH."
    )

    container_image: Line | None = Field(None, description="Container image in which the trials run.")
    container_mounts: tuple[Annotated[str, AfterValidator(_mount)], ...] = Field(
        (),
        description="Directories of the nodes to mount: /on/the/node:/in/the/container, with :ro for "
        "read-only.",
    )
    container_runtime: Literal["pyxis", "apptainer"] = Field(
        "pyxis", description="What runs the image: srun's plug-in pyxis with enroot, or apptainer."
    )

    @model_validator(mode="after")
    def _mounts_need_an_image(self) -> Self:
        if self.container_mounts and self.container_image is None:
            raise ValueError("container_mounts needs a container_image")
        return self


PLATFORM = Platform(
    SlurmSystem,
    late("assay.launch.slurm.launcher:SlurmLauncher"),
    late("assay.launch.slurm.doctor:examination"),
    NodeAccess(
        late("assay.launch.slurm.commands:members"),
        Binding("nodelist", joined_by=","),
        late("assay.launch.slurm.commands:keep_off_methods"),
    ),
)
