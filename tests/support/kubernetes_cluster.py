"""A real cluster for tests: the one that ASSAY_TEST_KUBECONFIG points at, in a namespace of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.launch.kubernetes.options import KubernetesSystem
from conftest import require

IMAGE = os.environ.get("ASSAY_TEST_IMAGE", "assay-test/base:1")  # with Python 3.9 or newer


def kubectl(*args: str, stdin: str = "") -> str:
    """What kubectl says; the test fails where it fails."""
    done = subprocess.run(["kubectl", *args], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}"
    return done.stdout


def need_nodes_here() -> None:
    """Skips where the nodes are other machines than this one, whose Python pods of `python: host` run."""
    own = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    kernels = {node["status"]["nodeInfo"]["bootID"] for node in nodes} - {""}  # a simulated node has none
    require("kubernetes", kernels == {own}, "its nodes are other machines, and lack this machine's Python")


def objects(namespace: str, what: str, selector: str = "") -> list[dict[str, Any]]:
    """Objects of a namespace as the API has them."""
    asked = ["-l", selector] if selector else []
    found: list[dict[str, Any]] = json.loads(kubectl("-n", namespace, "get", what, *asked, "-o", "json"))[
        "items"
    ]
    return found


def fill(namespace: str) -> None:
    """A pod that takes what the namespace's quota of one allows, until it is deleted."""
    pod = ["--image", IMAGE, "--image-pull-policy=IfNotPresent", "--restart=Never", "--", "sleep", "600"]
    kubectl("-n", namespace, "run", "filler", *pod)


@contextmanager
def namespace(**labels: str) -> Iterator[str]:
    """A namespace that is gone afterwards, and KUBECONFIG set. Skips where there is no cluster."""
    config = os.environ.get("ASSAY_TEST_KUBECONFIG", "")
    require("kubernetes", bool(config), "no cluster: set ASSAY_TEST_KUBECONFIG to its kubeconfig")
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = config
    name = f"assay-test-{uuid.uuid4().hex[:8]}"
    try:
        kubectl("create", "namespace", name)
        kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        if labels:
            kubectl("label", "namespace", name, *(f"{key}={value}" for key, value in labels.items()))
        yield name
    finally:
        os.environ["KUBECONFIG"] = config  # a test may have become somebody who may do less
        kubectl("delete", "namespace", name, "--wait=false")
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before


@contextmanager
def openshift_namespaces() -> Iterator[None]:
    """OpenShift's own namespaces that hold its settings, without OpenShift; gone afterwards."""
    there = kubectl("get", "namespaces", "-o", "name").split()
    wanted = [f"openshift-{name}" for name in ("monitoring", "config-managed")]
    names = [name for name in wanted if f"namespace/{name}" not in there]
    for name in names:
        kubectl("create", "namespace", name)
    try:
        yield
    finally:
        for name in names:
            kubectl("delete", "namespace", name, "--timeout=120s")


def system(namespace: str, **options: Any) -> KubernetesSystem:
    """Options of a system in that namespace."""
    return KubernetesSystem(
        namespace=namespace, **{"image": IMAGE, "imagePullPolicy": "IfNotPresent", **options}
    )


def _process(part: str) -> Path:
    """Where the cluster beside the kubeconfig keeps a part's process id. Skips where it is elsewhere."""
    note = Path(os.environ["KUBECONFIG"]).parent / part
    require("kubernetes-processes", note.exists(), f"{note} does not tell a process of this machine")
    return note


@dataclass
class Server:
    """A process of the cluster, and what starts it where it belongs."""

    note: Path
    starter: tuple[str, ...] = ()
    bringing_back: list[threading.Thread] = field(default_factory=list)

    def restart(self, away_s: float) -> None:
        """Kill it; so many seconds later it is started again, as it was."""
        pid = int(self.note.read_text())
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        where = Path(f"/proc/{pid}/cwd").readlink()
        os.kill(pid, signal.SIGKILL)
        back = threading.Thread(target=self._start, args=(argv, where, away_s))
        back.start()
        self.bringing_back.append(back)

    def _start(self, argv: list[bytes], where: Path, away_s: float) -> None:
        time.sleep(away_s)
        in_background = 'log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!'  # not a child of the tests
        log = str(self.note.with_suffix(".log"))
        shell: list[str | bytes] = ["sh", "-c", in_background, "sh", log, *self.starter, *argv]
        done = subprocess.run(shell, cwd=where, stdout=subprocess.PIPE, check=True, start_new_session=True)
        self.note.write_bytes(done.stdout.strip())


@contextmanager
def api_server() -> Iterator[Server]:
    """The API server, up again afterwards."""
    server = Server(_process("kube-apiserver.pid"))
    try:
        yield server
    finally:
        for back in server.bringing_back:
            back.join()
        give_up = time.monotonic() + 60
        while subprocess.run(
            ["kubectl", "get", "--raw", "/readyz"], capture_output=True, check=False
        ).returncode:
            assert time.monotonic() < give_up, "the API server does not come back"
            time.sleep(0.2)


@contextmanager
def kubelet(node: str) -> Iterator[Server]:
    """A node's kubelet, up again afterwards."""
    server = Server(_process(f"{node}/kubelet.pid"), ("nsenter", f"--net=/run/netns/{node}"))
    try:
        yield server
    finally:
        for back in server.bringing_back:
            back.join()
        kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=120s")


@dataclass
class Node:
    """A node that can lose its power."""

    name: str
    dead: bool = False

    def die(self) -> None:
        """Kubelet, runtime and all pods go at once."""
        if not self.dead:
            subprocess.run([NODE_SWITCH, "kill", self.name], check=True, capture_output=True)
            self.dead = True

    def start(self) -> None:
        """Power is back."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([NODE_SWITCH, "start", self.name], check=True, **quiet)
        self.dead = False


NODE_SWITCH = os.environ.get("ASSAY_TEST_NODE_SWITCH", "")  # a program: `kill NAME`, `start NAME`


@contextmanager
def node_that_dies(name: str) -> Iterator[Node]:
    """A node, back and ready afterwards. Skips where nothing can switch it off."""
    require("kubernetes-nodes", bool(NODE_SWITCH), "set ASSAY_TEST_NODE_SWITCH to what switches a node off")
    node = Node(name)
    try:
        yield node
    finally:
        if node.dead:
            node.start()
        kubectl("wait", "--for=condition=Ready", f"node/{name}", "--timeout=120s")
