"""Assay on a thousand nodes of a Kubernetes cluster: plan, preflight, a node sweep, cleanup.

    python benchmarks/kubernetes_scale.py --namespace bench --selector type=kwok --tolerate kwok.x-k8s.io/node

Nodes may be real or simulated (KWOK); pods on simulated nodes end on their own and print nothing, so
no log is read: this measures planning, submission, watching, and cleanup. The sweep sends one job to each
node alone, then rounds of pairs, each job bound to its nodes, at most --at-once jobs at a time; the
launcher's single watch follows all pods.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from options import absent, parse

from assay.errors import AssayError
from assay.launch.kubernetes.client import CONFIG_MAPS, NODES, Cluster, Resource, connect
from assay.launch.kubernetes.job_state import is_over
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.order import name_of
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.watch import watch_of
from assay.node_sweep import Group, each_alone, pair_rounds
from assay.records import Handle, Job, Shape, Task

ASSAY = str(Path(sys.executable).with_name("assay"))
JOB_S = 120.0


def system(arguments: argparse.Namespace, nodes: Sequence[str] = ()) -> dict[str, Any]:
    """The system as in systems.yaml; bound to nodes if any are named."""
    label, _, value = arguments.selector.partition("=")
    return {
        "image": arguments.image,
        "resources": {"accelerator": {arguments.accelerator: 1}},
        **({"namespace": arguments.namespace} if arguments.namespace else {}),
        **(
            {"tolerations": [{"key": arguments.tolerate, "operator": "Exists"}]} if arguments.tolerate else {}
        ),
        **({"nodes": [*nodes]} if nodes else {"nodeSelector": {label: value}}),
    }


def commands(arguments: argparse.Namespace, nodes: int, gpus: int) -> None:
    """Time and peak memory of the two commands that precede a run over all nodes."""
    with tempfile.TemporaryDirectory() as folder:
        shapes = sorted({f"{n}x{gpus}" for n in (1, 2, nodes // 8, nodes // 2, nodes) if n})
        suite = {"suite": "scale", "workload": "matmul", "shapes": shapes, "repeats": 200, "systems": ["lab"]}
        Path(folder, "suite.yaml").write_text(json.dumps(suite))
        lab = {"launcher": "kubernetes", **system(arguments)}
        Path(folder, "systems.yaml").write_text(json.dumps({"lab": lab}))
        largest = f"matmul-{nodes}x{gpus}-r01"
        for words in (["plan", "suite.yaml"], ["plan", "suite.yaml", "--show", largest], ["doctor", "lab"]):
            wall_s, peak_bytes, code = measured([ASSAY, *words], folder)
            said = f"assay {' '.join(words)}"
            print(f"{said:50} {wall_s:.2f} s, {peak_bytes / 1e6:.0f} MB, exit code {code}")


def measured(argv: Sequence[str], folder: str) -> tuple[float, int, int]:
    """Wall time, peak memory and exit code of a process."""
    begin = time.perf_counter()
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - begin, used.ru_maxrss * 1024, process.returncode


class Sweep:
    """Groups of nodes, each measured by its own job, a limited number at a time."""

    def __init__(self, arguments: argparse.Namespace, gpus: int, spool: Path) -> None:
        self.arguments, self.gpus, self.spool = arguments, gpus, spool
        self.cluster: Cluster = connect(None, arguments.namespace)
        self.submitting_s, self.submitted = 0.0, 0
        self.wrong: Counter[str] = Counter()
        self._lock = threading.Lock()

    def run(self, groups: Sequence[Group]) -> float:
        """Seconds until the jobs of all groups have ended and are removed."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(self.arguments.at_once) as threads:
            for _ in threads.map(self._measure, groups):
                pass
        return time.perf_counter() - begin

    def _measure(self, nodes: Group) -> None:
        handle = self.submit(nodes)
        where = self._wait(handle)
        if len(where) != len(nodes) or not set(where) <= set(nodes):
            self.wrong["not all of its pods ended on its nodes"] += 1
        elif len(set(where)) < len(nodes):  # a simulated pod may have ended before the next is placed
            self.wrong["one node after the other"] += 1
        kind = KINDS[str(handle.data["kind"])]
        name = name_of(handle.token)
        self.cluster.delete(Resource(kind.job_ref.api_version, kind.job_ref.plural), name)
        self.cluster.delete(CONFIG_MAPS, f"{name}-0")  # which owns the rest, as `forget` leaves it

    def submit(self, nodes: Group) -> Handle:
        """The submitted job of these nodes."""
        options = KubernetesSystem.model_validate(system(self.arguments, nodes))
        launcher = KubernetesLauncher(options, self.spool)
        shape = Shape(len(nodes), self.gpus, len(nodes) if len(nodes) > 1 else None)
        task = Task(("{python}", "-c", "pass"), {}, (), None, ())
        job = Job(uuid.uuid4().hex, "sweep", shape, task, seed=1, timeout_s=JOB_S)
        begin = time.perf_counter()
        handle = launcher.submit(job)
        with self._lock:
            self.submitting_s += time.perf_counter() - begin
            self.submitted += 1
        return handle

    def _wait(self, handle: Handle) -> list[str]:
        """The nodes of its pods, once all have ended."""
        changed = threading.Event()
        expected = int(str(handle.data["pods"]))
        give_up = time.monotonic() + JOB_S
        with watch_of(self.cluster).follow(handle.token, changed.set) as pods:
            while time.monotonic() < give_up:
                changed.clear()
                seen = list(pods.seen.values())
                if len(seen) >= expected and all(map(is_over, seen)):
                    return [pod["spec"].get("nodeName", "") for pod in seen]
                changed.wait(5.0)
        return []


