"""The files that travel with a program: its own, those of its package that it imports, their packages'.

Assay's programs are in `assay_payloads`; a plug-in has its own package of them, which may import these.

A program is named as in Python, `assay_payloads.training.resnet50`, a file by its path from the
directory that contains the package. In the same layout below another directory, the same imports work.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import assay_payloads
from assay.errors import InputError

DIRECTORY = Path(assay_payloads.__file__).parents[1]  # from here `python -m` runs the programs


@cache
def source(path: str) -> bytes:
    """A file of a package: a program, or data next to one. Raises InputError if there is none."""
    try:
        return (_directory(path.partition("/")[0]) / path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: can't be read from its package: {error.strerror}") from error


@cache
def _directory(package: str) -> Path:
    """The directory that contains a package."""
    if package == assay_payloads.__name__:
        return DIRECTORY
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{package}: there is no such package, whose program is to be sent with a job")
    return Path(spec.submodule_search_locations[0]).parent


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
    """Paths of modules of its own package, and of Assay's, that a file imports, anywhere in it."""
    packages = {path.partition("/")[0], assay_payloads.__name__}
    for node in ast.walk(ast.parse(source(path))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):  # a name imported from a package may be a module
            above = PurePosixPath(path).parts[: -node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [module, *(f"{module}.{name}" for name in names)]
        for name in names:
            package = name.partition(".")[0]
            if package in packages and (_directory(package) / path_of(name)).is_file():
                yield path_of(name)
