"""The programs that run on the nodes; of ours they import what lies and travels beside them alone."""

from __future__ import annotations

import ast
from functools import cache
from importlib import resources
from pathlib import Path

DIRECTORY = Path(__file__).parent  # on the path of an interpreter, its programs find each other


@cache
def source(*path: str) -> bytes:
    """A file of this directory."""
    return resources.files(__name__).joinpath(*path).read_bytes()


@cache
def travelling(*programs: str) -> tuple[str, ...]:
    """The programs' files and those that they import from here, directly or not: they lie in one directory.

    >>> travelling("matmul.py")
    ('matmul.py', 'rank.py')
    """
    files = [*programs]
    for file in files:  # which grows meanwhile
        for node in ast.walk(ast.parse(source(file))):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named = [f"{module}.py" for module in modules]
            files += [name for name in named if name not in files and _is_here(name)]
    return tuple(files)


def _is_here(name: str) -> bool:
    return resources.files(__name__).joinpath(name).is_file()
