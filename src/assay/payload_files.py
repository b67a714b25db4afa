"""The files of `assay_payloads` that travel with a program: its own, those that it imports, their packages'.

A program is named as in Python, `assay_payloads.training.resnet50`, a file by its path from the
directory that contains the package. In the same layout below another directory, the same imports work.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import assay_payloads

DIRECTORY = Path(assay_payloads.__file__).parents[1]  # from here `python -m` runs the programs


@cache
def source(path: str) -> bytes:
    """A file of the package: a program, or data next to one."""
    return (DIRECTORY / path).read_bytes()


def path_of(module: str) -> str:
    """The file of a module that is not a package.

    >>> path_of("assay_payloads.keeping.keeper")
    'assay_payloads/keeping/keeper.py'
    """
    return f"{module.replace('.', '/')}.py"


def module_of(path: str) -> str:
    """The module or package that a file belongs to.

    >>> module_of("assay_payloads/keeping/keeper.py"), module_of("assay_payloads/keeping/__init__.py")
    ('assay_payloads.keeping.keeper', 'assay_payloads.keeping')
    """
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def files(*programs: str) -> dict[str, bytes]:
    """Everything that these programs need, by path, sorted by path."""
    return {path: source(path) for path in travelling(*programs)}


@cache
def travelling(*programs: str) -> tuple[str, ...]:
    """Paths of everything that these programs need, sorted.

    >>> [path.removeprefix("assay_payloads/") for path in travelling("assay_payloads.micro.matmul")]
    ['__init__.py', 'measuring/__init__.py', 'measuring/rank.py', 'micro/__init__.py', 'micro/matmul.py']
    """
    paths = [path_of(program) for program in programs]
    for path in paths:  # grows during the loop
        packages = [f"{parent}/__init__.py" for parent in PurePosixPath(path).parents if parent.name]
        paths += {*packages, *_imported(path)}.difference(paths)
    return tuple(sorted(paths))


def lay_out(place: Path, content: Mapping[str, bytes]) -> None:
    """Write files below a directory, by their paths."""
    for name, data in content.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _imported(path: str) -> Iterator[str]:
    """Paths of the package's modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(source(path))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):  # a name imported from a package may be a module
            names = [f"{node.module}", *(f"{node.module}.{name}" for name in names)]
        for name in names:
            if name.startswith(f"{assay_payloads.__name__}.") and (DIRECTORY / path_of(name)).is_file():
                yield path_of(name)
