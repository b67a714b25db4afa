"""The contents of an image: one part of each group, checked for compatibility, and what programs import."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Final, Literal, NamedTuple

import msgspec
from pydantic import BaseModel, ValidationError

from assay.errors import InputError, Problem
from assay.records import Shape, TaskFile
from assay.stacks.stack import PACKAGE_OF
from assay.workloads import WORKLOADS, Workload

DEFAULT_BASE: Final = "ubuntu24.04"
_TORCHS: Final = ("torch", "torchvision")
_BESIDE_TORCH: Final = "numpy"  # torch works without it, but warns in every log
_BASE = re.compile(
    r"(?P<name>[\w.-]+)(?:=(?P<image>[a-z0-9][\w./:-]*))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_RELEASE = re.compile(r"(?P<name>[a-z]+)(?:==(?P<version>[\w.]+))?")


@dataclass(frozen=True)
class Framework:
    """A framework as it is installed.

    name     torch, tensorflow or jax
    version  of it
    wheels   of torch: itself, torchvision if something imports it, and what PyPI's wheel leaves open, with
             versions; their other dependencies are installed with them
    needs    packages with exact versions: of torch, those for any accelerator; of another, all that it is
    index    index of `wheels`; None for the index that pip is configured with
    """

    name: str
    version: str
    wheels: tuple[str, ...]
    needs: tuple[PinnedPackage, ...]
    index: str | None


@dataclass(frozen=True)
class LockedRequirement:
    """A package of a lock, and the files of it that may be installed."""

    name: str
    version: str
    sha256: tuple[str, ...]

    def __str__(self) -> str:
        hashes = (f" --hash=sha256:{digest}" for digest in self.sha256)
        return f"{self.name}=={self.version}{''.join(hashes)}"


@dataclass(frozen=True)
class ImageLock:
    """All packages of Python, as somebody locked them.

    indexes  where they are, besides the index that pip is configured with
    """

    requirements: tuple[LockedRequirement, ...]
    indexes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BaseImage:
    """An image to start from.

    name    of the base that it is like
    image   its reference, without a digest
    digest  sha256:…; None if the user gave none
    """

    name: str
    base: Distribution
    image: str
    digest: str | None

    @property
    def written(self) -> str:
        """As the user writes it."""
        image = "" if self.image == self.base.image else f"={self.image}"
        return self.name + image + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True)
class ImageContents:
    """The contents of an image.

    accelerator  its name in `ACCELERATORS`
    packages     of Python, in addition to the framework's own
    modules      must be importable in the end
    lock         a lock that has everything, instead of framework and packages; None if there is none
    settings     variables of the environment
    """

    workload: str
    system: BaseImage
    accelerator: str
    framework: Framework | None
    packages: tuple[PinnedPackage, ...]
    modules: tuple[str, ...]
    mpi: bool
    lock: ImageLock | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def runtime(self) -> ComputePlatform:
        """What the accelerator needs from the host and the container runtime."""
        return compute_platform(self.accelerator)


def choose(
    workload: str,
    *,
    base: str = DEFAULT_BASE,
    accelerator: str | None = None,
    framework: str | None = None,
    mpi: bool = False,
) -> ImageContents:
    """The stack for these choices.

    base         a name in `BASES`, with a digest (`NAME@sha256:…`) or with an image that is like it
                 (`NAME=IMAGE[@sha256:…]`)
    accelerator  a name in `ACCELERATORS`, or `cuda` or `rocm`: the first one for which the framework is
                 built; None: the one whose libraries the base has, else `cpu`
    framework    `torch`, `tensorflow` or `jax`, or one with `==VERSION`; default: the newest compatible one
                 of those that the workload imports, torch first; none if it imports none

    Raises InputError for a choice that is unknown or incompatible with the others.
    """
    imported = imports_of(workload)
    system = base_image(base, mpi=mpi)
    accelerator = accelerator or _brought_family(system) or "cpu"
    alternatives = [name for name in FRAMEWORKS if name in imported]
    release = _release(framework or (alternatives[0] if alternatives else None), workload, alternatives)
    if release is None:
        needed = closure(payload_packages(imported))
        _need_new_python(system, needed)
        accelerator = _without_framework(system, accelerator, workload)
        return ImageContents(workload, system, accelerator, None, needed, imported, mpi)
    name, version = release
    modules = tuple(sorted({*imported, name} - (set(FRAMEWORKS) - {name})))
    pinned = tuple(module for module in modules if module == "torch" or module not in FRAMEWORKS)
    needed = closure(payload_packages(pinned))
    _need_new_python(system, needed)
    version, accelerator = _fitting(system, accelerator, name, version)
    chosen = _framework(name, version, accelerator, needed)
    installed = {package.name for package in chosen.needs} | set(_TORCHS)
    packages = tuple(package for package in needed if package.name not in installed)
    return ImageContents(workload, system, accelerator, chosen, packages, modules, mpi)


def imports_of(workload: str) -> tuple[str, ...]:
    """Modules that the programs of a workload import. Raises InputError if there is no such workload."""
    if workload not in WORKLOADS:
        raise _unknown("WORKLOAD", workload, "workload", WORKLOADS)
    return payload_imports(WORKLOADS[workload])


def base_image(written: str, *, mpi: bool) -> BaseImage:
    """The base as the user writes it. Raises InputError if it is unknown, or has no MPI if that is wanted."""
    match = _BASE.fullmatch(written)
    if match is None:
        known = ", ".join(BASES)
        what = f"{written!r} is not a base; write NAME[=IMAGE][@sha256:…], with NAME one of {known}"
        raise _refused("--base", what)
    name = match["name"]
    if name not in BASES:
        raise _unknown("--base", name, "base", BASES)
    if mpi and not BASES[name].mpi:
        able = ", ".join(name for name, base in BASES.items() if base.mpi)
        raise _refused("--mpi", f"the repositories of {name} have no Open MPI; choose from {able}")
    return BaseImage(name, BASES[name], match["image"] or BASES[name].image, match["digest"])


def need_base_for(system: BaseImage, accelerator: str) -> None:
    """Raise InputError if the base has the libraries of another accelerator."""
    brought = system.base.brings
    if brought is not None and not compatible(accelerator, brought):
        what = f"{system.name} has the libraries of {brought}, which {accelerator} does not use"
        raise _refused("--accelerator", what)


def _brought_family(system: BaseImage) -> str | None:
    return None if system.base.brings is None else system.base.brings.rstrip("0123456789.")


def _without_framework(system: BaseImage, accelerator: str, workload: str) -> str:
    """The accelerator of an image without a framework: the one whose libraries the base has, or none."""
    brought = system.base.brings
    if brought is not None and accelerator in (brought, _brought_family(system)):
        return brought
    if accelerator != "cpu":
        with_it = ", ".join(name for name, base in BASES.items() if base.brings)
        what = f"the libraries of {accelerator} come with a framework, which {workload} does not import"
        remedy = f"add --framework torch, choose a base that has them ({with_it}), or remove --accelerator"
        raise _refused("--accelerator", f"{what}: {remedy}")
    need_base_for(system, accelerator)
    return accelerator


def _release(
    framework: str | None, workload: str, alternatives: Sequence[str]
) -> tuple[str, str | None] | None:
    """Name and version of the requested framework; None if none is wanted."""
    if framework is None:
        return None
    match = _RELEASE.fullmatch(framework)
    if match is None or match["name"] not in FRAMEWORKS:
        raise _unknown("--framework", framework, "framework", FRAMEWORKS)
    name, version = match["name"], match["version"]
    if version is not None and version not in FRAMEWORKS[name]:
        known = [f"{name}=={available}" for available in FRAMEWORKS[name]]
        raise _unknown("--framework", framework, "framework", known)
    if alternatives and name not in alternatives:
        raise _refused("--framework", f"{framework!r} does not fit: {workload} imports {alternatives[0]}")
    return name, version


def _fitting(system: BaseImage, accelerator: str, name: str, version: str | None) -> tuple[str, str]:
    """The requested release, or the newest compatible one; and its accelerator."""
    if accelerator not in (*ACCELERATORS, "cuda", "rocm"):
        raise _unknown("--accelerator", accelerator, "accelerator", ("cuda", "rocm", *ACCELERATORS))
    releases = FRAMEWORKS[name]
    need_base_for(system, _concrete(system, accelerator))
    for candidate in [version] if version else releases:
        for kind in releases[candidate].accelerators:
            if accelerator in (kind, kind.rstrip("0123456789.")) and _runs(system, name, candidate, kind):
                return candidate, kind
    release = f"{name}=={version}" if version else name
    what = f"{accelerator} with {release} on {system.name}: no such wheel exists; {_wheels(name)}"
    raise _refused("--accelerator", what)


def _concrete(system: BaseImage, accelerator: str) -> str:
    """The version that the base has, if only the family was requested."""
    brought = system.base.brings
    return brought if brought is not None and accelerator == _brought_family(system) else accelerator


def _runs(system: BaseImage, name: str, version: str, accelerator: str) -> bool:
    release, brought = FRAMEWORKS[name][version], system.base.brings
    if system.base.python not in release.pythons:
        return False
    if isinstance(release, PublishedRelease) and accelerator not in release.own:
        return accelerator == brought
    return brought is None or compatible(accelerator, brought)


def _wheels(name: str) -> str:
    """The available wheels, for people."""
    lines = []
    for version, release in FRAMEWORKS[name].items():
        kinds = ", ".join(release.accelerators)
        pythons = f"{release.pythons[0]} to {release.pythons[-1]}"
        lines.append(f"{name}=={version} has {kinds} for Python {pythons}")
        if isinstance(release, PublishedRelease):
            lines += [_needs_base(kind) for kind in release.accelerators if kind not in release.own]
    return "; ".join(lines)


def _needs_base(accelerator: str) -> str:
    bases = ", ".join(name for name, base in BASES.items() if base.brings == accelerator)
    return f"{accelerator} needs --base {bases}, which has its libraries"


def _framework(name: str, version: str, accelerator: str, needed: Sequence[PinnedPackage]) -> Framework:
    if name != "torch":
        return Framework(name, version, (), framework_pins(f"{name}=={version}", accelerator), None)
    release = TORCH[version]
    own_index = accelerator != release.pypi
    build = ACCELERATORS[accelerator].wheels
    suffix = f"+{build}" if own_index else ""
    wheels = [f"torch=={version}{suffix}"]
    torch_packages = [package.name for package in needed if package.name in _TORCHS]
    if "torchvision" in torch_packages:
        wheels.append(f"torchvision=={release.vision}{suffix}")
    if not own_index:
        wheels += release.open
    every = closure([*torch_packages, _BESIDE_TORCH])
    needs = tuple(package for package in every if package.name not in _TORCHS)
    return Framework("torch", version, tuple(wheels), needs, WHEEL_INDEX + build if own_index else None)


def _need_new_python(system: BaseImage, packages: Iterable[PinnedPackage]) -> None:
    python = system.base.python
    young = [f"{each} needs {each.pin.python}" for each in packages if not each.pin.runs_with(python)]
    if young:
        raise _refused("--base", f"{system.name} has Python {python}: {', '.join(young)}")


def _unknown(where: str, written: str, kind: str, known: Iterable[str]) -> InputError:
    return _refused(where, f"{written!r} is not a known {kind}; choose from {', '.join(known)}")


def _refused(where: str, what: str) -> InputError:
    return InputError([Problem(where, what)])


_PROGRAM = ".py"
# Part of every job; it imports torch only for programs with a device, which import torch themselves.
_RANK = "assay_payloads/measuring/rank.py"


def payload_imports(workload: Workload) -> tuple[str, ...]:
    """Modules beyond the standard library that its programs import, anywhere, sorted.

    Empty if the program is the user's own, since its imports are unknown.
    """
    programs = [file for file in _python_files(workload) if file.name.endswith(_PROGRAM)]
    own = {file.name.partition("/")[0].removesuffix(_PROGRAM) for file in programs}
    imported = {name for program in programs if program.name != _RANK for name in _imported(program)}
    return tuple(sorted(imported - own - sys.stdlib_module_names))


def payload_packages(modules: tuple[str, ...]) -> tuple[str, ...]:
    """The packages of these modules, by their name in an index."""
    return tuple(sorted(PACKAGE_OF.get(module, module) for module in modules))


def _python_files(workload: Workload) -> tuple[TaskFile, ...]:
    """The files sent with a job, with the workload's defaults or an example of its parameters."""
    params = _some(workload.params)
    if params is None:
        return ()
    try:
        return workload.task(params, Shape(1, 1), 1).files
    except InputError:  # one that measures between two ranks
        return workload.task(params, Shape(1, 2), 1).files


