"""What is to be measured: a suite's points as trials, and what each rank runs as a task."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from assay.records.plain import LARGEST_AMOUNT, Amount, Count, Positive, Seconds, Share

Better = Literal["higher", "lower"]


MOST_RANKS = 1_000_000  # of a shape: an extra digit is rejected rather than planned


@dataclass(frozen=True, order=True)
class Shape:
    """Workers × accelerators per worker, optionally spread over this many nodes: `2x8`, `16x1x2`.

    An accelerator is one process (rank) with one GPU, or one share of the cores if there is no GPU.
    """

    workers: Positive
    accelerators: Positive
    nodes: Positive | None = None

    def __post_init__(self) -> None:
        if self.ranks > MOST_RANKS:
            raise ValueError(f"'{self}' has more than {MOST_RANKS:,} ranks, which is the limit")

    @property
    def ranks(self) -> int:
        """Total number of processes."""
        return self.workers * self.accelerators

    def __str__(self) -> str:
        tail = "" if self.nodes is None else f"x{self.nodes}"
        return f"{self.workers}x{self.accelerators}{tail}"

    @classmethod
    def parse(cls, text: str) -> Shape:
        """`"2x8"` or `"16x1x2"`. Raises ValueError on anything else."""
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)(?:x([1-9]\d*))?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a shape; write workers x accelerators, such as 2x8")
        if max(map(len, filter(None, match.groups()))) > len(str(MOST_RANKS)):
            raise ValueError(f"{text!r} has more than {MOST_RANKS:,} ranks, which is the limit")
        workers, nodes = int(match[1]), None if match[3] is None else int(match[3])
        shape = cls(workers, int(match[2]), nodes)
        if nodes is not None and workers % nodes:
            raise ValueError(f"{text!r}: {workers} workers can't be spread evenly over {nodes} nodes")
        return shape


@dataclass(frozen=True)
class Metric:
    """What a workload reports.

    name    the name in its log, tables and `expect:`: `throughput`, `busbw`
    unit    `images/s`, `B/s`, `s`, `FLOP/s`; "" for a plain number
    better  which direction is an improvement; None if neither is (a count of epochs)
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
class SecretReference:
    """Where the value of a variable is found when its job is submitted; no record contains the value.

    source  as the user's files have it: `from_env` (a variable of Assay's own environment), `from_file`,
            `from_kubernetes_secret`
    name    of the variable, the file or the Secret; key: in the Secret
    """

    source: Literal["from_env", "from_file", "from_kubernetes_secret"]
    name: str
    key: str = ""

    @property
    def written(self) -> dict[str, Any]:
        """As written in the user's files."""
        return {self.source: {"name": self.name, "key": self.key} if self.key else self.name}

    def __str__(self) -> str:
        return f"{{{self.source}: {f'{{name: {self.name}, key: {self.key}}}' if self.key else self.name}}}"


@dataclass(frozen=True)
class TaskFile:
    """A file that travels with a job into its working directory."""

    name: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the content."""
        return hashlib.sha256(self.data).hexdigest()


FRAMES_FILE = "manifest.jsonl"  # in the working directory of a job whose frames are chosen


@dataclass(frozen=True)
class FrameChoice:
    """Frames of a catalog that a job reads, chosen when it is submitted.

    catalog  file of the catalog, an absolute path on Assay's machine
    where    condition on the frames, as `assay data query` takes it; "" for all
    limit    number of frames to draw at random; None for all
    seed     of the draw
    balance  a class: as many frames without it as with it; None for whatever there is
    """

    catalog: str
    where: str = ""
    limit: int | None = None
    seed: int = 0
    balance: str | None = None


@dataclass(frozen=True)
class NodeProgram:
    """A program that runs once on each node, before any rank starts.

    name       of its stream: `staging` prints to `staging-0` on node 0
    argv       as in `Task`; it runs in the job's own directory, which contains the files
    timeout_s  after which it is ended, and the trial with it
    holds      files that the node keeps locked, shared, from before this program to the end of its ranks
    """

    name: str
    argv: tuple[str, ...]
    timeout_s: float
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """What every rank of a trial runs: a workload's complete answer, before any launcher is involved.

    argv     program and arguments; an element that is exactly `{python}` becomes the system's interpreter
    env      variables added to the rank's environment
    secrets  variables whose values are found when the job is submitted, and stored nowhere
    files    contents of the working directory at the start
    cwd      an existing directory to run in; None is the job's own, which contains the files
    outputs  file names or globs below the working directory that are kept
    image    container image, if the system is a container platform and names none
    frames   to be chosen when the job is submitted; their manifest is then FRAMES_FILE among `files`
    before   what each node runs before its ranks
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[TaskFile, ...] = ()
    cwd: str | None = None
    outputs: tuple[str, ...] = ()
    image: str | None = None
    secrets: Mapping[str, SecretReference] = field(default_factory=dict)
    frames: FrameChoice | None = None
    before: NodeProgram | None = None


