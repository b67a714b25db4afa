"""Parameters as written → the points of the sweep.

A list is an axis if the workload's model expects one value. If the model expects a list, a list is one
value, and a list of such lists is an axis. The points are the grid over all axes, the first one slowest, in
the order of the model's fields, so that the order of lines in the file does not matter.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from assay.errors import Problem
from assay.suite.document import Key
from assay.suite.findings import KeyPath, Where, findings, read_strictly, shown
from assay.suite.model import SweepPoint

MAX_POINTS = 4096


def points(
    written: Mapping[str, Any], model: type[BaseModel], directory: Path, where: Where, base: KeyPath
) -> tuple[tuple[SweepPoint, ...], list[Problem]]:
    """The points of a benchmark's sweep, and everything wrong with its parameters.

    written    the value of `params`
    directory  where its relative paths start
    base       its path in the file
    """
    axes = _axes(written, model)
    problems = _axis_problems(axes, where, base)
    if problems:
        return (), problems
    sweep_points: list[SweepPoint] = []
    for indices in itertools.product(*(range(len(values)) for values in axes.values())):
        chosen = dict(zip(axes, indices, strict=True))
        values = {**written} | {name: axes[name][index] for name, index in chosen.items()}
        try:
            params = read_strictly(model, values, directory).model_dump(mode="json")
        except ValidationError as error:
            new = findings(error, model, values, where, base, partial(_on_axis, chosen))
            problems += [problem for problem in new if problem not in problems]
        else:
            sweep_points.append(SweepPoint(params, {name: params[name] for name in params if name in axes}))
    return tuple(sweep_points), problems


def _axes(written: Mapping[str, Any], model: type[BaseModel]) -> dict[str, list[Any]]:
    """The swept parameters with their values."""
    return {
        name: written[name]
        for name, field in model.model_fields.items()
        if name in written and _is_axis(written[name], field.annotation)
    }


def _is_axis(value: Any, annotation: Any) -> bool:
    if not isinstance(value, list):
        return False
    if takes_list(annotation):
        return bool(value) and all(isinstance(item, list) for item in value)
    return True


def takes_list(annotation: Any) -> bool:
    """Whether a field of this type is itself a list: `list[int]`, `tuple[int, ...] | None`.

    >>> takes_list(list[int] | None), takes_list(int)
    (True, False)
    """
    return any(
        isinstance(origin, type)
        and issubclass(origin, Sequence | set | frozenset)
        and origin not in (str, bytes)
        for origin in _origins(annotation)
    )


def _origins(annotation: Any) -> Iterator[Any]:
    """The outermost types that a value of `annotation` may have."""
    origin = get_origin(annotation)
    if origin is None or (
        isinstance(origin, type) and issubclass(origin, Sequence | Mapping | set | frozenset)
    ):
        yield origin or annotation
        return
    for inner in get_args(annotation):  # a union's members; Annotated's type and its metadata
        yield from _origins(inner)


def _axis_problems(axes: Mapping[str, list[Any]], where: Where, base: KeyPath) -> list[Problem]:
    problems = []
    for name, values in axes.items():
        texts = [json.dumps(value, sort_keys=True) for value in values]
        if not values:
            problems.append(
                Problem(where(*base, name), f"{name}: an empty list sweeps nothing; give it a value")
            )
        for index, text in enumerate(texts):
            if text in texts[:index]:
                problems.append(
                    Problem(where(*base, name, index), f"{name}: {shown(values[index])} is swept twice")
                )
    count = math.prod(len(values) for values in axes.values())
    if count > MAX_POINTS:
        product = " x ".join(f"{len(values)} {name}" for name, values in axes.items())
        problems.append(Problem(where(*base), f"{product} make {count} points; the maximum is {MAX_POINTS}"))
    return problems


def _on_axis(chosen: Mapping[str, int], path: KeyPath) -> tuple[Key, ...]:
    """The path inside one point's values as a path inside what was written."""
    if path and path[0] in chosen:
        return (path[0], chosen[str(path[0])], *path[1:])
    return path
