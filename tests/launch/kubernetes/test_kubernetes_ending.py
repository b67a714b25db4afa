"""How a job is ended and forgotten where somebody else keeps its objects by finalizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import LaunchError
from assay.launch.kubernetes import removal
from assay.launch.kubernetes.client import CONFIG_MAPS, PODS, Listing, Resource
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.order import LABEL_TOKEN
from assay.launch.kubernetes.removal import end_job, what_stays
from assay.launch.kubernetes.wire import ApiUnreachableError

HOLD = ["example.com/hold"]
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TOKEN = "1f"


def thing(name: str, *finalizers: str, **more: Any) -> dict[str, Any]:
    """A deleted object."""
    meta = {"name": name, "uid": name, "labels": {LABEL_TOKEN: TOKEN}, "finalizers": list(finalizers)}
    return {"metadata": {**meta, **DELETED}, "spec": {"nodeName": "node1"}, **more}


class HeldCluster:
    """A namespace in which nothing vanishes any more."""

    namespace = "bench"

    def __init__(self, job: dict[str, Any] | None, *pods: dict[str, Any]) -> None:
        self.job, self.pods, self.config_maps = job, list(pods), list[dict[str, Any]]()

    def list(self, resource: Resource, **_: Any) -> Listing:
        return Listing({PODS: self.pods, CONFIG_MAPS: self.config_maps}.get(resource, []), "1")

    def watch(self, *_: Any, **__: Any) -> Any:
        raise ApiUnreachableError("the watch broke")

    def find(self, *_: Any) -> dict[str, Any] | None:
        return self.job

    def delete(self, resource: Resource, name: str, **_: Any) -> dict[str, Any] | None:
        return next((obj for obj in (self.job, *self.pods) if obj and obj["metadata"]["name"] == name), None)

    def kinds(self, _: str) -> dict[str, str]:
        return {}


def ended(job: dict[str, Any] | None, *pods: dict[str, Any]) -> None:
    end_job(HeldCluster(job, *pods), KINDS["job"], TOKEN, pods=len(pods), grace_s=0.1)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "END_SLACK_S", 0.2)
    monkeypatch.setattr(removal, "END_S", 0.2)
    monkeypatch.setattr(removal, "VANISH_S", 0.2)
    monkeypatch.setattr(removal, "LOOK_EVERY_S", 0.05)


UNREACHABLE = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]


@pytest.mark.parametrize(
    "pod",
    [
        thing("over", *HOLD, status={"phase": "Failed"}),
        {**thing("never-placed", *HOLD, status={"phase": "Pending"}), "spec": {"containers": []}},
        thing("out-of-reach", *HOLD, status={"phase": "Running", "conditions": UNREACHABLE}),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_a_job_has_ended_when_nothing_of_it_runs_although_finalizers_keep_its_objects(
    pod: dict[str, Any],
) -> None:
    pod["spec"].setdefault("containers", [])
    ended(thing("job", "foregroundDeletion", status={"active": 0}), pod)
    ended(thing("job", "foregroundDeletion", *HOLD, status={"active": 0}))


def test_a_pod_that_runs_on_is_waited_for_and_named() -> None:
    runs = thing("runs", *HOLD, status={"phase": "Running"})
    runs["spec"]["containers"] = []
    with pytest.raises(LaunchError, match="job 1f can't be ended: pod runs on node1 still exists"):
        ended(thing("job", *HOLD, status={"active": 1}), runs)


def test_what_stays_is_named_with_its_finalizers_and_the_clusters_own_are_none() -> None:
    own = thing("own", "foregroundDeletion", "batch.kubernetes.io/job-tracking")
    assert what_stays({"pod own": own}) == ""
    many = {f"pod p-{i}": thing("p", "b.io/two", *HOLD) for i in range(6)}
    words = what_stays({"pod own": own, **many})
    assert "pod p-0 (b.io/two, example.com/hold), pod p-1" in words
    assert "and 2 more; whoever set them must remove them" in words


def test_cleaning_names_what_finalizers_keep_at_once_and_no_node_is_blamed(tmp_path: Path) -> None:
    pod = thing("p-0", *HOLD, status={"phase": "Succeeded"})
    cluster = HeldCluster(None, pod)
    cluster.config_maps = [thing("map", *HOLD)]
    [left] = removal.leftovers(cluster)  # type: ignore[arg-type]
    assert left.what == tuple(
        f"{it} (deleted, kept by example.com/hold)" for it in ("configmap map", "pod p-0")
    )
    assert (left.runs, left.changed_at) == (False, None)
    with pytest.raises(
        LaunchError,
        match=r"kept by finalizers: configmap map \(example.com/hold\), pod p-0 \(example.com/hold\)",
    ):
        removal.discard(cluster, [TOKEN], 0.1)  # type: ignore[arg-type]