@dataclass(frozen=True)
class Price:
    """The user's price of a system: per hour of each accelerator or node that a job uses, or per kWh."""

    amount: Amount
    currency: str
    per: Literal["accelerator", "node", "kWh"]

    def __str__(self) -> str:
        return f"{self.amount:g} {self.currency}/{self.per}{'' if self.per == 'kWh' else '-hour'}"

    @classmethod
    def parse(cls, text: object) -> Price:
        """`2.50 EUR/accelerator-hour`, `30 USD/node-hour` or `0.25 EUR/kWh`; else raises ValueError."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ([A-Z]{3})/(?:(accelerator|node)-hour|kWh)", str(text))
        if match is None or not 0 < float(match[1]) <= LARGEST_AMOUNT:
            raise ValueError(
                f"{text!r} is not a price; write it as 2.50 EUR/accelerator-hour, 30 USD/node-hour or "
                "0.25 EUR/kWh"
            )
        per: Literal["accelerator", "node", "kWh"] = "kWh"
        if match[3] is not None:
            per = "node" if match[3] == "node" else "accelerator"
        return cls(float(match[1]), match[2], per)


@dataclass(frozen=True)
class Expectation:
    """An absolute requirement on a metric, in the metric's own unit: `busbw >= 1.1e10 B/s`."""

    metric: str
    relation: Literal[">=", "<="]
    value: float
    unit: str
    written: str  # as written by the user


CHOSEN_SET = "chosen-when-submitted"  # the set's name while its frames aren't chosen yet
CHOSEN_ROOT = "root-of-the-chosen-frames"  # likewise the data set's place


@dataclass(frozen=True)
class StagedData:
    """Frames that a trial reads, and how they come near to each node.

    manifest     the file here that names them; "" if they are chosen when the trial is submitted: digest,
                 frames and bytes are then unknown, and CHOSEN_SET and CHOSEN_ROOT are in place of names
    digest       of its frames
    frames       how many, and the bytes of all
    root         the data set's place, from the manifest
    mode         local: all are copied before the ranks start; through: each is kept when it is first read
    cache        directory on each node that holds sets of frames
    directory    of these frames below it
    hold         file below it that is locked as long as somebody reads them
    space_bytes  that all sets in the cache may use together; None: no limit
    timeout_s    of the preparation on each node
    """

    manifest: str
    digest: str
    frames: int
    bytes: int
    root: str
    mode: Literal["local", "through"]
    cache: str
    directory: str
    hold: str
    space_bytes: int | None = None
    timeout_s: float = 3600.0

    @property
    def list_path(self) -> str:
        """The manifest in the directory."""
        return f"{self.directory}/manifest.jsonl"

    @property
    def params(self) -> Mapping[str, str]:
        """The parameters with which a training reads the frames."""
        read = {"data": self.directory}
        if self.manifest:  # otherwise the parameter `choose` names the list
            read["manifest"] = self.list_path
        return read if self.mode == "local" else {**read, "source": self.root}


@dataclass(frozen=True)
class Trial:
    """One point of the sweep, one repetition, on one system.

    id         typed by people: `resnet50-1x2-r03`; with several systems `resnet50-1x2-here-r03`
    benchmark  the suite's name for it; workload is the program's
    params     every parameter with its value, including defaults
    varied     those of them that the suite sweeps
    block      repetition, from 1; all systems and points of a block ran shuffled together
    seed       for the program; equal for all systems and shapes of a block
    digest     of everything that defines the trial except block and seed, including the bytes of its programs
    max_output_bytes  output limit for the ranks of one node; None in runs from before there was a limit
    sample_every_s  time between samples of each node that it runs on; None: none are taken
    data       frames that each node brings near before the ranks start, if the suite asks for it
    task_digest  of the program's bytes and parameters, whatever the suite's seed and systems; "" in runs from
               before it was kept
    declared_params  names of the parameters that systems.yaml sets for its system

    What it runs is not stored here: `plan.task_of(trial)` recreates it; the digest shows that it is the same.
    """

    id: str
    suite: str
    benchmark: str
    workload: str
    system: str
    shape: Shape
    params: Mapping[str, Any]
    varied: Mapping[str, Any]
    block: Count
    seed: int
    timeout_s: Seconds
    retries: Count
    digest: str
    max_output_bytes: int | None = None
    sample_every_s: float | None = None
    data: StagedData | None = None
    task_digest: str = ""
    declared_params: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Ordered trials and what an analysis needs to know about the design.

    suite_digest  of what is measured (benchmarks, parameters, shapes, programs), whatever the systems
    digest        of the whole plan: an unfinished run is only resumed under the same digest
    interleaved   each block contained every system, shuffled: sides can be paired by block
    looks         for a run until decided: the numbers of blocks after which Assay looks, up to the maximum;
                  `trials` then has the maximum, and fewer may have been run. () if the number is fixed
    prices        system → its price, if systems.yaml states it; not part of any digest
    declared_env  system → names of the variables that systems.yaml sets for it
    named_files   path → digest of each existing file that a command line names, such as a script
    """

    suite: str
    suite_digest: str
    digest: str
    seed: int
    repeats: Count
    systems: tuple[str, ...]
    baseline: str | None
    margin: Share
    interleaved: bool
    primary_metric: Mapping[str, str]  # benchmark → metric
    expectations: Mapping[str, tuple[Expectation, ...]]  # benchmark → requirements
    trials: tuple[Trial, ...]
    looks: tuple[Count, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)
    declared_env: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named_files: Mapping[str, str] = field(default_factory=dict)
