"""The facts that the doctor judges: the probe on this machine, and torch imported for real."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

from assay import provenance, shell
from assay.errors import HostError
from assay.records import Scalar

PROBE_TIMEOUT_S = 30.0
TORCH_TIMEOUT_S = 180.0  # a cold import from a network file system takes minutes


def facts_here(python: str, env: Mapping[str, str], directory: Path) -> dict[str, Scalar]:
    """What the probe tells of this machine and of an interpreter on it.

    python     interpreter that the trials use
    env        variables that its system adds
    directory  an existing directory on the disk that will hold the runs

    Never raises for an interpreter that can't run: `python.error` says why, and the machine's own facts
    come through the interpreter that runs Assay.
    """
    try:
        facts = _run("probe.py", python, env, directory, PROBE_TIMEOUT_S)
        if "python.version" in facts:
            return {**facts, **_torch_facts(python, env, directory)}
        error = f"{python}: {facts['unreadable']}"
    except HostError as failure:
        error = str(failure)
    facts = _run("probe.py", sys.executable, env, directory, PROBE_TIMEOUT_S)
    own = {name: value for name, value in facts.items() if not name.startswith(("python.", "package."))}
    return {**own, "python.error": error}


def _torch_facts(python: str, env: Mapping[str, str], directory: Path) -> dict[str, Scalar]:
    """`torch.…`; where its program did not come to its end, `torch.import_error` says why."""
    try:
        facts = _run("torch_check.py", python, env, directory, TORCH_TIMEOUT_S)
    except HostError as failure:
        return {"torch.import_error": str(failure)}
    told = {name: value for name, value in facts.items() if name.startswith("torch.")}
    return told or {"torch.import_error": facts["unreadable"]}


def _run(
    program: str, python: str, env: Mapping[str, str], directory: Path, timeout_s: float
) -> Mapping[str, Scalar]:
    with as_file(files("assay.payloads") / program) as path:
        said = shell.run([python, str(path)], env=env, cwd=directory, timeout_s=timeout_s)
    how = "" if said.ok else f"\n{said.stderr.strip() or f'it ended with exit code {said.exit_code}'}"
    (node,) = provenance.parse([said.stdout + how]).nodes
    return node
