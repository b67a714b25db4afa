"""Jobs of an LSF cluster: bsub starts a keeper on the first host, or by blaunch one on each."""

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
    """Runs jobs on an LSF cluster. `Launcher` says what each method promises."""

    name = "lsf"
    node_variable = NODE

    def __init__(self, system: LsfSystem, directory: Path) -> None:
        super().__init__(system, directory, Lsf())

    def script(self, job: Job, name: str) -> str:
        """What bsub is given."""
        return batch_script(job, self.system, self.python, name)

    def check(self, job: Job) -> None:
        """Raises InputError for a job that can't be sent."""
        super().check(job)
        for option, path in (("directory", str(self.directory)), ("python", self.python)):
            if _PLAIN_PATH.fullmatch(path) is None:  # blaunch may pass words through a shell once more
                words = f"{path} can't be named to LSF: letters, digits and _ . , : = + / @ - only"
                raise OptionsError([Problem(option, words)])
