"""A pylock.toml as the contents of an image: nothing is chosen again, and every file's hash is checked."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from assay.errors import InputError, Problem
from assay.redact import secrets_in, secrets_in_text
from assay.stacks.image import (
    DEFAULT_BASE,
    BaseImage,
    ImageContents,
    ImageLock,
    LockedRequirement,
    base_image,
    imports_of,
    need_base_for,
    payload_packages,
)
from assay.stacks.parts import BASES, FRAMEWORKS

_log = logging.getLogger("assay")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY: Final = re.compile(r"[0-9a-fA-F]{40,}")
_NAMES_A_KEY: Final = re.compile(r"(?i)(?:^|_)(?:\w*key|token|secret)s?(?:_|$)")
_PYPI: Final = ("https://pypi.org/simple", "https://pypi.org/simple/")
_CUDA: Final = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?")
_ROCM: Final = re.compile(r"\+rocm(\d+\.\d+)")
_ELSEWHERE: Final = ("vcs", "directory", "archive")


def image_of_lock(
    text: str,
    source: str,
    *,
    workload: str = "command",
    base: str | None = None,
    mpi: bool = False,
    settings: Mapping[str, str] | None = None,
) -> ImageContents:
    """The contents of an image that has exactly what a pylock.toml has.

    source    where it is from, for errors
    workload  whose programs must find what they import
    base      None: the first one whose Python is the lock's, and that has the libraries that it needs; of a
              lock that says no Python, the first one for which every package has a wheel
    settings  variables of the image

    Raises InputError with every problem of the lock, or if base or workload don't fit it.
    """
    table = _table(text, source)
    _need_version(table, source)
    python = _python(table, source)
    if python is None:
        python = _base_python(table, source, base, mpi=mpi)
    requirements, indexes, problems = _requirements(table, source, python)
    problems += list(_wrong_settings(settings or {}))
    if problems:
        raise InputError(problems)
    accelerator = _accelerator(requirements)
    system = _base(base, python, source, mpi=mpi)
    if accelerator != "cpu":
        need_base_for(system, accelerator)
    modules = _of_lock(imports_of(workload), requirements)
    _need_imports(modules, requirements, workload, source)
    return ImageContents(
        workload=workload,
        system=system,
        accelerator=accelerator,
        framework=None,
        packages=(),
        modules=modules,
        mpi=mpi,
        lock=ImageLock(tuple(requirements), tuple(indexes)),
        settings=dict(sorted((settings or {}).items())),
    )


def _table(text: str, source: str) -> Mapping[str, Any]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError([Problem(source, f"not TOML ({error})")]) from error
    if not isinstance(table.get("packages"), list) or not table["packages"]:
        what = "it has no `packages`; expected a pylock.toml, as `assay stack advise -o` writes"
        raise InputError([Problem(source, what)])
    return table


def _need_version(table: Mapping[str, Any], source: str) -> None:
    """Refuse another major version, and warn of a newer minor one, as PEP 751 has it."""
    written = table.get("lock-version")
    match = re.fullmatch(r"1\.(\d+)", written) if isinstance(written, str) else None
    if match is None:
        what = f"lock-version: found {written!r}; expected '1.0': lock again with a tool that writes that"
        raise InputError([Problem(source, what)])
    if int(match[1]) > 0:
        what = "newer than 1.0, which Assay knows; what else it says is ignored"
        _log.warning("%s: lock-version %s is %s", source, written, what)


def _python(table: Mapping[str, Any], source: str) -> str | None:
    """Major and minor version of the Python that the lock is for; None if it says none, as `pip lock`."""
    written = table.get("requires-python")
    if written is None:
        return None
    try:
        least = [
            specifier.version
            for specifier in SpecifierSet(str(written))
            if specifier.operator in (">=", "==", "~=")
        ]
    except InvalidSpecifier:
        least = []
    if not least:
        what = (
            f"requires-python: found {written!r}; expected the Python that it was locked for, like '>=3.12'"
        )
        raise InputError([Problem(source, what)])
    return ".".join(least[0].split(".")[:2])


def _base_python(table: Mapping[str, Any], source: str, base: str | None, *, mpi: bool) -> str:
    """The Python of the base, or of the first base for which every package has a wheel."""
    if base is not None:
        return base_image(base, mpi=mpi).base.python
    pythons = dict.fromkeys(BASES[name].python for name in _own_bases(mpi=mpi))
    for python in pythons:
        if not _requirements(table, source, python)[2]:
            return python
    tried = ", ".join(pythons)
    what = (
        f"it has no requires-python, and for none of Python {tried} does every package have a wheel: name a "
        "--base to see what is missing for its Python"
    )
    raise InputError([Problem(source, what)])


def _own_bases(*, mpi: bool) -> list[str]:
    """Names of the bases without a vendor's libraries, the default first."""
    order = sorted(BASES, key=lambda name: name != DEFAULT_BASE)
    return [name for name in order if not BASES[name].brings and (BASES[name].mpi or not mpi)]


def _requirements(
    table: Mapping[str, Any], source: str, python: str
) -> tuple[list[LockedRequirement], list[str], list[Problem]]:
    requirements: list[LockedRequirement] = []
    indexes: dict[str, None] = {}
    problems: list[Problem] = []
    for number, package in enumerate(table["packages"], 1):
        try:
            requirements.append(_requirement(package, python))
            if (index := str(package.get("index", ""))) and index not in _PYPI:
                indexes[_public(index)] = None
        except ValueError as error:
            problems.append(Problem(f"{source}: packages[{number}]", str(error)))
    return requirements, list(indexes), problems


