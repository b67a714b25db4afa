"""A template with what a person chose: the condition, the parameters, and the suite that they become."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ruamel.yaml import YAML

from assay import redact
from assay.errors import Problem
from assay.suite.document import Document, Key
from assay.suite.findings import shown, suggestion, unknown
from assay.suite.job_template import (
    CHOOSE,
    FreeEntry,
    JobTemplate,
    LabelEntry,
    LimitEntry,
    Range,
    bounds_of,
    composed,
    parse_range,
    plain_number,
)


@dataclass(frozen=True)
class JobRequest:
    """What a person chose; what is missing is the template's default.

    labels  label → text, such as `5000..6000` or `cam_front_center,cam_front_left`
    params  parameter of the workload → its value
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    shape: str | None = None
    limit: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Choice:
    """One thing that could be chosen.

    value   as text; of a label, its condition
    bounds  what could be chosen, as text; "" for anything
    by      who decided: the person, or the template
    """

    name: str
    value: str
    bounds: str
    by: Literal["person", "template"]


@dataclass(frozen=True)
class FilledTemplate:
    """A template and what was chosen.

    where  the condition on the frames
    suite  the suite that they become, as its file would have it; each value has the template's line
    """

    labels: tuple[Choice, ...]
    params: tuple[Choice, ...]
    where: str
    limit: int | None
    seed: int
    system: str
    shape: str
    suite: Document


def fill(template: JobTemplate, request: JobRequest) -> tuple[FilledTemplate, list[Problem]]:
    """The filled template, and everything wrong with the request: what is wrong is left out."""
    redact.learn(dict(request.params))  # before a message shows a value
    filling = _Filling(template, request)
    labels, params = tuple(filling.labels()), dict(filling.params())
    content = template.content
    parts = [choice.value for choice in labels]
    where = " and ".join([f"({content.where})"] * bool(content.where.strip()) + parts)
    limit = filling.limit()
    seed = content.seed if request.seed is None else request.seed
    system = filling.one_of("--system", request.system, content.systems)
    shape = filling.one_of("--shape", request.shape, [str(shape) for shape in content.shapes])
    choose = {"catalog": str(template.catalog), "where": where, "limit": limit, "seed": seed}
    choose |= {} if content.balance is None else {"balance": content.balance}
    choose = {name: value for name, value in choose.items() if value not in (None, "")}
    suite = {
        "suite": content.template,
        "workload": content.workload,
        "params": {**content.params, **{name: value for name, (_, value) in params.items()}, CHOOSE: choose},
        "systems": [system],
        "shapes": [shape],
        "repeats": content.repeats,
        "seed": seed,
        "timeout": f"{plain_number(content.timeout)}s",
        "retries": content.retries,
        **({} if content.data is None else {"data": template.source.data["data"]}),
    }
    shown_params = tuple(choice for choice, _ in params.values())
    document = _document(template, suite)
    filled = FilledTemplate(labels, shown_params, where, limit, seed, system, shape, document)
    return filled, filling.problems


class _Filling:
    """One reading of a request: notes a problem and continues, so that all are reported at once."""

    def __init__(self, template: JobTemplate, request: JobRequest) -> None:
        self.template, self.request = template, request
        self.problems: list[Problem] = []

    def labels(self) -> Iterator[Choice]:
        """The condition of each label that was chosen, or has a default."""
        requested = {composed(name): text for name, text in self.request.labels.items()}
        known = self.template.labels
        for name in (label for label in requested if label not in known):
            problem = unknown("label that this template lets you choose", name, known)
            self._note(f"--set {name}", problem)
        for name, entry in known.items():
            value = requested.get(name, entry.default)
            if value is None:
                if entry.required:
                    self._note(f"--set {name}", f"is missing; choose {_allowed(entry) or 'a value'}")
                continue
            by: Literal["person", "template"] = "person" if name in requested else "template"
            source = f"--set {name}" if by == "person" else self._where("labels", name, "default")
            try:
                condition = _condition(name, entry, value)
            except ValueError as error:
                self._note(source, str(error))
            else:
                yield Choice(name, condition, _allowed(entry), by)

    def params(self) -> Iterator[tuple[str, tuple[Choice, Any]]]:
        """Each parameter that was set, or has a default: what is shown of it, and its value."""
        content, requested = self.template.content, self.request.params
        for name in (param for param in requested if param not in content.free):
            problem = (
                f"is fixed by the template, as {shown(redact.redacted({name: content.params[name]})[name])}"
                if name in content.params
                else unknown("parameter that this template lets you set", name, content.free)
            )
            self._note(f"--param {name}", problem)
        for name, entry in content.free.items():
            if name not in requested and entry.default is None:
                continue
            by: Literal["person", "template"] = "person" if name in requested else "template"
            source = f"--param {name}" if by == "person" else self._where("free", name, "default")
            value = requested.get(name, entry.default)
            if problem := _misfit(entry, value):
                self._note(source, problem)
                continue
            text = shown(redact.redacted({name: value})[name])
            yield name, (Choice(name, text, _allowed(entry), by), value)

    def limit(self) -> int | None:
        """How many frames are drawn; None for all."""
        entry, requested = self.template.content.limit, self.request.limit
        if not isinstance(entry, LimitEntry):
            if requested is not None and requested != entry:
                fixed = "takes all frames" if entry is None else f"draws {entry} frames"
                self._note("--limit", f"the template {fixed}; leave it out")
            return entry
        source = "--limit" if requested is not None else self._where("limit", "default")
        frames = entry.default if requested is None else requested
        if frames is not None and not parse_range(entry.within).contains(frames):
            self._note(source, f"{frames} is not within {entry.within}")
            return None
        if frames is None and (most := parse_range(entry.within).high) is not None:
            self._note(
                "--limit", f"is missing; choose {entry.within}: all frames may be more than {most:.0f}"
            )
        return frames

    def one_of(self, option: str, requested: str | None, allowed: list[str]) -> str:
        """What was asked for if it is allowed; otherwise the first."""
        if requested is not None and requested not in allowed:
            self._note(option, f"{shown(requested)} is not in the template; {suggestion(requested, allowed)}")
        return requested if requested in allowed else allowed[0]

    def _where(self, *path: Key) -> str:
        return self.template.source.where(*path)

    def _note(self, where: str, what: str) -> None:
        self.problems.append(Problem(where, what))


