"""What a workload's programs import: the packages that an image needs for them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from assay.errors import InputError
from assay.records import Shape, TaskFile
from assay.stacks.parts import PACKAGE_OF
from assay.workloads import Workload

_PROGRAM = ".py"
# Part of every job; it imports torch only for programs with a device, which import torch themselves.
_RANK = "assay_payloads/measuring/rank.py"


def imports(workload: Workload) -> tuple[str, ...]:
    """Modules beyond the standard library that its programs import, anywhere, sorted.

    Empty if the program is the user's own, since its imports are unknown.
    """
    programs = [file for file in _files(workload) if file.name.endswith(_PROGRAM)]
    own = {file.name.partition("/")[0].removesuffix(_PROGRAM) for file in programs}
    imported = {name for program in programs if program.name != _RANK for name in _imported(program)}
    return tuple(sorted(imported - own - sys.stdlib_module_names))


def packages(modules: tuple[str, ...]) -> tuple[str, ...]:
    """The packages of these modules, by their name in an index."""
    return tuple(sorted(PACKAGE_OF.get(module, module) for module in modules))


def _files(workload: Workload) -> tuple[TaskFile, ...]:
    """The files sent with a job, with the workload's defaults or an example of its parameters."""
    params = _some(workload.params)
    if params is None:
        return ()
    try:
        return workload.task(params, Shape(1, 1), 1).files
    except InputError:  # one that measures between two ranks
        return workload.task(params, Shape(1, 2), 1).files


def _some(model: type[BaseModel]) -> BaseModel | None:
    """Valid parameters; None if only the user can know them."""
    extra = model.model_config.get("json_schema_extra")
    examples = extra.get("examples", []) if isinstance(extra, dict) else []
    for written in ({}, *(examples if isinstance(examples, list) else [])):
        try:
            return model.model_validate(written)
        except ValidationError:
            continue
    return None


def _imported(program: TaskFile) -> Iterator[str]:
    try:
        tree = ast.parse(program.data)
    except SyntaxError as error:
        raise InputError(f"{program.name}:{error.lineno}: {error.msg}: its imports can't be read") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
