"""What Assay offers: commands with their options, functions with their parameters, documents, addresses.

    python tools/inventory.py --write    after something was added: tests/golden/inventory.json is the record

A change of the house loses none of them: tests/project/test_inventory.py compares the record with the code.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "golden" / "inventory.json"
_SCHEMA = re.compile(r"\bassay\.[a-z][a-z-]*/[0-9]+(?![.\w/])")
Inventory = dict[str, Any]
# what a handler gets from the server rather than from who asks
_GIVEN = {"site", "watchers", "rules", "audit", "gate", "commands", "request"}


def inventory() -> Inventory:
    """All of it, sorted."""
    return {
        "commands": dict(sorted(commands())),
        "functions": dict(sorted(functions())),
        "documents": documents(),
        "addresses": addresses(),
    }


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command's words, and its arguments and options with all their spellings."""
    from assay.cli import assay

    yield from _commands(assay, ("assay",))


def _commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    yield " ".join(words), sorted(map(_parameter, command.params))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from _commands(inner, (*words, name))


def _parameter(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return f"{parameter.human_readable_name}{'…' if parameter.nargs != 1 else ''}"
    names = "/".join(sorted([*parameter.opts, *parameter.secondary_opts]))
    takes = getattr(parameter, "is_flag", False) or getattr(parameter, "count", False)
    return names if takes else f"{names} {'…' if parameter.multiple else ''}VALUE"


def functions() -> Iterator[tuple[str, list[str]]]:
    """Each function of the library, and its parameters."""
    from assay import api

    for name in dir(api):
        yield name, list(inspect.signature(getattr(api, name)).parameters)


def documents() -> list[str]:
    """The schemas that the code names: what `--json` prints, and what run directories contain."""
    files = sorted((ROOT / "src").rglob("*.py"))
    return sorted({name for file in files for name in _SCHEMA.findall(file.read_text())})


def addresses() -> list[str]:
    """Method, path and parameters of everything that the server answers when all is allowed."""
    from assay.web.access import AccessRules
    from assay.web.app import routes

    everything = AccessRules(user_header="X-User", allowed=frozenset({"run", "push"}))
    return sorted(line for route in routes(everything) for line in _addresses(route))


def _addresses(route: Any) -> Iterator[str]:
    from litestar import Router

    if isinstance(route, Router):
        for inner in route.routes:
            for handler in inner.route_handlers:  # type: ignore[union-attr]
                yield from _lines(inner.path, handler)
        return
    for path in route.paths:
        yield from _lines(path, route)


def _lines(path: str, handler: Any) -> Iterator[str]:
    parameters = " ".join(sorted(set(inspect.signature(handler.fn).parameters) - _GIVEN))
    for method in sorted(handler.http_methods):
        if method != "OPTIONS":
            yield f"{method} {path} {parameters}".rstrip()


def main() -> None:
    """Write the record, or print what is there."""
    text = json.dumps(inventory(), indent=1, ensure_ascii=False) + "\n"
    if "--write" in sys.argv[1:]:
        RECORD.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
