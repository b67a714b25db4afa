"""The Kubernetes launcher on a real cluster: the contract, and what is special to it."""

from __future__ import annotations

import json
import multiprocessing
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kubernetes_cluster as cluster
from assay import launch
from assay.errors import InputError, LaunchError
from assay.launch.kubernetes import client
from assay.launch.kubernetes.client import connect
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.order import LABEL_TOKEN, name_of
from assay.launch.launcher import Launcher
from assay.records import Handle, JobState
from assay.testing.launchers import (
    follow_to_end,
    job,
    python,
    run,
    wait_for_output,
)
from cli_contract import CliContract
from conftest import long_but

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
TICK = "import time\nfor i in range({count}): print(i, flush=True); time.sleep({pause})"


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


def running(namespace: str, selector: str = "") -> list[str]:
    pods = cluster.objects(namespace, "pods", selector)
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]


def still_running(namespace: str, selector: str = "") -> list[str]:
    """The same after a while: an operator ends its own pods when it gets to them."""
    give_up = time.monotonic() + 15
    while (found := running(namespace, selector)) and time.monotonic() < give_up:
        time.sleep(0.2)
    return found


def make(namespace: str, spool: Path, **options: Any) -> Launcher:
    return launch.make("kubernetes", cluster.system(namespace, **{"grace": 0.5, **options}), spool=spool)


class OnCluster:
    """Where the contract's jobs run."""

    kind: str

    @pytest.fixture(autouse=True)
    def _in_namespace(self, namespace: str) -> None:
        self.namespace = namespace

    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return make(self.namespace, spool, kind=self.kind, grace=grace_s)

    def left(self, token: str) -> list[str]:
        return running(self.namespace, f"{LABEL_TOKEN}={token}")

    def end_as_somebody_else(self, handle: Handle) -> None:
        plural = KINDS[str(handle.data["kind"])].job_ref.plural
        cluster.kubectl("-n", self.namespace, "delete", plural, name_of(handle.token), "--wait=false")

    def left_at_the_end(self, token: str) -> list[str]:
        return still_running(self.namespace, f"{LABEL_TOKEN}={token}")


class TestCommandLine(CliContract):
    @pytest.fixture(autouse=True)
    def _in_namespace(self, namespace: str) -> None:
        self.namespace = namespace

    def system(self) -> dict[str, Any]:
        there = {"launcher": "kubernetes", "namespace": self.namespace, "image": cluster.IMAGE}
        return {**there, "imagePullPolicy": "IfNotPresent", "python": "host", "runAsUser": 0}

    def left(self) -> list[str]:
        return running(self.namespace)

    def left_at_the_end(self) -> list[str]:
        return still_running(self.namespace)


@pytest.fixture
def launcher(namespace: str, tmp_path: Path) -> Launcher:
    return make(namespace, tmp_path / "jobs")


@pytest.mark.parametrize("seed", long_but(1, range(8)))
def test_killed_anywhere_while_it_submits_a_job_runs_once_or_never(
    namespace: str, tmp_path: Path, seed: int
) -> None:
    asked, launcher = job(python("print('ran')"), 2), make(namespace, tmp_path, kind="job")
    assay = multiprocessing.get_context("fork").Process(target=launcher.submit, args=(asked,))
    assay.start()
    time.sleep(random.Random(seed).uniform(0.15, 0.4))
    assay.kill()
    assay.join()
    later = make(namespace, tmp_path, kind="job")
    handle = later.find(asked.token)
    if handle is None:
        assert later.find(asked.token) is None
        with pytest.raises(LaunchError, match="before"):
            later.submit(asked)
        assert eventually_none(namespace, asked.token)
    else:
        streams = follow_to_end(later, handle)
        assert (streams["rank-0"], streams["rank-1"]) == (b"ran\n", b"ran\n")


