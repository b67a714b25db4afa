"""The programs with which the doctor examines a machine from inside, and the facts that each adds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from assay import payload_files, provenance
from assay.launch import job_spec
from assay.records import Scalar, TaskFile

PROBE, HOST = job_spec.PROBE, "assay_payloads.probing.host_check"
TORCH, DATA = "assay_payloads.probing.torch_check", "assay_payloads.micro.data_speed"
IN_TURN = "assay_payloads.probing.in_turn"  # runs several programs in one job
MARK = ":::ASSAY-PROGRAM "
# The fact that says why a program reported nothing else
ERRORS = {HOST: "host.error", TORCH: "torch.import_error", DATA: "data.error"}
OWN_ERROR = "smoke.error"  # for every other program

Command = tuple[str, ...]


def doctor_commands(data: str | None = None) -> tuple[Command, ...]:
    """Each program with its arguments; `data` is the directory whose files to read."""
    return ((PROBE,), (HOST,), (TORCH,), *([(DATA, data)] if data is not None else []))


def in_turn(*programs: Command) -> tuple[tuple[str, ...], tuple[TaskFile, ...]]:
    """A rank's command and files, such that one job runs several programs."""
    argv = ("{python}", "-m", IN_TURN, *(shlex.join(command) for command in programs))
    needed = payload_files.files(IN_TURN, *(command[0] for command in programs))
    return argv, tuple(TaskFile(name, source) for name, source in needed.items())


def sections(text: str) -> dict[str, str]:
    """Program → what it printed, from a job that ran several programs."""
    parts = text.split(MARK)[1:]
    return {name.strip(): output for name, _, output in (part.partition("\n") for part in parts)}


def output_facts(program: str, text: str) -> dict[str, Scalar]:
    """The facts that a program's output adds; if it did not finish, the fact that says why."""
    (node,) = provenance.parse([text]).nodes
    if program == PROBE:
        return dict(node)
    if "probe.version" not in node:
        return {ERRORS.get(program, OWN_ERROR): node["unreadable"]}
    return {name: value for name, value in node.items() if name != "probe.version"}


def combined_facts(outputs: Mapping[str, str]) -> dict[str, Scalar]:
    """The facts of several programs together."""
    return {
        name: value
        for program, text in outputs.items()
        for name, value in output_facts(program, text).items()
    }
