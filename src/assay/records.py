"""The frozen nouns that travel between the rooms, and their JSON form.

Every record is a frozen dataclass of plain values, so that it can be written to a run directory, read back
and compared. Times are seconds since the epoch (`…_at`) or durations in seconds (`…_s`) unless the name
says otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Scalar = str | int | float | bool | None
T = TypeVar("T")
Better = Literal["higher", "lower"]


# What is to be measured ----------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Shape:
    """Workers × accelerators per worker, optionally spread over so many nodes: `2x8`, `16x1x2`.

    An accelerator is one process (rank) with one GPU, or one share of the cores where there is no GPU.
    """

    workers: int
    accelerators: int
    nodes: int | None = None

    @property
    def ranks(self) -> int:
        """Processes in all."""
        return self.workers * self.accelerators

    def __str__(self) -> str:
        tail = "" if self.nodes is None else f"x{self.nodes}"
        return f"{self.workers}x{self.accelerators}{tail}"

    @classmethod
    def parse(cls, text: str) -> Shape:
        """`"2x8"` or `"16x1x2"`. Raises ValueError on anything else."""
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)(?:x([1-9]\d*))?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a shape; write workers x accelerators, like 2x8")
        workers, accelerators, nodes = int(match[1]), int(match[2]), match[3]
        if nodes is not None and workers % int(nodes):
            raise ValueError(f"{text!r}: {workers} workers can't be spread evenly over {nodes} nodes")
        return cls(workers, accelerators, None if nodes is None else int(nodes))


@dataclass(frozen=True)
class Metric:
    """What a workload reports.

    name    the word that its log, tables and `expect:` use: `throughput`, `busbw`
    unit    `images/s`, `B/s`, `s`, `FLOP/s`; "" for a plain number
    better  which direction is an improvement; None where neither is (a count of epochs)
    about   one line for people
    scales  it ideally grows with the ranks (a time: falls with them), so it has a speed-up and an
            efficiency; False for bus bandwidth, latency or accuracy
    """

    name: str
    unit: str
    better: Better | None
    about: str
    scales: bool = True


@dataclass(frozen=True)
class TaskFile:
    """A file that travels with a job into its working directory."""

    __pydantic_config__: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

    name: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the content."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Task:
    """What every rank of a trial runs: a workload's whole answer, before any launcher saw it.

    argv     program and arguments; an element that is exactly `{python}` becomes the system's interpreter
    env      variables added to the rank's environment
    files    what lies in the working directory when it starts
    cwd      an existing directory to run in; None is the job's own, which holds the files
    outputs  file names or globs below the working directory that are kept
    image    container image, where the system is a container platform and names none
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[TaskFile, ...] = ()
    cwd: str | None = None
    outputs: tuple[str, ...] = ()
    image: str | None = None


@dataclass(frozen=True)
class Expectation:
    """An absolute requirement on a metric, in the metric's own unit: `busbw >= 1.1e10 B/s`."""

    metric: str
    relation: Literal[">=", "<="]
    value: float
    unit: str
    written: str  # as the user wrote it


@dataclass(frozen=True)
class Trial:
    """One point of the sweep, one repetition, on one system.

    id         typed by people: `resnet50-1x2-r03`; with several systems `resnet50-1x2-here-r03`
    benchmark  the suite's name for it; workload is the program's
    params     every parameter with its value, defaults filled in
    varied     those of them that the suite sweeps
    block      repetition, from 1; all systems and points of a block ran shuffled together
    seed       for the program; equal for all systems and shapes of a block
    digest     of everything that defines the trial except block and seed, the bytes of its programs too

    What it runs is not kept here: `plan.task_of(trial)` makes it again; the digest says that it is the same.
    """

    id: str
    suite: str
    benchmark: str
    workload: str
    system: str
    shape: Shape
    params: Mapping[str, Any]
    varied: Mapping[str, Any]
    block: int
    seed: int
    timeout_s: float
    retries: int
    digest: str


