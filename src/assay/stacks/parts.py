"""The parts of a software stack: what can be chosen, what is compatible, and the pinned packages of each.

One table per group; one part of each group is chosen. Assay does not know releases that are not listed here,
so it rejects them rather than guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Final, Literal, NamedTuple

import msgspec

from assay.errors import InputError


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
    "ubuntu24.04-cuda12.9": replace(
        _NOBLE, image="docker.io/nvidia/cuda:12.9.1-cudnn-runtime-ubuntu24.04", brings="cuda12.9"
    ),
    "ubuntu24.04-cuda13.0": replace(
        _NOBLE, image="docker.io/nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04", brings="cuda13.0"
    ),
    "ubuntu24.04-rocm7.2": replace(
        _NOBLE, image="docker.io/rocm/dev-ubuntu-24.04:7.2.4-complete", brings="rocm7.2"
    ),
    "ubuntu24.04-rocm7.14": replace(
        _NOBLE, image="docker.io/rocm/dev-ubuntu-24.04:7.14.0-full", brings="rocm7.14"
    ),
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
        env={
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            "NVIDIA_REQUIRE_CUDA": f"cuda>={major}.0",
        },
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
OF_WHEEL: Final = (
    "nvidia-",
    "cuda-",
    "triton",
)  # prefixes of the accelerator packages that torch's wheel brings

# Imports of payloads whose package has another name.
PACKAGE_OF: Final[Mapping[str, str]] = {
    "PIL": "pillow",
    "mlperf_loadgen": "mlcommons-loadgen",
    "segmentation_models_pytorch": "segmentation-models-pytorch",
}
# Packages that payloads import; pins.json has these and all their dependencies.
ROOTS: Final = (
    "botocore",
    "h5py",
    "mlcommons-loadgen",
    "monai",
    "mpi4py",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "pillow",
    "pycocotools",
    "sacrebleu",
    "s3fs",
    "sacremoses",
    "scipy",
    "segmentation-models-pytorch",
    "timm",
    "tokenizers",
    "torch",
    "torchmetrics",
    "torchvision",
    "transformers",
    "webdataset",
)


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
            raise InputError(f"no compatible version of package {name} is known: add it to stacks/parts.py")
        needed[name] = pins()[name]
        left += needed[name].requires
    return tuple(PinnedPackage(name, needed[name]) for name in sorted(needed))


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
