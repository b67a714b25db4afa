"""What Assay costs on a Kubernetes cluster, compared with the cluster's own time. Runs on any cluster.

    python benchmarks/kubernetes.py --namespace bench --image python:3.12-slim

Uses the current context of the kubeconfig. One run measures:
- time from submission to the first line that a rank prints, relative to the same manifest created with plain
  requests and its log read with one more, in turn, with a 95 % interval; and relative to a Job without
  keeper and probe, which prints at once;
- time from a rank's last line to the finished trial, relative to a Job followed as by `kubectl wait` and
  `kubectl logs`: its condition Complete, then its log with one more request;
- API requests of a trial, and those of a minute of waiting, with the CPU time used here;
- following a log of 200 MB: rate, memory, and CPU time, compared with a plain read of the log of a Job that
  prints the same, which shows the kubelet's limit.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from options import absent, parse
from paired import in_turn, ratio

from assay.errors import AssayError
from assay.launch.frames import Frame, FrameReader
from assay.launch.kubernetes import client
from assay.launch.kubernetes.client import JOBS, PODS, Cluster
from assay.launch.kubernetes.job_state import is_over
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.objects.kinds import KINDS, ended_by_condition
from assay.launch.kubernetes.objects.manifests import render
from assay.launch.kubernetes.objects.pod import CONTAINER
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.wire import ApiError
from assay.records import Handle, Job, Shape, Task

FIRST = "print('first', flush=True)"
# lines like those of a training: their numbers differ, so that they compress no better than real ones
PRINT_MB = """
import random, sys
lines = [
    ':::MLLOG {{"namespace": "assay", "key": "tracked_stats", "value": {{"loss": %.6f, "rate": %.3f}}}}\\n'
    % (random.random() * 7, random.random() * 9000) for _ in range(40000)
]
size, wanted = 0, {megabytes} * 1000000
while size < wanted:
    random.shuffle(lines)
    text = "".join(lines)[: wanted - size]
    sys.stdout.write(text)
    size += len(text)
"""
WAIT_S = 30.0
LOOK_S = 0.02


@dataclass(frozen=True)
class Place:
    """Where the jobs run, and under which system."""

    namespace: str | None
    image: str

    def system(self) -> KubernetesSystem:
        """The system as in systems.yaml."""
        said = {"namespace": self.namespace, "image": self.image, "imagePullPolicy": "IfNotPresent"}
        return KubernetesSystem.model_validate(said)

    def cluster(self) -> Cluster:
        """The connection, which the launcher also uses."""
        return client.connect(None, self.namespace)


def job(code: str, workers: int = 1) -> Job:
    """A job with one rank per pod that runs a line of Python."""
    task = Task(("{python}", "-S", "-c", code), {}, (), None, ())
    return Job(uuid.uuid4().hex, "benchmark", Shape(workers, 1), task, seed=1, timeout_s=900)


def through_assay(place: Place, spool: Path) -> float:
    """Seconds from submission to the rank's first line, as reported by Assay."""
    launcher, asked = KubernetesLauncher(place.system(), spool), job(FIRST)
    begin = time.perf_counter()
    handle = launcher.submit(asked)
    took = 0.0
    for output in launcher.follow(handle, {}):
        if output is not None and output.stream == "rank-0" and not took:
            took = time.perf_counter() - begin
    launcher.forget(handle)
    return took


def by_plain_requests(place: Place) -> float:
    """The same with the manifest created and its log read with as few requests as possible."""
    cluster, asked = place.cluster(), job(FIRST)
    manifests = render(asked, place.system(), KINDS["pod"])
    begin = time.perf_counter()
    for obj in manifests.objects:
        cluster.create(obj)
    reader = FrameReader()
    took = _first(
        cluster,
        KINDS["pod"].pods(asked.token),
        lambda data: any(isinstance(item, Frame) and item.stream == "rank-0" for item in reader.feed(data)),
        begin,
    )
    for obj in reversed(manifests.objects):
        cluster.delete(cluster.resource_of(obj), obj["metadata"]["name"])
    return took


def of_a_bare_job(place: Place, code: str = FIRST) -> float:
    """A Job with a single process that prints the line."""
    cluster, name = place.cluster(), f"bare-{uuid.uuid4().hex[:8]}"
    begin = time.perf_counter()
    cluster.create(_bare(name, place.image, code))
    took = _first(cluster, f"job-name={name}", lambda data: b"first" in data, begin)
    cluster.delete(JOBS, name)
    return took


