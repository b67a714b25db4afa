"""The file that says what an exploration may vary, what it measures, and what the incumbent is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from assay.errors import InputError, Problem
from assay.inputs import read_whole
from assay.launch import SYSTEM_MODELS
from assay.stacks.exploring.measuring import MeasuredWork
from assay.stacks.image import base_image
from assay.stacks.requirements import logical_lines
from assay.suite import document
from assay.suite.document import Document
from assay.suite.findings import checked, in_order, shown
from assay.suite.model import Duration, Margin, Name

_LARGEST_BYTES: Final = 1 << 20
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
Variables = dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str]


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
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], list[str]] = Field(
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
        placed = list(_of_file(directory / written, source.where("requirements")))
    problems = []
    for where, line in placed:
        try:
            _requirement(line)
        except ValueError as error:
            problems.append(Problem(where, str(error)))
    if not placed:
        problems.append(
            Problem(source.where("requirements"), "there is no requirement, so no stack to build")
        )
    return [line for _, line in placed], problems


def _of_file(path: Path, where: str) -> Iterator[tuple[str, str]]:
    """Place and text of each requirement of a requirements.txt or pyproject.toml."""
    if not path.is_file():
        raise InputError([Problem(where, f"requirements: {path} is not a file")])
    text = read_whole(path, _LARGEST_BYTES).decode("utf-8", "replace")
    if path.suffix != ".toml":
        yield from ((f"{path}:{number}", line) for number, line in logical_lines(text))
        return
    try:
        listed = tomllib.loads(text).get("project", {}).get("dependencies", [])
    except tomllib.TOMLDecodeError as error:
        raise InputError([Problem(str(path), f"not TOML ({error})")]) from error
    yield from ((f"{path}", str(line)) for line in listed)


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
