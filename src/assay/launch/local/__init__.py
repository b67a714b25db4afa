"""The machine that Assay runs on, as a platform."""

from __future__ import annotations

import sys
from pathlib import Path

from assay.launch.launcher import Launcher
from assay.launch.local.options import LocalSystem
from assay.launch.platform import DoctorRequest, Examination, Platform


def _launcher(system: LocalSystem, directory: Path) -> Launcher:
    from assay.launch.local.launcher import LocalLauncher

    return LocalLauncher(system, directory)


def _doctor(system: LocalSystem, request: DoctorRequest) -> Examination:
    from assay.checks.examine import examine
    from assay.launch.local.facts import facts_here
    from assay.secret_reference import texts

    request.report("Examining this machine and importing torch …")
    python = system.python or sys.executable
    facts = facts_here(python, texts(system.env), request.directory, request.data)
    return Examination(facts, examine(facts))


PLATFORM = Platform(LocalSystem, _launcher, _doctor)