def _bare(name: str, image: str, code: str) -> dict[str, Any]:
    container = {"name": CONTAINER, "image": image, "imagePullPolicy": "IfNotPresent"}
    command = ["python3", "-S", "-c", code]
    spec = {"restartPolicy": "Never", "containers": [{**container, "command": command}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": spec}},
    }


def _first(cluster: Cluster, labels: str, is_it: Callable[[bytes], bool], begin: float) -> float:
    """Seconds until the log of the one pod with these labels has the line: one watch, one log."""
    name = _begun(cluster, labels)
    while True:  # the log may be requested a moment too early
        with suppress(ApiError), cluster.logs(name, CONTAINER, follow=True) as stream:
            for data in stream:
                if is_it(data):
                    return time.perf_counter() - begin
            raise SystemExit(f"the log of pod {name} ended without the line")


def _begun(cluster: Cluster, labels: str) -> str:
    listing = cluster.list(PODS, labels=labels)
    with cluster.watch(PODS, labels=labels, version=listing.version) as changes:
        pods = listing.items
        while True:
            for pod in pods:
                states = [status["state"] for status in pod["status"].get("containerStatuses", ())]
                if any("running" in state or "terminated" in state for state in states):
                    return str(pod["metadata"]["name"])
            change = next(changes)
            pods = [change["object"]] if change["type"] != "BOOKMARK" else []


def end_through_assay(place: Place, spool: Path) -> float:
    """Seconds from the rank's last line to the ended job's status, with all its output."""
    launcher = KubernetesLauncher(place.system(), spool)
    handle = launcher.submit(job(FIRST))
    begin = 0.0
    for output in launcher.follow(handle, {}):
        if output is not None and output.stream == "rank-0":
            begin = time.perf_counter()
    status = launcher.status(handle)
    took = time.perf_counter() - begin
    launcher.forget(handle)
    if not status.state.final or status.cause:
        raise SystemExit(f"the job failed: {status}")
    return took


def end_by_waiting(place: Place) -> float:
    """Seconds from a bare Job's line to its condition Complete and its log, as kubectl gets them."""
    cluster, name = place.cluster(), f"bare-{uuid.uuid4().hex[:8]}"
    cluster.create(_bare(name, place.image, FIRST))
    _first(cluster, f"job-name={name}", lambda data: b"first" in data, 0.0)
    begin = time.perf_counter()
    while not ended_by_condition(cluster.get(JOBS, name), "Complete", "Failed"):
        time.sleep(LOOK_S)
    pod = _begun(cluster, f"job-name={name}")
    with cluster.logs(pod, CONTAINER, follow=False) as stream:
        for _ in stream:
            pass
    took = time.perf_counter() - begin
    cluster.delete(JOBS, name)
    return took


def requests_of_a_trial(place: Place, spool: Path, workers: int) -> int:
    """Requests from submit to forget."""
    launcher, cluster = KubernetesLauncher(place.system(), spool), place.cluster()
    before = cluster.wire.requests
    handle = launcher.submit(job(FIRST, workers))
    for _ in launcher.follow(handle, {}):
        pass
    launcher.status(handle)
    launcher.forget(handle)
    return cluster.wire.requests - before


def waiting(place: Place, spool: Path) -> tuple[float, float]:
    """Requests and CPU seconds of a minute in which a job runs and prints nothing."""
    launcher, cluster = KubernetesLauncher(place.system(), spool), place.cluster()
    handle = launcher.submit(job("import time; print('up', flush=True); time.sleep(600)"))
    begin, cpu, requests = 0.0, 0.0, 0
    for output in launcher.follow(handle, {}):
        if not begin and output is not None and output.stream == "rank-0":
            begin, cpu, requests = time.perf_counter(), time.process_time(), cluster.wire.requests
        if begin and time.perf_counter() - begin > WAIT_S:
            break
    minutes = (time.perf_counter() - begin) / 60
    found = (cluster.wire.requests - requests) / minutes, (time.process_time() - cpu) / minutes
    launcher.cancel(handle)
    for _ in launcher.follow(handle, {}):
        pass
    launcher.forget(handle)
    return found


def follow(place: Place, megabytes: int, *, late: bool = False) -> dict[str, float]:
    """Follow a job that prints this much as fast as it can; in its own process, to measure memory.

    late  start after it has ended, so that its printing is no limit
    """
    with tempfile.TemporaryDirectory() as spool:
        launcher = KubernetesLauncher(place.system(), Path(spool))
        handle = launcher.submit(job(PRINT_MB.format(megabytes=megabytes)))
        if late:
            _wait_for_end(place.cluster(), handle)
        size, begin, end, cpu = 0, 0.0, 0.0, 0.0
        before = _peak_bytes()
        for output in launcher.follow(handle, {}):
            if output is not None and output.stream == "rank-0":
                if not begin:
                    begin, cpu, before = time.perf_counter(), time.process_time(), _peak_bytes()
                size, end = size + len(output.data), time.perf_counter()
        told = launcher.status(handle)
        launcher.forget(handle)
        if told.cause or size != told.streams["rank-0"].bytes:
            raise SystemExit(f"the log has {size} bytes, and the job reports: {told}")
    return {
        "bytes": size,
        "seconds": end - begin,
        "cpu_s": time.process_time() - cpu,
        "more_memory_bytes": _peak_bytes() - before,
    }


def _wait_for_end(cluster: Cluster, handle: Handle) -> None:
    while True:
        pods = cluster.list(PODS, labels=KINDS["pod"].pods(handle.token)).items
        if pods and all(map(is_over, pods)):
            return
        time.sleep(0.5)


def follow_late(place: Place, megabytes: int) -> dict[str, float]:
    """Read the log of a job that has ended."""
    return follow(place, megabytes, late=True)


def read_plainly(place: Place, megabytes: int) -> dict[str, float]:
    """Read the log of a bare Job that prints the same, with one request."""
    cluster, name = place.cluster(), f"bare-{uuid.uuid4().hex[:8]}"
    cluster.create(_bare(name, place.image, PRINT_MB.format(megabytes=megabytes)))
    pod = _begun(cluster, f"job-name={name}")
    size, begin, end, cpu = 0, 0.0, 0.0, 0.0
    with cluster.logs(pod, CONTAINER, follow=True) as stream:
        for data in stream:
            if not begin:
                begin, cpu = time.perf_counter(), time.process_time()
            size, end = size + len(data), time.perf_counter()
    cluster.delete(JOBS, name)
    return {"bytes": size, "seconds": end - begin, "cpu_s": time.process_time() - cpu}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


MEASURES: dict[str, Callable[[Place, int], dict[str, float]]] = {
    "follow": follow,
    "read": read_plainly,
    "late": follow_late,
}


def in_a_process_of_its_own(what: str, arguments: argparse.Namespace) -> dict[str, float]:
    """The measurement of such a child process."""
    argv = [sys.executable, __file__, "--only", what, "--image", arguments.image]
    argv += ["--megabytes", str(arguments.megabytes)]
    argv += ["--namespace", arguments.namespace] if arguments.namespace else []
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(said)
    return found


def print_first_line(place: Place, pairs: int) -> None:
    """Time to the first line, compared with the cluster's own."""
    with tempfile.TemporaryDirectory() as folder:
        ours, plain = in_turn(
            lambda: through_assay(place, Path(folder)), lambda: by_plain_requests(place), pairs
        )
        again, bare = in_turn(lambda: through_assay(place, Path(folder)), lambda: of_a_bare_job(place), pairs)
        print(f"submit to first line          {statistics.median(ours):.2f} s (median)")
        print(
            f"  over plain requests         {ratio(ours, plain)}, {statistics.median(plain):.2f} s (median)"
        )
        print(f"  over a bare Job             {ratio(again, bare)}, {statistics.median(bare):.2f} s (median)")
        ours, plain = in_turn(
            lambda: end_through_assay(place, Path(folder)), lambda: end_by_waiting(place), pairs
        )
        print(f"last line to finished trial   {statistics.median(ours):.2f} s (median)")
        print(
            f"  over wait and logs          {ratio(ours, plain)}, {statistics.median(plain):.2f} s (median)"
        )
        counts = [requests_of_a_trial(place, Path(folder), workers) for workers in (1, 2)]
        print(f"API requests of a trial       {counts[0]} with one pod, {counts[1]} with two")
        requests, cpu_s = waiting(place, Path(folder))
        print(f"a minute of waiting           {requests:.0f} requests, {cpu_s:.2f} s of CPU time")


def print_large_log(arguments: argparse.Namespace) -> None:
    """A large log followed, compared with a plain read."""
    for words, what in (
        ("followed by Assay", "follow"),
        ("read as plain text", "read"),
        ("read after the job's end", "late"),
    ):
        found = in_a_process_of_its_own(what, arguments)
        rate = found["bytes"] / found["seconds"] / 1e6
        print(
            f"{arguments.megabytes} MB of log, {words:21}  {rate:.0f} MB/s, {found['bytes'] / 1e6:.0f} MB "
            f"received, {found['cpu_s']:.1f} s of CPU time"
            + (
                f", {found['more_memory_bytes'] / 1e6:.0f} MB more memory"
                if "more_memory_bytes" in found
                else ""
            )
        )


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--namespace", help="default: the context's")
    parser.add_argument("--image", default="python:3.12-slim", help="an image with python3")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--only", choices=[*MEASURES], help=argparse.SUPPRESS)
    arguments = parse(parser, pairs=2, megabytes=1)
    place = Place(arguments.namespace, arguments.image)
    if arguments.only:
        print(json.dumps(MEASURES[arguments.only](place, arguments.megabytes)))
        return
    try:
        print(f"Kubernetes {place.cluster().version()}")
    except AssayError as error:
        absent(f"a Kubernetes cluster: {error}")
    print_first_line(place, arguments.pairs)
    print_large_log(arguments)


if __name__ == "__main__":
    main()
