"""A site's template of jobs on labeled data: what may be chosen, within which bounds, and what then runs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from assay.errors import InputError, Problem
from assay.inputs import from_home
from assay.records import Shape
from assay.suite import document
from assay.suite.document import Document, Key
from assay.suite.findings import checked, in_order, shown, unknown
from assay.suite.model import DataEntry, Duration, Name, Repeats, Retries, Shapes, SuiteName

CHOOSE = "choose"  # the parameter of a workload that gets the chosen frames
_BY_LABELS = (CHOOSE, "manifest", "frames")  # parameters that labels decide
_LABEL = re.compile(r"""[^\s()<>=!,'"]{1,100}""")  # a word of a condition
_WORDS = frozenset({"and", "or", "not", "in"})  # that a condition reads otherwise
Scalar = str | int | float | bool
MOST_DIGITS: Final = 15  # beyond that, a float is not the number that was written
_NUMBER: Final = r"-?\d+(?:\.\d+)?"
_RANGE: Final = re.compile(rf"({_NUMBER})?(%?)\.\.({_NUMBER})?(%?)", re.ASCII)
_ALONE: Final = re.compile(rf"({_NUMBER})(%?)", re.ASCII)


def _bounds(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a range; write it as 0..100000 or 0%..60%")  # noqa: TRY004 pydantic reports ValueError only
    parse_range(value)
    return value


Bounds = Annotated[str, BeforeValidator(_bounds)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LabelEntry(_Entry):
    """A class or a column of the catalog that may be chosen."""

    within: Bounds | None = Field(
        None, description="Of a number: the bounds of what may be chosen: 0..100000 pixels, or 0%..60%."
    )
    choices: Annotated[list[str], Field(min_length=1)] | Literal["any"] | None = Field(
        None, description="Of a text, like camera or scene: the values that may be chosen, or any."
    )
    default: str | int | float | list[str] | None = Field(
        None, description="What holds if nothing is chosen. Default: no condition."
    )
    required: bool = Field(False, description="Must be chosen.")
    about: str = Field("", description="One line for people.")

    @model_validator(mode="after")
    def _is_a_number_or_a_text(self) -> Self:
        if (self.within is None) == (self.choices is None):
            raise ValueError("give either within (of a number) or choices (of a text)")
        return self


class FreeEntry(_Entry):
    """A parameter of the workload that may be set."""

    within: Bounds | None = Field(None, description="Bounds of a number: 1..50.")
    choices: Annotated[list[Scalar], Field(min_length=1)] | None = Field(
        None, description="The values that may be chosen."
    )
    default: Any = Field(None, description="If nothing is set. Default: the workload's own.")
    about: str = Field("", description="One line for people.")


class LimitEntry(_Entry):
    """How many frames may be drawn at random."""

    within: Bounds = Field("1..", description="Bounds of the number of frames.")
    default: Annotated[int, Field(ge=1)] | None = Field(
        None, description="If none is set. Default: all frames."
    )


class TemplateFile(_Entry):
    """A template, as `assay data submit` fills it."""

    template: SuiteName = Field(description="Its name, under which the runs are stored.")
    about: str = Field("", description="One line for people.")
    catalog: str = Field(
        min_length=1, description="File that `assay data scan` made, relative to this one's directory."
    )
    labels: dict[str, LabelEntry] = Field(
        min_length=1, description="What may be chosen: classes and columns of the catalog."
    )
    where: str = Field("", description="A condition that always holds, as `assay data query` takes it.")
    balance: str | None = Field(
        None, description="A class: take as many frames without it as with it, at random."
    )
    limit: Annotated[int, Field(ge=1)] | LimitEntry | None = Field(
        None, description="Frames to draw at random: a number, or its bounds and default. Default: all."
    )
    seed: Annotated[int, Field(ge=0, lt=2**53)] = Field(
        1, description="Of the draw, and of the program's random numbers."
    )
    systems: Annotated[list[Name], Field(min_length=1)] = Field(
        default=["local"],
        description="Where it may run: names from systems.yaml next to this file. The first is the default.",
    )
    shapes: Shapes = Field(
        default=[Shape(1, 1)],
        json_schema_extra={"default": ["1x1"]},
        description="Workers x accelerators that may be chosen. The first is the default.",
    )
    workload: str = Field(description="What runs: a workload that reads chosen frames.")
    params: dict[str, Any] = Field(default_factory=dict, description="Its parameters that are fixed.")
    free: dict[str, FreeEntry] = Field(
        default_factory=dict, description="Its parameters that may be set, each with its bounds."
    )
    data: DataEntry | None = Field(
        None, description="The chosen frames are brought near on each node before the ranks start."
    )
    repeats: Repeats = Field(1, description="Runs.")
    timeout: Duration = Field(default=86400.0, description="A run that takes longer is ended: 90s, 2h.")
    retries: Retries = Field(2, description="How many times at most to retry a run that the platform lost.")


@dataclass(frozen=True)
class JobTemplate:
    """A template that can be filled.

    labels  by their names in Unicode's composed form
    """

    content: TemplateFile
    labels: Mapping[str, LabelEntry]
    source: Document

    @property
    def directory(self) -> Path:
        """Where its relative paths start."""
        return Path(self.source.file).absolute().parent

    @property
    def catalog(self) -> Path:
        """The catalog's file."""
        return self.directory / from_home(self.content.catalog)


def read_template(path: Path, params_models: Mapping[str, type[BaseModel]]) -> JobTemplate:
    """The template in a file.

    params_models  workload → model of its parameters

    Raises InputError with every problem, each with its line.
    """
    file = document.read(path)
    problems = list(file.problems)
    if not isinstance(file.data, dict):
        if not problems:
            problems = [
                Problem(file.where(), f"found {shown(file.data)}; expected template: NAME, labels: …")
            ]
        raise InputError(problems)
    content, wrong = checked(TemplateFile, file.data, file.where)
    problems += file.others(wrong)
    if content is None:
        raise InputError(in_order(problems, file.file))
    labels = {composed(name): entry for name, entry in content.labels.items()}
    problems += _label_problems(content, file)
    problems += _workload_problems(content, params_models, file)
    if problems:
        raise InputError(in_order(problems, file.file))
    return JobTemplate(content, labels, file)


def composed(name: str) -> str:
    """A name in Unicode's composed form, so that however `ä` was typed, it is the same letter."""
    return unicodedata.normalize("NFC", name)


def bounds_of(entry: LabelEntry | FreeEntry) -> Range | None:
    """Its bounds; None if it has none."""
    return None if entry.within is None else parse_range(entry.within)


def _label_problems(content: TemplateFile, file: Document) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name in content.labels:
        place = file.where("labels", name)
        if not _LABEL.fullmatch(name) or name.lower() in _WORDS:
            yield Problem(place, f"labels: {shown(name)} can't be the name of a class or column")
        key = composed(name).lower()
        if key in first:
            yield Problem(
                place, f"labels: {shown(name)} is the same label as {shown(first[key])}; remove one"
            )
        first.setdefault(key, name)


def _workload_problems(
    content: TemplateFile, models: Mapping[str, type[BaseModel]], file: Document
) -> Iterator[Problem]:
    if content.workload not in models:
        yield Problem(file.where("workload"), f"workload: {unknown('workload', content.workload, models)}")
        return
    fields = models[content.workload].model_fields
    if CHOOSE not in fields:
        fitting = ", ".join(name for name in models if CHOOSE in models[name].model_fields)
        what = f"workload: {content.workload} reads no chosen frames; choose from {fitting}"
        yield Problem(file.where("workload"), what)
        return
    places: list[tuple[Key, ...]] = [("params", name) for name in content.params]
    for path in (*places, *(("free", name) for name in content.free)):
        name = str(path[1])
        if name in _BY_LABELS:
            yield Problem(file.where(*path), f"{path[0]}: the labels and limit decide {name}; remove it")
        elif path[0] == "free" and name not in fields:
            problem = unknown(f"parameter of {content.workload}", name, fields)
            yield Problem(file.where(*path), f"free: {problem}")
        elif path[0] == "free" and name in content.params:
            yield Problem(file.where(*path), f"free: {name} is fixed by params, too; remove one")


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; None: no end on that side.

    share  they are percentages of a frame's pixels
    """

    low: float | None
    high: float | None
    share: bool = False

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return self._end(self.low)
        return f"{self._end(self.low)}..{self._end(self.high)}"

    def _end(self, value: float | None) -> str:
        return "" if value is None else f"{plain_number(value)}{'%' if self.share else ''}"

    def contains(self, value: float) -> bool:
        """Whether a number is within."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def narrowed(self, chosen: Range) -> Range | None:
        """A range within this one, its open ends closed by this one's; None if it isn't within."""
        if chosen.share != self.share:
            return None
        low = self.low if chosen.low is None else chosen.low
        high = self.high if chosen.high is None else chosen.high
        inside = (low is None or self.contains(low)) and (high is None or self.contains(high))
        return Range(low, high, self.share) if inside and (None in (low, high) or low <= high) else None  # type: ignore[operator]


def parse_range(text: str) -> Range:
    """`5000..6000`, `1%..5%`, `5000..`, `..6000` or `7`. Raises ValueError on anything else."""
    wrong = f"{text[:60]!r} is not a range; write it as 5000..6000, 1%..5%, 5000.. or 7"
    if alone := _ALONE.fullmatch(text.strip()):
        value = _number(alone[1], wrong)
        return Range(value, value, bool(alone[2]))
    match = _RANGE.fullmatch(text.strip())
    if match is None or (match[1] is None and match[3] is None):
        raise ValueError(wrong)
    ends = [(number, sign) for number, sign in ((match[1], match[2]), (match[3], match[4])) if number]
    signs = {sign for _, sign in ends}
    if len(signs) > 1 or (match[1] is None and match[2]) or (match[3] is None and match[4]):
        raise ValueError(f"{text[:60]!r}: write % at both ends or at neither, like 1%..5%")
    low, high = (None if end is None else _number(end, wrong) for end in (match[1], match[3]))
    if low is not None and high is not None and low > high:
        raise ValueError(f"{text[:60]!r} begins above its end; write the smaller number first")
    return Range(low, high, signs == {"%"})


def plain_number(value: float) -> str:
    """Without an exponent, and without a point if it is whole.

    >>> plain_number(100000.0), plain_number(0.25)
    ('100000', '0.25')
    """
    return str(int(value)) if value == int(value) else f"{value:.{MOST_DIGITS}f}".rstrip("0")


def _number(text: str, wrong: str) -> float:
    if sum(map(str.isdigit, text)) > MOST_DIGITS:
        raise ValueError(f"{wrong}, with at most {MOST_DIGITS} digits")
    return float(text)
