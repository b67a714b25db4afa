"""The hardware class of this machine, and the software of an interpreter on it."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING

from assay.errors import HostError

if TYPE_CHECKING:
    from assay.records import HardwareClass, Provenance


@cache
def provenance_here(python: str = sys.executable) -> Provenance:
    """What the probe reports of this machine and this interpreter."""
    from assay import provenance
    from assay_payloads.keeping.file_tree import FileTree
    from assay_payloads.probing import probe

    return provenance.parse([probe.MARK + json.dumps(probe.probe(FileTree(), python))])


def hardware_here() -> HardwareClass:
    """The class of this machine. Raises HostError if its CPU is unknown."""
    from assay.stacks.stack import hardware_of

    hardware = hardware_of(provenance_here())
    if hardware is None:
        raise HostError("this machine does not report its CPU's model: name a hardware class with --hardware")
    return hardware
