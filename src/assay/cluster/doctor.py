"""Every check that `assay doctor` makes, in the order in which people mend things. Pure."""

from __future__ import annotations

from collections.abc import Callable

from assay.cluster import machine, software
from assay.cluster.check import Check, Facts

CHECKS: tuple[Callable[[Facts], Check], ...] = (
    software.interpreter,
    software.torch_import,
    software.torchvision,
    software.communication,
    software.gpu,
    software.gpu_driver,
    machine.cores,
    machine.memory,
    machine.load,
    machine.clock_source,
    machine.governor,
    machine.smt,
    machine.disk,
    machine.open_files,
    machine.locked_memory,
    machine.shared_memory,
    machine.surroundings,
)


def examine(facts: Facts) -> tuple[Check, ...]:
    """All checks over one table of facts."""
    return tuple(check(facts) for check in CHECKS)
