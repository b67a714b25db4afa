"""Write src/assay/stacks/pins.json: every package that an image may contain, at the tested version.

    python tools/stack_pins.py
    python tools/stack_pins.py --frameworks     writes frameworks.json instead

frameworks.json has what TensorFlow and JAX install for each accelerator. uv resolves it from PyPI, at the
versions of pins.json where it can; every Python of a base must get the same.

Run in the environment that the tests run in. A package's requirements are those on Linux with any Python that
a base has. The accelerator packages that torch's wheel brings are omitted: the wheel pins their versions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assay.stacks.image import BASES, FRAMEWORKS, PublishedRelease
from assay.stacks.stack import OF_WHEEL

TARGET = Path(__file__).resolve().parent.parent / "src" / "assay" / "stacks" / "pins.json"
LOCKS = TARGET.with_name("frameworks.json")
# packages that payloads import
WANTED = (
    *(
        "botocore",
        "h5py",
        "mlcommons-loadgen",
        "monai",
        "mpi4py",
        "numpy",
        "onnx",
        "onnxruntime",
        "onnxscript",
    ),
    *("pillow", "pycocotools", "sacrebleu", "s3fs", "sacremoses", "scipy", "segmentation-models-pytorch"),
    *("timm", "tokenizers", "torch", "torchmetrics", "torchvision", "transformers", "webdataset"),
)


def environments() -> list[dict[str, str]]:
    """The environments in which to evaluate a requirement's marker, one per Python."""
    pythons = sorted({base.python for base in BASES.values()})
    same = {"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix", "extra": ""}
    return [
        {**same, "platform_machine": "x86_64", "implementation_name": "cpython", "python_version": version}
        | {"platform_python_implementation": "CPython", "python_full_version": f"{version}.5"}
        for version in pythons
    ]


def requirements(name: str) -> list[str]:
    """A package's requirements, by name."""
    needed = set()
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or any(map(requirement.marker.evaluate, environments())):
            needed.add(canonicalize_name(requirement.name))
    return sorted(one for one in needed if not one.startswith(OF_WHEEL))


def least_python(name: str) -> str:
    """The oldest Python of a package, like 3.11; a package that states none runs with any."""
    said = metadata.metadata(name).get("Requires-Python") or ""
    least = [part.strip()[2:].strip() for part in said.split(",") if part.strip().startswith(">=")]
    return ".".join(least[0].split(".")[:2]) if least else "3.0"


def main() -> None:
    """Follow the requirements from the packages that payloads import."""
    pins, left = {}, list(WANTED)
    while left:
        name = left.pop()
        if name not in pins:
            needs = requirements(name)
            pins[name] = {
                "version": metadata.version(name),
                "python": least_python(name),
                "requires": needs,
            }
            left += needs
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(pins[name])}" for name in sorted(pins))
    TARGET.write_text(f"{{\n{lines}\n}}\n")


def lock_frameworks() -> None:
    """What each release of TensorFlow and JAX installs, for each accelerator."""
    locks = {
        f"{name}=={version}": {
            accelerator: locked(f"{wanted}=={version}", release.pythons)
            for accelerator, wanted in release.extras.items()
        }
        for name, releases in FRAMEWORKS.items()
        for version, release in releases.items()
        if isinstance(release, PublishedRelease)
    }
    LOCKS.write_text(json.dumps(locks, indent=1) + "\n")


def locked(requirement: str, pythons: tuple[str, ...]) -> list[str]:
    """The exact versions, the same for every Python; pins that the framework refuses are left out."""
    pins = {name: pin["version"] for name, pin in json.loads(TARGET.read_text()).items()}
    dropped: set[str] = set()
    while True:
        limits = [f"{name}=={version}" for name, version in pins.items() if name not in dropped]
        answers = [compiled(requirement, python, limits) for python in pythons]
        if all(answer == answers[0] and not isinstance(answer, str) for answer in answers):
            return list(answers[0])
        refused = {
            name for name in pins if any(f"{name}==" in said for said in answers if isinstance(said, str))
        }
        if not refused - dropped:
            raise SystemExit(f"{requirement}: {answers}")
        dropped |= refused


def compiled(requirement: str, python: str, limits: list[str]) -> list[str] | str:
    """The exact versions that uv finds, or its reason why there are none."""
    argv = [
        "uv",
        "pip",
        "compile",
        "-",
        "--python-version",
        python,
        "--no-header",
        "--no-annotate",
        "--quiet",
    ]
    argv += ["--python-platform", "x86_64-manylinux_2_28", "--no-build"]
    lines = "\n".join([requirement])
    limits_file = LOCKS.with_name(".constraints.txt")
    limits_file.write_text("\n".join(limits))
    try:
        argv += ["--constraints", str(limits_file)]
        done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=False)
    finally:
        limits_file.unlink()
    return done.stdout.split() if done.returncode == 0 else done.stderr


if __name__ == "__main__":
    lock_frameworks() if "--frameworks" in sys.argv[1:] else main()
