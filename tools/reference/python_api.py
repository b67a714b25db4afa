"""The functions of the library and the records that they return."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from page_text import of_docstring

import assay
from assay import api, records

_NAME = re.compile(r"[A-Za-z_]\w*")


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    functions = {name: getattr(api, name) for name in dir(api)}
    short = [f"`{name}`" for name in assay.__all__ if not name.startswith("_")]
    yield "# Python API"
    yield "One function for each command, with the same options. It returns a frozen record and prints"
    yield "nothing. [Use Assay from Python](../how-to/python.md) has examples.\n"
    yield f"Import the functions from `assay.api`. {', '.join(short)} are also in `assay`. A mistake raises"
    yield "an error of [`assay.errors`](exit-codes.md#from-python).\n"
    yield "## Functions"
    for name, function in functions.items():
        yield f"\n### {name}"
        yield from _signature(name, function)
        yield from of_docstring(inspect.getdoc(function) or "")
    yield "## Results"
    yield "What the functions return. A field that isn't listed under a record is explained at its own"
    yield "type.\n"
    for kind in _results(functions.values()):
        yield f"\n### {kind.__name__}"
        yield from _fields(kind)
        yield from of_docstring(inspect.getdoc(kind) or "")
        yield from _members(kind)


def _signature(name: str, function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    parts = [*map(_parameter, signature.parameters.values())]
    first = next((at for at, p in enumerate(signature.parameters.values()) if p.kind is p.KEYWORD_ONLY), None)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    if first is not None and not variadic:
        parts.insert(first, "*")
    yield "```python"
    yield f"{name}("
    yield from (f"    {part}," for part in parts)
    yield f") -> {signature.return_annotation}"
    yield "```"


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return _double_quoted(f"{star}{parameter.name}: {parameter.annotation}{default}")


def _results(functions: Any) -> list[type]:
    """The dataclasses that the functions return, and those of Assay that their fields name, each once."""
    open_kinds: list[type] = []
    for function in functions:
        open_kinds += _named(function.__annotations__["return"], inspect.getmodule(function))
    found: list[type] = []
    while open_kinds:
        kind = open_kinds.pop(0)
        if kind in found:
            continue
        found.append(kind)
        for field in dataclasses.fields(kind):
            open_kinds += _named(str(field.type), inspect.getmodule(kind))
    return sorted(found, key=lambda kind: kind.__name__)


def _named(annotation: str, module: ModuleType | None) -> list[type]:
    """The dataclasses in an annotation: those of the module itself, or of the shared records."""
    places = (vars(module) if module else {}, vars(records))
    kinds = [next((p[name] for p in places if name in p), None) for name in _NAME.findall(annotation)]
    return [kind for kind in kinds if inspect.isclass(kind) and dataclasses.is_dataclass(kind)]


def _fields(kind: type) -> Iterator[str]:
    yield "```python"
    yield f"class {kind.__name__}:"
    yield from (f"    {field.name}: {_double_quoted(str(field.type))}" for field in dataclasses.fields(kind))
    yield "```"


def _double_quoted(code: str) -> str:
    """Text as the formatter writes it, because it also formats code in pages."""
    return code.replace("'", '"')


def _members(kind: type) -> Iterator[str]:
    """Public properties and methods, with the first line of each docstring."""
    members = [(n, m) for n, m in vars(kind).items() if not n.startswith("_")]
    lines = [
        (name, inspect.getdoc(member) or "")
        for name, member in members
        if isinstance(member, property) or inspect.isfunction(member)
    ]
    if lines:
        yield from (f"- `.{name}`: {text.partition(chr(10))[0]}" for name, text in lines)
        yield ""
