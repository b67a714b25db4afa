"""Write src/assay/stacks/pins.json: every package that an image may contain, at the tested version.

    python tools/stack_pins.py

Run in the environment that the tests run in. A package's requirements are those on Linux with any Python that
a base has. The accelerator packages that torch's wheel brings are omitted: the wheel pins their versions.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assay.stacks.parts import BASES, OF_WHEEL
from assay.stacks.parts import ROOTS as WANTED

TARGET = Path(__file__).resolve().parent.parent / "src" / "assay" / "stacks" / "pins.json"


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


if __name__ == "__main__":
    main()
