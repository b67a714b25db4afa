"""The contents of suite.yaml, as the user writes it, and the resulting suite."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)

from assay import redact, units
from assay.records import DEFAULT_MARGIN, Price, Shape, StagedData, is_reserved
from assay.suite.document import Document, Key

NEVER = "never"
LONGEST_S = 366 * 86400.0  # of a timeout: a digit too many is refused
SHORTEST_SAMPLE_S, LONGEST_SAMPLE_S = 0.1, 60.0
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$"
_REQUIREMENT = re.compile(r"\s*(>=|<=)\s*(.+)")


def parse_requirement(text: str) -> tuple[Literal[">=", "<="], units.Quantity]:
    """`">= 11000 MB/s"` as relation and quantity. Raises ValueError on anything else."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a requirement; write it as '>= 11000 MB/s' or '<= 20 min'")
    return (">=" if match[1] == ">=" else "<="), units.parse_quantity(match[2])


def _name(text: str) -> str:
    if re.fullmatch(NAME_PATTERN, text) is None:
        raise ValueError(f"{text!r} is not a name; use up to 40 letters, digits, dots, dashes and _")
    if (shown := redact.shown_name(text)) != text:
        raise ValueError(f"the name {shown!r} contains a secret, which directories would show; rename it")
    return text


def _suite_name(text: str) -> str:
    if is_reserved(text):
        raise ValueError(f"{text!r} is the name of a file that Assay keeps with the runs; choose another")
    return text


def _shape(value: Any) -> Shape:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a shape; write workers x accelerators, such as 2x8")  # noqa: TRY004 pydantic reports ValueError only
    return Shape.parse(value)


def _number(value: Any, read: Callable[[str | float], float], example: str) -> float:
    """`value` parsed by one of the functions in units, more than 0. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not valid here; write it as {example}")  # noqa: TRY004 as above
    try:
        number = read(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not valid; write it as {example}") from error
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{value!r} must be more than 0; write it as {example}")
    return number


def _duration(value: Any) -> float:
    seconds = _number(value, units.seconds, "10min")
    if seconds > LONGEST_S:
        raise ValueError(f"{value!r} is longer than a year; write it as 10min")
    return seconds


def _sample_period(value: Any) -> float | None:
    if value is None or value == NEVER:
        return None
    period_s = _number(value, units.seconds, f"1s, or {NEVER}")
    if not SHORTEST_SAMPLE_S <= period_s <= LONGEST_SAMPLE_S:
        raise ValueError(
            f"{value!r} is not between {SHORTEST_SAMPLE_S:g} s and {LONGEST_SAMPLE_S:g} s: "
            f"write 1s, or {NEVER}"
        )
    return period_s


def _size(value: Any) -> int:
    return math.ceil(_number(value, units.size, "4 GB"))


def _margin(value: Any) -> float:
    share = _number(value, units.fraction, "2%")
    if share >= 1:
        raise ValueError(f"{value!r} is not a margin below 100%; write it as 2%")
    return share


def _absolute(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/"):
        raise ValueError(
            f"{path!r} is not an absolute path; name a directory of the nodes, like /scratch/assay"
        )
    return path.rstrip("/") or "/"


def _requirement(text: str) -> str:
    parse_requirement(text)
    return text


def _without_repeats(values: list[Any]) -> list[Any]:
    twice = [str(value) for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ValueError(f"{', '.join(twice)} appears here twice")
    return values


Name = Annotated[str, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
SuiteName = Annotated[Name, AfterValidator(_suite_name)]
ShapeText = Annotated[
    Shape,
    PlainValidator(_shape),
    WithJsonSchema({"type": "string", "pattern": r"^[1-9]\d*x[1-9]\d*(x[1-9]\d*)?$", "examples": ["2x8"]}),
]
Shapes = Annotated[list[ShapeText], Field(min_length=1), AfterValidator(_without_repeats)]
Duration = Annotated[
    float,
    BeforeValidator(_duration),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "examples": ["90s", "10min", "2h"]}),
]
SamplePeriod = Annotated[
    float | None,
    BeforeValidator(_sample_period),
    WithJsonSchema({"type": ["number", "string"], "examples": ["1s", "100ms", NEVER]}),
]
Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "examples": ["4 GB", "200 MB"]}),
]
Margin = Annotated[
    float,
    BeforeValidator(_margin),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "examples": ["2%", 0.02]}),
]
Requirement = Annotated[
    str,
    AfterValidator(_requirement),
    WithJsonSchema({"type": "string", "pattern": r"^\s*(>=|<=)", "examples": [">= 11000 MB/s"]}),
]
Repeats = Annotated[int, Field(ge=1, le=10_000)]
Retries = Annotated[int, Field(ge=0, le=100)]
Order = Literal["interleaved", "sequential"]


class DataEntry(BaseModel):
    """Frames that each node brings near before the ranks of a trial start."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    manifest: str | None = Field(
        default=None,
        description="Frames chosen by `assay data query`: a file on this machine, from the suite's folder; "
        "left out with the parameter `choose`, which chooses them when a trial is submitted.",
    )
    to: Annotated[str, AfterValidator(_absolute)] = Field(
        description="Directory on each node, for the sets of frames of this and other trials: a local disk."
    )
    stage: Literal["local", "through"] = Field(
        default="local",
        description="local: all frames are copied and compared before the ranks start; through: each is "
        "kept when it is first read.",
    )
    space: Size | None = Field(
        default=None,
        description="Space that all sets in the directory may use together; the least recently used ones "
        "are removed, except those that a running trial reads. Default: no limit.",
    )
    timeout: Duration = Field(
        default=3600.0,
        description="Staging that takes longer on a node ends the trial. It isn't in `timeout`.",
    )


