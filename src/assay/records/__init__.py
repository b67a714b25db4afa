"""The frozen records that the packages exchange, and their JSON form.

Every record is a frozen dataclass of plain values, so that it can be written to a run directory, read back
and compared. Times are seconds since the epoch (`…_at`) or durations in seconds (`…_s`) unless the name
says otherwise.
"""

from __future__ import annotations

from assay.records.doubts import SEVERITIES, SUBJECTS, Doubt, DoubtKind, Severity, Subject
from assay.records.gpus import GpuUse
from assay.records.jobs import (
    NODE_STREAMS,
    Extent,
    Handle,
    Job,
    JobState,
    JobStatus,
    NodeCounts,
    Output,
    RankExit,
    RenderedJob,
    StreamEnd,
)
from assay.records.logged_runs import (
    AccuracyRun,
    InferencePlace,
    InferenceRun,
    LoggedKey,
    LogOutline,
    StatedValue,
    TrainingPhases,
    TrainingRun,
    TrainingStatus,
)
from assay.records.measurements import ConfusionMatrix, Links, Measurement, Series
from assay.records.plain import digest_of, from_json, to_compact_json, to_json, to_plain
from assay.records.plans import (
    Better,
    Expectation,
    Metric,
    Plan,
    Price,
    SecretReference,
    Shape,
    Task,
    TaskFile,
    Trial,
)
from assay.records.runs import Provenance, Reading, Result, Run, RunState, SecretPlace
from assay.records.scalar import Scalar
from assay.records.verdicts import (
    DEFAULT_MARGIN,
    Comparison,
    Estimate,
    Family,
    Point,
    Requirement,
    RunsNeeded,
    RunsRange,
    Scaling,
    ScalingPoint,
    SizeCurve,
    Verdict,
)

__all__ = [
    "DEFAULT_MARGIN",
    "NODE_STREAMS",
    "SEVERITIES",
    "SUBJECTS",
    "AccuracyRun",
    "Better",
    "Comparison",
    "ConfusionMatrix",
    "Doubt",
    "DoubtKind",
    "Estimate",
    "Expectation",
    "Extent",
    "Family",
    "GpuUse",
    "Handle",
    "InferencePlace",
    "InferenceRun",
    "Job",
    "JobState",
    "JobStatus",
    "Links",
    "LogOutline",
    "LoggedKey",
    "Measurement",
    "Metric",
    "NodeCounts",
    "Output",
    "Plan",
    "Point",
    "Price",
    "Provenance",
    "RankExit",
    "Reading",
    "RenderedJob",
    "Requirement",
    "Result",
    "Run",
    "RunState",
    "RunsNeeded",
    "RunsRange",
    "Scalar",
    "Scaling",
    "ScalingPoint",
    "SecretPlace",
    "SecretReference",
    "Series",
    "Severity",
    "Shape",
    "SizeCurve",
    "StatedValue",
    "StreamEnd",
    "Subject",
    "Task",
    "TaskFile",
    "TrainingPhases",
    "TrainingRun",
    "TrainingStatus",
    "Trial",
    "Verdict",
    "digest_of",
    "from_json",
    "to_compact_json",
    "to_json",
    "to_plain",
]