def sweep(arguments: argparse.Namespace, nodes: Sequence[str], gpus: int) -> None:
    """Sweep each node alone, then rounds of pairs; then clean up after a killed sweep."""
    begin = time.perf_counter()
    plan = [each_alone(nodes), *pair_rounds(nodes, min(arguments.rounds, len(nodes) - 1))]
    print(f"rounds of {len(nodes)} nodes planned in {time.perf_counter() - begin:.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        work = Sweep(arguments, gpus, Path(folder))
        before, cpu = work.cluster.wire.requests, time.process_time()
        for number, groups in enumerate(plan):
            took_s = work.run(groups)
            what = "alone" if number == 0 else f"pairs, round {number}"
            print(
                f"{what:22} {len(groups)} jobs in {took_s:.1f} s, {len(groups) / took_s:.1f} a second",
                flush=True,
            )
        requests = work.cluster.wire.requests - before
        needed = sum(
            4 if len(nodes) == 1 else 5 for groups in plan for nodes in groups
        )  # 2 of them deletions
        print(
            f"of each job            {requests / work.submitted:.2f} requests, "
            f"{work.submitting_s / work.submitted:.2f} s in submit, "
            f"{1e3 * (time.process_time() - cpu) / work.submitted:.0f} ms of CPU time"
        )
        print(f"requests beyond those  {requests - needed}: lists, watches, and what was asked again")
        print(f"jobs not as planned    {dict(work.wrong) or 'none'}")
        print(f"memory                 {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
        clean(work, arguments, nodes[: arguments.left])


def clean(work: Sweep, arguments: argparse.Namespace, nodes: Sequence[str]) -> None:
    """`assay clean` of abandoned jobs."""
    with ThreadPoolExecutor(arguments.at_once) as threads:
        for _ in threads.map(work.submit, each_alone(nodes)):
            pass
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "systems.yaml").write_text(
            json.dumps({"lab": {"launcher": "kubernetes", **system(arguments)}})
        )
        for words in (["clean", "lab"], ["clean", "lab", "--yes", "--running"]):
            wall_s, peak_bytes, code = measured([ASSAY, *words], folder)
            said = f"assay {' '.join(words)}, {len(nodes)} jobs"
            print(f"{said:50} {wall_s:.2f} s, {peak_bytes / 1e6:.0f} MB, exit code {code}")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--namespace", help="by default the context's")
    parser.add_argument("--image", default="python:3.12-slim", help="one that has python3")
    parser.add_argument("--selector", default="type=kwok", help="label of the nodes, NAME=VALUE")
    parser.add_argument("--tolerate", help="taint of the nodes that pods are to tolerate")
    parser.add_argument("--accelerator", default="nvidia.com/gpu", help="resource of which all are asked")
    parser.add_argument("--at-once", type=int, default=32, help="jobs at a time")
    parser.add_argument("--rounds", type=int, default=2, help="of pairs")
    parser.add_argument("--nodes", type=int, help="sweep only so many; by default all")
    parser.add_argument("--left", type=int, default=200, help="jobs left behind for assay clean")
    arguments = parse(parser, nodes=2, rounds=1, left=2)
    try:
        cluster = connect(None, arguments.namespace)
        found = cluster.list(NODES, labels=arguments.selector, everywhere=True).items
    except AssayError as error:
        absent(f"a Kubernetes cluster: {error}")
    counts = {int(node["status"]["allocatable"].get(arguments.accelerator, 0)) for node in found}
    if len(counts) != 1 or counts == {0}:
        absent(
            f"nodes with {arguments.selector} and as many {arguments.accelerator} each, not {sorted(counts)}"
        )
    names, gpus = [node["metadata"]["name"] for node in found], counts.pop()
    chosen = names[: arguments.nodes or len(names)]
    print(f"{len(names)} nodes of {gpus} {arguments.accelerator}, Kubernetes {cluster.version()}")
    commands(arguments, len(names), gpus)
    sweep(arguments, chosen, gpus)


if __name__ == "__main__":
    main()
