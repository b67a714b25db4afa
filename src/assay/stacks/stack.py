"""The stack of a run and the class of its hardware, what differs between two stacks, and their failures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from assay.provenance import group_of, known
from assay.records import Extent, JobState, Provenance, Run, RunState, Scalar
from assay.records.plain import digest_of
from assay.records.plans import Better
from assay.records.verdicts import Doubt

# Which facts are part of a stack's system: which software, not which machine or which state.
_SYSTEM: Final = re.compile(
    r"os|libc|kernel|kernel\.architecture|gpu\.driver|gpu\.cuda|kubernetes\.image_id"
    r"|python\.(version|implementation|torch_cuda|torch_hip)|cpu\.microcode"
)
_KERNEL_SETTINGS: Final = re.compile(
    r"kernel\.(options|numa_balancing)|memory\.(transparent_)?hugepages|cpu\.(governor|boost|smt)"
    r"|gpu\.\*\.(ecc|mig|power_limit_w|persistence)"
)
_OF_A_JOB: Final = "env.SLURM_"  # which job it was, not how the software was set


def stack_of(provenance: Provenance | None) -> Stack | None:
    """The stack of a run; None if its nodes don't report one, or if it is not the same on all of them."""
    if provenance is None or not known(provenance):
        return None
    stacks = {stack.digest: stack for stack in map(_stack, provenance.nodes) if stack is not None}
    return next(iter(stacks.values())) if len(stacks) == 1 else None


def hardware_of(provenance: Provenance | None) -> HardwareClass | None:
    """The class of a run's nodes; None if it is unknown, or not the same for all of them."""
    if provenance is None or not known(provenance):
        return None
    several = len(provenance.nodes) > 1
    classes = {
        hardware.digest: hardware for node in provenance.nodes if (hardware := _hardware(node, several)).cpu
    }
    return next(iter(classes.values())) if len(classes) == 1 else None


def _stack(node: Mapping[str, Scalar]) -> Stack | None:
    if "python.version" not in node and not any(name.startswith("package.") for name in node):
        return None
    system: dict[str, Scalar] = {}
    packages: dict[str, str] = {}
    builds: dict[str, str] = {}
    settings: dict[str, Scalar] = {}
    for name, value in sorted(_merged_gpus(node).items()):
        if name.startswith("package."):
            packages[name.removeprefix("package.")] = str(value)
        elif name.startswith("build."):
            builds[name.removeprefix("build.")] = str(value)
        elif name.startswith("conda."):
            builds[name] = str(value)
        elif _SYSTEM.fullmatch(name):
            system[name] = value
        elif _KERNEL_SETTINGS.fullmatch(name) or (
            group_of(name) == "environment" and not name.startswith(_OF_A_JOB)
        ):
            settings[name] = value
    for name, build in _local_builds(node, packages):
        builds[name] = f"{build} {builds.get(name, '')}".strip()
    return Stack(system, packages, builds, settings)


