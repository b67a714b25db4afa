"""The file that says what an exploration may vary, what it measures, and what the incumbent is."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from assay.errors import HostError, InputError, Problem
from assay.launch import SYSTEM_MODELS
from assay.records import digest_of
from assay.stacks import uv
from assay.stacks.environments import EnvironmentRecipe, ImageRecipe, versions_of
from assay.stacks.image import DEFAULT_BASE, base_image
from assay.stacks.measuring import MeasuredWork
from assay.stacks.uv import Interpreter, UvError
from assay.suite import document
from assay.suite.document import Document
from assay.suite.findings import checked, in_order, shown
from assay.suite.model import Duration, Margin, Name

SET_HERE: Final = ("suite", "systems", "baseline", "repeats", "seed", "margin", "order")
"""What a suite says that an exploration or a bisection sets by itself."""


def _range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(f"{text!r} is not a range of versions; write it as '>=1.26,<2.4'") from error
    return text


def _version(text: str) -> str:
    try:
        return str(Version(text))
    except InvalidVersion as error:
        raise ValueError(f"{text!r} is not a version; write it as '2.1.3', in quotation marks") from error


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{text!r} is not a requirement ({reason}); write it as 'numpy>=1.26,<3'") from error
    return text


RequirementText = Annotated[str, AfterValidator(_requirement)]
Range = Annotated[str, AfterValidator(_range)]
VersionText = Annotated[str, AfterValidator(_version)]
Python = Annotated[
    str, Field(min_length=1, description="A version such as '3.12', or an interpreter's path.")
]


def _base(text: str) -> str:
    try:
        base_image(text, mpi=False)
    except InputError as error:
        raise ValueError(error.problems[0].what) from error
    return text


Base = Annotated[
    str,
    AfterValidator(_base),
    Field(description="A base image as `assay stack containerfile --base` has it: debian12, or NAME=IMAGE."),
]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Variables = dict[VariableName, str]


class VersionRange(BaseModel):
    """Versions of a package that the index has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    range: Range = Field(description="Which versions: '>=1.26,<2.4'.")
    step: Literal["patch", "minor", "major"] = Field(
        "minor", description="Which of them: each, the newest of each minor series, or of each major one."
    )
    newest: int = Field(8, ge=1, le=200, description="At most this many, the newest first.")


def _written_as(value: object) -> str:
    return "range" if isinstance(value, dict | VersionRange) else "list"


Versions = Annotated[
    Annotated[list[VersionText], Field(min_length=1), Tag("list")] | Annotated[VersionRange, Tag("range")],
    Discriminator(_written_as),  # so that a mistake is reported for the form that was meant
]


class Vary(BaseModel):
    """What differs between candidates; every combination is one."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    packages: dict[str, Versions] = Field(
        {}, description="Package → its versions, as a list, or as a range of those that the index has."
    )
    python: list[Python] | Literal["installed"] = Field(
        [], description="Versions or paths of interpreters; `installed`: all that uv finds on this machine."
    )
    base: list[Base] = Field([], description="Base images; each stack is then built as an image.")
    env: dict[VariableName, list[str]] = Field(
        {}, description="Variable → its values: OMP_NUM_THREADS: ['1', '2']."
    )


class Incumbent(BaseModel):
    """What is used today, which every candidate is compared with."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    packages: dict[str, VersionText] = Field({}, description="Package → version; others as uv resolves them.")
    python: Python | None = Field(None, description="Version or path; default: the one that runs Assay.")
    base: Base | None = Field(None, description="Its base image; each stack is then built as an image.")
    env: Variables = Field({}, description="Variable → value.")


