"""Jobs of a Slurm cluster: the batch script starts a keeper on each node with srun."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.errors import OptionsError, Problem
from assay.launch.batch.launcher import BatchLauncher
from assay.launch.batch.script import (
    before,
    claim,
    cpus_of,
    keeper,
    meeting_port,
    minutes_of,
    nodes_of,
    plain,
)
from assay.launch.slurm import SlurmSystem
from assay.launch.slurm.commands import Slurm
from assay.records import Job

OUTPUT = "slurm-%j.log"


class SlurmLauncher(BatchLauncher[SlurmSystem]):
    """Runs jobs on a Slurm cluster. `Launcher` documents what each method promises."""

    name = "slurm"
    node_variable = "SLURM_NODEID"

    def __init__(self, system: SlurmSystem, directory: Path) -> None:
        super().__init__(system, directory, Slurm(system.cluster))

    def script(self, job: Job, name: str) -> str:
        """The input of sbatch."""
        return batch_script(job, self.system, self.python, name)

    @property
    def python(self) -> str:
        """The interpreter of the trials: on the nodes, or in the container."""
        return self.system.python or ("python3" if self.system.container_image else super().python)

    @property
    def handle_data(self) -> Mapping[str, Any]:
        """The cluster, if Slurm has several."""
        return {"cluster": self.system.cluster}

    def check(self, job: Job) -> None:
        """Raise InputError for a job that can't be sent."""
        super().check(job)
        if self.system.container_image is not None and re.search(r"[,:]", str(self.directory)):
            message = f"{self.directory} can't be mounted in a container: its name must not contain , or :"
            raise OptionsError([Problem("directory", message)])


def batch_script(job: Job, system: SlurmSystem, python: str, name: str) -> str:
    """The input of sbatch; `name` is the job's name in Slurm, by which it is found."""
    parts = [
        "#!/bin/bash\n",
        *(f"#SBATCH {option}\n" for option in _options(job, system, name)),
        claim("SLURM_JOB_ID"),
        *before(system),
        *_meeting(nodes_of(job, system)),
        " \\\n    ".join(_start(job, system, python)) + "\n",
    ]
    return "".join(parts)


def _options(job: Job, system: SlurmSystem, name: str) -> Iterator[str]:
    nodes = nodes_of(job, system)
    yield f"--job-name={name}"
    yield f"--comment={plain(job.trial_id)}"
    yield f"--output={OUTPUT}"
    yield f"--nodes={nodes}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={cpus_of(job, system)}"
    yield f"--time={minutes_of(job, system)}"
    yield "--no-requeue"
    if system.gres is not None:
        yield f"--gres={system.gres}:{job.shape.ranks // nodes}"
    named = {"clusters": system.cluster} | {
        option: getattr(system, option)
        for option in (
            "partition",
            "account",
            "qos",
            "reservation",
            "constraint",
            "nodelist",
            "exclude",
            "mem",
        )
    }
    yield from (f"--{option}={value}" for option, value in named.items() if value is not None)
    if system.exclusive:
        yield "--exclusive"
    yield from system.sbatch


def _meeting(nodes: int) -> Iterator[str]:
    """Where ranks of several nodes meet; on one node, the keeper finds a free port itself."""
    if nodes > 1:
        yield 'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"\n'
        yield meeting_port("SLURM_JOB_ID")
        yield "export MASTER_ADDR MASTER_PORT\n"


def _start(job: Job, system: SlurmSystem, python: str) -> Iterator[str]:
    """The command that starts a keeper on each node, one part per line of the script."""
    nodes, cpus = nodes_of(job, system), cpus_of(job, system)
    yield f"exec srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cpus}"
    # the keeper pins ranks itself; srun would bind the keeper and all ranks to its share
    yield "--cpu-bind=none --kill-on-bad-exit=1 --input=none"
    if system.container_image is not None:
        yield from _container(system, system.container_image)
    node = "--node-from SLURM_NODEID" if nodes > 1 else ""
    yield f"{keeper(python)} {node}".rstrip()


def _container(system: SlurmSystem, image: str) -> Iterator[str]:
    """The part that runs the keeper in the image; the job's directory has the same path in it."""
    mounts = "".join(f",{shlex.quote(mount)}" for mount in system.container_mounts)
    if system.container_runtime == "pyxis":
        yield f"--container-image={shlex.quote(image)}"
        yield f'--container-mounts="$ASSAY_JOB:$ASSAY_JOB"{mounts}'
        return
    gpus = "--nv " if system.gres is not None and system.gres.startswith("gpu") else ""
    yield f'apptainer exec {gpus}--bind "$ASSAY_JOB:$ASSAY_JOB"{mounts} {shlex.quote(image)}'
