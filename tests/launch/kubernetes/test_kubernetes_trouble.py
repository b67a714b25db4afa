"""A cluster in trouble: registries, operators, names, credentials, the API server, logs that are rotated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kubernetes_cluster as cluster
from assay.records import JobState
from kubernetes_trial import FOR_EVER, Trial, assert_final, launcher, left
from launcher_contract import job, python

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


REGISTRY = """
import http.server, json
class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        secret = "/secret/" in self.path
        code = "UNAUTHORIZED" if secret else "MANIFEST_UNKNOWN"
        body = json.dumps({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}).encode()
        self.send_response(200 if self.path == "/v2/" else 401 if secret else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET": self.wfile.write(body)
    do_HEAD = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", 5001), Registry).serve_forever()
"""


@pytest.fixture(scope="module")
def registry(namespace: str) -> str:
    """A registry that has nothing and guards `secret/`, on a node's own network; the node's name."""
    container = {
        "name": "registry",
        "image": cluster.IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", REGISTRY],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "registry"}}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [container]}
    cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps({**pod, "spec": spec}))
    cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/registry", "--timeout=60s")
    found = json.loads(cluster.kubectl("-n", namespace, "get", "pod", "registry", "-o", "json"))
    return str(found["spec"]["nodeName"])


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("localhost:5001/absent:1", ["the image does not exist", "localhost:5001/absent:1", "name and tag"]),
        ("localhost:5001/secret/image:1", ["denies the cluster access", "imagePullSecrets"]),
    ],
)
def test_an_image_that_can_not_be_had_is_told_at_once(
    namespace: str, registry: str, tmp_path: Path, image: str, words: list[str]
) -> None:
    asked = {"image": image, "nodeSelector": {"kubernetes.io/hostname": registry}}
    assert_final(namespace, tmp_path, asked, words)


def test_a_registry_that_does_not_answer_is_waited_for(namespace: str, tmp_path: Path) -> None:
    asked = {"image": "localhost:1/image:1", "start_timeout": 15}
    trial = Trial(launcher(namespace, tmp_path, **asked), job(FOR_EVER, timeout_s=600))
    status = trial.to_end()
    assert any("can't be pulled" in why and "refused" in why for why in trial.waited), trial.waited
    assert "start_timeout (15 s) has elapsed" in status.cause
    assert status.state is JobState.LOST


EXIT_9 = ["python3", "-c", "import sys; sys.exit(9)"]


@pytest.mark.disruptive
def test_an_operator_that_does_not_run_is_named(namespace: str, tmp_path: Path) -> None:
    with scaled_to_nothing("mpi-operator", "mpi-operator"):
        trial = Trial(launcher(namespace, tmp_path, kind="mpijob"), job(python("print(1)")))
        trial.follow_until(lambda t: any("no controller handles the MPIJob" in why for why in t.waited))
        assert "check that the MPI Operator is running" in trial.waited[-1]
    trial.launcher.cancel(trial.handle)
    assert trial.to_end().state is JobState.CANCELLED
    assert left(namespace, trial.asked.token) == []


@contextmanager
def scaled_to_nothing(namespace: str, deployment: str) -> Iterator[None]:
    scale = ["-n", namespace, "scale", f"deployment/{deployment}"]
    cluster.kubectl(*scale, "--replicas=0")
    cluster.kubectl("-n", namespace, "wait", "--for=delete", "pod", "--all", "--timeout=60s")
    try:
        yield
    finally:
        cluster.kubectl(*scale, "--replicas=1")
        cluster.kubectl("-n", namespace, "rollout", "status", f"deployment/{deployment}", "--timeout=60s")


@pytest.mark.disruptive
def test_a_name_that_is_known_late_is_told_and_waited_for(namespace: str, tmp_path: Path) -> None:
    with scaled_to_nothing("kube-system", "coredns"):
        trial = Trial(
            launcher(namespace, tmp_path, kind="job"), job(python("print('met')"), 2, timeout_s=600)
        )
        trial.follow_until(lambda t: any("rank 0 of 2 (its name" in why for why in t.waited))
    assert trial.to_end().state is JobState.SUCCEEDED
    assert left(namespace, trial.asked.token) == []


def test_an_mpi_image_without_an_ssh_server_is_told(namespace: str, tmp_path: Path) -> None:
    hidden = {"mountPath": "/usr/sbin", "emptyDir": "Disk"}
    asked = {"kind": "mpijob", "volumes": [hidden]}
    assert_final(namespace, tmp_path, asked, ["sshd: not found", "the image has no ssh server"])


def test_a_pod_that_fails_before_its_ranks_is_told(namespace: str, tmp_path: Path) -> None:
    container = {
        "name": "prepare",
        "image": cluster.IMAGE,
        "command": EXIT_9,
    }
    asked = {"patch": {"spec": {"initContainers": [container]}}}
    assert_final(namespace, tmp_path, asked, ["before its ranks", "container prepare exited 9", "-c prepare"])


def test_a_container_that_ends_again_and_again_is_told(namespace: str, tmp_path: Path) -> None:
    container = {
        "name": "side",
        "image": cluster.IMAGE,
        "restartPolicy": "Always",
        "command": EXIT_9,
        "startupProbe": {"exec": {"command": ["false"]}, "periodSeconds": 60},
    }
    asked = {"patch": {"spec": {"initContainers": [container]}}}
    assert_final(namespace, tmp_path, asked, ["keeps crashing", "kubectl logs --previous"], patience_s=60)


def test_a_name_that_is_never_known_is_told_as_such(namespace: str, tmp_path: Path) -> None:
    nobody = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}
    trial = Trial(
        launcher(namespace, tmp_path, kind="job", patch={"spec": nobody}, start_timeout="40s"),
        job(FOR_EVER, 2, timeout_s=600),
    )
    status = trial.to_end(150.0)
    assert status.state is JobState.FAILED
    assert any("rank 0 of 2 (its name" in why for why in trial.waited), trial.waited
    assert "rank 0 of 2 did not start within 40 s (its name" in status.cause
    assert left(namespace, trial.asked.token) == []
