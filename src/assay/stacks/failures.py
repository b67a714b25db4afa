"""Which failures of a run say something about its stack, and what."""

from __future__ import annotations

import re
from typing import Final

from assay.records import Extent, FailureKind, JobState, Run, RunState, Stack
from assay.stacks.parts import PACKAGE_OF

WRONG_RESULT: Final = "wrong result"
"""How the cause of a run begins whose program checked its values and found them wrong."""

_NO_MODULE: Final = re.compile(r"No module named '?([\w.]+)")
_NOT_IMPORTED: Final = re.compile(
    r"\b(ImportError|ModuleNotFoundError)\b|undefined symbol|cannot open shared object file"
    r"|version `\w+_[\d.]+' not found|compiled using NumPy|numpy\.dtype size changed"
    r"|numpy\.core\.multiarray failed"
)
_PROGRAM_FAULTS: Final = frozenset({"SIGSEGV", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSYS", "SIGTRAP"})
_OF_THE_PROGRAM: Final = frozenset({Extent.TRIAL, Extent.POINT, Extent.BENCHMARK})


def failure_of(run: Run, stack: Stack, last_line: str) -> FailureKind | None:
    """What the end of a failed run says about its stack; None if something else may be the cause.

    last_line  of the log of the rank that failed first

    A time limit, a kill, a lost node, or a machine that can't run anything say nothing about the stack, and
    neither does a package that is simply not installed.
    """
    if run.state is not RunState.FAILED:
        return None
    if WRONG_RESULT in run.cause or WRONG_RESULT in last_line:
        return "wrong result"
    if run.job is not JobState.FAILED:
        return None
    first = next((end for end in run.exits if end.first), None)
    if first is None or first.never_ran or "out of memory" in f"{run.cause} {last_line}".lower():
        return None
    output = f"{run.cause}\n{last_line}"
    missing = _NO_MODULE.search(output)
    if missing is not None and not _installed(missing[1], stack):
        return None
    if missing is not None or _NOT_IMPORTED.search(output):
        return "does not import"
    if first.signal is not None:
        return "crashes" if first.signal in _PROGRAM_FAULTS else None
    return "crashes" if run.extent in _OF_THE_PROGRAM and first.exit_code else None


def _installed(module: str, stack: Stack) -> bool:
    name = module.partition(".")[0]
    return PACKAGE_OF.get(name, name).replace("_", "-").lower() in stack.packages
