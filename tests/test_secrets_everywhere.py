"""A planted value, on every launcher: the ranks have it, and what Assay keeps or says does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import kubernetes_cluster as cluster
from containers import need_podman, this_machine
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)
from ssh_hosts import hosts
from test_secret_reference import assay, holding, value, write  # noqa: F401  (a fixture)


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
def test_in_a_job_of_slurm(tmp_path: Path, value: str) -> None:  # noqa: F811
    assert_kept_secret(tmp_path, value, {"launcher": "slurm"})


@pytest.mark.kubernetes
@pytest.mark.slow
def test_in_a_pod(tmp_path: Path, value: str) -> None:  # noqa: F811
    with cluster.namespace() as name:
        cluster.kubectl("-n", name, "create", "secret", "generic", "hub", f"--from-literal=token={value}")
        system = cluster.system(name).model_dump(mode="json", exclude_unset=True)
        reference = "{from_kubernetes_secret: {name: hub, key: token}}"
        assert_kept_secret(tmp_path, value, {"launcher": "kubernetes", **system}, reference=reference)
