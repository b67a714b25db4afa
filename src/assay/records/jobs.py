"""How a trial is run: what a launcher is given, and what it says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assay.records.plans import Shape, Task
from assay.records.scalar import Scalar


@dataclass(frozen=True)
class Job:
    """What a launcher is given. The token is unique and on disk before anything is submitted.

    max_output_bytes  that the ranks of one node may print; more ends the job. None: any amount
    """

    token: str
    trial_id: str
    shape: Shape
    task: Task
    seed: int
    timeout_s: float
    max_output_bytes: int | None = None


@dataclass(frozen=True)
class RenderedJob:
    """What a launcher would send, as a person reads it: the dry run.

    command  the command line, manifest or script, stable byte for byte for an equal job
    env      variables that every rank gets beside its own rank variables
    files    names of the files that travel, with their digests
    whole    the command holds environment and files too, as a manifest does
    """

    command: str
    env: Mapping[str, str]
    files: Mapping[str, str]
    whole: bool = False


@dataclass(frozen=True)
class Handle:
    """A submitted job, findable again by a later Assay. `data` is the launcher's own."""

    launcher: str
    token: str
    data: Mapping[str, Scalar]


class JobState(StrEnum):
    """Where a job stands. The last six are final.

    CANCELLED  this run asked for its end; STOPPED: somebody else did; LOST: the platform lost it
    """

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Nothing more will happen."""
        return self not in (JobState.PENDING, JobState.RUNNING)


class Extent(StrEnum):
    """Which trials would meet the same cause.

    TRIAL      this one alone, as far as is known
    POINT      those of its benchmark, parameters and shape on its system
    BENCHMARK  those of its benchmark on its system
    SHAPE      those of its shape on its system
    SYSTEM     those of its system
    PLATFORM   all: the login, the connection or the service is at fault, and no trial
    """

    TRIAL = "trial"
    POINT = "point"
    BENCHMARK = "benchmark"
    SHAPE = "shape"
    SYSTEM = "system"
    PLATFORM = "platform"


@dataclass(frozen=True)
class RankExit:
    """How one rank ended: an exit code, or the signal that killed it.

    first      the one that failed first
    never_ran  its program could not be started
    """

    rank: int
    exit_code: int | None
    signal: str | None = None
    first: bool = False
    never_ran: bool = False


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
    cpu_set             which these are, of which running kernel: pods of one node can have the same
    busy_cpu_s          of all processes, the job's own too
    beside_cpu_s        of the job's other parts that have the same CPUs: in busy_cpu_s, and no others
    stolen_cpu_s        wanted on a virtual machine, and withheld by its host
    cpu_wait_s          in which some task of the job's control group, or else of the node, waited for a CPU
    queue_wait_s        for which tasks waited in the run queues of these CPUs, summed over tasks
    memory_wait_s       in which some task of the node waited for memory
    job_cpu_s           of the job's own processes
    job_major_faults    pages that they had to wait for
    quota_cores         cores' worth of time that the tightest cgroup allows; None without a quota too
    periods             of the quota; throttled_periods: those in which the job was stopped
    throttled_s         for which it was stopped, summed over its CPUs
    heat_events, heat_s  slow-downs of its CPUs' packages for heat, and how long, all together

    Source: assay_payloads/keeping/counters.py.
    """

    elapsed_s: float
    cpus: int
    cpu_set: str | None = None
    busy_cpu_s: float | None = None
    beside_cpu_s: float | None = None
    stolen_cpu_s: float | None = None
    cpu_wait_s: float | None = None
    queue_wait_s: float | None = None
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
    extent   which trials would meet the cause, as far as the platform tells
    hosts    name of the node of each keeper, in order, "" where it is unknown; () before the end
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
    extent: Extent = Extent.TRIAL
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Output:
    """New bytes of one of a job's streams: `rank-0`, `rank-1`, … and `probe-0` (one a node).

    Cut anywhere, in order, each byte exactly once when followed from the count of bytes already kept.
    """

    stream: str
    data: bytes
