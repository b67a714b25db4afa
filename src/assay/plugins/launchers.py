"""For the group `assay.launchers`: how jobs are started on a platform, found again, followed and ended."""

from __future__ import annotations

from assay.checks.check import Check
from assay.errors import LaunchError, OptionsError, PlatformError, UnansweredError
from assay.launch.launcher import JobLostError, JobRefusedError, Launcher, Leftover
from assay.launch.platform import DoctorRequest, Examination, Platform
from assay.records import (
    Extent,
    Handle,
    Job,
    JobState,
    JobStatus,
    Output,
    RankExit,
    RenderedJob,
    Shape,
    Task,
    TaskFile,
)

__all__ = [
    "Check",
    "DoctorRequest",
    "Examination",
    "Extent",
    "Handle",
    "Job",
    "JobLostError",
    "JobRefusedError",
    "JobState",
    "JobStatus",
    "LaunchError",
    "Launcher",
    "Leftover",
    "OptionsError",
    "Output",
    "Platform",
    "PlatformError",
    "RankExit",
    "RenderedJob",
    "Shape",
    "Task",
    "TaskFile",
    "UnansweredError",
]