class Images(BaseModel):
    """How images are built."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: Literal["podman", "buildah"] = Field("podman", description="The program that builds.")
    build_options: list[str] = Field([], description="Further options of its `build`: [--network=host].")


class SpecFile(BaseModel):
    """A file for `assay stack explore`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    explore: Name = Field(description="Name of the exploration, and of the suite that its sessions are of.")
    requirements: list[str] | str = Field(
        description="What every stack needs: a list, or the path of a requirements.txt or pyproject.toml."
    )
    overrides: list[RequirementText] = Field(
        [], description="Requirements that replace those of other packages: uv's overrides."
    )
    vary: Vary = Field(description="What differs between candidates.")
    incumbent: Incumbent = Field(
        default_factory=Incumbent,  # type: ignore[arg-type]  # pydantic calls it without arguments
        description="What is used today; what it does not name is as in the first value of `vary`.",
    )
    measure: dict[str, Any] | str = Field(
        description="What is measured: workload and params, or benchmarks, as in a suite; or a suite's file."
    )
    imports: list[str] = Field(
        [], description="Modules that a stack must be able to import; default: those of the requirements."
    )
    options: dict[str, Any] = Field(
        {},
        description="Launcher and its options for every stack, as in systems.yaml: {launcher: slurm, "
        "partition: gpu}; default: `local`, and `podman` for images.",
    )
    images: Images = Field(
        default_factory=Images,  # type: ignore[arg-type]  # pydantic calls it without arguments
        description="How images are built, if bases are named.",
    )
    search: Literal["random", "one-factor", "tpe"] = Field("tpe", description="How candidates are chosen.")
    wheels: list[str] = Field([], description="Directories with wheels of your own, besides the index.")
    offline: bool = Field(False, description="Use no index, only `wheels`.")
    margin: Margin = Field(
        default=0.02, description="How far a ratio may be from 1 and still count as equal."
    )
    max_repeats: int = Field(12, ge=3, le=200, description="Most blocks for a candidate that is not dropped.")
    batch: int = Field(4, ge=1, le=16, description="Candidates that start together, in the same blocks.")
    build_timeout: Duration = Field(default=600.0, description="A build that takes longer is ended.")
    seed: int = Field(1, ge=0, lt=2**31, description="Orders the candidates and the trials.")

    @property
    def in_images(self) -> bool:
        """Whether stacks are images, and not environments."""
        return bool(self.vary.base or self.incumbent.base)

    @property
    def launcher(self) -> str:
        """What runs the trials."""
        return str(self.options.get("launcher", "podman" if self.in_images else "local"))


@dataclass(frozen=True)
class Spec:
    """What to explore, checked.

    requirements  as PEP 508 requirements, one a line of uv's input
    measure       content of a suite without its name, systems and repeats
    directory     the file's: relative paths start there
    """

    content: SpecFile
    requirements: tuple[str, ...]
    measure: Mapping[str, Any]
    directory: Path
    source: Document

    @property
    def wheels(self) -> tuple[Path, ...]:
        """Directories with wheels, absolute."""
        return tuple(self.directory / folder for folder in self.content.wheels)

    @property
    def name(self) -> str:
        """Name of the exploration."""
        return self.content.explore

    @property
    def work(self) -> MeasuredWork:
        """What every stack runs."""
        content = self.content
        return MeasuredWork(self.name, self.measure, self.directory, content.margin, content.seed, self.where)

    def where(self, *path: str | int) -> str:
        """`spec.yaml:12` for the value at a path of keys."""
        return self.source.where(*path)


def load(path: Path) -> Spec:
    """The content of the file. Raises InputError with every problem of it, in the order of its lines."""
    source = document.read(path)
    problems = list(source.problems)
    if source.data is None and problems:
        raise InputError(problems)
    if not isinstance(source.data, dict):
        raise InputError([Problem(source.where(), f"found {shown(source.data)}; expected a mapping")])
    content, file_problems = checked(SpecFile, source.data, source.where)
    problems += source.others(file_problems)
    if content is None:
        raise InputError(in_order(problems, source.file))
    directory = path.absolute().parent
    requirements, wrong = _requirements(content, directory, source)
    measure, more = _measure(content, directory, source)
    problems += [*wrong, *more, *_unknown_packages(content, requirements, source)]
    problems += [*_missing_wheels(content, directory, source), *_not_with_images(content, source)]
    if problems:
        raise InputError(problems)
    return Spec(content, tuple(requirements), measure, directory, source)


