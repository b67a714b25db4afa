"""From what a specification allows to the dimensions of its space, and from a choice to what uv builds."""

from __future__ import annotations

import sys
from functools import cache

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assay.errors import InputError, Problem
from assay.stacks import uv
from assay.stacks.exploring.environments import EnvironmentRecipe, ImageRecipe, versions_of
from assay.stacks.exploring.search import Dimension, Space, StackChoice
from assay.stacks.exploring.spec import Spec, VersionRange
from assay.stacks.image import DEFAULT_BASE
from assay.stacks.uv import Interpreter, UvError


def dimensions(spec: Spec) -> list[Dimension]:
    """Everything that varies, with its values: versions from the index, interpreters from this machine.

    Raises InputError with uv's reason if a range has no version, or an interpreter is not here.
    """
    vary = spec.content.vary
    varied = [Dimension("package", canonicalize_name(name), _versions(spec, name)) for name in vary.packages]
    if vary.python:
        pythons = (
            vary.python
            if isinstance(vary.python, list)
            else [installed.path for installed in uv.interpreters()]
        )
        for index, python in enumerate(pythons):
            interpreter(spec, python, index)
        varied.append(Dimension("python", "python", tuple(pythons)))
    if vary.base:
        varied.append(Dimension("base", "base", tuple(vary.base)))
    varied += [Dimension("env", name, tuple(values)) for name, values in vary.env.items() if values]
    return varied


def _versions(spec: Spec, name: str) -> tuple[str, ...]:
    written = spec.content.vary.packages[name]
    if not isinstance(written, VersionRange):
        return tuple(written)
    required = next(
        requirement
        for requirement in map(Requirement, spec.requirements)
        if canonicalize_name(requirement.name) == canonicalize_name(name)
    )
    extras = f"[{','.join(sorted(required.extras))}]" if required.extras else ""
    both = ",".join(filter(None, (str(required.specifier), written.range)))
    where = spec.where("vary", "packages", name)
    try:
        python = incumbent_python(spec)
        versions = versions_of(
            f"{name}{extras}{both}",
            name,
            written.step,
            written.newest,
            python.path,
            find_links=spec.wheels,
            offline=spec.content.offline,
        )
    except UvError as error:
        raise InputError(f"{error.words}\n{where}: versions of {name} can't be found: see above") from error
    if not versions:
        raise InputError(
            [Problem(where, f"no version of {name} meets {both} and has a wheel for this platform")]
        )
    return versions


def incumbent_values(spec: Spec) -> dict[str, str]:
    """The incumbent's values of what varies, by the dimension's key, where it states them."""
    incumbent, vary = spec.content.incumbent, spec.content.vary
    values: dict[str, str] = {
        canonicalize_name(name): version
        for name, version in incumbent.packages.items()
        if canonicalize_name(name) in map(canonicalize_name, vary.packages)
    }
    if vary.python and incumbent.python:
        values["python"] = incumbent.python
    if vary.base and incumbent.base:
        values["base"] = incumbent.base
    return values | {f"${name}": value for name, value in incumbent.env.items() if name in vary.env}


def incumbent_python(spec: Spec) -> Interpreter:
    """The interpreter of a stack whose interpreter does not vary, or is not chosen yet."""
    stated = spec.content.incumbent.python
    return interpreter(spec, stated) if stated else _running()


def recipe_of(spec: Spec, space: Space, choice: StackChoice) -> EnvironmentRecipe | ImageRecipe:
    """What is built for a choice: an environment by uv, or an image if the specification names bases."""
    pins = [f"{d.name}=={choice[d.key]}" for d in space.dimensions if d.kind == "package"]
    varied = {d.name for d in space.dimensions if d.kind == "package"}
    fixed = spec.content.incumbent.packages
    pins += [f"{name}=={version}" for name, version in fixed.items() if canonicalize_name(name) not in varied]
    if spec.content.in_images:
        base = next((choice[d.key] for d in space.dimensions if d.kind == "base"), None)
        return ImageRecipe(
            base or spec.content.incumbent.base or DEFAULT_BASE,
            spec.requirements,
            tuple(pins),
            tuple(spec.content.imports),
        )
    python = next((choice[d.key] for d in space.dimensions if d.kind == "python"), None)
    return EnvironmentRecipe(
        incumbent_python(spec) if python is None else interpreter(spec, python),
        spec.requirements,
        tuple(pins),
        tuple(spec.content.imports),
        spec.wheels,
        spec.content.offline,
        overrides=tuple(spec.content.overrides),
    )


def variables_of(spec: Spec, space: Space, choice: StackChoice) -> dict[str, str]:
    """The environment variables of a choice: the incumbent's, with those that vary."""
    varied = {d.name: choice[d.key] for d in space.dimensions if d.kind == "env"}
    return {**spec.content.incumbent.env, **varied}


def interpreter(spec: Spec, version_or_path: str, index: int | None = None) -> Interpreter:
    """The interpreter of a version or path. Raises InputError, with uv's reason, if it is not here."""
    try:
        return _interpreter(version_or_path)
    except UvError as error:
        where = (
            spec.where("vary", "python", index) if index is not None else spec.where("incumbent", "python")
        )
        what = f"python {version_or_path} is not on this machine, and none is downloaded: {error.words}"
        raise InputError([Problem(where, what)]) from error


@cache
def _interpreter(version_or_path: str) -> Interpreter:
    return uv.find_python(version_or_path)


def _running() -> Interpreter:
    return Interpreter(".".join(map(str, sys.version_info[:3])), sys.executable)
