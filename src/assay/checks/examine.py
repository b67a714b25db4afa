"""Every check that `assay doctor` makes, in the order in which people fix things. Pure."""

from __future__ import annotations

from collections.abc import Callable

from assay.checks import machine, software
from assay.checks.check import Check, Facts, placed
from assay.checks.host import checks as host

SOFTWARE: tuple[Callable[[Facts], Check], ...] = (
    software.interpreter,
    software.torch_import,
    software.torchvision,
    software.communication,
    software.gpu,
    software.gpu_driver,
)
MACHINE: tuple[Callable[[Facts], Check], ...] = (
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
CHECKS = (*SOFTWARE, *MACHINE)


def examine(facts: Facts) -> tuple[Check, ...]:
    """All checks of one table of facts: the software of trials, the machine, and its access to hardware."""
    return (*(placed(facts, check(facts)) for check in SOFTWARE), *examine_machine(facts))


def examine_machine(facts: Facts) -> tuple[Check, ...]:
    """The checks that need nothing from the interpreter."""
    checks = (*(check(facts) for check in MACHINE), *host.examine(facts))
    return tuple(placed(facts, check) for check in checks)