def _requirements(content: SpecFile, directory: Path, source: Document) -> tuple[list[str], list[Problem]]:
    """The requirements as text, and what is wrong with them, each at its own line."""
    written = content.requirements
    if isinstance(written, list):
        placed = [(source.where("requirements", index), line) for index, line in enumerate(written)]
    else:
        path = directory / written
        if not path.is_file():
            what = f"requirements: {path} is not a file"
            raise InputError([Problem(source.where("requirements"), what)])
        placed = list(uv.requirement_lines(path))
    problems = []
    for where, line in placed:
        try:
            _requirement(line)
        except ValueError as error:
            problems.append(Problem(where, str(error)))
    if not placed:
        what = "there is no requirement, so no stack to build"
        problems.append(Problem(source.where("requirements"), what))
    return [line for _, line in placed], problems


def _measure(content: SpecFile, directory: Path, source: Document) -> tuple[Mapping[str, Any], list[Problem]]:
    """A suite's content: inline, or its file's."""
    data, origin, keys = content.measure, source, ("measure",)
    if isinstance(data, str):
        origin, keys = document.read(directory / data), ()  # type: ignore[assignment]
        if origin.problems or not isinstance(origin.data, dict):
            return {}, list(origin.problems) or [Problem(origin.where(), "expected a suite: a mapping")]
        data = {key: value for key, value in origin.data.items() if key != "suite"}
    own = [key for key in SET_HERE if key in data]
    if isinstance(content.measure, str):
        return {key: value for key, value in data.items() if key not in own}, []
    what = "is set by the exploration; remove it here"
    return data, [Problem(origin.where(*keys, key), f"measure.{key}: {what}") for key in own]


def _missing_wheels(content: SpecFile, directory: Path, source: Document) -> Iterator[Problem]:
    for index, name in enumerate(content.wheels):
        if not (directory / name).is_dir():
            yield Problem(source.where("wheels", index), f"wheels: {directory / name} is not a directory")


def _not_with_images(content: SpecFile, source: Document) -> Iterator[Problem]:
    """What stacks that are images can't have, and launchers that run none."""
    if not content.in_images:
        return
    used = {
        ("vary", "python"): content.vary.python,
        ("incumbent", "python"): content.incumbent.python,
        ("overrides",): content.overrides,
        ("wheels",): content.wheels,
        ("offline",): content.offline,
    }
    for path, value in used.items():
        if value:
            what = "images have the Python of their base and what uv resolves from the index; remove it"
            yield Problem(source.where(*path), f"{'.'.join(path)}: {what}")
    if content.launcher in SYSTEM_MODELS and image_option(content.launcher) is None:
        what = f"options: the launcher {content.launcher} runs no images; choose podman or kubernetes"
        yield Problem(source.where("options"), what)


def image_option(launcher: str) -> str | None:
    """The option of a launcher that names the image of its trials; None if it has none."""
    fields = SYSTEM_MODELS[launcher].model_fields
    return next((name for name in ("image", "container_image") if name in fields), None)


def _unknown_packages(content: SpecFile, requirements: list[str], source: Document) -> Iterator[Problem]:
    """Varied packages that nothing requires: their versions would be installed for nothing."""
    names = set()
    for line in requirements:
        try:
            names.add(canonicalize_name(Requirement(line).name))
        except InvalidRequirement:
            return
    for name in content.vary.packages:
        if canonicalize_name(name) not in names:
            what = f"vary.packages: {name} is not among the requirements; add it there"
            yield Problem(source.where("vary", "packages", name), what)
    vary = content.vary
    if not (vary.packages or vary.python or vary.base or vary.env):
        yield Problem(source.where("vary"), "nothing varies, so the incumbent is the only stack")


def dimensions(spec: Spec) -> list[Dimension]:
    """Everything that varies, with its values: versions from the index, interpreters from this machine.

    Raises InputError with uv's reason if a range has no version, or an interpreter is not here.
    """
    vary = spec.content.vary
    varied = [Dimension("package", canonicalize_name(name), _versions(spec, name)) for name in vary.packages]
    if vary.python:
        listed = isinstance(vary.python, list)
        pythons = vary.python if listed else [installed.path for installed in uv.interpreters()]
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
        searched = f"{name}{extras}{both}", name, written.step, written.newest
        python, offline = incumbent_python(spec).path, spec.content.offline
        versions = versions_of(*searched, python, find_links=spec.wheels, offline=offline)
    except UvError as error:
        raise InputError(f"{error.words}\n{where}: versions of {name} can't be found: see above") from error
    if not versions:
        what = f"no version of {name} meets {both} and has a wheel for this platform"
        raise InputError([Problem(where, what)])
    return versions


