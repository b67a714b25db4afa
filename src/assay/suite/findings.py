"""Pydantic's findings, in the terms and at the lines of the user's file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from assay.errors import Problem
from assay.suite.document import Key

KeyPath = tuple[Key, ...]
Where = Callable[..., str]
M = TypeVar("M", bound=BaseModel)


def suggestion(word: object, names: Iterable[str]) -> str:
    """What to write instead of `word`: the nearest of `words`, or else all of them.

    >>> suggestion("resnet", ["digits", "resnet50"])
    'did you mean resnet50?'
    """
    known = sorted(names)
    near = difflib.get_close_matches(str(word), known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"choose from {', '.join(known)}" if known else "none is available"


def unknown(kind: str, word: object, names: Iterable[str]) -> str:
    """One sentence about an unknown name: `"resnet" is not a workload; did you mean resnet50?`."""
    return f"{shown(word)} is not a {kind}; {suggestion(word, names)}"


def shown(value: object) -> str:
    """A value as it could be written in the file, truncated if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def in_order(problems: Iterable[Problem], *files: str) -> list[Problem]:
    """Without duplicates, by file and then by line."""

    def place(problem: Problem) -> tuple[int, int]:
        if problem.where in files:
            return files.index(problem.where), 0
        file, _, line = problem.where.rpartition(":")
        return files.index(file), int(line)

    return sorted(dict.fromkeys(problems), key=place)


def checked(model: type[M], data: Any, where: Where, base: KeyPath = ()) -> tuple[M | None, list[Problem]]:
    """`data` as `model`, or None with all problems.

    where  path in the file → `suite.yaml:12`
    base   path of `data` in the file
    """
    try:
        return read_strictly(model, data), []
    except ValidationError as error:
        return None, findings(error, model, data, where, base)


def read_strictly(model: type[M], data: Any, directory: Path | None = None) -> M:
    """`data` as `model`: "32" is not a number and true is not 1, but a list may become a tuple.

    Pydantic calls this strict mode for JSON, hence the detour. Raises ValidationError.

    directory  where relative paths in `data` start; the model's validators find it in their context
    """
    return model.model_validate_json(json.dumps(data), strict=True, context={"directory": directory or ""})


def findings(
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    where: Where,
    base: KeyPath = (),
    shift: Callable[[KeyPath], KeyPath] = lambda path: path,
) -> list[Problem]:
    """Every finding of `error` as a Problem.

    model  that rejected `data`
    where  path in the file → `suite.yaml:12`
    base   path of `data` in the file
    shift  from a path inside `data` to the path inside what the user wrote
    """
    places: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        places.setdefault(_path_of(detail, data), []).append(detail)
    return [
        Problem(
            where(*base, *shift(path)), f"{_named((*base, *shift(path)))}{_message(details, path, model)}"
        )
        for path, details in places.items()
    ]


def _path_of(detail: ErrorDetails, data: Any) -> KeyPath:
    """The path of a finding in `data`: pydantic's location without the names of a union's members."""
    path: list[Key] = []
    for part in detail["loc"]:
        inside = (
            part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        )
        if inside:
            data = data[part]
        elif detail["type"] != "missing" or part != detail["loc"][-1]:
            continue
        path.append(part)
    return tuple(path)


def _named(path: KeyPath) -> str:
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{dotted.removeprefix('.')}: " if dotted else ""


def _message(details: Sequence[ErrorDetails], path: KeyPath, model: type[BaseModel]) -> str:
    """One sentence for all findings about one value: several if each member of a union rejected it."""
    first = details[0]
    if first["type"] == "extra_forbidden":
        return f"unknown key; {suggestion(path[-1], _keys_at(model, path[:-1]))}"
    if first["type"] == "missing":
        return "this key is missing"
    if first["type"] == "value_error" and len(details) == 1:
        return str(first.get("ctx", {}).get("error", first["msg"]))
    expected = dict.fromkeys(_expected(detail) for detail in details)
    return f"found {shown(first['input'])}; expected {' or '.join(expected)}"


_NOUNS = {
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid array": "a list",
    "a valid list": "a list",
    "a valid tuple": "a list",
    "a valid dictionary": "a mapping of key: value",
    "an object": "a mapping of key: value",
}


def _expected(detail: ErrorDetails) -> str:
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    expected = _NOUNS.get(expected, expected)
    if detail["type"] == "string_type" and isinstance(detail["input"], int | float):
        expected += f' in quotes: "{shown(detail["input"])}"'
    if detail["type"] == "literal_error":
        choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
        near = difflib.get_close_matches(str(detail["input"]), choices, n=1)
        expected = (
            "one of " * (len(choices) > 1)
            + ", ".join(choices)
            + (f"; did you mean {near[0]}?" if near else "")
        )
    return expected


def _keys_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys allowed at `path` inside a mapping that `model` describes."""
    here: type[BaseModel] | None = model
    for part in path:
        if here is not None and part in here.model_fields:
            here = _model_in(here.model_fields[str(part)].annotation)
    return [] if here is None else list(here.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first pydantic model that an annotation names, at any depth: `dict[str, M] | None` gives M."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_in(inner))), None)
