"""How a pod's log is read to its end, with a kubelet that answers as one does that was restarted."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from assay.launch.kubernetes import watch
from assay.launch.kubernetes.objects.payload import PROGRAM_DIR
from assay.launch.kubernetes.watch import PodLogs
from assay.launch.kubernetes.wire import ApiError, ApiUnreachableError, NotFoundError
from assay_payloads.keeping.relay import MARK


class Kubelet:
    """Gives these answers to requests for a log, one after the other, the last one for ever."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        self.answers, self.asked = list(answers), list[str]()

    @contextmanager
    def logs(self, pod: str, container: str, *, follow: bool) -> Iterator[Any]:
        self.asked.append(container)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApiError):
            raise answer
        yield Log(answer)


class Log(list[bytes]):
    def __init__(self, data: bytes) -> None:
        super().__init__([data])

    def stop(self) -> None:
        pass


def frame(stream: str, data: bytes = b"{}") -> bytes:
    return f"{MARK} {stream} 0 {len(data)} {zlib.crc32(data):08x}\n".encode() + data + b"\n"


def pod(state: str = "running") -> dict[str, Any]:
    ranks = {"name": "node", "volumeMounts": [{"mountPath": PROGRAM_DIR}]}
    status = {"name": "node", "state": {state: {}}}
    side = {"name": "istio-proxy", "state": {"waiting": {}}}
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": [{"name": "istio-proxy"}, ranks]},
        "status": {"containerStatuses": [side, status]},
    }


def read(kubelet: Kubelet, *, over: bool = False, gone: bool = False, patience_s: float = 5.0) -> list[str]:
    """The streams that arrived until the log was complete."""
    logs, streams, give_up = PodLogs(kubelet), list[str](), time.monotonic() + patience_s  # type: ignore[arg-type]
    while not ("u" in logs.logs and logs.logs["u"].complete):
        assert time.monotonic() < give_up, logs.logs
        logs.read_on(pod("terminated" if over else "running"), over=over, gone=gone)
        streams += [one.stream for _, one in logs.take()]
    return streams


REFUSED = ApiError("can't read the log: dial tcp 10.77.0.12:10250: connect: connection refused", 500)
UNKNOWN = NotFoundError("can't read the log: the server could not find the requested resource", 404)
ALL = frame("rank-0", b"1") + frame("ended-0")


@pytest.mark.parametrize("over", [False, True])
def test_a_kubelet_that_was_restarted_does_not_know_its_pods_for_a_moment(over: bool) -> None:
    assert read(Kubelet(frame("rank-0", b"1"), REFUSED, UNKNOWN, UNKNOWN, ALL), over=over)[-1] == "ended-0"


def test_the_log_of_a_pod_that_is_gone_is_gone() -> None:
    assert read(Kubelet(UNKNOWN), over=True, gone=True) == []


def test_the_ranks_container_is_read_whatever_stands_next_to_it() -> None:
    kubelet = Kubelet(ALL)
    assert read(kubelet) == ["rank-0", "ended-0"]
    assert kubelet.asked == ["node"]


@pytest.mark.parametrize("refusal", [REFUSED, UNKNOWN, ApiError("a container name must be specified", 400)])
def test_the_log_of_a_pod_that_has_ended_is_not_asked_for_without_end(
    refusal: ApiError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "ENDED_PATIENCE_S", 0.3)
    kubelet = Kubelet(refusal)
    assert read(kubelet, over=True) == []
    with pytest.raises(AssertionError):  # while it runs, its keeper and the platform have limits
        read(kubelet, patience_s=0.8)


def test_an_api_server_that_does_not_respond_says_nothing_about_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "ENDED_PATIENCE_S", 0.3)
    away = ApiUnreachableError("can't read the log: the API server does not respond")
    assert read(Kubelet(*[away] * 5, ALL), over=True) == ["rank-0", "ended-0"]
