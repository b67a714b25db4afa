"""A pod of the system's own, which tells what only a pod can: image, interpreter, limits, /dev/shm, clock.

It goes the way of every trial: the launcher sends it, the doctor's programs tell the facts, the checks are
those of a machine.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import defaultdict
from pathlib import Path

from assay.cluster import doctor, programs
from assay.cluster.check import Check, Facts
from assay.cluster.kubernetes.settings import offset
from assay.errors import AssayError
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Handle, Job, JobState, Shape, Task

START_WITHIN_S = 300.0  # image pulls take minutes
ENDS_WITHIN_S = 240.0  # a cold import of torch from a network file system takes minutes
NAME = "test pod"


def examine(system: KubernetesSystem, data: str | None = None) -> tuple[Facts, tuple[Check, ...]]:
    """Run one pod of one rank; where it came to run, all that is asked of a machine, seen from inside.

    data  directory in the pod whose files are to be read
    """
    if system.image is None:
        remedy = "write `image:` in the system, so that it can be tried"
        return {}, (Check(NAME, "unknown", "the system names no image", remedy),)
    with tempfile.TemporaryDirectory() as spool:
        launcher = KubernetesLauncher(system, Path(spool))
        began = time.time()
        try:
            handle = launcher.submit(_job(programs.asked(data)))
        except AssayError as error:
            return {}, (Check(NAME, "fail", str(error)),)
        try:
            return _followed(launcher, handle, began)
        finally:
            launcher.cancel(handle)
            launcher.forget(handle)


def _job(asked: tuple[programs.Words, ...]) -> Job:
    argv, files = programs.in_turn(*asked)
    return Job(uuid.uuid4().hex, "doctor", Shape(1, 1), Task(argv, files=files), 0, ENDS_WITHIN_S)


def _followed(launcher: KubernetesLauncher, handle: Handle, began: float) -> tuple[Facts, tuple[Check, ...]]:
    said: defaultdict[str, bytes] = defaultdict(bytes)
    first_at: float | None = None
    for output in launcher.follow(handle, {}):
        if output is not None:
            first_at = first_at or time.time()
            said[output.stream] += output.data
        elif first_at is None and time.time() - began > START_WITHIN_S:
            waits = launcher.status(handle).cause or "nothing tells why"
            return {}, (Check(NAME, "fail", f"did not start in {START_WITHIN_S:g} s: {waits}"),)
    status = launcher.status(handle)
    if status.state is not JobState.SUCCEEDED and not said:
        return {}, (Check(NAME, "fail", status.cause),)
    facts = programs.all_told(programs.sections(said["rank-0"].decode(errors="replace")))
    if "python.version" not in facts:
        last = said["rank-0"].decode(errors="replace").strip()[-200:]
        return facts, (Check(NAME, "fail", str(facts.get("unreadable", last or status.cause))),)
    clock: tuple[Check, ...] = ()
    if status.started_at is not None and first_at is not None:
        clock = (offset("pod's clock", status.started_at - first_at, status.started_at - began),)
    ran = Check(NAME, "ok", "ran with the system's options; what follows is seen from inside")
    return facts, (ran, *clock, *doctor.examine(facts))
