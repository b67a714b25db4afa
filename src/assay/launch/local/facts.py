"""The doctor's facts of this machine: its programs run here, one after the other."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from assay import payload_files, shell
from assay.checks.examine import examine
from assay.errors import NO_TEMPORARY_DIRECTORY, HostError
from assay.launch.local import LocalSystem
from assay.launch.platform import DoctorRequest, Examination
from assay.launch.programs import DATA, ERRORS, HOST, PROBE, TORCH, Command, doctor_commands, output_facts
from assay.records import Scalar
from assay.secret_reference import texts

# A cold import of torch from a network file system takes minutes
TIMEOUT_S = {PROBE: 30.0, HOST: 60.0, TORCH: 180.0, DATA: 60.0}


def examination(system: LocalSystem, request: DoctorRequest) -> Examination:
    """What the doctor finds."""
    request.report("Examining this machine and importing torch …")
    python = system.python or sys.executable
    facts = facts_here(python, texts(system.env), request.directory, request.data)
    return Examination(facts, examine(facts))


def facts_here(
    python: str, env: Mapping[str, str], directory: Path, data: str | None = None
) -> dict[str, Scalar]:
    """The facts of the doctor's programs about this machine and an interpreter on it.

    python     interpreter that the trials use
    env        variables that its system adds
    directory  an existing directory on the disk that will hold the runs; also for the programs' files if no
               directory for temporary files can be written, which is then the fact `disk.temporary_error`
    data       directory whose files to read

    Never raises for an interpreter that can't run: `python.error` says why, and the machine's own facts
    come from the interpreter that runs Assay.
    """
    trouble: dict[str, Scalar] = {}
    if _temporary_directory() is None:
        trouble["disk.temporary_error"] = NO_TEMPORARY_DIRECTORY
    try:
        facts = trouble | _program_facts((PROBE,), python, env, directory)
        if "python.version" in facts:
            return facts | _others(python, env, directory, data)
        error = f"{python}: {facts['unreadable']}"
    except HostError as failure:
        error = str(failure)
    facts = trouble | _program_facts((PROBE,), sys.executable, env, directory)
    own = {name: value for name, value in facts.items() if not name.startswith(("python.", "package."))}
    others = _others(sys.executable, env, directory, data)
    return {
        **own,
        **{name: value for name, value in others.items() if not name.startswith("torch.")},
        "python.error": error,
    }


def node_here() -> dict[str, Scalar]:
    """The probe's facts, from the interpreter that runs Assay. Raises HostError in the probe's words."""
    facts = _program_facts((PROBE,), sys.executable, {}, Path())
    if "python.version" not in facts:
        raise HostError(f"can't examine this machine: {facts['unreadable']}")
    return facts


def _others(python: str, env: Mapping[str, str], directory: Path, data: str | None) -> dict[str, Scalar]:
    """The facts of the other programs; if one did not finish, why."""
    facts: dict[str, Scalar] = {}
    for command in doctor_commands(data)[1:]:
        try:
            facts |= _program_facts(command, python, env, directory)
        except HostError as failure:
            facts[ERRORS[command[0]]] = str(failure)
    return facts


def _temporary_directory() -> str | None:
    """Where temporary files go; None if no such directory can be written."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return None


def _program_facts(
    command: Command, python: str, env: Mapping[str, str], directory: Path
) -> dict[str, Scalar]:
    try:
        holder = tempfile.TemporaryDirectory(dir=_temporary_directory() or directory)
    except OSError as error:
        raise HostError(NO_TEMPORARY_DIRECTORY) from error
    with holder as place:
        payload_files.lay_out(Path(place), payload_files.files(command[0]))
        argv = [python, f"{place}/{payload_files.path_of(command[0])}", *command[1:]]
        done = shell.run(argv, env=env, cwd=directory, timeout_s=TIMEOUT_S[command[0]])
    how = "" if done.ok else f"\n{done.stderr.strip() or f'it ended with exit code {done.exit_code}'}"
    return output_facts(command[0], done.stdout + how)