def _local_builds(node: Mapping[str, Scalar], packages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Builds that a package's own version file states and its metadata doesn't: torch's `+cu128`."""
    for name in ("torch", "torchvision"):
        stated = str(node.get(f"python.{name}") or "").partition("+")
        if stated[2] and "+" not in packages.get(name, "+"):
            yield name, f"+{stated[2]}"


def _merged_gpus(node: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The node's facts, with those of all its GPUs as one if they are equal."""
    merged: dict[str, set[Scalar]] = {}
    for name, value in node.items():
        merged.setdefault(re.sub(r"^gpu\.\d+\.", "gpu.*.", name), set()).add(value)
    return {
        name: next(iter(values)) if len(values) == 1 else " | ".join(sorted(map(str, values)))
        for name, values in merged.items()
    }


def _hardware(node: Mapping[str, Scalar], several: bool) -> HardwareClass:
    gpus = sorted((name, value) for name, value in node.items() if re.fullmatch(r"gpu\.\d+\.name", name))
    limits = [node.get("cpu.quota"), node.get("cpu.allowed")]
    cpus = min((float(limit) for limit in limits if isinstance(limit, int | float)), default=None)
    model = node.get("cpu.model")
    part = "/".join(str(node[name]) for name in ("cpu.implementer", "cpu.part") if name in node)
    return HardwareClass(
        cpu=str(model) if model else f"ARM {part}" if part else None,
        isa=tuple(str(node.get("cpu.isa") or "").split()),
        cpus=cpus,
        gpus=tuple(str(value) for _, value in gpus),
        fabric=tuple(_fabric(node)) if several else (),
    )


def _fabric(node: Mapping[str, Scalar]) -> Iterator[str]:
    """The rates of what connects nodes, each once: InfiniBand's or RoCE's, else the networks'."""
    rates = {str(v) for name, v in node.items() if re.fullmatch(r"infiniband\..+\.port\d+\.rate", name)}
    if rates:
        yield from sorted(f"InfiniBand {rate}" for rate in rates)
        return
    speeds = {
        v for name, v in node.items() if re.fullmatch(r"net\..+\.bits_per_s", name) and isinstance(v, int)
    }
    yield from (f"{speed / 1e9:g} Gbit/s" for speed in sorted(speeds))


WRONG_RESULT: Final = "wrong result"
"""How the cause of a run begins whose program checked its values and found them wrong."""

_NO_MODULE: Final = re.compile(r"No module named '?([\w.]+)")
_NOT_IMPORTED: Final = re.compile(
    r"\b(ImportError|ModuleNotFoundError)\b|undefined symbol|cannot open shared object file"
    r"|version `\w+_[\d.]+' not found|compiled using NumPy|numpy\.dtype size changed"
    r"|numpy\.core\.multiarray failed"
)
_PROGRAM_FAULTS: Final = frozenset({"SIGSEGV", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSYS", "SIGTRAP"})
_OF_THE_PROGRAM: Final = frozenset({Extent.TRIAL, Extent.POINT, Extent.BENCHMARK})


def failure_of(run: Run, stack: Stack, last_line: str) -> FailureKind | None:
    """What the end of a failed run says about its stack; None if something else may be the cause.

    last_line  of the log of the rank that failed first

    A time limit, a kill, a lost node, or a machine that can't run anything say nothing about the stack, and
    neither does a package that is simply not installed.
    """
    if run.state is not RunState.FAILED:
        return None
    if WRONG_RESULT in run.cause or WRONG_RESULT in last_line:
        return "wrong result"
    if run.job is not JobState.FAILED:
        return None
    first = next((end for end in run.exits if end.first), None)
    if first is None or first.never_ran or "out of memory" in f"{run.cause} {last_line}".lower():
        return None
    output = f"{run.cause}\n{last_line}"
    missing = _NO_MODULE.search(output)
    if missing is not None and not _installed(missing[1], stack):
        return None
    if missing is not None or _NOT_IMPORTED.search(output):
        return "does not import"
    if first.signal is not None:
        return "crashes" if first.signal in _PROGRAM_FAULTS else None
    return "crashes" if run.extent in _OF_THE_PROGRAM and first.exit_code else None


# modules whose package has another name
PACKAGE_OF: Final[Mapping[str, str]] = {
    "PIL": "pillow",
    "mlperf_loadgen": "mlcommons-loadgen",
    "segmentation_models_pytorch": "segmentation-models-pytorch",
}


def _installed(module: str, stack: Stack) -> bool:
    name = module.partition(".")[0]
    return PACKAGE_OF.get(name, name).replace("_", "-").lower() in stack.packages


Kind = Literal["package", "build", "system", "setting"]
OF_WHEEL: Final = ("nvidia-", "cuda-", "triton")  # how packages begin that torch's wheel brings
COME_WITH: Final[Mapping[str, tuple[str, ...]]] = {"torch": OF_WHEEL}
"""Package → how the names of libraries begin that its wheel requires at exact versions."""


@dataclass(frozen=True)
class Change:
    """One difference from A to B; None where a side lacks it."""

    kind: Kind
    name: str
    a: Scalar
    b: Scalar

    @property
    def reversed(self) -> Change:
        """From B to A."""
        return Change(self.kind, self.name, self.b, self.a)

    def __str__(self) -> str:
        name = self.name if self.kind != "build" else f"build of {self.name}"
        if self.a is None:
            return f"+ {name} {self.b}"
        return f"− {name} {self.a}" if self.b is None else f"{name} {self.a} → {self.b}"


def changes(a: Stack, b: Stack) -> tuple[Change, ...]:
    """All differences: packages first, then builds, settings and the system.

    Another build of a package whose version changed is part of that change. Builds that one side does not
    know are no differences.
    """
    packages = tuple(_changes("package", a.packages, b.packages))
    changed = {change.name for change in packages}
    known = (a.builds, b.builds) if a.builds and b.builds else ({}, {})
    builds = (change for change in _changes("build", *known) if change.name not in changed)
    return (
        *packages,
        *builds,
        *_changes("setting", a.settings, b.settings),
        *_changes("system", a.system, b.system),
    )


def _changes(kind: Kind, a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> Iterator[Change]:
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield Change(kind, name, a.get(name), b.get(name))


def with_it(change: Change, among: Iterable[Change]) -> tuple[Change, ...]:
    """Those of the other changes that this one brings: libraries that its wheel requires."""
    prefixes = COME_WITH.get(change.name, ()) if change.kind == "package" else ()
    return tuple(
        other
        for other in among
        if prefixes and other.kind in ("package", "build") and other.name.startswith(prefixes)
    )


def folded(delta: Iterable[Change]) -> tuple[Change, ...]:
    """The changes without those that another of them brings."""
    every = tuple(delta)
    brought = {other for change in every for other in with_it(change, every)}
    return tuple(change for change in every if change not in brought)


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