def _some(model: type[BaseModel]) -> BaseModel | None:
    """Valid parameters; None if only the user can know them."""
    extra = model.model_config.get("json_schema_extra")
    examples = extra.get("examples", []) if isinstance(extra, dict) else []
    for written in ({}, *(examples if isinstance(examples, list) else [])):
        try:
            return model.model_validate(written)
        except ValidationError:
            continue
    return None


def _imported(program: TaskFile) -> Iterator[str]:
    try:
        tree = ast.parse(program.data)
    except SyntaxError as error:
        raise InputError(f"{program.name}:{error.lineno}: {error.msg}: its imports can't be read") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@dataclass(frozen=True)
class Distribution:
    """An operating system's image.

    image     name and tag, as it can be pulled
    family    whose package manager it has
    python    version of the installed interpreter, major.minor
    packages  installed for it; the upstream version is pinned, the distribution's fixes are accepted
    command   name of that interpreter
    mpi       the same for Open MPI, ssh, and sshd; empty if its repositories don't have them
    brings    accelerator whose libraries the image has; None if none
    """

    image: str
    family: Literal["apt", "dnf"]
    python: str
    packages: tuple[str, ...]
    command: str = "python3"
    mpi: tuple[str, ...] = ()
    brings: str | None = None


_NOBLE: Final = Distribution(
    image="docker.io/library/ubuntu:noble-20260905",
    family="apt",
    python="3.12",
    packages=("python3=3.12.*", "python3-venv=3.12.*"),
    mpi=("openmpi-bin=4.1.*", "openssh-client=1:9.6p1-*", "openssh-server=1:9.6p1-*"),
)

