"""A training's whole data set, read once before it begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from assay.data.checking import DataCheck, difference_from_official, run_check
from assay.data.questions import timed
from assay.errors import InputError
from assay.questions.question import Count, Question, argument, function, option, progress_line, question
from assay.questions.values import Location, Values
from assay.records import Shape
from assay.units import human_seconds
from assay.workloads import WORKLOADS
from assay.workloads.training import TrainingParams


def _progress(check: DataCheck, seconds: float) -> str:
    done, total = sum(check.checked.values()), sum(check.samples.values())
    left = f", about {human_seconds(seconds / done * (total - done))} left" if done else ""
    return f"{done:,} of {total:,}{left}"


@question
class CheckData(Question):
    """Read the data set in PATH as the training WORKLOAD does, and name what it can't read.

    The loaders are the training's own: they check the layout when they start, then read and decode every
    sample of the training set and of the evaluation set once. It needs the extra `training` here. That a
    data set has another size than the official one is said, and is no error.

    \b
    Examples:
      assay data check resnet50 /data/imagenet
      assay data check segmentation /data/a2d2/camera_lidar_semantic --param camera=cam_side_left
      assay data check unet3d /data/kits19 --json

    \b
    Exit codes: 0 every sample is readable; 1 some are not; 4 another layout, or the workload has no data.
    """

    workload: str = argument()
    path: Location = argument()
    params: Values | None = option(
        "Parameter of the workload that its loaders use.", default=None, names=("--param",)
    )
    processes: Count | None = option("That read.  [default: one per CPU]", default=None)
    tell: Callable[[DataCheck], None] | None = progress_line(timed(_progress), default=None)

    def answer(self) -> DataCheck:
        """What the loaders read. Raises InputError for a wrong workload, parameter or layout."""
        trainings = [name for name, w in WORKLOADS.items() if issubclass(w.params, TrainingParams)]
        if self.workload not in trainings:
            expected = f"expected one of {', '.join(trainings)}"
            raise InputError(f"{self.workload}: trains on no data set; {expected}")
        directory = Path(self.path).absolute()
        if not directory.is_dir():
            raise InputError(f"{self.path}: is not a directory; expected that of the data set")
        values = {**(self.params or {}), "mode": "data-only", "data": str(directory)}
        try:
            validated = WORKLOADS[self.workload].params.model_validate(values)
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
            raise InputError("; ".join(wrong)) from None
        argv = WORKLOADS[self.workload].task(validated, Shape(1, 1), 1).argv
        workers = self.processes or len(os.sched_getaffinity(0))
        own = ["--mode", "check", "--device", "cpu", "--workers", str(workers)]
        program = [sys.executable if word == "{python}" else word for word in argv]
        check = run_check([*program, *own], self.tell or (lambda _: None))
        check.official = difference_from_official(self.workload, check.samples)
        return check


check_data = function(CheckData, CheckData.answer)
