"""Jobs of an LSF cluster: the batch script starts a keeper on the first host, or one on each with blaunch."""

from __future__ import annotations

import re
from pathlib import Path

from assay.errors import OptionsError, Problem
from assay.launch.batch.launcher import BatchLauncher
from assay.launch.lsf.commands import Lsf
from assay.launch.lsf.options import LsfSystem
from assay.launch.lsf.script import NODE, batch_script
from assay.records import Job

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.,:=+/@-]+")


class LsfLauncher(BatchLauncher[LsfSystem]):
    """Runs jobs on an LSF cluster. `Launcher` documents what each method promises."""

    name = "lsf"
    node_variable = NODE

    def __init__(self, system: LsfSystem, directory: Path) -> None:
        super().__init__(system, directory, Lsf())

    def script(self, job: Job, name: str) -> str:
        """The input of bsub."""
        return batch_script(job, self.system, self.python, name)

    def check(self, job: Job) -> None:
        """Raise InputError for a job that can't be sent."""
        super().check(job)
        for option, path in (("directory", str(self.directory)), ("python", self.python)):
            if _PLAIN_PATH.fullmatch(path) is None:  # blaunch may pass words through another shell
                message = f"{path} can't be passed to LSF: use only letters, digits, and _ . , : = + / @ -"
                raise OptionsError([Problem(option, message)])