# Tags that don't move, except for point releases of Debian. Versions: each distribution's package lists.
BASES: Final[Mapping[str, Distribution]] = {
    "debian12": Distribution(
        image="docker.io/library/debian:12.15-slim",
        family="apt",
        python="3.11",
        packages=("python3=3.11.*", "python3-venv=3.11.*"),
        mpi=("openmpi-bin=4.1.*", "openssh-client=1:9.2p1-*", "openssh-server=1:9.2p1-*"),
    ),
    "debian13": Distribution(
        image="docker.io/library/debian:13.7-slim",
        family="apt",
        python="3.13",
        packages=("python3=3.13.*", "python3-venv=3.13.*"),
        mpi=("openmpi-bin=5.0.*", "openssh-client=1:10.0p1-*", "openssh-server=1:10.0p1-*"),
    ),
    "ubuntu24.04": _NOBLE,
    "ubi9": Distribution(  # Open MPI is in RHEL's repositories, but not in those without a subscription
        image="registry.access.redhat.com/ubi9/ubi:9.8-1787634763",
        family="dnf",
        python="3.12",
        packages=("python3.12-3.12.*",),
        command="python3.12",
    ),
    # The vendors' own images, for programs that need the libraries outside of Python.
    **{
        f"ubuntu24.04-{accelerator}": replace(_NOBLE, image=f"docker.io/{image}", brings=accelerator)
        for accelerator, image in (
            ("cuda12.9", "nvidia/cuda:12.9.1-cudnn-runtime-ubuntu24.04"),
            ("cuda13.0", "nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04"),
            ("rocm7.2", "rocm/dev-ubuntu-24.04:7.2.4-complete"),
            ("rocm7.14", "rocm/dev-ubuntu-24.04:7.14.0-full"),
        )
    },
}


