"""What a built image must pass before anybody gets it: a program that runs in it as an arbitrary user.

OpenShift gives a container a user ID that /etc/passwd does not have, and group 0. Where a container has only
the IDs of a user namespace, the highest of them is 65535.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay import payload_files

if TYPE_CHECKING:
    from assay.stacks.engines import BuildEngine

USER: Final = "54321:0"
MARK: Final = "^assay-image-test "
"""How the line begins, as a regular expression, that says what worked."""
PASSED: Final = '"failed": []}'
"""How it ends if everything did. An exit code of 0 may be that of a module that ended Python."""
CLUSTER_LIMIT_S: Final = 900.0
_TO_START_S: Final = 60.0
_PROGRAM: Final = "assay_payloads/probing/image_test.py"


@dataclass(frozen=True)
class SmokeTest:
    """What an image did as an arbitrary user.

    modules  that it was asked to import
    failed   what did not work, and why
    started  whether the program ran at all
    """

    modules: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    started: bool = True

    @property
    def passed(self) -> bool:
        """Whether all of it worked."""
        return not self.failed


def run(engine: BuildEngine, image: str, modules: Sequence[str], limit_s: float) -> SmokeTest:
    """Test the image of this ID or tag. Raises HostError if the engine does not answer."""
    done = engine.run(image, USER, argv(modules, limit_s), limit_s + _TO_START_S)
    return outcome(done.exit_code, f"{done.stderr}\n{done.stdout}")


def argv(modules: Sequence[str], limit_s: float = CLUSTER_LIMIT_S) -> list[str]:
    """The command in the image.

    modules  must be importable; empty: one of each package that no other package requires
    limit_s  for all imports
    """
    return ["python3", "-I", "-c", payload_files.source(_PROGRAM).decode(), f"{limit_s:g}", *modules]


def outcome(exit_code: int, output: str) -> SmokeTest:
    """What the program's output says; a program that says nothing has failed."""
    for line in reversed(output.splitlines()):
        if re.match(MARK, line):
            report = json.loads(re.sub(MARK, "", line))
            return SmokeTest(tuple(report["modules"]), tuple((what, why) for what, why in report["failed"]))
    last = " ".join(output.split())[-500:]
    return SmokeTest((), (("start", f"it ended with exit code {exit_code}: {last}"),), started=False)
