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
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

if __name__ == "__main__":  # otherwise the importer has found the package
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - where it lies
from assay_payloads.keeping import cgroups
from assay_payloads.keeping.file_tree import FileTree, keyed_lines
from assay_payloads.probing.node_gpus import amd_facts, gpus_on_bus, nvml_facts
from assay_payloads.probing.node_hardware import machine, memory, networks, processor
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


def limits(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Cores, memory, files, and locked memory that this process may use."""
    yield "cpu.allowed", len(os.sched_getaffinity(0))
    status = keyed_lines(tree.text("/proc/self/status"))
    yield "cpu.allowed_list", status.get("Cpus_allowed_list")
    yield "cpu.quota", cgroups.cores(tree)
    yield "memory.limit_bytes", cgroups.memory_bytes(tree)
    yield "cgroup.version", cgroups.version(tree)
    for name, limit in (
        ("nofile{}", resource.RLIMIT_NOFILE),
        ("memlock{}_bytes", resource.RLIMIT_MEMLOCK),
        ("stack{}_bytes", resource.RLIMIT_STACK),
    ):
        soft, hard = ("unlimited" if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(limit))
        yield f"limits.{name.format('')}", soft
        yield f"limits.{name.format('_hard')}", hard


def container(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Signs of a container around this process, and the file systems it works on."""
    groups = tree.text("/proc/self/cgroup") or ""
    signs = {
        "docker": tree.has("/.dockerenv") or "docker" in groups,
        "podman": tree.has("/run/.containerenv") or "libpod" in groups,
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ or "kubepods" in groups,
        "apptainer": "APPTAINER_NAME" in os.environ or "SINGULARITY_NAME" in os.environ,
        "lxc": "lxc" in groups,
    }
    kinds = {name for name, present in signs.items() if present} | {tree.text("/run/systemd/container") or ""}
    yield "container", ",".join(sorted(kinds - {""}))
    here = os.getcwd()  # noqa: PTH109
    mounts = {}
    for line in tree.lines("/proc/self/mountinfo"):
        fields, _, tail = line.partition(" - ")
        mounts[fields.split(" ")[4]] = tail.split(" ")[0]
    around = [place for place in mounts if (here + "/").startswith(place.rstrip("/") + "/")]
    yield "disk.filesystem", mounts[max(around, key=len)] if around else None
    space = os.statvfs(here)
    yield "disk.free_bytes", space.f_bavail * space.f_frsize


if __name__ == "__main__":
    main(sys.executable)
