"""One job on a real cluster, brought in as `assay run` does, with what it was said to wait for on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kubernetes_cluster as cluster
from assay import launch
from assay.launch.kubernetes.objects.order import LABEL_TOKEN
from assay.launch.launcher import Launcher
from assay.records import Handle, Job, JobState, JobStatus
from assay.testing.launchers import job, python

AT_ONCE_S = 60.0  # far below the job's own limits: start_timeout is 900 s, its time limit 600 s
FOR_EVER = python("import time; print('up', flush=True); time.sleep(600)")


class Trial:
    """One job brought in as `assay run` does, with what it was said to wait for on the way."""

    def __init__(self, launcher: Launcher, asked: Job) -> None:
        self.launcher, self.asked = launcher, asked
        self.waited: list[str] = []
        self.printed = b""
        self.handle: Handle = launcher.submit(asked)
        self._following = launcher.follow(self.handle, {})

    def follow_until(self, done: Callable[[Trial], bool], patience_s: float = AT_ONCE_S) -> None:
        give_up = time.monotonic() + patience_s
        for output in self._following:
            if output is not None:
                self.printed += output.data if output.stream.startswith("rank-") else b""
            why = self.launcher.status(self.handle).cause
            if why and why not in self.waited:
                self.waited.append(why)
            if done(self):
                return
            if time.monotonic() > give_up:
                self.launcher.cancel(self.handle)
                pytest.fail(f"not within {patience_s:g} s; it waited for {self.waited}")

    def to_end(self, patience_s: float = AT_ONCE_S) -> JobStatus:
        """How it ended; nothing of it is left then."""
        self.follow_until(lambda _: False, patience_s)
        status = self.launcher.status(self.handle)
        self.launcher.forget(self.handle)
        return status


def launcher(namespace: str, spool: Path, **options: Any) -> Launcher:
    return launch.make(
        "kubernetes", cluster.system(namespace, **{"grace": 1.0, **options}), spool=spool / "jobs"
    )


def left(namespace: str, token: str) -> list[str]:
    """Objects of a forgotten job that the cluster's own collector has not removed after a while."""
    give_up = time.monotonic() + 30
    while True:
        found = cluster.objects(namespace, "pods,jobs,services,configmaps", f"{LABEL_TOKEN}={token}")
        if not found or time.monotonic() > give_up:
            return [f"{obj['kind']} {obj['metadata']['name']}" for obj in found]
        time.sleep(0.2)


def assert_final(
    namespace: str,
    spool: Path,
    options: dict[str, Any],
    words: list[str],
    *,
    argv: tuple[str, ...] = FOR_EVER,
    state: JobState = JobState.FAILED,
    patience_s: float = AT_ONCE_S,
) -> JobStatus:
    """The trial ends at once, with these words, and nothing of it is left."""
    trial = Trial(launcher(namespace, spool, **options), job(argv, timeout_s=600))
    status = trial.to_end(patience_s)
    print(status.cause)
    assert [word for word in words if word not in status.cause] == [], status.cause
    assert status.state is state
    assert left(namespace, trial.asked.token) == []
    return status
