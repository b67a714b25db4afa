"""What logs print and state: values and curves with their places, a training, an inference run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from assay.records.plain import Scalar
from assay.records.verdicts import Doubt

TrainingStatus = Literal["success", "aborted", "unfinished", "invalid"]


@dataclass(frozen=True)
class TrainingPhases:
    """Where the minutes from run_start to run_stop went; the four phases add up to them.

    start        before anything is trained
    training     epochs, or blocks
    evaluation   the part that does not overlap training
    rest         what the log does not account for
    overlap      evaluation while an epoch is open, counted once, in training or evaluation
    evaluations  their number
    epochs, samples  trained up to the last evaluation, whether or not the target was reached
    after        the part of the rest after the last evaluation
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
    """One training log that follows MLPerf's rules; None for what the log does not state.

    status             success; aborted (run_stop says so); unfinished (no run_stop); invalid (problem states
                       why)
    minutes            run_stop − run_start; None unless the status is success
    init_minutes       init_start to run_start, outside the score
    epochs             epochs to the quality target
    samples            samples seen up to the quality target
    evaluations        (epoch, or samples if epochs are unknown; value) in the order of the log
    hyperparameters    every scalar that the log states once: batch size, optimizer, target, seed …
    phases             where the time went, for a run that reached its run_stop, converged or not
    caches_dropped     before the run; False if the log shows that dropping them failed
    target_reached     by the log's own evaluation, for a run that succeeded; None if no target is known
    data_set_samples   in the training set; what the log calls `train_samples` may count something else
    tracked_samples_per_s  the log's own training throughput, over all accelerators
    started_at         run_start, seconds since the epoch
    system             what the log states about the machine and its software: `software.nccl_version`
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
    notes: tuple[str, ...] = ()  # decisions where the log is ambiguous
    doubts: tuple[Doubt, ...] = ()  # where the log contradicts itself
    phases: TrainingPhases | None = None
    caches_dropped: bool | None = None
    target_reached: bool | None = None
    data_set_samples: int | None = None
    tracked_samples_per_s: float | None = None
    started_at: float | None = None
    system: Mapping[str, Scalar] = field(default_factory=dict)

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

    @property
    def training_samples_per_s(self) -> float | None:
        """Throughput during training, without start, evaluation and rest."""
        if self.samples is None or self.phases is None or not self.phases.training_minutes:
            return None
        return self.samples / (self.phases.training_minutes * 60)


@dataclass(frozen=True)
class LoggedKey:
    """One key of a training log: how often it occurs, where, and with which values.

    lines   of the first few, from 1
    values  distinct, in order, the first few; a list or a table as JSON text
    """

    count: int
    lines: tuple[int, ...]
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class LogOutline:
    """What a training log states, counted, for checking it against the rules of its round.

    evaluations    each metric's last value before run_stop, and its line; "" if the log names no metric
    init_s, run_s  init_start to init_stop and run_start to run_stop, seconds; None if one has no time
    skipped_at     lines that look like MLPerf's but can't be parsed, the first few
    cleared_before_s  first cache_clear to run_start, seconds, negative if it came later
    cache_failure  line and text, if the log shows that dropping caches failed
    """

    file: str
    keys: Mapping[str, LoggedKey]
    evaluations: Mapping[str, tuple[float, int]]
    init_s: float | None
    run_s: float | None
    skipped_at: tuple[int, ...] = ()
    cache_failure: tuple[int, str] | None = None
    cleared_before_s: float | None = None


@dataclass(frozen=True)
class StatedValue:
    """What a log states under one key, and where: `mlperf_log_detail.txt:42`."""

    value: Scalar
    where: str


@dataclass(frozen=True)
class InferencePlace:
    """Where a run is in MLPerf's result tree; "" for what its path doesn't state.

    round      `v4.1`
    division   `closed`, `open` or `network`
    scenario   named like the folder: `Interactive` is Server with tighter bounds
    audit      the audit test that it is a run of, `TEST01`; "": none
    mode       `performance` or `accuracy`
    run        `run_1`
    """

    round: str
    division: str
    submitter: str
    system: str
    benchmark: str
    scenario: str
    audit: str
    mode: str
    run: str

    @property
    def owner(self) -> str:
        """Submitter and system, and the division if it isn't the closed one."""
        division = self.division if self.division != "closed" else ""
        return "/".join(part for part in (division, self.submitter, self.system) if part)

    def __str__(self) -> str:
        mode = self.mode if self.mode != "performance" else ""
        run = self.run if self.run != "run_1" else ""
        parts = (self.owner, self.benchmark, self.scenario, self.audit, mode, run)
        return "/".join(part for part in parts if part)


@dataclass(frozen=True)
class AccuracyRun:
    """The accuracy run that belongs to a performance run.

    folder   its path
    figures  metric → value in its accuracy.txt
    problem  why it states no accuracy; "" if it states one
    """

    folder: str
    figures: Mapping[str, StatedValue]
    problem: str


@dataclass(frozen=True)
class InferenceRun:
    """One MLPerf inference run, as LoadGen's logs or the reference app state it; None for what is missing.

    name       of the folder, or of the log
    files      the logs that state something
    scenario   `SingleStream`, `MultiStream`, `Server` or `Offline`
    mode       `PerformanceOnly`, `AccuracyOnly`, …
    validity   LoadGen's own word: `VALID` or `INVALID`
    problem    why it is not a performance result; "" if it is one
    score      the value that MLPerf judges the scenario by; None if there is none
    figures    every value in base units, including the score
    stated     everything that the logs state, by LoadGen's own keys: `effective_min_duration_ms`
    contradictions  where the run's logs differ from each other
    place      in MLPerf's result tree; None: outside the tree
    accuracy   the accuracy run next to it; None: there is none
    """

    name: str
    files: tuple[str, ...]
    scenario: str | None
    mode: str | None
    validity: str | None
    problem: str
    score: Measurement | None
    figures: tuple[Measurement, ...]
    stated: Mapping[str, StatedValue]
    contradictions: tuple[str, ...] = ()
    place: InferencePlace | None = None
    accuracy: AccuracyRun | None = None


@dataclass(frozen=True)
class Measurement:
    """One value that a run printed, and where.

    labels  what distinguishes it from others of the same metric: payload_bytes, dtype, size
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
    """A value over steps, epochs or seconds since the start, in the order printed."""

    name: str
    unit: str
    x_name: Literal["step", "epoch", "samples", "seconds"]
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class ConfusionMatrix:
    """An evaluation's predictions: `counts[true][predicted]`, both in the order of `classes`."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Links:
    """Connections between two places of a job by one transport, in one direction.

    sender, receiver  `0 node-a`, rank and node, for a small job; nodes for a large one
    transport         its kind: `GPUDirect RDMA`, `InfiniBand`, `sockets`, `P2P`, `shared memory` …
    links             pairs of ranks
    channels          of all these together
    """

    sender: str
    receiver: str
    transport: str
    links: int
    channels: int
