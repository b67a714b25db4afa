"""How long a job of a batch system is followed once its keepers have said how it ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.launch.batch import job_state
from assay.launch.batch.job_state import LAST_WORD_S, Life, QueueAnswer
from assay.launch.batch.queue import QueuedJob, QueueSilentError
from assay.launch.batch.shared_directory import OVERDUE_S, SharedJobDirectory
from assay.launch.slurm.commands import SlurmJob
from assay.records import JobState

LOOK_EVERY_S = 0.1
LONG_S = 300.0
COMPLETING, CANCELLED = SlurmJob("COMPLETING", "", "n1"), SlurmJob("CANCELLED", "", "n1")


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[float, int]]:
    """Follows a job that its keeper ended: for how many seconds, and how often its batch system was asked.

    It says nothing, or what `says` gives, at each moment since the keeper's word.
    """
    now = 0.0
    asked: list[float] = []
    monkeypatch.setattr(job_state, "time", SimpleNamespace(monotonic=lambda: now))
    (tmp_path / "spec.json").write_text('{"nodes": 1}')

    def ask(says: Callable[[float], QueuedJob | None]) -> Future[QueueAnswer]:
        asked.append(now)
        told = says(now)
        answer: Future[QueueAnswer] = Future()
        answer.set_result(QueueAnswer(now, True, told, None if told else QueueSilentError("no answer")))
        return answer

    def followed(end: str, says: Callable[[float], QueuedJob | None]) -> tuple[float, int]:
        nonlocal now
        ended = {"state": end, "cause": "", "exits": [], "started_at": 1.0, "ended_at": 2.0}
        (tmp_path / "ended.json").write_text(json.dumps({**ended, "streams": {}, "node": None}))
        job = Life(SharedJobDirectory(tmp_path), lambda: ask(says), lambda _: False)
        while job.goes_on() and now < LONG_S:
            now += LOOK_EVERY_S
        return now, len(asked)

    return followed


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_one_question_without_an_answer_does_not_decide_who_ended_a_job(
    follow: Callable[..., tuple[float, int]], end: str
) -> None:
    seconds, _ = follow(end, lambda now: CANCELLED if now > 3 else None)
    assert 3 < seconds < LAST_WORD_S


@pytest.mark.parametrize("end", ["succeeded", "cancelled"])
def test_a_batch_system_that_stays_silent_is_asked_seldom_and_not_for_long(
    follow: Callable[..., tuple[float, int]], end: str
) -> None:
    seconds, questions = follow(end, lambda _: None)
    assert LAST_WORD_S < seconds < LAST_WORD_S + 1
    assert questions < 8


def test_the_word_on_a_job_that_ended_by_itself_is_awaited_for_a_while(
    follow: Callable[..., tuple[float, int]],
) -> None:
    seconds, _ = follow("succeeded", lambda _: COMPLETING)
    assert LAST_WORD_S < seconds < LAST_WORD_S + 1


def test_the_word_on_who_ended_a_job_is_awaited_as_long_as_it_completes(
    follow: Callable[..., tuple[float, int]],
) -> None:
    seconds, _ = follow("cancelled", lambda now: COMPLETING if now < 100 else CANCELLED)
    assert 100 <= seconds < 101


def test_a_job_that_was_suspended_beyond_its_limit_is_not_overdue_when_it_is_resumed(tmp_path: Path) -> None:
    job = SharedJobDirectory(tmp_path)
    (tmp_path / "spec.json").write_text('{"nodes": 1, "timeout_s": 20, "grace_s": 5}')
    (tmp_path / "started.json").write_text(json.dumps({"started_at": time.time() - 100}))
    assert job.overdue()
    (tmp_path / "paused.json").write_text('{"paused_s": 70.5}')
    assert not job.overdue()


@pytest.mark.parametrize(("since_s", "state"), [(1.0, JobState.RUNNING), (OVERDUE_S, JobState.LOST)])
def test_a_keeper_has_a_moment_to_state_the_suspension_that_has_just_ended(
    tmp_path: Path, since_s: float, state: JobState
) -> None:
    (tmp_path / "spec.json").write_text('{"nodes": 1, "timeout_s": 20, "grace_s": 5}')
    (tmp_path / "started.json").write_text(json.dumps({"started_at": time.time() - 100}))
    answer = QueueAnswer(500.0, True, SlurmJob("RUNNING", "", "n1"), suspended_at=500.0 - since_s)
    assert job_state.unreported_status(SharedJobDirectory(tmp_path), answer, [], "Slurm").state is state