class BenchmarkEntry(BaseModel):
    """One benchmark of several: what it runs, and its differences from the suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str = Field(description="Which program: one of the workloads that Assay knows.")
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="The workload's parameters; a list in place of a single value is swept.",
    )
    data: DataEntry | None = Field(
        default=None, description="Frames that each node brings near before the ranks start."
    )
    shapes: Shapes | None = Field(default=None, description="Overrides the suite's shapes.")
    repeats: Repeats | None = Field(default=None, description="Overrides the suite's repeats.")
    timeout: Duration | None = Field(default=None, description="Overrides the suite's timeout.")
    max_output: Size | None = Field(default=None, description="Overrides the suite's max_output.")
    retries: Retries | None = Field(default=None, description="Overrides the suite's retries.")
    expect: dict[str, Requirement] = Field(
        default_factory=dict, description="Absolute requirements, metric by metric: '>= 11000 MB/s'."
    )
    primary: str | None = Field(
        default=None, description="The metric that this benchmark's verdict rests on."
    )


class SuiteFile(BaseModel):
    """suite.yaml: what to measure, on which systems, how often."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: SuiteName = Field(description="The suite's name, under which its runs are stored.")
    workload: str | None = Field(default=None, description="For a suite of one benchmark: which program.")
    params: dict[str, Any] = Field(
        default_factory=dict, description="With `workload`: its parameters; a list is swept."
    )
    data: DataEntry | None = Field(
        default=None, description="With `workload`: frames that each node brings near before the ranks start."
    )
    benchmarks: dict[Name, BenchmarkEntry] | None = Field(
        default=None,
        min_length=1,
        description="For a suite of several benchmarks: each by a name of your choice.",
    )
    systems: Annotated[list[Name], Field(min_length=1), AfterValidator(_without_repeats)] | None = Field(
        default=None,
        description="Names from systems.yaml; default: all of them. `local` is this machine.",
    )
    baseline: Name | None = Field(
        default=None, description="The system that the others are compared with. Default: the first."
    )
    shapes: Shapes = Field(
        default=[Shape(1, 1)],
        json_schema_extra={"default": ["1x1"]},
        description="Workers x accelerators per worker, optionally x nodes: 2x8, 16x1x2.",
    )
    repeats: Repeats = Field(
        default=5, description="Runs of each point on each system: the sample for the interval."
    )
    margin: Margin = Field(
        default=DEFAULT_MARGIN, description="How far a ratio may be from 1 and still count as equal: 2%."
    )
    seed: Annotated[int, Field(ge=0, lt=2**53)] = Field(
        default=1, description="Orders the trials and seeds the programs."
    )
    order: Order = Field(
        default="interleaved",
        description="interleaved: systems alternate within each repeat, so that drift affects all alike; "
        "sequential: one system after another.",
    )
    timeout: Duration = Field(
        default=1800.0, description="A trial that takes longer is ended: 90s, 10min, 2h."
    )
    max_output: Size = Field(
        default=4_000_000_000,
        description="A trial whose ranks print more than this on one node is ended: 200 MB, 4 GB.",
    )
    sample_every: SamplePeriod = Field(
        default=1.0,
        description="Time between samples of each node during a trial (CPU, memory, network, disk, GPUs): "
        "100ms to 1min, or never.",
    )
    retries: Retries = Field(
        default=2,
        description="How many times at most to retry a trial that the platform lost: a node, a pod, output. "
        "A program that failed is not retried.",
    )
    expect: dict[str, Requirement] = Field(
        default_factory=dict,
        description="Absolute requirements on every benchmark that reports the metric: '>= 11000 MB/s'.",
    )
    primary: str | None = Field(
        default=None, description="The metric that the verdicts of the benchmarks that report it rest on."
    )


