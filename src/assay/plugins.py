"""What another package imports to add something to Assay; docs/how-to/plugins.md shows how.

Names that are here stay, and mean the same, as long as `INTERFACE` is the same. A module is imported when one
of its names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.analyse.doubts.case_kinds import CaseDoubtKind as CaseDoubtKind
    from assay.analyse.expectations.references import Accelerator as Accelerator
    from assay.analyse.expectations.references import Expectations as Expectations
    from assay.analyse.expectations.references import PublishedFigure as PublishedFigure
    from assay.analyse.points.case import Case as Case
    from assay.analyse.points.case import Side as Side
    from assay.checks import Check as Check
    from assay.errors import AssayError as AssayError
    from assay.errors import HostError as HostError
    from assay.errors import InputError as InputError
    from assay.errors import LaunchError as LaunchError
    from assay.errors import OptionsError as OptionsError
    from assay.errors import PlatformError as PlatformError
    from assay.errors import UnansweredError as UnansweredError
    from assay.formats.figures import LogFigure as LogFigure
    from assay.formats.figures import LogFigures as LogFigures
    from assay.formats.figures import document as document
    from assay.formats.figures import lines as lines
    from assay.formats.figures import number as number
    from assay.formats.figures import whole as whole
    from assay.formats.lines import Line as Line
    from assay.formats.lines import line_tool as line_tool
    from assay.formats.reader import Params as Params
    from assay.formats.reader import Reader as Reader
    from assay.formats.tools import Tool as Tool
    from assay.launch.launcher import JobLostError as JobLostError
    from assay.launch.launcher import JobRefusedError as JobRefusedError
    from assay.launch.launcher import Launcher as Launcher
    from assay.launch.launcher import Leftover as Leftover
    from assay.launch.platform import DoctorRequest as DoctorRequest
    from assay.launch.platform import Examination as Examination
    from assay.launch.platform import Platform as Platform
    from assay.questions.question import Answer as Answer
    from assay.questions.question import Question as Question
    from assay.questions.question import Reads as Reads
    from assay.questions.question import argument as argument
    from assay.questions.question import option as option
    from assay.questions.question import question as question
    from assay.records import Doubt as Doubt
    from assay.records import DoubtKind as DoubtKind
    from assay.records import Extent as Extent
    from assay.records import Handle as Handle
    from assay.records import Job as Job
    from assay.records import JobState as JobState
    from assay.records import JobStatus as JobStatus
    from assay.records import Measurement as Measurement
    from assay.records import Metric as Metric
    from assay.records import Output as Output
    from assay.records import RankExit as RankExit
    from assay.records import Reading as Reading
    from assay.records import RenderedJob as RenderedJob
    from assay.records import Scalar as Scalar
    from assay.records import Series as Series
    from assay.records import Shape as Shape
    from assay.records import Task as Task
    from assay.records import TaskFile as TaskFile
    from assay.registry import INTERFACE as INTERFACE
    from assay.view.blocks import Block as Block
    from assay.view.blocks import Chart as Chart
    from assay.view.blocks import Doubts as Doubts
    from assay.view.blocks import Fold as Fold
    from assay.view.blocks import Heading as Heading
    from assay.view.blocks import Lead as Lead
    from assay.view.blocks import Paragraph as Paragraph
    from assay.view.blocks import Table as Table
    from assay.view.blocks import TableBody as TableBody
    from assay.view.blocks import TableRow as TableRow
    from assay.view.charts.chart import ChartKind as ChartKind
    from assay.view.charts.chart import plain as plain
    from assay.view.contents import Contents as Contents
    from assay.workloads.payload_log import payload_reader as payload_reader
    from assay.workloads.workload import Workload as Workload
    from assay.workloads.workload import program_task as program_task

_NAMES = {  # module → its names that packages use
    "assay.analyse.doubts.case_kinds": "CaseDoubtKind",
    "assay.analyse.expectations.references": "Accelerator Expectations PublishedFigure",
    "assay.analyse.points.case": "Case Side",
    "assay.checks": "Check",
    "assay.errors": "AssayError HostError InputError LaunchError OptionsError PlatformError UnansweredError",
    "assay.formats.figures": "LogFigure LogFigures document lines number whole",
    "assay.formats.lines": "Line line_tool",
    "assay.formats.reader": "Params Reader",
    "assay.formats.tools": "Tool",
    "assay.launch.launcher": "JobLostError JobRefusedError Launcher Leftover",
    "assay.launch.platform": "DoctorRequest Examination Platform",
    "assay.questions.question": "Answer Question Reads argument option question",
    "assay.records": (
        "Doubt DoubtKind Extent Handle Job JobState JobStatus Measurement Metric "
        "Output RankExit Reading RenderedJob Scalar Series Shape Task TaskFile"
    ),
    "assay.registry": "INTERFACE",
    "assay.view.charts.chart": "ChartKind plain",
    "assay.view.contents": "Contents",
    "assay.view.blocks": "Block Chart Doubts Fold Heading Lead Paragraph Table TableBody TableRow",
    "assay.workloads.payload_log": "payload_reader",
    "assay.workloads.workload": "Workload program_task",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
