"""`assay run` on a cluster in trouble: what was lost is named, done again as asked, and nothing left."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import kubernetes_cluster as cluster
from assay.launch.kubernetes.objects import rbac
from assay.launch.kubernetes.objects.order import MANAGED_BY
from assay.records import Extent, JobState, Run, RunState
from assay.rundir import session as rundir
from assay.testing.launchers import job
from cli_contract import assay
from kubernetes_trial import FOR_EVER, Trial, launcher, left

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

OURS = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
PATIENCE_S = 240
SLOW = "import time; print('up', flush=True); time.sleep({seconds}); print('v 1')"


def suite(folder: Path, namespace: str, code: str, **options: Any) -> Path:
    """A suite of one trial of a program that prints `v 1` when all went well."""
    metrics = {"v": {"pattern": "v (?P<value>[0-9.]+)"}}
    what: dict[str, Any] = {
        "workload": "command",
        "params": {"argv": ["{python}", "-c", code], "metrics": metrics},
    }
    system = {"launcher": "kubernetes", "namespace": namespace, "image": cluster.IMAGE, "grace": 1}
    system["imagePullPolicy"] = "IfNotPresent"
    what |= {"suite": "trouble", "systems": ["there"], "repeats": 1, "timeout": "4min", **options}
    (folder / "suite.yaml").write_text(json.dumps(what))
    (folder / "systems.yaml").write_text(json.dumps({"there": system}))
    return folder / "suite.yaml"


def wait_until_it_prints(folder: Path, trial: str = "*") -> None:
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        logs = (folder / "runs").glob(f"trouble/*/{trial}/attempt-1/logs/rank-0.log")
        if any(log.stat().st_size for log in logs):
            return
        time.sleep(0.1)
    pytest.fail("no rank printed anything")


def attempts(folder: Path) -> list[Run]:
    (session,) = list(rundir.sessions(folder / "runs"))
    return [attempt.run() for attempt in session.attempts()]


def ours(namespace: str) -> list[str]:
    """What is left of any job, once the cluster's own collector had its time."""
    give_up = time.monotonic() + 30
    while True:
        found = cluster.objects(namespace, "pods,jobs,services,configmaps", OURS)
        if not found or time.monotonic() > give_up:
            return [f"{obj['kind']} {obj['metadata']['name']}" for obj in found]
        time.sleep(0.5)


def test_a_trial_whose_pod_was_deleted_is_done_again_and_shown(namespace: str, tmp_path: Path) -> None:
    with assay(suite(tmp_path, namespace, SLOW.format(seconds=8), retries=1)) as running:
        wait_until_it_prints(tmp_path)
        cluster.kubectl("-n", namespace, "delete", "pods", "-l", OURS, "--wait=false")
        said, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, told
    first, second = attempts(tmp_path)
    assert (first.job, second.state) == (JobState.LOST, RunState.FINISHED)
    assert "was deleted while the job ran" in first.cause
    assert "the platform lost it, the program did not fail: it will be retried, at most once" in told
    assert "lost by the platform once and repeated" in said
    assert ours(namespace) == []


def test_a_placement_that_never_fits_is_met_by_one_trial_although_some_of_its_pods_run(
    namespace: str, tmp_path: Path
) -> None:
    written = suite(tmp_path, namespace, "print('v 1')", shapes=["2x1"], repeats=2)
    (there,) = (systems := json.loads((tmp_path / "systems.yaml").read_text())).values()
    one_node = {"kubernetes.io/hostname": "node1"}
    there |= {"placement": "spread", "nodeSelector": one_node, "start_timeout": 6, "kind": "job"}
    (tmp_path / "systems.yaml").write_text(json.dumps(systems))
    with assay(written) as running:
        _, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 5, told
    (only,) = attempts(tmp_path)
    assert (only.job, only.extent) == (JobState.FAILED, Extent.SHAPE)
    assert "no node can run pod" in only.cause
    assert ours(namespace) == []