def _requirement(table: Mapping[str, Any], python: str) -> LockedRequirement:
    """One package. Raises ValueError if pip can't install it from a wheel with a known hash."""
    if not isinstance(table, Mapping) or not _NAME.fullmatch(str(table.get("name", ""))):
        raise ValueError("it has no valid name")
    name = canonicalize_name(table["name"])
    if any(key in table for key in _ELSEWHERE):
        raise ValueError(f"{name} is not from an index; publish a wheel of it, and lock again")
    try:
        version = Version(str(table.get("version", "")))
    except InvalidVersion as error:
        raise ValueError(f"{name}: {error}") from None
    digests = sorted({digest for wheel in table.get("wheels", ()) for digest in _hashes(wheel, python)})
    if not digests:
        raise ValueError(f"{name} {version} has no wheel for Python {python} on Linux with a SHA-256")
    return LockedRequirement(name, str(version), tuple(digests))


def _hashes(wheel: Mapping[str, Any], python: str) -> Iterator[str]:
    """The SHA-256 of a wheel, if this Python on Linux can use it."""
    filename = str(wheel.get("name") or urlsplit(str(wheel.get("url", ""))).path.rpartition("/")[2])
    try:
        tags = parse_wheel_filename(filename.replace("%2B", "+"))[3]
    except (InvalidWheelFilename, InvalidVersion):
        return
    digest = str(wheel.get("hashes", {}).get("sha256", ""))
    if _SHA256.fullmatch(digest) and any(_usable(tag, python) for tag in tags):
        yield digest


def _usable(tag: Tag, python: str) -> bool:
    minor = int(python.split(".")[1])
    own = f"cp3{minor}"
    stable = tag.abi == "abi3" and re.fullmatch(r"cp3(\d+)", tag.interpreter)
    pure = tag.interpreter in ("py3", f"py3{minor}") and tag.abi == "none"
    interpreter = tag.interpreter == own or pure or (stable and int(tag.interpreter[3:]) <= minor)
    return bool(interpreter) and (tag.platform == "any" or "linux" in tag.platform)


def _public(index: str) -> str:
    """The address without a user, a password or a token: what is written goes to others.

    Raises ValueError for one that is not on one line without blanks.
    """
    if not index.isprintable() or " " in index:
        raise ValueError("its index is not an address: it has a blank or a control character")
    parts = urlsplit(index)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(
        (parts.scheme, re.sub(r"[^\w.:\[\]-]", "", host), re.sub(r"[^\w./+~-]", "", parts.path), "", "")
    )


def _accelerator(requirements: Sequence[LockedRequirement]) -> str:
    """The accelerator whose libraries the lock has or needs."""
    for requirement in requirements:
        if _CUDA.fullmatch(requirement.name):
            return "cuda" + ".".join(requirement.version.split(".")[:2])
        if match := _ROCM.search(requirement.version):
            return f"rocm{match[1]}"
    return "cpu"


def _base(written: str | None, python: str, source: str, *, mpi: bool) -> BaseImage:
    if written is None:
        fitting = [name for name in _own_bases(mpi=mpi) if BASES[name].python == python]
        if not fitting:
            there = ", ".join(f"{name} has {base.python}" for name, base in BASES.items() if not base.brings)
            what = (
                f"it is for Python {python}, which no base has: {there}; advise with --python, or name --base"
            )
            raise InputError([Problem(source, what)])
        written = fitting[0]
    system = base_image(written, mpi=mpi)
    if system.base.python != python:
        fitting = [name for name, base in BASES.items() if base.python == python]
        also = f": choose from {', '.join(fitting)}" if fitting else ""
        what = f"{system.name} has Python {system.base.python}, and {source} is for {python}{also}"
        raise InputError([Problem("--base", what)])
    return system


def _of_lock(modules: Sequence[str], requirements: Sequence[LockedRequirement]) -> tuple[str, ...]:
    """The modules that must be there: of several frameworks, a program uses those that the lock has."""
    there = {requirement.name for requirement in requirements}
    several = sum(module in FRAMEWORKS for module in modules) > 1
    return tuple(
        module for module in modules if not (several and module in FRAMEWORKS and module not in there)
    )


def _need_imports(
    modules: Sequence[str], requirements: Sequence[LockedRequirement], workload: str, source: str
) -> None:
    there = {requirement.name for requirement in requirements}
    missing = [name for name in payload_packages(tuple(modules)) if canonicalize_name(name) not in there]
    if missing:
        what = (
            f"{workload} imports {', '.join(missing)}, which it does not have; require it, and advise again"
        )
        raise InputError([Problem(source, what)])


_SET_BY_ASSAY: Final = frozenset({"HOME", "USER", "PATH"})  # in every container file


def _wrong_settings(settings: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in settings.items():
        if not _VARIABLE.fullmatch(name) or not value.isprintable():
            yield Problem("--env", f"{name!r}={value!r} is not a variable; write NAME=VALUE, on one line")
        elif name in _SET_BY_ASSAY:
            yield Problem("--env", f"{name} is what the image sets itself; leave it out")
        elif secrets_in({name: value}) or secrets_in_text(value) or _is_key(name, value):
            what = (
                f"{name} looks like a secret, and an image shows its variables to everybody; set it when a "
                "container starts: `env` of its system, with from_file or from_env"
            )
            yield Problem("--env", what)


def _is_key(name: str, value: str) -> bool:
    """Whether a variable that is named as a key has a value like one; a commit's name looks the same."""
    return bool(_KEY.fullmatch(value) and _NAMES_A_KEY.search(name))