def incumbent_values(spec: Spec) -> dict[str, str]:
    """The incumbent's values of what varies, by the dimension's key, where it states them."""
    incumbent, vary = spec.content.incumbent, spec.content.vary
    packages = {canonicalize_name(name): version for name, version in incumbent.packages.items()}
    varied = {canonicalize_name(name) for name in vary.packages}
    values: dict[str, str] = {name: version for name, version in packages.items() if name in varied}
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
        varied_base = next((choice[d.key] for d in space.dimensions if d.kind == "base"), None)
        base = varied_base or spec.content.incumbent.base or DEFAULT_BASE
        return ImageRecipe(base, spec.requirements, tuple(pins), tuple(spec.content.imports))
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
        path = ("incumbent", "python") if index is None else ("vary", "python", index)
        where = spec.where(*path)
        what = f"python {version_or_path} is not on this machine, and none is downloaded: {error.words}"
        raise InputError([Problem(where, what)]) from error


@cache
def _interpreter(version_or_path: str) -> Interpreter:
    return uv.find_python(version_or_path)


def _running() -> Interpreter:
    return Interpreter(".".join(map(str, sys.version_info[:3])), sys.executable)


INCUMBENT: Final = "incumbent"
"""Name of what is used today, next to those of the candidates."""
Kind = Literal["package", "python", "base", "env"]


@dataclass(frozen=True)
class Dimension:
    """Something that varies: a package's version, the interpreter, the base image, or a variable.

    values  as text, at least one
    """

    kind: Kind
    name: str
    values: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name, which no other dimension has."""
        return self.name if self.kind != "env" else f"${self.name}"


@dataclass(frozen=True)
class StackChoice:
    """A value of each dimension, by the dimension's key, in the space's order."""

    values: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """Its name in files."""
        return digest_of([list(pair) for pair in self.values])[:12]

    def __getitem__(self, key: str) -> str:
        return dict(self.values)[key]

    def with_values(self, values: Mapping[str, str]) -> StackChoice:
        """The same with other values, by key."""
        return StackChoice(tuple((key, values.get(key, value)) for key, value in self.values))

    def differs(self, other: StackChoice) -> tuple[tuple[str, str], ...]:
        """Keys and values that the other does not have."""
        return tuple(pair for pair in self.values if pair not in other.values)

    def __str__(self) -> str:
        return ", ".join(
            f"{key} {value}" if key[0] != "$" else f"{key[1:]}={value}" for key, value in self.values
        )


@dataclass(frozen=True)
class Space:
    """All dimensions; the incumbent's values are among them."""

    dimensions: tuple[Dimension, ...]
    incumbent: StackChoice

    @property
    def size(self) -> int:
        """Number of choices, the incumbent included."""
        return math.prod(len(dimension.values) for dimension in self.dimensions)

    def choices(self) -> Iterator[StackChoice]:
        """All of them, the first dimension slowest."""
        keys = [dimension.key for dimension in self.dimensions]
        for values in itertools.product(*(dimension.values for dimension in self.dimensions)):
            yield StackChoice(tuple(zip(keys, values, strict=True)))

    def at(self, number: int) -> StackChoice:
        """The choice at this index of `choices`."""
        values = []
        for dimension in reversed(self.dimensions):
            number, place = divmod(number, len(dimension.values))
            values.append((dimension.key, dimension.values[place]))
        return StackChoice(tuple(reversed(values)))


def space_of(dimensions: Sequence[Dimension], incumbent: Mapping[str, str]) -> Space:
    """The space, with the incumbent's values added where they are missing.

    incumbent  by key; a dimension that it lacks has its first value
    """
    own = [(d, (d.values[0] if (value := incumbent.get(d.key)) is None else value)) for d in dimensions]
    full = tuple(d if value in d.values else replace(d, values=(value, *d.values)) for d, value in own)
    return Space(full, StackChoice(tuple((d.key, value) for d, value in own)))


