"""How a trial is run: what a launcher receives, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assay.records.plain import Scalar
from assay.records.plans import Shape, Task

NODE_STREAMS = (
    "probe-",
    "staging-",
    "telemetry-",
)  # begin the names of a node's streams; the others are of ranks


@dataclass(frozen=True)
class Job:
    """What a launcher receives. The token is unique and on disk before anything is submitted.

    max_output_bytes  output limit for the ranks of one node; more ends the job. None: no limit
    sample_every_s  time between samples of each node; None: no samples
    """

    token: str
    trial_id: str
    shape: Shape
    task: Task
    seed: int
    timeout_s: float
    max_output_bytes: int | None = None
    sample_every_s: float | None = None

    @property
    def longest_s(self) -> float:
        """Longest time from the start of its first program to the end of its ranks."""
        return self.timeout_s + (0.0 if self.task.before is None else self.task.before.timeout_s)


@dataclass(frozen=True)
class RenderedJob:
    """What a launcher would submit, in readable form: the dry run.

    command  the command line, manifest or script, identical byte for byte for an equal job
    env      variables that every rank gets in addition to its own rank variables
    files    names of the files that travel with the job, with their digests
    whole    the command includes environment and files, as a manifest does
    """

    command: str
    env: Mapping[str, str]
    files: Mapping[str, str]
    whole: bool = False


@dataclass(frozen=True)
class Handle:
    """A submitted job that another Assay process can find again. `data` is the launcher's own."""

    launcher: str
    token: str
    data: Mapping[str, Scalar]


class JobState(StrEnum):
    """The state of a job. The last six are final.

    CANCELLED  this run requested its end; STOPPED: somebody else did; LOST: the platform lost it
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
        """Whether the state is final."""
        return self not in (JobState.PENDING, JobState.RUNNING)


class Extent(StrEnum):
    """Which trials would fail for the same cause.

    TRIAL      only this one, as far as is known
    POINT      those with its benchmark, parameters and shape on its system
    BENCHMARK  those of its benchmark on its system
    SHAPE      those of its shape on its system
    SYSTEM     those of its system
    PLACE      those of its system, whatever finished there before: its namespace is gone, a right is missing
    PLATFORM   all: the cause is the login, the connection or the service, not a trial
    """

    TRIAL = "trial"
    POINT = "point"
    BENCHMARK = "benchmark"
    SHAPE = "shape"
    SYSTEM = "system"
    PLACE = "place"
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
    """The final contents of one of the job's streams, as the job reports them; its log must match."""

    bytes: int
    lines: int
    sha256: str


@dataclass(frozen=True)
class NodeCounts:
    """What the kernel of one node counted while a job's ranks ran there; None if it does not count it.

    elapsed_s           between the two readings
    cpus                that the job may run on; busy and stolen time are for these only
    cpu_set             which CPUs these are, of which running kernel: pods of one node can have the same
    busy_cpu_s          of all processes, including the job's own
    beside_cpu_s        of the job's other parts on the same CPUs: included in busy_cpu_s, but not others'
                        time
    stolen_cpu_s        wanted on a virtual machine, and not given by its host
    cpu_wait_s          in which some task of the job's control group, or else of the node, waited for a CPU
    queue_wait_s        for which tasks waited in the run queues of these CPUs, summed over tasks
    memory_wait_s       in which some task of the node waited for memory
    job_cpu_s           of the job's own processes
    job_major_faults    pages that they had to wait for
    peak_rss_bytes      resident memory of the largest of the job's processes, at its peak
    quota_cores         cores' worth of time that the tightest cgroup allows; None also without a quota
    periods             of the quota; throttled_periods: those in which the job was stopped
    throttled_s         for which it was stopped, summed over its CPUs
    suspended_s         in which the keeper or a rank was suspended: by a signal, a freezer, a batch system,
                        or with the whole machine
    heat_events, heat_s  thermal throttling events of its CPUs' packages, and their total duration

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
    peak_rss_bytes: int | None = None
    quota_cores: float | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_s: float | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None
    heat_events: int | None = None
    heat_s: float | None = None
    suspended_s: float | None = None


@dataclass(frozen=True)
class JobStatus:
    """A job's state, with the cause as text and each rank's end once it is final.

    cause    why it failed; before its end, what it waits for; of a success, what is wrong with its output
    streams  those that the job reports on; {} if it ended without a report
    nodes    what their kernels counted meanwhile, in the order of the nodes that reported it
    facts    what only the launcher knows about where it ran (an image's digest), for each node's provenance
    node_facts  the same for one node each, by the stream of its probe: `probe-0` → facts
    extent   which trials would fail for the same cause, as far as the platform reports it
    hosts    node name of each keeper, in order, "" if unknown; () before the end
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
    """New bytes of one of a job's streams: `rank-0`, `rank-1`, … and per node
    `probe-0`, `staging-0` and `telemetry-0`.

    Cut anywhere, in order, each byte exactly once if followed from the number of bytes already stored.
    """

    stream: str
    data: bytes
