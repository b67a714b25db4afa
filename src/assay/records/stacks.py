"""Software stacks, the hardware that they ran on, and what was observed of them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from assay.records.doubts import Doubt
from assay.records.plain import digest_of
from assay.records.plans import Better
from assay.records.scalar import Scalar

FailureKind = Literal["does not install", "does not import", "crashes", "wrong result"]


@dataclass(frozen=True)
class Stack:
    """The software that a program ran with, equal on all of its nodes.

    system    os, libc, kernel, python.version, gpu.driver, gpu.cuda, …: names as in provenance
    packages  Python packages: name → version
    builds    which build of a package is installed: name → its wheel's platform, `conda.NAME` → conda's build
    settings  what steers it: variables (`env.OMP_NUM_THREADS`) and the kernel's settings
    """

    system: Mapping[str, Scalar]
    packages: Mapping[str, str]
    builds: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Scalar] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Its name: equal stacks have equal ones."""
        return digest_of([dict(part) for part in (self.system, self.packages, self.builds, self.settings)])


@dataclass(frozen=True)
class HardwareClass:
    """What a stack's speed depends on besides the stack: machines of one class are interchangeable.

    cpu     model of the processor; None if unknown
    isa     its instruction sets that libraries choose their kernels by; () if unknown
    cpus    CPUs that the job may use on a node; None if unknown
    gpus    model of each GPU of a node; () without GPUs
    fabric  rates of what connects the nodes, slowest first; () if unknown, or for one node
    """

    cpu: str | None
    isa: tuple[str, ...] = ()
    cpus: float | None = None
    gpus: tuple[str, ...] = ()
    fabric: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Its name: equal classes have equal ones."""
        return digest_of([self.cpu, list(self.isa), self.cpus, list(self.gpus), list(self.fabric)])

    def __str__(self) -> str:
        cpus = "" if self.cpus is None else f" ({self.cpus:g} CPU{'' if self.cpus == 1 else 's'})"
        parts = [f"{self.cpu or 'unknown CPU'}{cpus}"]
        parts += [f"{self.gpus.count(name)} × {name}" for name in dict.fromkeys(self.gpus)]
        return ", ".join([*parts, *self.fabric])


@dataclass(frozen=True)
class StackWorkload:
    """What was run with a stack: figures of equal ones can be compared.

    parameters  every parameter with its value
    program     where its program is from: a version of Assay, or the digest of a suite with its own
    """

    workload: str
    shape: str
    parameters: Mapping[str, Any]
    program: str = ""

    @cached_property
    def digest(self) -> str:
        """Its name: equal ones have equal names."""
        return digest_of([self.question, self.program])

    @cached_property
    def question(self) -> str:
        """Equal for the same work by versions of a program: effects can be averaged, figures can't."""
        return digest_of([self.workload, self.shape, dict(self.parameters)])


@dataclass(frozen=True)
class StackMetric:
    """A figure that a workload reports; `labels` distinguish it from its siblings."""

    name: str
    unit: str
    better: Better | None
    labels: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """What one session observed of a stack: the values of one metric, or one failure.

    workload     None if the stack never came to run one
    metric       None for a failure
    session      `suite/session`; the name of the exploration or bisection that it is a step of; or a digest,
                 if another party observed it
    at           when its first run was made, seconds since the epoch
    primary      it is the workload's leading metric
    values       block and value of each run that counts, in the order of the blocks
    interleaved  all stacks of the session ran in each block, shuffled
    confidence   that an interval from runs of this session needs to hold 95 % at all looks
    lost_to_others  share of their time that the runs may have lost to others on their CPUs
    doubts       what may have shifted the values
    failure      None if it gave values
    why          of a failure, the cause as text
    log          where its logs are: below the runs directory, or a path
    origin       key of the party that observed it; "" for this runs directory
    """

    stack: Stack
    hardware: HardwareClass
    workload: StackWorkload | None
    metric: StackMetric | None
    session: str
    at: float
    primary: bool = False
    values: tuple[tuple[int, float], ...] = ()
    interleaved: bool = False
    confidence: float = 0.95
    lost_to_others: float = 0.0
    doubts: tuple[Doubt, ...] = ()
    failure: FailureKind | None = None
    why: str = ""
    log: str = ""
    origin: str = ""
