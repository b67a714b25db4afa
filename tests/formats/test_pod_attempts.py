"""Attempts at jobs from pods: each ends with the first failure of one of its pods."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.formats.pod_attempts import from_pods
from command_line import assay as typed

UNTIL = 10_000.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    begin: float, end: float | None, phase: str = "Succeeded", node: str = "n1", **status: Any
) -> dict[str, Any]:
    terminated = {"terminated": {"finishedAt": at(end), "exitCode": 0}} if end is not None else {}
    container = {"restartCount": 0, "state": terminated, **status.pop("container", {})}
    return {
        "metadata": {"name": "p", "namespace": "ml", "labels": {"batch.kubernetes.io/job-name": "train"}},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "startTime": at(begin), "containerStatuses": [container], **status},
    }


def disrupted(reason: str, when: float) -> list[dict[str, str]]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": at(when)}]


def read(tmp_path: Path, *pods: dict[str, Any]) -> list[tuple[Any, ...]]:
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}))
    found = from_pods(tmp_path / "pods.json", UNTIL)
    return [(one.begin_at, one.end_at, one.outcome, one.nodes, one.blamed) for one in found]


def test_a_job_of_two_pods_that_lost_a_node_has_two_attempts(tmp_path: Path) -> None:
    lost = pod(100, None, "Failed", "n2", conditions=disrupted("DeletionByTaintManager", 500))
    with_it = pod(100, 510, "Failed", "n1")  # its peer was gone
    again = [pod(600, 900, node=node) for node in ("n1", "n3")]
    assert read(tmp_path, with_it, lost, *again) == [
        (100, 500, "interrupted", ("n1", "n2"), "n2"),
        (600, 900, "completed", ("n1", "n3"), ""),
    ]


def test_a_pod_that_is_replaced_while_others_go_on_splits_the_time(tmp_path: Path) -> None:
    found = read(
        tmp_path, pod(100, None, "Running"), pod(100, 300, "Failed", "n2"), pod(400, None, "Running", "n3")
    )
    assert found == [
        (100, 300, "failed", ("n1", "n2"), ""),
        (300, UNTIL, "running", ("n1", "n3"), ""),
    ]


@pytest.mark.parametrize(
    ("status", "outcome", "blamed"),
    [
        ({"conditions": disrupted("PreemptionByScheduler", 500)}, "preempted", ""),
        ({"conditions": disrupted("EvictionByEvictionAPI", 500)}, "cancelled", ""),
        ({"conditions": disrupted("TerminationByKubelet", 500)}, "interrupted", "n1"),
        ({"reason": "DeadlineExceeded"}, "timed out", ""),
        ({"reason": "Evicted"}, "interrupted", "n1"),
        ({}, "failed", ""),
    ],
)
def test_how_a_pod_ended_tells_whose_failure_it_was(
    tmp_path: Path, status: dict[str, Any], outcome: str, blamed: str
) -> None:
    assert read(tmp_path, pod(100, 500, "Failed", **status)) == [(100, 500, outcome, ("n1",), blamed)]


def test_a_restart_in_place_is_a_failure_and_several_can_not_be_dated(tmp_path: Path) -> None:
    last = {"lastState": {"terminated": {"finishedAt": at(300), "exitCode": 1}}}
    assert read(tmp_path, pod(100, 900, container={"restartCount": 1, **last})) == [
        (100, 300, "failed", ("n1",), ""),
        (300, 900, "completed", ("n1",), ""),
    ]
    with pytest.raises(InputError, match="restarted 4 times"):
        read(tmp_path, pod(100, 900, container={"restartCount": 4, **last}))


def test_an_end_without_a_time_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="p is Failed, but does not state when it ended"):
        read(tmp_path, pod(100, None, "Failed"))


def test_what_is_no_job_never_started_or_starts_later_is_left_out(tmp_path: Path) -> None:
    service = pod(100, None, "Running")
    service["metadata"]["labels"] = {"app": "web"}
    pending = pod(100, None, "Pending")
    del pending["spec"]["nodeName"]
    without_image = pod(100, None, "Pending")
    assert read(tmp_path, service, pending, without_image, pod(UNTIL + 1, UNTIL + 5)) == []
    assert read(tmp_path, pod(100, UNTIL + 5)) == [(100, UNTIL, "running", ("n1",), "")]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"items": [1]}', '{"items": [{"metadata": {}}]}', "[" * 9999]
)
def test_what_is_no_list_of_pods_is_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "pods.json").write_text(text)
    said = typed(tmp_path, "goodput", "--pods", "pods.json")
    assert said.returncode == 4
    assert "pods.json" in said.stderr
    assert "Traceback" not in said.stderr


def test_the_command_reads_them(tmp_path: Path) -> None:
    read(tmp_path, pod(100, 500, "Failed"), pod(600, 900))
    said = typed(tmp_path, "goodput", "--pods", "pods.json", "--until", "1970-01-01T02:46:40", "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["jobs"][0]["rate"]["failures"] == 1
