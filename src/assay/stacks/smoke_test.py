"""What a built image must pass before anybody gets it: a program that runs in it as an arbitrary user.

OpenShift gives a container a user ID that /etc/passwd does not have, and group 0. Where a container has only
the IDs of a user namespace, the highest of them is 65535.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

USER: Final = "54321:0"
_MARK: Final = "assay-smoke-test "

PROGRAM: Final = r"""
import importlib, importlib.metadata, json, os, sys, tempfile
def installed():
    for one in importlib.metadata.distributions():
        name = (one.metadata["Name"] or "").lower().replace("-", "_").replace(".", "_")
        top = {f.parts[0].partition(".")[0].lower() for f in one.files or ()}
        if name in top and name not in ("pip", "setuptools", "wheel"):
            yield name
failed = []
def check(what, function):
    try:
        function()
    except BaseException as error:
        failed.append([what, f"{type(error).__name__}: {error}"])
def anybody():
    if os.getuid() == 0 or os.getgid() != 0:
        raise PermissionError(f"it runs as user {os.getuid()} of group {os.getgid()}")
def home():
    tempfile.TemporaryFile(dir=os.environ["HOME"]).close()
modules = sys.argv[1:] or sorted(set(installed()))
check("user", anybody)
check("home", home)
for module in modules:
    check(f"import {module}", lambda: importlib.import_module(module))
print("assay-smoke-test " + json.dumps({"modules": modules, "failed": failed}), flush=True)
os._exit(1 if failed else 0)
"""


@dataclass(frozen=True)
class SmokeTest:
    """What an image did as an arbitrary user.

    modules  that it was asked to import
    failed   what did not work, and why
    """

    modules: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]

    @property
    def passed(self) -> bool:
        """Whether all of it worked."""
        return not self.failed


def argv(modules: Sequence[str]) -> list[str]:
    """The command in the image. Without modules, it imports each package whose module has its name."""
    return ["python3", "-I", "-c", PROGRAM, *modules]


def outcome(exit_code: int, output: str) -> SmokeTest:
    """What the program's output says; a program that says nothing has failed."""
    for line in reversed(output.splitlines()):
        if line.startswith(_MARK):
            said = json.loads(line.removeprefix(_MARK))
            return SmokeTest(tuple(said["modules"]), tuple((what, why) for what, why in said["failed"]))
    last = " ".join(output.split())[-500:]
    return SmokeTest((), (("start", f"it ended with exit code {exit_code}: {last}"),))