@dataclass(frozen=True)
class ComputePlatform:
    """An accelerator platform, and what its libraries, which come with torch, need from the host.

    wheels  name of the wheels built for it in the index
    driver  the host's driver, for people
    env     variables that the container runtime reads
    """

    wheels: str
    driver: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def _nvidia(cuda: str) -> ComputePlatform:
    """CUDA of one minor version. It runs on any driver of its major version, starting with the oldest.

    NVIDIA_VISIBLE_DEVICES is left to whoever starts the container: in an image, it gives GPUs to pods that
    did not request one.
    """
    major = cuda.partition(".")[0]
    return ComputePlatform(
        wheels=f"cu{cuda.replace('.', '')}",
        driver=f"NVIDIA {_OLDEST_DRIVER[major]} or newer",
        env={"NVIDIA_DRIVER_CAPABILITIES": "compute,utility", "NVIDIA_REQUIRE_CUDA": f"cuda>={major}.0"},
    )


def _amd(rocm: str) -> ComputePlatform:
    return ComputePlatform(f"rocm{rocm}", f"amdgpu, as ROCm {rocm} supports it")


# CUDA Toolkit release notes, "minimum required driver version for CUDA minor version compatibility".
_OLDEST_DRIVER: Final = {"12": "525.60.13", "13": "580.65.06"}
_ACCELERATOR: Final = re.compile(r"(?P<family>cuda|rocm)(?P<version>\d+\.\d+)")
ACCELERATORS: Final[Mapping[str, ComputePlatform]] = {
    "cpu": ComputePlatform("cpu"),
    **{f"cuda{version}": _nvidia(version) for version in ("12.6", "12.9", "13.0", "13.2", "13.5")},
    **{f"rocm{version}": _amd(version) for version in ("7.2", "7.14")},
}


