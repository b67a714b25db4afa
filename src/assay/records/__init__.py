"""The frozen records that the packages exchange, and their JSON form.

Every record is a frozen dataclass of plain values, so that it can be written to a run directory, read back
and compared. Times are seconds since the epoch (`…_at`) or durations in seconds (`…_s`) unless the name
says otherwise.
"""

from __future__ import annotations

from assay.records.jobs import NODE_STREAMS as NODE_STREAMS
from assay.records.jobs import Extent as Extent
from assay.records.jobs import Handle as Handle
from assay.records.jobs import Job as Job
from assay.records.jobs import JobState as JobState
from assay.records.jobs import JobStatus as JobStatus
from assay.records.jobs import NodeCounts as NodeCounts
from assay.records.jobs import Output as Output
from assay.records.jobs import RankExit as RankExit
from assay.records.jobs import RenderedJob as RenderedJob
from assay.records.jobs import StreamEnd as StreamEnd
from assay.records.logged_runs import AccuracyRun as AccuracyRun
from assay.records.logged_runs import ConfusionMatrix as ConfusionMatrix
from assay.records.logged_runs import InferencePlace as InferencePlace
from assay.records.logged_runs import InferenceRun as InferenceRun
from assay.records.logged_runs import Links as Links
from assay.records.logged_runs import LoggedKey as LoggedKey
from assay.records.logged_runs import LogOutline as LogOutline
from assay.records.logged_runs import Measurement as Measurement
from assay.records.logged_runs import Series as Series
from assay.records.logged_runs import StatedValue as StatedValue
from assay.records.logged_runs import TrainingPhases as TrainingPhases
from assay.records.logged_runs import TrainingRun as TrainingRun
from assay.records.logged_runs import TrainingStatus as TrainingStatus
from assay.records.plain import LATEST_TIME as LATEST_TIME
from assay.records.plain import Amount as Amount
from assay.records.plain import Count as Count
from assay.records.plain import Positive as Positive
from assay.records.plain import Scalar as Scalar
from assay.records.plain import Seconds as Seconds
from assay.records.plain import Share as Share
from assay.records.plain import Time as Time
from assay.records.plain import digest_of as digest_of
from assay.records.plain import from_json as from_json
from assay.records.plain import indented as indented
from assay.records.plain import to_compact_json as to_compact_json
from assay.records.plain import to_json as to_json
from assay.records.plain import to_plain as to_plain
from assay.records.plans import CHOSEN_ROOT as CHOSEN_ROOT
from assay.records.plans import CHOSEN_SET as CHOSEN_SET
from assay.records.plans import FRAMES_FILE as FRAMES_FILE
from assay.records.plans import MOST_RANKS as MOST_RANKS
from assay.records.plans import Better as Better
from assay.records.plans import Expectation as Expectation
from assay.records.plans import FrameChoice as FrameChoice
from assay.records.plans import Metric as Metric
from assay.records.plans import NodeProgram as NodeProgram
from assay.records.plans import Plan as Plan
from assay.records.plans import Price as Price
from assay.records.plans import SecretReference as SecretReference
from assay.records.plans import Shape as Shape
from assay.records.plans import StagedData as StagedData
from assay.records.plans import Task as Task
from assay.records.plans import TaskFile as TaskFile
from assay.records.plans import Trial as Trial
from assay.records.runs import INDEX_FILE as INDEX_FILE
from assay.records.runs import GpuUse as GpuUse
from assay.records.runs import Provenance as Provenance
from assay.records.runs import Reading as Reading
from assay.records.runs import Result as Result
from assay.records.runs import Run as Run
from assay.records.runs import RunState as RunState
from assay.records.runs import SecretPlace as SecretPlace
from assay.records.runs import is_reserved as is_reserved
from assay.records.verdicts import DEFAULT_MARGIN as DEFAULT_MARGIN
from assay.records.verdicts import SEVERITIES as SEVERITIES
from assay.records.verdicts import SUBJECTS as SUBJECTS
from assay.records.verdicts import Comparison as Comparison
from assay.records.verdicts import Doubt as Doubt
from assay.records.verdicts import DoubtKind as DoubtKind
from assay.records.verdicts import Estimate as Estimate
from assay.records.verdicts import Family as Family
from assay.records.verdicts import Point as Point
from assay.records.verdicts import Requirement as Requirement
from assay.records.verdicts import RunsNeeded as RunsNeeded
from assay.records.verdicts import RunsRange as RunsRange
from assay.records.verdicts import Scaling as Scaling
from assay.records.verdicts import ScalingPoint as ScalingPoint
from assay.records.verdicts import Severity as Severity
from assay.records.verdicts import SizeCurve as SizeCurve
from assay.records.verdicts import Subject as Subject
from assay.records.verdicts import Verdict as Verdict
