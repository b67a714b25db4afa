"""Pods of the system, to check what only pods can see: image, interpreter, limits, clock, devices.

They are started like every trial. The doctor's programs collect the facts; the checks are those of a machine.
"""

from __future__ import annotations

from assay.checks import examine as machine
from assay.checks.check import PLACE, Check, Facts
from assay.launch import programs
from assay.launch.kubernetes.doctor import pod, smoke
from assay.launch.kubernetes.doctor.cluster_view import ClusterView
from assay.launch.kubernetes.doctor.settings import offset

NAME = "test pod"


def not_looked_into(seen: ClusterView) -> Check:
    """Reports that the contents of the image are unknown."""
    image = seen.system.image or "the workload's image"
    remedy = "assay doctor SYSTEM --deep runs a pod to find out"
    return Check("image", "unknown", f"{image}: not checked whether it has Python and torch", remedy)


def examine(seen: ClusterView, data: str | None = None) -> tuple[Facts, tuple[Check, ...]]:
    """Run a pod with one rank; if it ran, do all checks of a machine and the pods of devices.

    data  directory in the pod whose files to read
    """
    system = seen.system
    if system.image is None:
        remedy = "set `image` for the system, so that it can be tested"
        return {}, (Check(NAME, "unknown", "the system names no image", remedy),)
    ran = pod.run(system, pod.job(*programs.doctor_commands(data)))
    if ran.problem:
        return {}, (Check(NAME, "fail", ran.problem, "kubectl describe pod; see the failed checks above"),)
    facts = {**programs.combined_facts(programs.sections(ran.output)), PLACE: "pod"}
    if "python.version" not in facts:
        return facts, (Check(NAME, "fail", str(facts.get("unreadable"))),)
    fine = Check(NAME, "ok", "ran with the system's options; the following checks are from inside it")
    return facts, (fine, *_clock(ran), *machine.examine(facts), *smoke.examine(seen, facts))


def _clock(ran: pod.PodRun) -> tuple[Check, ...]:
    started_at = ran.status.started_at if ran.status else None
    if started_at is None or ran.first_at is None:
        return ()
    return (offset("pod's clock", started_at - ran.first_at, started_at - ran.began),)
