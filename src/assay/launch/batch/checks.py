"""Checks of what a batch system's test job told. Pure; the facts: doctor_job.py."""

from __future__ import annotations

from assay.checks import examine as machine
from assay.checks.check import Check, Facts, number, text
from assay.checks.side_by_side import Hosts, each, placed_at


def test_job(facts: Facts) -> Check:
    """Whether a job ran, its directory was seen, and its nodes reached each other."""
    error, waits, directory = (text(facts, f"job.{name}") for name in ("error", "waits", "directory"))
    if waits is not None:
        return Check("test job", "unknown", f"it did not start in time and was cancelled: {waits}")
    if error is not None:
        return Check("test job", "fail", error, _remedy(error))
    hosts = text(facts, "job.hosts")
    if hosts is None:
        return Check("test job", "unknown", "it was not tried")
    meeting = ", which reached each other" if number(facts, "job.nodes") == 2 else ""
    return Check("test job", "ok", f"ran on {hosts}{meeting}; {directory} is seen there")


def _remedy(error: str) -> str:
    if "does not reach" in error:
        return "let the nodes reach each other on ports 10000 to 29999: there the ranks meet"
    if "the job's directory" in error:
        return "set the system's `directory` to one that this machine and all nodes share"
    return "`python` names the interpreter on the nodes; commands that it needs first stand in `before`"


def interpreter(facts: Facts) -> Check:
    """What the nodes' Python has."""
    version = text(facts, "job.python")
    if version is None:
        return Check("python", "unknown", "no job told of it")
    if not facts.get("job.torch"):
        remedy = (
            "name an interpreter that has torch: `python: /path/to/python`; or module load it in `before`"
        )
        return Check("python", "warn", f"{version} on the nodes, without torch", remedy)
    return Check("python", "ok", f"{version} on the nodes, with torch")


def on_nodes(seen: Hosts) -> list[Check]:
    """Each check of a machine, as the node that does worst has it."""
    return each(placed_at(seen, "node"), machine.examine_machine)