@dataclass(frozen=True)
class Plan:
    """Ordered trials and what an analysis has to know of the design.

    suite_digest  of what is measured (benchmarks, parameters, shapes, programs), whatever the systems
    digest        of the whole plan: an unfinished run goes on only under the same one
    interleaved   each block held every system, shuffled: sides can be paired by block
    looks         for a run until decided: numbers of blocks after which one looks, the last is the most;
                  `trials` then holds the most, and fewer may have been run. () where the number is fixed
    """

    suite: str
    suite_digest: str
    digest: str
    seed: int
    repeats: int
    systems: tuple[str, ...]
    baseline: str | None
    margin: float
    interleaved: bool
    primary_metric: Mapping[str, str]  # benchmark → metric
    expectations: Mapping[str, tuple[Expectation, ...]]  # benchmark → requirements
    trials: tuple[Trial, ...]
    looks: tuple[int, ...] = ()


# How it is run -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What a launcher is given. The token is unique and on disk before anything is submitted."""

    token: str
    trial_id: str
    shape: Shape
    task: Task
    seed: int
    timeout_s: float


@dataclass(frozen=True)
class Rendered:
    """What a launcher would send, as a person reads it: the dry run.

    command  the command line, manifest or script, stable byte for byte for an equal job
    env      variables that every rank gets beside its own rank variables
    files    names of the files that travel, with their digests
    """

    command: str
    env: Mapping[str, str]
    files: Mapping[str, str]


@dataclass(frozen=True)
class Handle:
    """A submitted job, findable again by a later Assay. `data` is the launcher's own."""

    launcher: str
    token: str
    data: Mapping[str, Scalar]


class JobState(StrEnum):
    """Where a job stands. The last five are final."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Nothing more will happen."""
        return self not in (JobState.PENDING, JobState.RUNNING)


@dataclass(frozen=True)
class RankExit:
    """How one rank ended: an exit code, or the signal that killed it. `first`: the one that failed first."""

    rank: int
    exit_code: int | None
    signal: str | None = None
    first: bool = False


@dataclass(frozen=True)
class StreamEnd:
    """What the job says that one of its streams held in the end; its log has to hold the same."""

    bytes: int
    lines: int
    sha256: str


@dataclass(frozen=True)
class NodeCounts:
    """What the kernel of one node counted while a job's ranks ran there; None where it does not count it.

    elapsed_s           between the two looks
    cpus                that the job may run on; busy and stolen time are of these alone
    busy_cpu_s          of all processes, the job's own too
    stolen_cpu_s        wanted on a virtual machine, and withheld by its host
    cpu_wait_s          in which some task of the node waited for a CPU; memory_wait_s: for memory
    job_cpu_s           of the job's own processes
    job_major_faults    pages that they had to wait for
    quota_cores         cores' worth of time that the tightest cgroup allows; None without a quota too
    periods             of the quota; throttled_periods: those in which the job was stopped
    throttled_s         for which it was stopped, summed over its CPUs
    heat_events, heat_s  slow-downs of its CPUs' packages for heat, and how long, all together

    Source: payloads/counters.py.
    """

    elapsed_s: float
    cpus: int
    busy_cpu_s: float | None = None
    stolen_cpu_s: float | None = None
    cpu_wait_s: float | None = None
    memory_wait_s: float | None = None
    job_cpu_s: float | None = None
    job_major_faults: int | None = None
    quota_cores: float | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_s: float | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None
    heat_events: int | None = None
    heat_s: float | None = None