def test_a_job_object_that_comes_after_its_token_was_given_up_starts_nothing(
    namespace: str, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, create, on_its_way = job(python("print('ran')")), client.Cluster.create, []

    def killed_before_the_job(self: client.Cluster, obj: client.Object, **how: bool) -> client.Object:
        if obj["kind"] == "Job":
            on_its_way.append(obj)
            raise KeyboardInterrupt
        return create(self, obj, **how)

    with monkeypatch.context() as patched:
        patched.setattr(client.Cluster, "create", killed_before_the_job)
        with pytest.raises(KeyboardInterrupt):
            launcher.submit(asked)
    assert launcher.find(asked.token) is None
    connect(None, namespace).create(on_its_way[0])
    assert eventually_none(namespace, asked.token)
    with pytest.raises(LaunchError, match="abandoned before"):
        launcher.submit(asked)


def eventually_none(namespace: str, token: str) -> bool:
    """Whether the cluster removes what is left of a job, and no pod of it ever ran."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        pods = cluster.objects(namespace, "pods", f"{LABEL_TOKEN}={token}")
        assert not any(pod["status"]["phase"] in ("Running", "Succeeded", "Failed") for pod in pods)
        if not pods and not cluster.objects(namespace, "jobs", f"{LABEL_TOKEN}={token}"):
            return True
        time.sleep(0.2)
    return False


def test_forgetting_leaves_nothing_of_a_job(namespace: str, launcher: Launcher) -> None:
    asked = job(python("print(1)"), 2, files={"some": b"thing"})
    run(launcher, asked)
    give_up = time.monotonic() + 20
    what = "configmaps,services,jobs,pods"
    while left := cluster.objects(namespace, what, f"{LABEL_TOKEN}={asked.token}"):
        assert time.monotonic() < give_up, [obj["metadata"]["name"] for obj in left]
        time.sleep(0.2)


def test_a_pod_that_is_deleted_behind_our_back_is_named(namespace: str, launcher: Launcher) -> None:
    asked = job(python(TICK.format(count=600, pause=0.1)), 2)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle)
    pod = running(namespace, f"{LABEL_TOKEN}={asked.token}")[0]
    cluster.kubectl("-n", namespace, "delete", "pod", pod, "--wait=false")
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert status.state in (JobState.LOST, JobState.FAILED)
    assert pod in status.cause
    assert "deleted" in status.cause
    launcher.forget(handle)


def test_a_job_object_that_is_deleted_behind_our_back_is_stopped(namespace: str, launcher: Launcher) -> None:
    handle = launcher.submit(job(python(TICK.format(count=600, pause=0.1))))
    wait_for_output(launcher, handle)
    cluster.kubectl("-n", namespace, "delete", "job", name_of(handle.token), "--wait=false")
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert status.state is JobState.STOPPED
    assert "deleted" in status.cause


def test_an_interpreter_that_the_image_lacks_is_the_cause(namespace: str, tmp_path: Path) -> None:
    status, _ = run(make(namespace, tmp_path, python="/no/such/python"), job(python("pass")))
    assert status.state is JobState.FAILED
    assert "/no/such/python" in status.cause
    assert "set the system's `python`" in status.cause


def test_a_job_that_no_node_can_take_says_so_while_it_waits(namespace: str, tmp_path: Path) -> None:
    launcher = make(namespace, tmp_path, nodeSelector={"there-is": "no-such-node"})
    handle = launcher.submit(job(python("pass")))
    why = ""
    for output in launcher.follow(handle, {}):
        assert output is None
        status = launcher.status(handle)
        why = status.cause
        if why:
            assert status.state is JobState.PENDING
            break
    assert "no node can run" in why
    assert "node selector" in why or "node affinity/selector" in why
    launcher.cancel(handle)
    launcher.forget(handle)


def test_a_spread_job_that_finds_one_node_alone_does_not_start_there(namespace: str, tmp_path: Path) -> None:
    one = {"nodes": ["node1"], "start_timeout": "6s"}
    status, streams = run(
        make(namespace, tmp_path, placement="spread", **one), job(python("print('ran')"), 2)
    )
    assert status.state is JobState.FAILED, status
    assert "with the requested placement" in status.cause
    assert "start_timeout (6 s) has elapsed" in status.cause
    assert not [name for name in streams if name.startswith("rank-")]


def test_each_rank_of_a_spread_job_has_its_own_node_and_it_is_named(namespace: str, tmp_path: Path) -> None:
    status, _ = run(make(namespace, tmp_path, placement="spread"), job(python("pass"), 2))
    assert status.state is JobState.SUCCEEDED, status
    assert sorted(status.hosts) == ["node1", "node2"]


def test_with_room_for_one_of_two_pods_no_rank_runs_and_the_cause_is_the_missing_pod(
    namespace: str, tmp_path: Path
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one-pod"}}
    cluster.kubectl(
        "-n", namespace, "apply", "-f", "-", stdin=json.dumps({**quota, "spec": {"hard": {"pods": "1"}}})
    )
    try:
        asked = job(python("print('ran')"), 2)
        status, streams = run(make(namespace, tmp_path, start_timeout="8s"), asked)
    finally:
        cluster.kubectl("-n", namespace, "delete", "resourcequota", "one-pod")
    assert status.state is JobState.FAILED, status
    assert "quota one-pod is used up" in status.cause
    assert not [name for name in streams if name.startswith("rank-")]


def test_several_jobs_share_one_watch_and_are_followed_at_once(namespace: str, tmp_path: Path) -> None:
    launchers = [make(namespace, tmp_path / str(i)) for i in range(4)]
    asked = [job(python(f"import time; time.sleep(1); print({i})")) for i in range(4)]
    got: dict[int, bytes] = {}

    def whole(i: int, handle: Handle) -> None:
        got[i] = follow_to_end(launchers[i], handle)["rank-0"]

    handles = [one.submit(ask) for one, ask in zip(launchers, asked, strict=True)]
    threads = [threading.Thread(target=whole, args=pair) for pair in enumerate(handles)]
    for thread in threads:
        thread.start()
    names = [thread.name for thread in threading.enumerate()]
    for thread in threads:
        thread.join()
    assert got == {i: b"%d\n" % i for i in range(4)}
    assert names.count(f"assay-pods-{namespace}") == 1


def test_the_facts_of_each_node_come_from_the_cluster(launcher: Launcher) -> None:
    status, _ = run(launcher, job(python("print(1)"), 2))
    assert set(status.node_facts) == {"probe-0", "probe-1"}
    for facts in status.node_facts.values():
        assert str(facts["kubernetes.version"]).startswith("v1.")
        assert str(facts["kubernetes.image_id"])
        assert facts["kubernetes.qos"] in ("Guaranteed", "Burstable", "BestEffort")
        assert isinstance(facts["kubernetes.queue_s"], float)
        assert isinstance(facts["kubernetes.start_s"], float)


def test_files_that_are_too_large_for_a_log_are_named_and_not_cut(launcher: Launcher) -> None:
    code = "open('large.bin', 'wb').write(bytes(5 << 20))"
    handle = launcher.submit(job(python(code), outputs=("large.bin",)))
    follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.SUCCEEDED
    with pytest.raises(LaunchError, match=f"outputs: {5 << 20} bytes in 1 file;"):
        list(launcher.fetch(handle, ["large.bin"]))
    launcher.forget(handle)


@pytest.mark.disruptive
def test_a_job_goes_on_while_the_api_server_is_restarted_and_loses_nothing(launcher: Launcher) -> None:
    with cluster.api_server() as server:
        handle = launcher.submit(job(python(TICK.format(count=150, pause=0.1)), timeout_s=120))
        got, told, restarted = b"", set(), False
        for output in launcher.follow(handle, {}):
            if output is not None and output.stream == "rank-0":
                got += output.data
            if len(got) > 20 and not restarted:
                server.restart(away_s=4)
                restarted = True
            told.add(launcher.status(handle).cause)
    assert got.split() == [b"%d" % i for i in range(150)]
    assert launcher.status(handle).state is JobState.SUCCEEDED
    assert any("API server" in words for words in told)
    launcher.forget(handle)


@pytest.mark.disruptive
def test_a_node_that_dies_is_named_and_what_it_had_said_is_kept(namespace: str, tmp_path: Path) -> None:
    launcher = make(namespace, tmp_path, placement="spread")
    with cluster.node_that_dies("node2") as node:
        handle = launcher.submit(job(python(TICK.format(count=900, pause=0.1)), 2, timeout_s=120))
        got: dict[str, bytes] = {}
        for output in launcher.follow(handle, {}):
            if output is not None:
                got[output.stream] = got.get(output.stream, b"") + output.data
            if all(len(got.get(f"rank-{rank}", b"")) > 20 for rank in range(2)):
                node.die()
        status = launcher.status(handle)
        assert status.state is JobState.LOST
        assert "node node2 no longer responds" in status.cause
        assert running(namespace, f"{LABEL_TOKEN}={handle.token}") == []
        launcher.forget(handle)


def test_what_this_user_may_do_is_known(namespace: str) -> None:
    there = connect(None, namespace)
    assert there.may("create", "jobs", group="batch")
    assert there.version().startswith("v1.")
    assert "batch" in there.groups()
    assert there.kinds("batch/v1")["Job"] == "jobs"
    assert there.kinds("no.such.group/v1") == {}


def test_a_kubeconfig_that_is_not_there_is_said_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"none: no such file.*set KUBECONFIG"):
        connect(None, None)