def test_a_program_that_fails_is_not_done_again(namespace: str, tmp_path: Path) -> None:
    with assay(suite(tmp_path, namespace, "import sys; sys.exit(3)", retries=2)) as running:
        _, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    (only,) = attempts(tmp_path)
    assert (only.job, only.exits[0].exit_code) == (JobState.FAILED, 3), told


def test_what_hinders_a_trial_is_told_in_the_progress(namespace: str, tmp_path: Path) -> None:
    cluster.kubectl("-n", namespace, "create", "quota", "narrow", "--hard=pods=1")
    cluster.fill(namespace)
    with assay(suite(tmp_path, namespace, "print('v 1')")) as running:
        assert running.stderr is not None
        told = ""
        while "quota narrow is used up" not in told:
            line = running.stderr.readline()
            assert line, told
            told += line
        cluster.kubectl("-n", namespace, "delete", "quota", "narrow")
        running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0
    assert ours(namespace) == []


def test_credentials_that_are_revoked_end_the_run_with_words_and_the_next_goes_on(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for obj in rbac.objects("auto", namespace):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
    asked = suite(tmp_path, namespace, SLOW.format(seconds=25))
    with logged_in(monkeypatch, namespace, tmp_path / "first.json") as secret, assay(asked) as running:
        wait_until_it_prints(tmp_path)
        admin("-n", namespace, "delete", "secret", secret)
        _, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 5, told
    assert "does not accept these credentials (401)" in told
    assert "Traceback" not in told
    with logged_in(monkeypatch, namespace, tmp_path / "second.json"), assay(asked) as later:
        _, told = later.communicate(timeout=PATIENCE_S)
    assert later.returncode == 0, told
    (only,) = attempts(tmp_path)
    assert only.state is RunState.FINISHED
    assert ours(namespace) == []


@pytest.mark.long
def test_credentials_that_are_expired_at_the_start_stop_the_run_and_burn_nothing(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for obj in rbac.objects("auto", namespace):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
    asked = suite(tmp_path, namespace, "print('v 1')", repeats=2)
    with logged_in(monkeypatch, namespace, tmp_path / "first.json") as secret:
        admin("-n", namespace, "delete", "secret", secret)
        with assay(asked) as running:
            _, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 5, told
    assert "does not accept these credentials (401)" in told
    assert "no trial counts as failed because of it" in told
    with logged_in(monkeypatch, namespace, tmp_path / "second.json"), assay(asked) as later:
        _, told = later.communicate(timeout=PATIENCE_S)
    assert later.returncode == 0, told
    assert [run.state for run in attempts(tmp_path)].count(RunState.FINISHED) == 2
    assert ours(namespace) == []


def test_an_image_that_is_not_there_stops_its_system_once_and_the_same_command_resumes(
    namespace: str, tmp_path: Path
) -> None:
    asked = suite(tmp_path, namespace, "print('v 1')", repeats=3)
    systems = json.loads((tmp_path / "systems.yaml").read_text())
    systems["there"] |= {"imagePullPolicy": "Never", "image": "assay-test/absent:1"}
    (tmp_path / "systems.yaml").write_text(json.dumps(systems))
    for number in (1, 2):
        with assay(asked) as running:
            said, told = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 5, told
        assert "system there: 3 trials are not run, because the image is not on the node" in said
        assert len(attempts(tmp_path)) == number
    assert ours(namespace) == []


def test_a_job_that_somebody_deletes_is_a_failed_trial_and_is_not_submitted_again(
    namespace: str, tmp_path: Path
) -> None:
    with assay(suite(tmp_path, namespace, SLOW.format(seconds=60))) as running:
        wait_until_it_prints(tmp_path)
        cluster.kubectl("-n", namespace, "delete", "jobs", "-l", OURS, "--wait=false")
        _, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1, told
    (only,) = attempts(tmp_path)
    assert only.job is JobState.STOPPED
    assert "somebody else ended the job: its job object was deleted" in only.cause
    assert ours(namespace) == []


def test_a_namespace_that_is_deleted_in_the_middle_stops_the_run_once_and_the_same_command_resumes(
    tmp_path: Path,
) -> None:
    with cluster.namespace() as own:
        asked = suite(tmp_path, own, SLOW.format(seconds=10), repeats=3)
        with assay(asked) as running:
            wait_until_it_prints(tmp_path, "*-r02")
            cluster.kubectl("delete", "namespace", own)
            said, told = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 5, told
        assert "system there: 2 trials are not run, because can't create ConfigMap" in said
        assert [run.state for run in attempts(tmp_path)].count(RunState.FINISHED) == 1
        assert len(attempts(tmp_path)) == 3  # the second trial was lost, and refused when it was tried again
        cluster.kubectl("create", "namespace", own)
        cluster.kubectl("-n", own, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        with assay(asked) as later:
            _, told = later.communicate(timeout=PATIENCE_S)
        assert later.returncode == 0, told
        assert [run.state for run in attempts(tmp_path)].count(RunState.FINISHED) == 3


class logged_in:  # noqa: N801  (used as a function)
    """KUBECONFIG is that of the run's service account, with a token of its own; gives what revokes it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, namespace: str, file: Path) -> None:
        self.patch, self.namespace, self.file = monkeypatch, namespace, file

    def __enter__(self) -> str:
        secret = f"login-{time.time_ns()}"
        admin("-n", self.namespace, "create", "secret", "generic", secret)
        bound = ["--bound-object-kind", "Secret", "--bound-object-name", secret]
        token = admin("-n", self.namespace, "create", "token", rbac.RUNNER, *bound).strip()
        config = json.loads(admin("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
        self.file.write_text(json.dumps(config))
        self.before = os.environ["KUBECONFIG"]
        self.patch.setenv("KUBECONFIG", str(self.file))
        return secret

    def __exit__(self, *_: object) -> None:
        self.patch.setenv("KUBECONFIG", self.before)


def admin(*args: str) -> str:
    return cluster.kubectl("--kubeconfig", os.environ["ASSAY_TEST_KUBECONFIG"], *args)


ROTATED = """
import os, sys, time
print("up", flush=True)
time.sleep(3)
for _ in range(4):  # a kubelet looks every 10 s whether a log is above its limit of 10 MiB
    for _ in range(24): sys.stdout.write(os.urandom(1 << 19).hex() + chr(10))
    sys.stdout.flush()
    time.sleep(12)
print("v 1")
"""


@pytest.mark.long
def test_what_a_kubelet_rotated_away_is_a_failed_collection_and_no_result(
    namespace: str, tmp_path: Path
) -> None:
    with assay(suite(tmp_path, namespace, ROTATED, retries=0)) as running:
        wait_until_it_prints(tmp_path)
        running.send_signal(signal.SIGSTOP)
        give_up = time.monotonic() + PATIENCE_S
        while [pod["status"]["phase"] for pod in cluster.objects(namespace, "pods", OURS)] != ["Succeeded"]:
            assert time.monotonic() < give_up
            time.sleep(0.5)
        running.send_signal(signal.SIGCONT)
        _, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1, told
    assert "output was lost in transit" in told
    (only,) = attempts(tmp_path)
    assert only.job is JobState.LOST


@pytest.mark.long
@pytest.mark.disruptive
def test_an_api_server_that_is_restarted_is_waited_for_while_submitting_and_cancelling(
    namespace: str, tmp_path: Path
) -> None:
    there = launcher(namespace, tmp_path)
    assert there.find("0" * 32) is None  # so that it has answered once
    with cluster.api_server() as server:
        server.restart(away_s=3)
        trial = Trial(there, job(FOR_EVER, timeout_s=600))
        trial.follow_until(lambda t: b"up" in t.printed, 180)  # controllers that lost it come back at leisure
        server.restart(away_s=3)
        there.cancel(trial.handle)
        assert trial.to_end().state is JobState.CANCELLED
    assert left(namespace, trial.asked.token) == []