@dataclass(frozen=True)
class SweepPoint:
    """One point of a benchmark's sweep: every parameter, including defaults, and the swept ones."""

    params: Mapping[str, Any]
    varied: Mapping[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """One benchmark with the settings inherited from its suite. `expect` and `primary` are only its own."""

    name: str
    workload: str
    points: tuple[SweepPoint, ...]
    shapes: tuple[Shape, ...]
    repeats: int
    timeout_s: float
    max_output_bytes: int
    retries: int
    expect: Mapping[str, str]
    primary: str | None
    path: tuple[Key, ...]  # its path in the file
    data: StagedData | None = None


@dataclass(frozen=True)
class Suite:
    """What the user wants measured, checked.

    directory  the file's, absolute: relative paths in parameters start there
    systems    names in the order written, at least one
    expect     requirements on every benchmark that reports the metric, as written
    sample_every_s  time between samples of each node while a trial runs; None: none
    source     the file, for `where`
    """

    name: str
    directory: Path
    benchmarks: tuple[Benchmark, ...]
    systems: tuple[str, ...]
    baseline: str | None
    margin: float
    seed: int
    order: Order
    expect: Mapping[str, str]
    primary: str | None
    sample_every_s: float | None
    source: Document

    def where(self, *path: Key) -> str:
        """`suite.yaml:12`: the line of the value at a path of keys, or of the nearest enclosing value."""
        return self.source.where(*path)


@dataclass(frozen=True)
class System:
    """Where to measure: a launcher and its options, as that launcher's own model.

    params  parameters of the suite's benchmarks that have other values on this system, as written
    """

    name: str
    launcher: str
    options: BaseModel
    price: Price | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def max_nodes(self) -> int | None:
        """The maximum number of nodes that its launcher can use; None if there is no limit."""
        limit: int | None = getattr(self.options, "max_nodes", None)
        return limit

    @property
    def definition(self) -> Mapping[str, Any]:
        """Plain data, for digests and `systems.yaml` in a run directory."""
        own = {"params": dict(self.params)} if self.params else {}
        return {"launcher": self.launcher, **self.options.model_dump(mode="json"), **own}


@dataclass(frozen=True)
class Systems:
    """The systems by name. `path` is None if no file was needed."""

    path: Path | None
    by_name: Mapping[str, System]
    source: Document

    def where(self, *path: Key) -> str:
        """`systems.yaml:3`: the line of the value at a path of keys."""
        return self.source.where(*path)
