"""For the group `assay.workloads`: what a suite can run, and how its runs are read."""

from __future__ import annotations

from assay.formats.reader import Params, Reader
from assay.records import Measurement, Metric, Reading, Series, Shape, Task, TaskFile
from assay.workloads.payload_log import payload_reader
from assay.workloads.workload import Workload, program_task

__all__ = [
    "Measurement",
    "Metric",
    "Params",
    "Reader",
    "Reading",
    "Series",
    "Shape",
    "Task",
    "TaskFile",
    "Workload",
    "payload_reader",
    "program_task",
]