def compute_platform(accelerator: str) -> ComputePlatform:
    """What an accelerator needs, also for a version that no release below has wheels for, such as cuda12.8.

    Raises KeyError for one whose driver is not known.
    """
    if accelerator in ACCELERATORS or (match := _ACCELERATOR.fullmatch(accelerator)) is None:
        return ACCELERATORS[accelerator]
    return (_nvidia if match["family"] == "cuda" else _amd)(match["version"])


def compatible(accelerator: str, brought: str) -> bool:
    """Whether software for an accelerator runs next to these libraries: same vendor, same major version."""
    a, b = _ACCELERATOR.fullmatch(accelerator), _ACCELERATOR.fullmatch(brought)
    if a is None or b is None or a["family"] != b["family"]:
        return False
    return a["version"].partition(".")[0] == b["version"].partition(".")[0]


@dataclass(frozen=True)
class Torch:
    """A release of torch.

    vision        the torchvision built for it
    pythons       versions of Python for which it has wheels
    accelerators  those for which it has wheels
    pypi          the accelerator of the wheel on PyPI; the others are in separate indexes
    open          versions of what PyPI's wheel needs for its accelerator and does not pin itself
    """

    vision: str
    pythons: tuple[str, ...]
    accelerators: tuple[str, ...]
    pypi: str
    open: tuple[str, ...]


# Newest first; in each, the most common accelerators first. Source: pytorch's RELEASE.md (release
# compatibility matrix), its proposal for 2.15 (issue 190385), and what the wheels on PyPI require.
TORCH: Final[Mapping[str, Torch]] = {
    "2.15.0": Torch(
        vision="0.29.2",
        pythons=("3.11", "3.12", "3.13", "3.14"),
        accelerators=("cpu", "cuda13.2", "cuda13.0"),
        pypi="cuda13.2",
        open=("cuda-bindings==13.5.0", "triton==3.9.0"),
    ),
    "2.14.1": Torch(
        vision="0.29.1",
        pythons=("3.10", "3.11", "3.12", "3.13", "3.14"),
        accelerators=("cpu", "cuda13.0", "cuda13.2", "cuda12.6", "rocm7.2"),
        pypi="cuda13.0",
        open=("cuda-bindings==13.5.0", "triton==3.8.0"),
    ),
    "2.13.0": Torch(
        vision="0.28.0",
        pythons=("3.10", "3.11", "3.12", "3.13", "3.14"),
        accelerators=("cpu", "cuda13.0", "cuda13.2", "cuda12.6", "rocm7.2"),
        pypi="cuda13.0",
        open=("cuda-bindings==13.5.0",),
    ),
}


