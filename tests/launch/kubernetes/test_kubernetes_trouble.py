"""A cluster in trouble: registries, operators, names, credentials, the API server, logs that are rotated."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kubernetes_cluster as cluster
from assay.errors import LaunchError
from assay.launch.kubernetes.objects.order import LABEL_TOKEN
from assay.records import Extent, JobState
from assay.testing.launchers import job, python
from kubernetes_trial import FOR_EVER, Trial, assert_final, launcher, left

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
    assert "rank 0 of 2 could not be reached within 40 s (its name" in status.cause
    assert "all pods of the job ran, but they could not reach each other" in status.cause
    assert left(namespace, trial.asked.token) == []


SIDE = {"name": "side", "image": cluster.IMAGE, "imagePullPolicy": "IfNotPresent"}
DEAF = {**SIDE, "command": ["python3", "-c", "import time; time.sleep(600)"]}


@pytest.mark.parametrize(
    ("code", "state"), [("print('ran')", JobState.SUCCEEDED), ("1 / 0", JobState.FAILED)]
)
def test_a_container_that_outlives_the_ranks_holds_nothing_up(
    code: str, state: JobState, namespace: str, tmp_path: Path
) -> None:
    beside = {"terminationGracePeriodSeconds": 0, "containers": [DEAF]}
    trial = Trial(launcher(namespace, tmp_path, patch={"spec": beside}), job(python(code), 2))
    status = trial.to_end()
    assert status.state is state, status
    assert left(namespace, trial.asked.token) == []


def test_the_time_limit_ends_a_job_with_another_container(namespace: str, tmp_path: Path) -> None:
    beside = {"terminationGracePeriodSeconds": 0, "containers": [DEAF]}
    trial = Trial(launcher(namespace, tmp_path, patch={"spec": beside}), job(FOR_EVER, timeout_s=3))
    assert trial.to_end().state is JobState.TIMED_OUT
    assert left(namespace, trial.asked.token) == []


COUNT = python("import time\nfor i in range(25): print(i, flush=True); time.sleep(1)")


@pytest.mark.disruptive
@pytest.mark.parametrize("after_its_end", [False, True])
def test_a_kubelet_that_is_restarted_loses_nothing(
    after_its_end: bool, namespace: str, tmp_path: Path
) -> None:
    """Its ranks run on; for seconds it answers nothing, and then that it does not know the pod."""
    with cluster.kubelet("node2") as server:
        trial = Trial(launcher(namespace, tmp_path, nodes=["node2"]), job(COUNT, timeout_s=120))
        trial.follow_until(lambda trial: trial.printed.endswith(b"22\n" if after_its_end else b"3\n"))
        server.restart(away_s=8)
        status = trial.to_end(120.0)
    assert status.state is JobState.SUCCEEDED, status
    assert trial.printed.split() == [b"%d" % i for i in range(25)]
    assert any("can't read the log" in why for why in trial.waited), trial.waited


@pytest.mark.disruptive
def test_a_node_that_reboots_before_the_cluster_notices_lost_the_job(namespace: str, tmp_path: Path) -> None:
    with cluster.node_that_dies("node2") as node:
        trial = Trial(launcher(namespace, tmp_path, nodes=["node2"]), job(COUNT, timeout_s=300))
        trial.follow_until(lambda trial: b"2" in trial.printed)
        node.die()
        node.start()
        status = trial.to_end(180.0)
    assert status.state is JobState.LOST, status
    assert "vanished from its node" in status.cause
    assert left(namespace, trial.asked.token) == []


WAITS_FOR_PEER = """
import socket, os, time
print("up", flush=True)
address = os.environ["MASTER_ADDR"], 29777
if os.environ["RANK"] == "0":
    listening = socket.create_server(("", 29777))
    peer = listening.accept()[0]
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.settimeout(8)
else:
    for _ in range(60):
        try:
            peer = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.5)
while True:
    peer.sendall(b".")
    assert peer.recv(1)
    time.sleep(0.2)
"""


@pytest.mark.disruptive
def test_ranks_that_fail_because_a_peer_s_node_rebooted_are_lost_too(namespace: str, tmp_path: Path) -> None:
    with cluster.node_that_dies("node2") as node:
        placed = launcher(namespace, tmp_path, placement="spread")
        trial = Trial(placed, job(python(WAITS_FOR_PEER), 2, timeout_s=300))
        trial.follow_until(lambda trial: trial.printed.count(b"up") == 2)
        node.die()
        node.start()
        status = trial.to_end(240.0)
    assert status.state is JobState.LOST, status


def test_what_a_pod_once_waited_for_is_not_why_it_ended(namespace: str, tmp_path: Path) -> None:
    """It waits for a label, gets it, and then its container is killed without a word."""
    node = "node1"
    placing = launcher(namespace, tmp_path, nodeSelector={"assay.test/late": namespace})
    trial = Trial(placing, job(FOR_EVER, timeout_s=600))
    trial.follow_until(lambda t: any("node affinity/selector" in why for why in t.waited))
    cluster.kubectl("label", "node", node, f"assay.test/late={namespace}")
    try:
        trial.follow_until(lambda t: b"up" in t.printed)
        pod = cluster.objects(namespace, "pods", f"{LABEL_TOKEN}={trial.asked.token}")[0]["metadata"]["name"]
        kill = "import os; os.kill(int(open('/proc/1/task/1/children').read().split()[0]), 9)"
        argv = ["kubectl", "-n", namespace, "exec", pod, "--", "python3", "-c", kill]
        subprocess.run(argv, check=False)  # it may find that the pod is over, by its own doing
        status = trial.to_end()
    finally:
        cluster.kubectl("label", "node", node, "assay.test/late-")
    assert "no node can run" not in status.cause
    assert status.extent is Extent.TRIAL


def test_what_foreign_finalizers_keep_is_named_and_holds_nothing_up(namespace: str, tmp_path: Path) -> None:
    trial = Trial(launcher(namespace, tmp_path), job(FOR_EVER, 2, timeout_s=600))
    trial.follow_until(lambda t: t.printed.count(b"up") == 2)
    set_finalizers(namespace, trial.asked.token, ["example.com/hold"])
    try:
        began = time.monotonic()
        trial.launcher.cancel(trial.handle)
        trial.follow_until(lambda _: False)
        assert time.monotonic() - began < 40
        assert trial.launcher.status(trial.handle).state is JobState.CANCELLED
        with pytest.raises(LaunchError, match=r"kept by finalizers: .*example\.com/hold"):
            trial.launcher.forget(trial.handle)
        (kept,) = [left for left in trial.launcher.leftovers() if left.token == trial.asked.token]
        assert (kept.runs, kept.changed_at) == (False, None)
        assert any("(deleted, kept by example.com/hold)" in what for what in kept.what)
        with pytest.raises(LaunchError, match="kept by finalizers: "):
            trial.launcher.discard([trial.asked.token])
    finally:
        set_finalizers(namespace, trial.asked.token, None)
    assert left(namespace, trial.asked.token) == []


def set_finalizers(namespace: str, token: str, finalizers: list[str] | None) -> None:
    """Of everything of the job; the namespace could not be deleted with them."""
    for obj in cluster.objects(namespace, "pods,jobs,services,configmaps", f"{LABEL_TOKEN}={token}"):
        where = ["-n", namespace, "patch", obj["kind"], obj["metadata"]["name"], "--type=merge", "-p"]
        cluster.kubectl(*where, json.dumps({"metadata": {"finalizers": finalizers}}))
