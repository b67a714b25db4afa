"""Pinned requirements as others write them: pylock.toml, requirements.txt, the output of `pip freeze`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from assay.errors import InputError, Problem
from assay.inputs import read_whole

_LARGEST_BYTES: Final = 16 << 20
_OTHER_LOCKS: Final = {  # file → the command that writes what it pins in a form that every tool reads
    "uv.lock": "uv export --format pylock.toml -o pylock.toml",
    "poetry.lock": "poetry export -o requirements.txt",
    "pdm.lock": "pdm export -o requirements.txt",
    "Pipfile.lock": "pipenv requirements > requirements.txt",
}
_HASHES: Final = re.compile(r"\s+--hash[= ]\S+")


def is_requirement_file(path: Path) -> bool:
    """Whether a name on the command line is such a file, judging by its ending."""
    return path.suffix in (".txt", ".toml", ".in", ".lock") and path.is_file()


def pinned_packages(path: Path) -> dict[str, str]:
    """Name → version of each package that the file pins, markers that don't hold here left out.

    Raises InputError, with every finding, if it can't be read or a package is not pinned.
    """
    if path.name in _OTHER_LOCKS:
        raise InputError(
            f"{path}: only its own tool reads this lock; give what this writes: {_OTHER_LOCKS[path.name]}"
        )
    text = read_whole(path, _LARGEST_BYTES).decode("utf-8", "replace")
    if path.suffix == ".toml":
        return dict(sorted(_locked(path, text)))
    return dict(sorted(_listed(path, text)))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each requirement with its line, continued lines joined, without comments and hashes."""
    number, held = 0, ""
    for line_number, line in enumerate(text.splitlines(), 1):
        number = number or line_number
        held += line
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        requirement = _HASHES.sub("", re.sub(r"(^|\s)#.*$", "", held)).strip()
        if requirement:
            yield number, requirement
        number, held = 0, ""


def _listed(path: Path, text: str) -> list[tuple[str, str]]:
    pinned: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for number, line in logical_lines(text):
        where = f"{path}:{number}"
        if line.startswith("-"):
            if not line.startswith(("-e", "--editable")):
                continue  # where packages are found, not which
            problems.append(Problem(where, "an editable package has no version; leave it out"))
            continue
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            problems.append(Problem(where, f"not a requirement ({str(error).splitlines()[0]})"))
            continue
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        pins = [
            specifier.version for specifier in requirement.specifier if specifier.operator in ("==", "===")
        ]
        if len(pins) == 1 and not pins[0].endswith(".*"):
            pinned.append((canonicalize_name(requirement.name), pins[0]))
        else:
            what = f"{line!r} has no exact version; lock it first: uv pip compile {path}"
            problems.append(Problem(where, what))
    if problems:
        raise InputError(problems)
    return pinned


def _locked(path: Path, text: str) -> list[tuple[str, str]]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError([Problem(str(path), f"not TOML ({error})")]) from error
    packages: Any = table.get("packages", table.get("package"))  # uv.lock has the second
    if not isinstance(packages, list):
        what = "it has no `packages`; expected a pylock.toml, as `uv pip compile --format pylock.toml` writes"
        raise InputError([Problem(str(path), what)])
    return [
        (canonicalize_name(str(package["name"])), str(package["version"]))
        for package in packages
        if isinstance(package, dict) and "name" in package and "version" in package
    ]