@dataclass(frozen=True)
class PublishedRelease:
    """A release of a framework all of whose wheels are on PyPI; frameworks.json has what each installs.

    extras  accelerator → what to install for it, without the version
    own     accelerators whose libraries come with these wheels; the others' must be in the base
    """

    pythons: tuple[str, ...]
    extras: Mapping[str, str]
    own: tuple[str, ...]

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Those for which it has wheels."""
        return tuple(self.extras)


# TensorFlow's own wheels for ROCm end with 2.14, so there is none. JAX 0.12.0 is built for ROCm 7.14.
TENSORFLOW: Final[Mapping[str, PublishedRelease]] = {
    "2.21.0": PublishedRelease(
        ("3.11", "3.12", "3.13"),
        {"cpu": "tensorflow", "cuda12.9": "tensorflow[and-cuda]"},
        own=("cpu", "cuda12.9"),
    ),
}
JAX: Final[Mapping[str, PublishedRelease]] = {
    "0.12.0": PublishedRelease(
        ("3.12", "3.13"),
        {"cpu": "jax", "cuda13.5": "jax[cuda13]", "cuda12.9": "jax[cuda12]", "rocm7.14": "jax[rocm7-local]"},
        own=("cpu", "cuda13.5", "cuda12.9"),
    ),
    "0.10.2": PublishedRelease(
        ("3.11", "3.12", "3.13"),
        {"cpu": "jax", "cuda13.5": "jax[cuda13]", "cuda12.9": "jax[cuda12]"},
        own=("cpu", "cuda13.5", "cuda12.9"),
    ),
}
FRAMEWORKS: Final[Mapping[str, Mapping[str, Torch | PublishedRelease]]] = {
    "torch": TORCH,
    "tensorflow": TENSORFLOW,
    "jax": JAX,
}

WHEEL_INDEX: Final = "https://download.pytorch.org/whl/"


class Pin(msgspec.Struct, frozen=True):
    """A package: its version, the oldest Python that it runs with, the packages that it needs."""

    version: str
    python: str
    requires: tuple[str, ...]

    def runs_with(self, python: str) -> bool:
        """Whether this Python, like 3.11, is new enough."""
        return _number(python) >= _number(self.python)


class PinnedPackage(NamedTuple):
    """A package at its version."""

    name: str
    pin: Pin

    def __str__(self) -> str:
        return f"{self.name}=={self.pin.version}"


@cache
def pins() -> dict[str, Pin]:
    """All pins by name. Generated by tools/stack_pins.py."""
    data = resources.files("assay.stacks").joinpath("pins.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, Pin])


@cache
def _frameworks() -> dict[str, dict[str, tuple[str, ...]]]:
    data = resources.files("assay.stacks").joinpath("frameworks.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[str, tuple[str, ...]]])


def framework_pins(release: str, accelerator: str) -> tuple[PinnedPackage, ...]:
    """All packages that a release, like `jax==0.12.0`, is for an accelerator, itself included.

    Generated by tools/stack_pins.py --frameworks.
    """
    pairs = (line.split("==", 1) for line in _frameworks()[release][accelerator])
    return tuple(PinnedPackage(name, Pin(version, "3.0", ())) for name, version in pairs)


def closure(names: Iterable[str]) -> tuple[PinnedPackage, ...]:
    """These packages and all their dependencies, each once, sorted. Raises InputError for an unknown one."""
    needed: dict[str, Pin] = {}
    left = list(names)
    while left:
        name = left.pop()
        if name in needed:
            continue
        if name not in pins():
            raise InputError(
                f"no compatible version of package {name} is known: add it to tools/stack_pins.py"
            )
        needed[name] = pins()[name]
        left += needed[name].requires
    return tuple(PinnedPackage(name, needed[name]) for name in sorted(needed))


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
