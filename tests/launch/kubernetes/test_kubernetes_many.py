"""Many jobs side by side on a real cluster: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kubernetes_cluster as cluster
from assay import launch
from assay.launch.kubernetes.objects.order import LABEL_TOKEN
from assay.records import Job, JobState
from assay.testing.launchers import job, python, run

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
LINES = 2000
COUNT = f"""
import os
for number in range({LINES}):
    print(os.environ["ASSAY_TOKEN"], number)
"""


@pytest.mark.parametrize("jobs", [8, pytest.param(50, marks=pytest.mark.long)])
def test_many_jobs_at_once_lose_nothing_and_leave_nothing(jobs: int, namespace: str, tmp_path: Path) -> None:
    launcher = launch.make("kubernetes", cluster.system(namespace), spool=tmp_path)
    asked = [job(python(COUNT), timeout_s=300.0) for _ in range(jobs)]

    def whole(one: Job) -> None:
        status, streams = run(launcher, one)
        assert status.state is JobState.SUCCEEDED, status
        printed = [f"{one.token} {number}" for number in range(LINES)]
        assert streams["rank-0"].decode().splitlines() == printed

    with ThreadPoolExecutor(jobs) as threads:
        for done in [threads.submit(whole, one) for one in asked]:
            done.result()
    give_up = time.monotonic() + 30  # the cluster removes in the background what a deleted object owned
    while left := launcher.leftovers():
        assert time.monotonic() < give_up, left
        time.sleep(0.5)
    for what in ("jobs", "configmaps", "services", "pods"):
        assert cluster.objects(namespace, what, LABEL_TOKEN) == []
    assert [*tmp_path.iterdir()] == []
