"""Checks of the facts that a batch system's test job reported. Pure; doctor_job.py collects them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.checks import examine as machine
from assay.checks.check import Check, Facts, number, text
from assay.checks.examine import Hosts, placed_at, worst_of_each

BatchCheck = Callable[[Facts], Check]


def examined(
    facts: Facts, first: Sequence[BatchCheck], others: Sequence[BatchCheck], seen: Hosts | None
) -> tuple[Check, ...]:
    """All checks that the facts allow; if the batch system does not respond, only the reason.

    first   whether it is installed and responds
    others  what it reports about itself, before the checks of a test job
    seen    what the job found on its nodes, the basis of each machine check
    """
    answers = [check(facts) for check in first]
    if any(check.state == "fail" for check in answers):
        return tuple(check for check in answers if check.state != "unknown")
    of_system = [check(facts) for check in (*others, test_job, interpreter)]
    return (*answers, *of_system, *on_nodes(seen or {}))


def test_job(facts: Facts) -> Check:
    """Whether a job ran, its directory was seen, and its nodes reached each other."""
    error, waits, directory = (text(facts, f"job.{name}") for name in ("error", "waits", "directory"))
    if waits is not None:
        return Check("test job", "unknown", f"it did not start in time and was cancelled: {waits}")
    if error is not None:
        return Check("test job", "fail", error, _remedy(error))
    hosts = text(facts, "job.hosts")
    if hosts is None:
        return Check("test job", "unknown", "it was not run")
    meeting = ", which reached each other" if number(facts, "job.nodes") == 2 else ""
    return Check("test job", "ok", f"ran on {hosts}{meeting}; {directory} is visible there")


def _remedy(error: str) -> str:
    if "does not reach" in error:
        return "let the nodes reach each other on ports 10000 to 29999, which the ranks use"
    if "the job's directory" in error:
        return "set the system's `directory` to one that this machine and all nodes share"
    return "set `python` to the interpreter on the nodes; put commands that it needs first into `before`"


def interpreter(facts: Facts) -> Check:
    """What the nodes' Python provides."""
    version = text(facts, "job.python")
    if version is None:
        return Check("python", "unknown", "no job reported it")
    if not facts.get("job.torch"):
        remedy = (
            "set an interpreter that has torch: `python: /path/to/python`; or load its module in `before`"
        )
        return Check("python", "warn", f"{version} on the nodes, without torch", remedy)
    return Check("python", "ok", f"{version} on the nodes, with torch")


def on_nodes(seen: Hosts) -> list[Check]:
    """Each check of a machine, with the worst node's result."""
    return worst_of_each(placed_at(seen, "node"), machine.examine_machine)
