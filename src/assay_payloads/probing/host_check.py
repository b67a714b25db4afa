"""What a host needs so that trials reach its hardware: driver, toolkit, PCIe, kernel settings, fabric.

Runs with the standard library (3.8 or newer) in any directory: `python …/probing/host_check.py` prints
`:::ASSAY-PROBE {...}`, a flat JSON table of dotted names. The probe reports what could change a figure and
runs before every trial; this reports what a person would have to fix, only for `assay doctor`. It follows the
probe's rules: what can't be read is absent, what refuses to be read is listed in `host.unreadable`, and
nothing is a default.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - where the package lies
from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.probing import host_driver, host_fabric, host_pci, host_settings
from assay_payloads.probing.host_tools import Tools
from assay_payloads.probing.probe import MARK, VERSION, gather, plain


def check(tree: FileTree, tools: Tools) -> dict[str, Any]:
    """The whole table of this host."""
    facts: dict[str, Any] = {"probe.version": VERSION, "host.checked": True}
    sections: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
        "driver": lambda: host_driver.driver(tree, tools.output_of),
        "containers": lambda: host_driver.containers(tree, tools.output_of),
        "pci": lambda: host_pci.devices(tree),
        "paths": lambda: host_pci.paths(tree, tools.output_of("nvidia-smi", "topo", "-m")),
        "kernel": lambda: host_settings.kernel(tree),
        "confinement": lambda: host_settings.confinement(tree),
        "virtual": lambda: host_settings.virtual(tree, tools.output_of),
        "fabric": lambda: host_fabric.fabric(tree, tools.output_of),
    }
    for name, section in sections.items():
        problem = gather(section, facts)
        if problem:
            tree.unreadable.append(f"{name}: {problem}")
    refused = [*tree.unreadable, *tools.refused]
    if refused:
        facts["host.unreadable"] = plain("; ".join(refused))
    return facts


if __name__ == "__main__":
    sys.stdout.write(MARK + json.dumps(check(FileTree(), Tools()), ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()
    os._exit(0)
