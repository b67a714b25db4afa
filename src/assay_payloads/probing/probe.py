"""The facts of this node, on one line: everything that could change a measured figure.

The keeper calls `main` before the ranks start, in its own process with their directory and environment,
and names the interpreter that they use. `python …/probing/probe.py` does the same with the interpreter that
runs it. Both print `:::ASSAY-PROBE {...}`, a flat JSON table of dotted names. Standard library only (3.8 or
newer).

- What can't be read is absent, never a default; what exists but refuses to be read is listed in
  `unreadable`.
- Quantities are in SI base units, as their names say: `memory.total_bytes`, `cpu.frequency_max_hz`.
- torch is not imported: its version is read as text, because the import takes seconds.
- Of the environment, only variables that affect training are reported, and none that may contain a secret.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

if __name__ == "__main__":  # otherwise the importer has found the package
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - where it lies
from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.probing.node_gpus import amd_facts, gpus_on_bus, nvml_facts
from assay_payloads.probing.node_hardware import machine, memory, networks, processor
from assay_payloads.probing.node_process import container, limits
from assay_payloads.probing.node_software import environment
from assay_payloads.probing.remembered import ANSWERS

VERSION = 2
MARK = ":::ASSAY-PROBE "
NVML_PATIENCE_S = 10.0  # loading the driver's state takes seconds without a persistence daemon
LONGEST_TEXT = 4096

# What reading a foreign file, directory or library can raise; anything else is a fault of this program
READING_ERRORS = (OSError, ValueError, KeyError, IndexError, AttributeError, ctypes.ArgumentError)


def gather(section: Callable[[], Iterable[tuple[str, Any]]], facts: dict[str, Any]) -> str | None:
    """Add a section's facts; returns what stopped it, and keeps what it found before."""
    try:
        for name, value in section():
            if value is not None and value != "":
                facts[name] = plain(value)
    except READING_ERRORS as error:
        return f"{getattr(error, 'strerror', None) or error}"
    return None


def plain(value: Any) -> Any:
    """Text that every reader can decode and that does not fill a log; other values unchanged."""
    if not isinstance(value, str):
        return value
    text = value.encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"


def probe(tree: FileTree, python: str) -> dict[str, Any]:
    """The whole table of this node, with this interpreter."""
    begin = time.monotonic()
    about_python = ANSWERS.ask(python)  # this takes as long as the rest together, the first time
    facts: dict[str, Any] = {"probe.version": VERSION}
    sections: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
        "machine": lambda: machine(tree),
        "processor": lambda: processor(tree),
        "memory": lambda: memory(tree),
        "limits": lambda: limits(tree),
        "container": lambda: container(tree),
        "networks": lambda: networks(tree),
        "gpus_on_bus": lambda: gpus_on_bus(tree),
        "amd_gpus": lambda: amd_facts(tree),
        "software": about_python,
        "environment": lambda: environment(os.environ.items()),
    }
    for name, section in sections.items():
        problem = gather(section, facts)
        if problem:
            tree.unreadable.append(f"{name}: {problem}")
    tree.unreadable += nvml_within(NVML_PATIENCE_S, facts)
    if tree.unreadable:
        facts["unreadable"] = plain("; ".join(tree.unreadable))
    facts["probe.duration_s"] = round(time.monotonic() - begin, 4)
    return facts


def nvml_within(patience_s: float, facts: dict[str, Any]) -> list[str]:
    """Add the GPUs' facts unless the driver does not respond in time: a broken one can hang forever."""
    gpu_facts: dict[str, Any] = {}
    problems: list[str | None] = []
    thread = threading.Thread(target=lambda: problems.append(gather(nvml_facts, gpu_facts)), daemon=True)
    thread.start()
    thread.join(patience_s)
    if thread.is_alive():
        return [f"nvml: no answer within {patience_s:g} s"]
    facts.update(gpu_facts)
    return [f"nvml: {problem}" for problem in problems if problem]


def main(python: str) -> None:
    """Print the line and leave, even if a driver call still hangs in its thread."""
    line = MARK + json.dumps(probe(FileTree(), python), ensure_ascii=True, allow_nan=False) + "\n"
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(line)
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.executable)
