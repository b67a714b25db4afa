"""What happened: a run, what was read from it, and where it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from assay.records.jobs import Extent, Handle, JobState, NodeCounts, RankExit
from assay.records.logged_runs import ConfusionMatrix, Links, Measurement, Series, TrainingRun
from assay.records.plain import Count, Scalar, Time
from assay.records.plans import Trial


class RunState(StrEnum):
    """State of an attempt in its run directory. The last two are final."""

    SUBMITTING = "submitting"  # intent and token are on disk, the job may have started
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether the attempt is over and its log complete."""
        return self in (RunState.FINISHED, RunState.FAILED)


@dataclass(frozen=True)
class SecretPlace:
    """Where a log first contains a secret that the suite or the system names: the log is stored as printed.

    With it, another Assay process, which does not know the secret, can hide it in everything it makes of the
    log.
    """

    log: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Run:
    """An executed trial: one attempt. The contents of `run.json`.

    id          `suite/session/trial`, a path below the runs directory
    session     the run directory it belongs to, named by its starting time
    job         how its job ended; None until then, and for an imported log
    cause       why it failed, as text; "" if it did not
    extent      of a failure: which trials would fail for the same cause, by what was known then
    adopted     an Assay process other than the one that submitted it took it over, running or lost
    source      for an imported log: the file or directory it came from
    log_digest  for an imported log: digest of its bytes, equal for copies; "" if not recorded
    looks       of its plan: intervals from such runs have to allow for the looks
    nodes       what their kernels counted while the ranks ran; () if nothing was counted
    outside_block  it started after a later block had started, or repeats a failure: it has no pair in its
                   block
    declared_env  names of the variables that systems.yaml sets for its system
    places      node name of each rank, by rank, "" if unknown; () if none is known
    collected_at  when all output of its job was stored; None before that, or if not recorded
    secrets     where its logs contain secrets, the first place of each
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
    attempt: Count
    token: str
    state: RunState
    created_at: Time
    started_at: Time | None = None
    ended_at: Time | None = None
    handle: Handle | None = None
    exits: tuple[RankExit, ...] = ()
    job: JobState | None = None
    cause: str = ""
    adopted: bool = False
    source: str | None = None
    log_digest: str = ""
    looks: tuple[Count, ...] = ()
    nodes: tuple[NodeCounts, ...] = ()
    collected_at: Time | None = None
    extent: Extent = Extent.TRIAL
    secrets: tuple[SecretPlace, ...] = ()
    places: tuple[str, ...] = ()
    outside_block: bool = False
    declared_env: tuple[str, ...] = ()

    @property
    def dated(self) -> bool:
        """Whether it is known when it was made; for imported runs, only if they state it."""
        return self.source is None or self.started_at is not None

    @property
    def made_at(self) -> float:
        """When it was made, seconds since the epoch; when it was imported if that is unknown."""
        return self.created_at if self.source is None or self.started_at is None else self.started_at


@dataclass(frozen=True)
class Reading:
    """What a run's logs state: everything `read.py` found, made only from the run directory.

    facts          what the program stated about itself: global_batch_size, precision, device, versions
    problems       why this is not a result although the job ended well; empty if it is one
    skipped_lines  lines that looked like the reader's own but could not be parsed
    cut_lines      lines that are longer than the limit for reading
    confusion      of the last evaluation, if the program prints one
    links          how its ranks were connected, if the communication library reports it
    gpus           what each GPU of its nodes did, if they were sampled
    disagreements  figures for which the sampler and a Prometheus differ, in words
    unsampled      nodes whose telemetry covers only a part of the run, in words
    notes          how its logs were read: what others had put around them, what may be missing from them
    """

    measurements: tuple[Measurement, ...] = ()
    series: tuple[Series, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    skipped_lines: int = 0
    cut_lines: int = 0
    training: TrainingRun | None = None
    confusion: ConfusionMatrix | None = None
    links: tuple[Links, ...] = ()
    gpus: tuple[GpuUse, ...] = ()
    disagreements: tuple[str, ...] = ()
    unsampled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """Everything that could have changed the number: one flat table per node, dotted names.

    `{"cpu.model": "…", "gpu.0.name": "…", "python.torch": "2.8.0", "env.NCCL_DEBUG": "INFO"}`
    """

    nodes: tuple[Mapping[str, Scalar], ...]


@dataclass(frozen=True)
class Result:
    """A run with what was read from it: the unit of replication, which the analysis works on."""

    run: Run
    reading: Reading
    provenance: Provenance | None = None

    @property
    def counts(self) -> bool:
        """Whether it is a replicate: the run finished and its reading has no problem."""
        return self.run.state is RunState.FINISHED and not self.reading.problems

    @property
    def failed(self) -> bool:
        """Whether it ended without being a replicate; false while it runs, and where it was interrupted."""
        return self.run.state.final and not self.counts


@dataclass(frozen=True)
class GpuUse:
    """One GPU over a run, from samples; None where the driver did not say.

    node, gpu    the node's number within the job, and the GPU's index on it, both from 0
    sampled_s    time that samples cover; the others are about this time
    utilization  mean share of the time in which a kernel ran, 0 to 1
    power_w      mean
    clock_hz     mean SM clock of the samples at work (use of at least 50 %)
    slowed_s     time at clocks that heat, the hardware's slowdown or a power brake lowered
    capped_s     time at clocks that the power limit lowered
    """

    node: int
    gpu: int
    sampled_s: float
    utilization: float | None = None
    power_w: float | None = None
    clock_hz: float | None = None
    slowed_s: float | None = None
    capped_s: float | None = None

    def __str__(self) -> str:
        return f"GPU {self.gpu} of node {self.node}"


INDEX_FILE: Final = "index.duckdb"


def is_reserved(name: str) -> bool:
    """Whether a suite's directory of this name would be in the place of a file of Assay's own.

    Those that begin with a dot are no names in the first place.

    >>> is_reserved("Index.DuckDB"), is_reserved("index.duckdb.wal"), is_reserved("index")
    (True, True, False)
    """
    return name.casefold().startswith(INDEX_FILE)
