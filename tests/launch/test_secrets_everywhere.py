"""A planted value, on every launcher and over a kill: the ranks have it; Assay neither keeps nor says it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from test_secret_reference import assay, holding, value, write  # noqa: F401  (a fixture)

import kubernetes_cluster as cluster
from assay.testing.launchers import eventually
from containers import need_podman, this_machine
from lsf_cluster import lsf_commands  # noqa: F401  (a fixture)
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)
from ssh_hosts import hosts


def assert_kept_secret(
    directory: Path, secret: str, system: Mapping[str, Any], *, reference: str = "{from_env: HUB_TOKEN}"
) -> None:
    """A run whose program prints the value: only its log holds it, and it came to every rank."""
    write(directory, "{TELL: 'yes'}", json.dumps({"there": {**system, "env": {"TOKEN": "REFERENCE"}}}))
    systems = directory / "systems.yaml"
    systems.write_text(systems.read_text().replace('"REFERENCE"', reference))
    done = assay(directory, "run", "suite.yaml", "--report", "page.html", env={"HUB_TOKEN": secret})
    assert done.returncode == 0, done.stdout + done.stderr
    logs = list(directory.glob("runs/kept/*/*/attempt-1/logs/rank-*.log"))
    assert logs
    assert all(f"got {len(secret)} characters {secret}" in log.read_text() for log in logs)
    assert holding(directory, secret, but=[log.name for log in logs]) == []
    shown = assay(directory, "plan", "suite.yaml", "--show", "command-1x1-r01", env={"HUB_TOKEN": secret})
    exported = assay(directory, "export", "kept", "--format", "json")
    for words in (done.stdout, done.stderr, shown.stdout, shown.stderr, exported.stdout):
        assert secret not in words


@pytest.mark.podman
@pytest.mark.long
def test_in_a_container(tmp_path: Path, value: str) -> None:  # noqa: F811
    need_podman()
    assert_kept_secret(tmp_path, value, {"launcher": "podman", **this_machine()})


@pytest.mark.ssh
def test_on_hosts_reached_by_ssh(tmp_path: Path, value: str) -> None:  # noqa: F811
    with hosts(1) as made:
        system = {"launcher": "ssh", "hosts": made.names, "config": made.config}
        assert_kept_secret(tmp_path, value, {**system, "directory": str(tmp_path / "there")})


@pytest.mark.slurm
@pytest.mark.usefixtures("slurm_cluster")
@pytest.mark.long
def test_in_a_job_of_slurm(tmp_path: Path, value: str) -> None:  # noqa: F811
    assert_kept_secret(tmp_path, value, {"launcher": "slurm"})


@pytest.mark.long
@pytest.mark.usefixtures("lsf")
def test_in_a_job_of_lsf(tmp_path: Path, value: str) -> None:  # noqa: F811
    assert_kept_secret(tmp_path, value, {"launcher": "lsf"})


@pytest.mark.kubernetes
@pytest.mark.slow
def test_in_a_pod(tmp_path: Path, value: str) -> None:  # noqa: F811
    with cluster.namespace() as name:
        cluster.kubectl("-n", name, "create", "secret", "generic", "hub", f"--from-literal=token={value}")
        system = cluster.system(name).model_dump(mode="json", exclude_unset=True)
        reference = "{from_kubernetes_secret: {name: hub, key: token}}"
        assert_kept_secret(tmp_path, value, {"launcher": "kubernetes", **system}, reference=reference)


WAITING = """\
import os, pathlib, time
value = os.environ["TOKEN"]
print("got", len(value), "characters", value, flush=True)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
print("seconds: 1.0")
"""


def test_in_a_run_that_is_killed_and_resumed(tmp_path: Path, value: str) -> None:  # noqa: F811
    """The job that outlives Assay and the job that is sent after it both have it; only their logs hold it."""
    write(tmp_path, f"{{TOKEN: {{from_env: HUB_TOKEN}}, GO: {tmp_path / 'go'}}}")
    (tmp_path / "program.py").write_text(WAITING)
    suite = tmp_path / "suite.yaml"
    suite.write_text(suite.read_text().replace("repeats: 1", "repeats: 2"))
    argv = [sys.executable, "-c", "from assay.cli import main; main()", "run", "suite.yaml", "--quiet"]
    env = {**os.environ, "HUB_TOKEN": value}
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL) as first:
        begun = "runs/kept/*/*/attempt-1/logs/rank-0.log"
        assert eventually(lambda: any(value in log.read_text() for log in tmp_path.glob(begun)), 60)
        first.send_signal(signal.SIGKILL)
    assert holding(tmp_path, value, but=["rank-0.log"]) == []
    (tmp_path / "go").touch()
    done = assay(tmp_path, "run", "suite.yaml", "--report", "page.html", env={"HUB_TOKEN": value})
    assert done.returncode == 0, done.stdout + done.stderr
    logs = sorted(tmp_path.glob(begun))
    assert len(logs) == 2
    assert len({log.parents[3] for log in logs}) == 1, "one session"
    assert all(f"got {len(value)} characters {value}" in log.read_text() for log in logs)
    assert (tmp_path / "page.html").is_file()
    assert holding(tmp_path, value, but=["rank-0.log"]) == []
    said = [
        assay(tmp_path, *words)
        for words in (("export", "kept", "--format", "json"), ("show", "kept", "--json"))
    ]
    assert all(shown.returncode == 0 for shown in said)
    for shown in (done, *said):
        assert value not in shown.stdout + shown.stderr


@pytest.mark.long
def test_in_the_template_of_a_pod_and_in_arguments(tmp_path: Path) -> None:
    """What is written as text in a patch or in an argument is in nothing that Assay keeps or prints."""
    planted = ["patch-hunter2", "note-hunter3", "json-hunter4", "pair-hunter5", "curl-hunter6"]
    patch, note, inner, pair, curl = planted
    (tmp_path / "suite.yaml").write_text(
        json.dumps(
            {
                "suite": "kept",
                "workload": "command",
                "params": {
                    "argv": [
                        "{python}",
                        "-c",
                        "print('seconds: 1.0')",
                        f"password={note}",
                        json.dumps({"password": inner, "env": [{"name": "A_TOKEN", "value": pair}]}),
                        f"curl -ume:{curl} host",
                    ],
                    "metrics": {"seconds": {"pattern": "seconds: (?P<value>[0-9.]+)", "better": "lower"}},
                },
                "repeats": 1,
            }
        )
    )
    template = {"spec": {"containers": [{"name": "ranks", "env": [{"name": "DB_PASSWORD", "value": patch}]}]}}
    there = {"launcher": "kubernetes", "image": "python", "kind": "job", "patch": template}
    (tmp_path / "systems.yaml").write_text(json.dumps({"here": {"launcher": "local"}, "there": there}))
    said = [
        assay(tmp_path, *words.split())
        for words in (
            "plan suite.yaml --show command-1x1-there-r01",
            "plan suite.yaml --json",
            "run suite.yaml --system here --report page.html",
            "show kept --json",
            "export kept --format json",
        )
    ]
    for shown in said:
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert [secret for secret in planted if secret in shown.stdout + shown.stderr] == []
    for secret in planted:
        assert holding(tmp_path, secret, but=["suite.yaml", "systems.yaml"]) == []
        assert holding(tmp_path / "runs", secret) == []