@dataclass(frozen=True)
class JobStatus:
    """A job's state, with the cause in words and each rank's end once it is final.

    cause    why it failed; before its end what it waits for; of a success, what is wrong with its output
    streams  those that the job accounts for; {} where it ended without a word
    nodes    what their kernels counted meanwhile, in the order of the nodes that told it
    facts    what only the launcher knows of where it ran (an image's digest), for each node's provenance
    node_facts  the same of one node each, by the stream of its probe: `probe-0` → facts
    """

    state: JobState
    cause: str = ""
    exits: tuple[RankExit, ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    streams: Mapping[str, StreamEnd] = field(default_factory=dict)
    nodes: tuple[NodeCounts, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    node_facts: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """New bytes of one of a job's streams: `rank-0`, `rank-1`, … and `probe-0` (one a node).

    Cut anywhere, in order, each byte exactly once when followed from the count of bytes already kept.
    """

    stream: str
    data: bytes


# What happened -------------------------------------------------------------------------------------------


class RunState(StrEnum):
    """State of an attempt in its run directory. The last two are final."""

    SUBMITTING = "submitting"  # intent and token on disk, the job perhaps started
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """The attempt is over and its log complete."""
        return self in (RunState.FINISHED, RunState.FAILED)


@dataclass(frozen=True)
class Run:
    """A trial executed: one attempt. What `run.json` holds.

    id          `suite/session/trial`, a path below the runs directory
    session     the run directory it belongs to, named by its starting time
    job         how its job ended; None until then, and for an imported log
    cause       why it failed, in words; "" when it did not
    adopted     a later Assay than the one that submitted it took it over, running or lost
    source      for an imported log: the file or directory it came from
    looks       of its plan: intervals from such runs have to allow for the looks
    nodes       what their kernels counted while the ranks ran; () where nobody looked
    """

    schema: int
    assay_version: str
    id: str
    suite: str
    suite_digest: str
    plan_digest: str
    session: str
    interleaved: bool
    trial: Trial
    attempt: int
    token: str
    state: RunState
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    handle: Handle | None = None
    exits: tuple[RankExit, ...] = ()
    job: JobState | None = None
    cause: str = ""
    adopted: bool = False
    source: str | None = None
    looks: tuple[int, ...] = ()
    nodes: tuple[NodeCounts, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """One figure that a run printed, and where.

    labels  what tells it from others of the same metric: payload_bytes, dtype, size
    file    log file's name within the run's directory, line counted from 1
    """

    metric: str
    value: float
    unit: str
    labels: Mapping[str, Scalar]
    file: str
    line: int


@dataclass(frozen=True)
class Series:
    """A figure over steps, epochs or seconds since the start, in the order printed."""

    name: str
    unit: str
    x_name: Literal["step", "epoch", "samples", "seconds"]
    x: tuple[float, ...]
    y: tuple[float, ...]


TrainingStatus = Literal["success", "aborted", "unfinished", "invalid"]


@dataclass(frozen=True)
class TrainingPhases:
    """Where the minutes from run_start to run_stop went; the four phases add up to them.

    start        before anything is trained
    training     epochs, or blocks
    evaluation   of it what does not overlap training
    rest         what the log accounts for by nothing
    overlap      evaluation while an epoch is open, counted once, in training or evaluation
    evaluations  how many
    epochs, samples  trained up to the last evaluation, whether or not the target was reached
    after        of the rest what lies behind the last evaluation
    """

    start_minutes: float
    training_minutes: float
    evaluation_minutes: float
    rest_minutes: float
    overlap_minutes: float
    evaluations: int
    epochs: float | None
    samples: float | None
    notes: tuple[str, ...] = ()
    after_minutes: float = 0.0

    @property
    def minutes(self) -> float:
        """All four together: run_stop − run_start."""
        return self.start_minutes + self.training_minutes + self.evaluation_minutes + self.rest_minutes


@dataclass(frozen=True)
class TrainingRun:
    """One training log that follows MLPerf's rules; None where the log does not say.

    status             success; aborted (run_stop says so); unfinished (no run_stop); invalid (problem says)
    minutes            run_stop − run_start; None unless the status is success
    init_minutes       init_start to run_start, outside the score
    epochs             epochs to the quality target
    samples            samples seen to the quality target
    evaluations        (epoch, or samples where epochs are unknown; value) in the order of the log
    hyperparameters    every scalar the log states once: batch size, optimiser, target, seed …
    phases             where the time went, of a run that came to its run_stop, converged or not
    caches_dropped     before the run; False where the log shows that dropping them failed
    """

    file: str
    status: TrainingStatus
    problem: str
    benchmark: str | None
    round: str | None
    minutes: float | None
    init_minutes: float | None
    epochs: float | None
    samples: float | None
    global_batch_size: int | None
    train_samples: int | None
    evaluations: tuple[tuple[float, float], ...]
    hyperparameters: Mapping[str, Scalar]
    notes: tuple[str, ...] = ()  # what was decided where the log is ambiguous
    doubts: tuple[Doubt, ...] = ()  # where the log contradicts itself
    phases: TrainingPhases | None = None
    caches_dropped: bool | None = None

    @property
    def minutes_per_epoch(self) -> float | None:
        """Time of one pass over the data, evaluation included."""
        if self.minutes is None or not self.epochs:
            return None
        return self.minutes / self.epochs

    @property
    def samples_per_s(self) -> float | None:
        """Training throughput over the whole run, evaluation included."""
        if self.minutes is None or not self.minutes or self.samples is None:
            return None
        return self.samples / (self.minutes * 60)


@dataclass(frozen=True)
class LoggedKey:
    """One key of a training log: how often it stands there, where, and with what values.

    lines   of the first few, from 1
    values  distinct, in order, the first few; a list or a table as JSON text
    """

    count: int
    lines: tuple[int, ...]
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class LogOutline:
    """What a training log states, counted, to hold it against the rules of its round.

    evaluations    each metric's last value before run_stop, and its line; "" where the log names no metric
    init_s, run_s  init_start to init_stop and run_start to run_stop, seconds; None where one has no time
    skipped_at     lines that look like MLPerf's own and can't be understood, the first few
    cache_failure  line, and what it says, where the log shows that dropping caches failed
    """

    file: str
    keys: Mapping[str, LoggedKey]
    evaluations: Mapping[str, tuple[float, int]]
    init_s: float | None
    run_s: float | None
    skipped_at: tuple[int, ...] = ()
    cache_failure: tuple[int, str] | None = None


@dataclass(frozen=True)
class Stated:
    """What a log says under one key, and where: `mlperf_log_detail.txt:42`."""

    value: Scalar
    where: str


@dataclass(frozen=True)
class InferenceRun:
    """One run of MLPerf inference, as LoadGen's logs or the reference app state it; None where they don't.

    name       of the folder, or of the log
    files      the logs that state something
    scenario   `SingleStream`, `MultiStream`, `Server` or `Offline`
    mode       `PerformanceOnly`, `AccuracyOnly`, …
    validity   LoadGen's own word: `VALID` or `INVALID`
    problem    why it is no result of performance; "" when it is one
    score      the figure that MLPerf judges the scenario by; None where there is none
    figures    every figure in base units, the score among them
    stated     everything that the logs state, by LoadGen's own keys: `effective_min_duration_ms`
    contradictions  where the run's logs differ from each other
    """

    name: str
    files: tuple[str, ...]
    scenario: str | None
    mode: str | None
    validity: str | None
    problem: str
    score: Measurement | None
    figures: tuple[Measurement, ...]
    stated: Mapping[str, Stated]
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What a run's logs say: everything `read.py` found, made only from the run directory.

    facts          what the program stated of itself: global_batch_size, precision, device, versions
    problems       why this is not a result although the job ended well; empty when it is one
    skipped_lines  lines that looked like the reader's own and could not be understood
    """

    measurements: tuple[Measurement, ...] = ()
    series: tuple[Series, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    skipped_lines: int = 0
    training: TrainingRun | None = None


@dataclass(frozen=True)
class Provenance:
    """Everything that could have changed the number: one flat table a node, dotted names.

    `{"cpu.model": "…", "gpu.0.name": "…", "python.torch": "2.8.0", "env.NCCL_DEBUG": "INFO"}`
    """

    nodes: tuple[Mapping[str, Scalar], ...]


@dataclass(frozen=True)
class Result:
    """A run with what was read from it: the unit of replication, what analyse works on."""

    run: Run
    reading: Reading
    provenance: Provenance | None = None


# What it means -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval; low and high are None where n does not allow one."""

    value: float
    low: float | None
    high: float | None
    n: int
    unit: str
    confidence: float = 0.95


@dataclass(frozen=True)
class Doubt:
    """A reason not to take a figure at its face: code, the evidence in figures, what to do."""

    code: str
    evidence: str
    remedy: str


Verdict = Literal["equivalent", "faster", "slower", "undecided"]


@dataclass(frozen=True)
class Point:
    """What is held equal on both sides of a comparison: one metric at one point of the sweep."""

    benchmark: str
    shape: str
    metric: str
    unit: str
    better: Better | None
    labels: Mapping[str, Scalar]  # swept parameters and the measurement's own labels


@dataclass(frozen=True)
class RunsRange:
    """Runs a side that would decide; None stands for more than 10,000.

    about      at the run-to-run spread as estimated
    low, high  at the ends of that spread's 80 % interval
    """

    low: int | None
    about: int | None
    high: int | None


@dataclass(frozen=True)
class RunsNeeded:
    """How many runs a side, in all, would decide in so many of 100 cases; whatever was seen so far.

    if_equal             were the true ratio 1: to say `equivalent`
    if_twice_the_margin  were it 1 + 2 margins: to say `faster` or `slower`
    spread               of one run to the next, as a share, that this rests on
    of                   what is counted: runs, or sessions where sessions are what is replicated
    """

    if_equal: RunsRange
    if_twice_the_margin: RunsRange
    spread: float
    power: float
    of: Literal["runs", "sessions"] = "runs"


@dataclass(frozen=True)
class Family:
    """What it costs to claim several comparisons together.

    size        comparisons that are claimed together
    correction  `none` where all are equivalent: then each has to hold, and nothing is picked out
    ratio       the interval that the verdict rests on: in 95 % of cases all of the family's hold together
    alone       what the comparison's own interval says
    """

    size: int
    correction: Literal["none", "holm"]
    ratio: Estimate
    alone: Verdict


@dataclass(frozen=True)
class Comparison:
    """B against A at one point.

    ratio        geometric mean of B over that of A, in the metric's unit: below 1 is less, not worse
    n            runs of A and of B that count
    method       `welch` or `paired`; "" without an interval
    verdict      of B relative to A, in the metric's better-direction
    reason       why the verdict is what it is, in words a person can act on
    by_margin    the verdict's whole interval lies beyond the margin
    replication  what n of the interval are: runs, or sessions where both sides have several
    sessions     of A and of B
    error        standard error of the logarithm of the ratio, with `degrees` of freedom
    runs_needed  only where the verdict is undecided and more runs could decide
    rank         Hodges and Lehmann's estimate with its exact interval, to be read beside the ratio
    family       where several comparisons are claimed together
    """

    point: Point
    a: str
    b: str
    mean_a: float
    mean_b: float
    ratio: Estimate
    n: tuple[int, int]
    method: str
    margin: float
    verdict: Verdict
    reason: str
    smallest_visible: float | None  # half-width of the interval as a ratio − 1: what so many runs can show
    doubts: tuple[Doubt, ...] = ()
    by_margin: bool = False
    replication: Literal["runs", "sessions"] = "runs"
    sessions: tuple[int, int] = (0, 0)
    error: float | None = None
    degrees: float | None = None
    runs_needed: RunsNeeded | None = None
    rank: Estimate | None = None
    family: Family | None = None


@dataclass(frozen=True)
class Requirement:
    """An absolute requirement held against the runs of one system at one point: an acceptance test.

    estimate  geometric mean; each end of its interval, of 90 % or more, is a one-sided 95 % bound.
              None: nothing measured
    verdict   `holds` when the bound on the unfavourable side meets the requirement, `fails` when not even
              the favourable one does, else `undecided`
    """

    system: str
    point: Point
    expectation: Expectation
    estimate: Estimate | None
    verdict: Literal["holds", "fails", "undecided"]
    reason: str
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class ScalingPoint:
    """One size of a scaling curve.

    value       geometric mean over the runs, with its 95 % interval, in the metric's unit
    speedup     against the smallest size, above 1 is faster (a time is inverted); unit ""
    efficiency  speed-up over the ratio of ranks; 1 is ideal
    method      of the speed-up's interval: `welch` or `paired`; "" without an interval

    The smallest size itself has speed-up and efficiency 1 by definition, without an interval.
    """

    shape: str
    ranks: int
    value: Estimate
    speedup: Estimate
    efficiency: Estimate
    method: str
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class Scaling:
    """A metric of one system over sizes, smallest first; `points[0]` is what the others are held against."""

    system: str
    benchmark: str
    metric: str
    unit: str
    better: Better
    labels: Mapping[str, Scalar]
    points: tuple[ScalingPoint, ...]


# JSON ----------------------------------------------------------------------------------------------------


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _adapters:
        from pydantic import TypeAdapter  # a tenth of a second that not every command needs to wait for

        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_plain(record: Any) -> Any:
    """A record as dicts, lists and scalars, ready for `json.dumps`; bytes become base64 text."""
    return _adapter(type(record)).dump_python(record, mode="json")


def to_json(record: Any) -> str:
    """A record as indented JSON with a stable order of keys, ending in a newline."""
    return json.dumps(to_plain(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_compact_json(record: Any) -> str:
    """A record as JSON on one line, for machines; `from_json` reads it back."""
    return _adapter(type(record)).dump_json(record).decode()


def from_json(kind: type[T], text: str | bytes) -> T:
    """The inverse of `to_json`. Raises ValueError (pydantic's) when the text is not that record."""
    record: T = _adapter(kind).validate_json(text)
    return record


def digest_of(value: Any) -> str:
    """Digest of plain data that does not depend on the order of keys: 16 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain_bytes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain_bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