@dataclass(frozen=True)
class Tried:
    """A choice that was proposed.

    gain  logarithm of its speed over the incumbent's: above 0 is better; None if it gave no figure
    """

    choice: StackChoice
    gain: float | None


Search = Callable[[Space, Sequence[Tried], int], StackChoice | None]
"""Space, what was tried in order, seed → the next choice, never one that was tried; None if none is left."""


def random_search(space: Space, tried: Sequence[Tried], seed: int) -> StackChoice | None:
    """Any choice that was not tried, each as likely as any other."""
    done = {space.incumbent, *(attempt.choice for attempt in tried)}
    if len(done) >= space.size:
        return None
    order = random.Random(f"{seed} {len(tried)}")  # noqa: S311  (no secret)
    while True:
        choice = space.at(order.randrange(space.size))
        if choice not in done:
            return choice


def one_factor(space: Space, tried: Sequence[Tried], seed: int) -> StackChoice | None:
    """Each value of each dimension alone, from the incumbent; then again from the best choice so far.

    It finds effects that add up, with few choices. An interaction that shows only if two values change
    together stays hidden until one of them is the best by itself. When nothing alone is left to change, it
    continues at random.
    """
    done = {space.incumbent, *(attempt.choice for attempt in tried)}
    base = space.incumbent
    while True:
        around = _neighbors(space, base, random.Random(f"{seed} {base}"))  # noqa: S311  (no secret)
        left = [choice for choice in around if choice not in done]
        if left:
            return left[0]
        best = _best_of([attempt for attempt in tried if attempt.choice in {*around, base}], base)
        if best == base:
            return random_search(space, tried, seed)
        base = best


def _neighbors(space: Space, base: StackChoice, order: random.Random) -> list[StackChoice]:
    """Every choice that differs from this one in one dimension, shuffled."""
    neighbors = [
        base.with_values({dimension.key: value})
        for dimension in space.dimensions
        for value in dimension.values
        if base[dimension.key] != value
    ]
    order.shuffle(neighbors)
    return neighbors


def _best_of(tried: Sequence[Tried], base: StackChoice) -> StackChoice:
    """The best choice that was tried, if it is better than this one."""
    gains = {attempt.choice: attempt.gain for attempt in tried if attempt.gain is not None}
    own = gains.get(base, 0.0)
    better = {choice: gain for choice, gain in gains.items() if gain > own}
    return max(better, key=better.__getitem__, default=base)


def tpe(space: Space, tried: Sequence[Tried], seed: int) -> StackChoice | None:
    """By Optuna's TPE sampler, told of everything that was tried; of equal proposals, the next at random.

    Raises HostError if Optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise HostError(
            "search: tpe needs Optuna: pip install 'cluster-assay[explore]', or choose another search"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    scales: dict[str, optuna.distributions.BaseDistribution] = {
        dimension.key: optuna.distributions.CategoricalDistribution(dimension.values)
        for dimension in space.dimensions
    }
    sampler = optuna.samplers.TPESampler(seed=seed + len(tried), multivariate=True, n_startup_trials=6)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    worst = min((attempt.gain for attempt in tried if attempt.gain is not None), default=0.0)
    known = [Tried(space.incumbent, 0.0), *tried]
    for attempt in known:  # what fails is no better than the worst
        gain = worst if attempt.gain is None else attempt.gain
        known_trial = optuna.trial.create_trial(
            params=dict(attempt.choice.values), distributions=scales, value=gain
        )
        study.add_trial(known_trial)
    done = {attempt.choice for attempt in known}
    if len(done) >= space.size:
        return None
    for _ in range(_MOST_ASKED):
        trial = study.ask(scales)
        choice = StackChoice(tuple((key, trial.params[key]) for key, _ in space.incumbent.values))
        if choice not in done:
            return choice
    return random_search(space, tried, seed)


_MOST_ASKED = 16  # proposals of TPE that were all tried before: then any other choice

SEARCHES: Mapping[str, Search] = {"random": random_search, "one-factor": one_factor, "tpe": tpe}
