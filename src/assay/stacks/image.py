"""One part of each group, checked for compatibility: the contents of an image."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from assay.errors import InputError, Problem
from assay.stacks import payload
from assay.stacks.parts import ACCELERATORS, BASES, TORCH, WHEEL_INDEX, ComputePlatform, Distribution
from assay.stacks.pins import PinnedPackage, closure
from assay.workloads import WORKLOADS

DEFAULT_BASE: Final = "ubuntu24.04"
_FRAMEWORK: Final = ("torch", "torchvision")
_BESIDE_TORCH: Final = "numpy"  # torch works without it, but warns in every log
_BASE = re.compile(
    r"(?P<name>[\w.-]+)(?:=(?P<image>[a-z0-9][\w./:-]*))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_RELEASE = re.compile(r"torch(?:==(?P<version>[\w.]+))?")


@dataclass(frozen=True)
class Framework:
    """Torch as it is installed.

    version  of torch
    wheels   torch, torchvision if something imports it, and what PyPI's wheel leaves open, with versions
    needs    packages that they need for any accelerator
    index    index of these wheels; None for the index that pip is configured with
    """

    version: str
    wheels: tuple[str, ...]
    needs: tuple[PinnedPackage, ...]
    index: str | None


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
    """

    workload: str
    system: BaseImage
    accelerator: str
    framework: Framework | None
    packages: tuple[PinnedPackage, ...]
    modules: tuple[str, ...]
    mpi: bool

    @property
    def runtime(self) -> ComputePlatform:
        """What the accelerator needs from the host and the container runtime."""
        return ACCELERATORS[self.accelerator]


def choose(
    workload: str,
    *,
    base: str = DEFAULT_BASE,
    accelerator: str = "cpu",
    framework: str | None = None,
    mpi: bool = False,
) -> ImageContents:
    """The stack for these choices.

    base         a name in `BASES`, with a digest (`NAME@sha256:…`) or with an image that is like it
                 (`NAME=IMAGE[@sha256:…]`)
    accelerator  a name in `ACCELERATORS`, or `cuda` or `rocm`: the first one for which torch is built
    framework    `torch` or `torch==VERSION`; default: the newest compatible one if the workload
                 imports torch, otherwise none

    Raises InputError for a choice that is unknown or incompatible with the others.
    """
    if workload not in WORKLOADS:
        raise _unknown("WORKLOAD", workload, "workload", WORKLOADS)
    imported = payload.imports(WORKLOADS[workload])
    modules = imported if framework is None else tuple(sorted({*imported, "torch"}))
    needed = closure(payload.packages(modules))
    system = _system(base, mpi=mpi)
    _need_new_python(system, needed)
    if not any(one.name == "torch" for one in needed):
        _need_no_libraries(accelerator, workload)
        return ImageContents(workload, system, accelerator, None, needed, modules, mpi)
    release, accelerator = _fitting(system, accelerator, framework or "torch")
    torch = _framework(release, accelerator, needed)
    packages = tuple(one for one in needed if one.name not in _FRAMEWORK and one not in torch.needs)
    return ImageContents(workload, system, accelerator, torch, packages, modules, mpi)


def _system(written: str, *, mpi: bool) -> BaseImage:
    match = _BASE.fullmatch(written)
    if match is None:
        known = ", ".join(BASES)
        raise _refused(
            "--base", f"{written!r} is not a base; write NAME[=IMAGE][@sha256:…], with NAME one of {known}"
        )
    name = match["name"]
    if name not in BASES:
        raise _unknown("--base", name, "base", BASES)
    if mpi and not BASES[name].mpi:
        able = ", ".join(name for name, one in BASES.items() if one.mpi)
        raise _refused("--mpi", f"the repositories of {name} have no Open MPI; choose from {able}")
    return BaseImage(name, BASES[name], match["image"] or BASES[name].image, match["digest"])


def _need_no_libraries(accelerator: str, workload: str) -> None:
    if accelerator != "cpu":
        raise _refused(
            "--accelerator",
            f"the libraries of {accelerator} come with torch, which {workload} does not import: "
            "add --framework torch, or remove --accelerator",
        )


def _fitting(system: BaseImage, accelerator: str, framework: str) -> tuple[str, str]:
    """The requested release of torch, or the newest compatible one; and its accelerator."""
    if accelerator not in (*ACCELERATORS, "cuda", "rocm"):
        raise _unknown("--accelerator", accelerator, "accelerator", ("cuda", "rocm", *ACCELERATORS))
    match = _RELEASE.fullmatch(framework)
    if match is None or match["version"] not in (None, *TORCH):
        raise _unknown("--framework", framework, "framework", [f"torch=={version}" for version in TORCH])
    candidates = [match["version"]] if match["version"] else list(TORCH)
    for version in candidates:
        for kind in TORCH[version].accelerators:
            if accelerator in (kind, kind.rstrip("0123456789.")) and _runs(system, version):
                return version, kind
    raise _refused(
        "--accelerator",
        f"{accelerator} with {framework} on {system.name}: no such wheel exists; " + _wheels(),
    )


def _runs(system: BaseImage, version: str) -> bool:
    return system.base.python in TORCH[version].pythons


def _wheels() -> str:
    """The available wheels, for people."""
    return "; ".join(
        f"torch=={version} has {', '.join(one.accelerators)} for Python {one.pythons[0]} to {one.pythons[-1]}"
        for version, one in TORCH.items()
    )


def _framework(version: str, accelerator: str, needed: Sequence[PinnedPackage]) -> Framework:
    release = TORCH[version]
    own_index = accelerator != release.pypi
    build = ACCELERATORS[accelerator].wheels
    suffix = f"+{build}" if own_index else ""
    wheels = [f"torch=={version}{suffix}"]
    wanted = [one.name for one in needed if one.name in _FRAMEWORK]
    if "torchvision" in wanted:
        wheels.append(f"torchvision=={release.vision}{suffix}")
    if not own_index:
        wheels += release.open
    return Framework(
        version=version,
        wheels=tuple(wheels),
        needs=tuple(one for one in closure([*wanted, _BESIDE_TORCH]) if one.name not in _FRAMEWORK),
        index=WHEEL_INDEX + build if own_index else None,
    )


def _need_new_python(system: BaseImage, packages: Iterable[PinnedPackage]) -> None:
    python = system.base.python
    young = [f"{one} needs {one.pin.python}" for one in packages if not one.pin.runs_with(python)]
    if young:
        raise _refused("--base", f"{system.name} has Python {python}: {', '.join(young)}")


def _unknown(where: str, found: str, kind: str, known: Iterable[str]) -> InputError:
    return _refused(where, f"{found!r} is not a known {kind}; choose from {', '.join(known)}")


def _refused(where: str, what: str) -> InputError:
    return InputError([Problem(where, what)])