def _allowed(entry: LabelEntry | FreeEntry) -> str:
    if entry.within is not None:
        return entry.within
    if entry.choices == "any" or entry.choices is None:
        return ""
    return ", ".join(text if isinstance(text, str) else json.dumps(text) for text in entry.choices)


def _condition(name: str, entry: LabelEntry, value: str | float | list[str]) -> str:
    """A label's condition, in the words of `assay data query`. Raises ValueError if it isn't allowed."""
    if (bounds := bounds_of(entry)) is None:
        values = value if isinstance(value, list) else [part.strip() for part in str(value).split(",")]
        return _texts(name, entry, values)
    if isinstance(value, list):
        raise ValueError(f"found a list; expected a range within {bounds}")  # noqa: TRY004 one error for all
    chosen = parse_range(str(value))
    if chosen.share != bounds.share:
        like = "a share of the frame's pixels, like" if bounds.share else "a number without %, like"
        raise ValueError(f"{chosen} can't be compared with the bounds; write {like} {bounds}")
    narrowed = bounds.narrowed(chosen)
    if narrowed is None:
        raise ValueError(f"{chosen} is not within {bounds}")
    return _between(name, narrowed)


def _between(name: str, chosen: Range) -> str:
    low, high = (Range(end, end, chosen.share) for end in (chosen.low, chosen.high))
    if chosen.low is None or chosen.high is None:
        return f"{name} <= {high}" if chosen.low is None else f"{name} >= {low}"
    return f"{name} = {chosen}" if chosen.low >= 0 else f"({name} >= {low} and {name} <= {high})"


def _texts(name: str, entry: LabelEntry, values: list[str]) -> str:
    allowed = entry.choices if isinstance(entry.choices, list) else None
    for value in values:
        if not value:
            raise ValueError("is empty; write a value")
        if allowed is not None and value not in allowed:
            raise ValueError(f"{shown(value)} can't be chosen; {suggestion(value, allowed)}")
        if "'" in value and '"' in value:
            raise ValueError(f"{shown(value)} has both kinds of quotation marks, which no condition can have")
    quoted = [f'"{value}"' if "'" in value else f"'{value}'" for value in values]
    return f"{name} = {quoted[0]}" if len(quoted) == 1 else f"{name} in ({', '.join(quoted)})"


def _misfit(entry: FreeEntry, value: Any) -> str:
    """Why a parameter can't have this value; "" if it can."""
    if entry.choices is not None and not any(
        value == choice and type(value) is type(choice) for choice in entry.choices
    ):
        return f"{shown(value)} can't be chosen; choose from {_allowed(entry)}"
    if entry.within is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"found {shown(value)}; expected a number within {entry.within}"
    return "" if parse_range(entry.within).contains(value) else f"{value} is not within {entry.within}"


def _document(template: JobTemplate, suite: Mapping[str, Any]) -> Document:
    """The suite as a file next to the template would have it; its values have the lines of the template."""
    redact.learn(suite)
    source, content = template.source, template.content
    lines: dict[tuple[Key, ...], int] = {
        path: line for path, line in source.lines.items() if path[:1] in (("params",), ("data",))
    }
    origins: dict[tuple[Key, ...], tuple[Key, ...]] = {
        **{("params", name): ("free", name) for name in content.free},
        ("params", CHOOSE): ("labels",),
        ("params", CHOOSE, "catalog"): ("catalog",),
        ("suite",): ("template",),
        **{
            (key,): (key,)
            for key in ("workload", "systems", "shapes", "repeats", "timeout", "retries", "seed")
        },
        ("systems", 0): ("systems",),
        ("shapes", 0): ("shapes",),
    }
    lines |= {path: source.lines[origin] for path, origin in origins.items() if origin in source.lines}
    return Document(source.file, json.loads(json.dumps(suite)), lines, (), _text(source.file, suite))


def _text(file: str, suite: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(suite))
    if file.endswith(".json"):
        return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
    yaml, out = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1 << 30  # a condition in several lines can't be copied
    yaml.allow_unicode = True
    yaml.dump(plain, out)
    return out.getvalue()
