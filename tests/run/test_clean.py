"""`assay clean` finds what runs left, keeps what still goes on, and removes the rest where that is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_kubernetes_rights import kubeconfig

import kubernetes_cluster as cluster
from assay import launch
from assay.cli import assay
from assay.launch import processes
from assay.launch.launcher import Launcher
from assay.rundir import session as rundir
from assay.testing.launchers import follow_to_end, job, python
from conftest import SUPPORT

DRIVER = SUPPORT / "script_workload.py"
SLEEP = "import time; print('up', flush=True); time.sleep(120)"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def clean(*words: str) -> Result:
    return CliRunner().invoke(assay, ["clean", *words])


def jobs(*words: str) -> list[dict[str, Any]]:
    said = clean("--json", *words)
    assert said.exit_code == 0, said.output
    [one] = json.loads(said.stdout)["systems"]
    found: list[dict[str, Any]] = one["jobs"]
    return found


@contextmanager
def a_run(code: str = SLEEP) -> Iterator[subprocess.Popen[bytes]]:
    """`assay run` of a script, once it prints."""
    suite = {"suite": "demo", "workload": "script", "params": {"code": code}, "systems": ["local"]}
    Path("suite.yaml").write_text(json.dumps(suite))
    argv = [sys.executable, str(DRIVER), "run", "suite.yaml", "--quiet"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        give_up = time.monotonic() + 30
        while not any(path.stat().st_size for path in Path("runs").glob("*/*/*/*/logs/rank-0.log")):
            assert running.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.02)
        try:
            yield running
        finally:
            running.kill()


def the_token() -> str:
    [attempt] = [a for session in rundir.sessions(Path("runs")) for a in session.attempts()]
    return attempt.run().token


def test_where_nothing_ran_nothing_is_left() -> None:
    assert [found for found in jobs() if found["session"]] == []


def test_a_job_of_a_killed_run_stays_while_it_runs_and_goes_with_running() -> None:
    with a_run() as running:
        token = the_token()
        running.kill()
    [found] = [found for found in jobs("--yes") if found["token"] == token]
    assert not found["removed"]
    assert "`assay run` takes it over" in found["goes_on"]
    assert processes.with_variable("ASSAY_TOKEN", token)
    try:
        assert clean("--yes").exit_code == 0
        assert processes.with_variable("ASSAY_TOKEN", token)
    finally:
        processes.kill_with_variable("ASSAY_TOKEN", token, 10)
    [ended] = [found for found in jobs("--yes") if found["token"] == token]
    assert ended["removed"]
    assert [word for word in ended["what"] if word.startswith("directory")]
    assert not [found for found in jobs() if found["token"] == token]


@pytest.mark.long
def test_a_job_of_a_run_that_an_assay_works_on_is_not_removed() -> None:
    with a_run() as running:
        token = the_token()
        [found] = [found for found in jobs("--yes") if found["token"] == token]
        assert found["goes_on"].endswith("is running")
        assert not found["removed"]
        running.send_signal(signal.SIGINT)
        running.wait(30)
    assert not [found for found in jobs() if found["token"] == token]


def test_system_and_all_together_are_refused_and_an_unknown_system_is_named() -> None:
    assert "not both" in str(clean("local", "--all").exception)
    assert "nowhere" in str(clean("nowhere").exception)


def test_a_system_that_can_not_be_asked_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    Path("systems.yaml").write_text(json.dumps({"lab": {"launcher": "kubernetes", "image": "none"}}))
    said = clean("--all")
    assert said.exit_code == 5
    assert "assay: lab: kubeconfig nowhere" in said.stderr
    assert "lab: the check failed" in said.stdout
    assert "local: " in said.stdout
    assert "local: the check failed" not in said.stdout


@pytest.mark.parametrize(
    ("system", "why"),
    [
        ({"launcher": "podman", "image": "none"}, "podman is not installed on this machine"),
        ({"launcher": "slurm"}, "squeue"),
        ({"launcher": "lsf"}, "bjobs"),
        ({"launcher": "ssh", "hosts": ["127.0.0.1"], "port": 1}, "ssh is not installed"),
    ],
)
def test_where_it_could_not_look_it_says_so_and_never_that_nothing_is_left(
    system: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path.cwd()))
    Path("systems.yaml").write_text(json.dumps({"lab": system}))
    said = clean("lab")
    assert said.exit_code == 5
    assert said.stdout == "lab: the check failed, so what is left there is unknown\n"
    assert why in said.stderr
    [one] = json.loads(clean("lab", "--json").stdout)["systems"]
    assert not one["looked"]
    assert why in one["error"]


@pytest.mark.kubernetes
@pytest.mark.slow
class TestOnKubernetes:
    @pytest.fixture
    def namespace(self) -> Iterator[str]:
        with cluster.namespace() as name:
            system = cluster.system(name).model_dump(include={"image", "imagePullPolicy", "namespace"})
            Path("systems.yaml").write_text(json.dumps({"lab": {"launcher": "kubernetes", **system}}))
            yield name

    def launcher(self, namespace: str) -> Launcher:
        return launch.make("kubernetes", cluster.system(namespace), spool=Path("spool"))

    def test_what_others_left_is_kept_while_it_is_fresh_and_ends_with_running(self, namespace: str) -> None:
        launcher = self.launcher(namespace)
        ended, runs = job(python("print(1)")), job(python(SLEEP))
        follow_to_end(launcher, launcher.submit(ended))
        cluster.kubectl("-n", namespace, "wait", "--for=condition=Complete", "job", "--all", "--timeout=60s")
        launcher.submit(runs)
        gone = job(python("print(1)"))
        assert launcher.find(gone.token) is None  # which leaves a tombstone
        found = {one["token"]: one for one in jobs("lab", "--yes")}
        assert found.keys() == {ended.token, runs.token, gone.token}
        assert not any(one["removed"] for one in found.values())
        assert "another Assay may be collecting it" in found[ended.token]["goes_on"]
        assert found[runs.token]["goes_on"] == "it is running, or waiting to run"
        assert all(one["removed"] for one in jobs("lab", "--yes", "--running"))
        for what in ("jobs", "pods", "services"):
            assert cluster.objects(namespace, what) == []
        labelled = cluster.objects(namespace, "configmaps", "app.kubernetes.io/managed-by=assay")
        assert labelled == []

    def test_every_kind_that_it_may_not_list_is_named_with_the_command_that_prints_the_rights(
        self, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster.kubectl("-n", namespace, "create", "serviceaccount", "nobody")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(namespace, "nobody", tmp_path / "config")))
        said = clean("lab")
        assert said.exit_code == 5
        assert said.stdout == "lab: the check failed, so what is left there is unknown\n"
        for kind in ("jobs", "configmaps", "services", "pods"):
            [line] = [line for line in said.stderr.splitlines() if f"can't list {kind}:" in line]
            assert "`assay cluster rbac`" in line

    def test_a_token_that_the_cluster_does_not_accept_is_not_an_empty_cluster(
        self, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster.kubectl("-n", namespace, "create", "serviceaccount", "nobody")
        path = kubeconfig(namespace, "nobody", tmp_path / "config")
        config = json.loads(path.read_text())
        config["users"][0]["user"]["token"] += "x"
        path.write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(path))
        said = clean("lab")
        assert said.exit_code == 5
        assert "the check failed" in said.stdout
        assert "log in again" in said.stderr

    def test_an_ended_job_that_is_known_here_is_removed_at_once(self, namespace: str) -> None:
        assert os.environ["KUBECONFIG"]
        suite = {"suite": "demo", "workload": "script", "params": {"code": SLEEP}, "systems": ["lab"]}
        Path("suite.yaml").write_text(json.dumps(suite))
        argv = [sys.executable, str(DRIVER), "run", "suite.yaml", "--quiet"]
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as running:
            give_up = time.monotonic() + 60
            while not any(p["status"]["phase"] == "Running" for p in cluster.objects(namespace, "pods")):
                assert time.monotonic() < give_up
                time.sleep(0.3)
            running.kill()
        [found] = jobs("lab", "--yes")
        assert "`assay run` takes it over" in found["goes_on"]
        cluster.kubectl("-n", namespace, "delete", "pods", "--all", "--grace-period=0", "--force")
        [found] = jobs("lab", "--yes", "--running")
        assert found["removed"]
        assert jobs("lab") == []
        assert not [*Path("runs").glob("*/*/jobs/*")]
