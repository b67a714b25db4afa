"""The Kubernetes launcher on a real cluster: the contract, and what is special to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kubernetes_cluster as cluster
from assay import launch
from assay.launch.kubernetes.order import LABEL_TOKEN
from assay.launch.launcher import Launcher
from launcher_contract import LauncherContract

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


class OnCluster(LauncherContract):
    kind: str

    @pytest.fixture(autouse=True)
    def _in_namespace(self, namespace: str) -> None:
        self.namespace = namespace

    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return launch.make(
            "kubernetes", cluster.system(self.namespace, kind=self.kind, grace=grace_s), spool=spool
        )

    def left(self, token: str) -> list[str]:
        pods = cluster.objects(self.namespace, "pods", f"{LABEL_TOKEN}={token}")
        return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]


class TestJob(OnCluster):
    kind = "job"
