"""Jobs of a Slurm cluster: the batch script starts a keeper on each node with srun."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import OptionsError, Problem
from assay.launch.batch.launcher import BatchLauncher
from assay.launch.slurm.options import SlurmSystem
from assay.launch.slurm.script import batch_script
from assay.launch.slurm.states import Slurm
from assay.records import Job


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
