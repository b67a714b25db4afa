"""The queue's directory: what stays in it, and what goes."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli import assay
from assay.errors import InputError
from assay.queue import QueueDirectory, QueueOutcome, QueueRequest, own_user_name


def add(queue: QueueDirectory, at: float, *, ended: bool) -> str:
    name = queue.add(QueueRequest("suite.yaml", "alice", at))
    if ended:
        queue.end(name, QueueOutcome("good", "1 trials, 0 failed", at + 1))
    return name


def test_only_the_newest_ended_requests_are_kept_and_every_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.queue.MOST_ENDED", 3)
    queue = QueueDirectory(tmp_path)
    waiting = add(queue, 0, ended=False)
    (queue.path / ".19700101T000000Z-00000000.removed").mkdir()  # its remover was killed
    ended = [add(queue, at, ended=True) for at in range(1, 7)]
    last = add(queue, 7, ended=False)
    assert [one.id for one in queue.all()] == [waiting, *ended[-3:], last]
    assert sorted(path.name for path in queue.path.iterdir()) == sorted((waiting, *ended[-3:], last))


def test_a_request_that_goes_while_the_queue_is_read_is_left_out_and_a_damaged_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = QueueDirectory(tmp_path)
    first, second = (add(queue, at, ended=True) for at in (1, 2))
    whole = QueueDirectory.one

    def removed_before(self: QueueDirectory, name: str) -> object:
        if name == first:
            shutil.rmtree(queue.path / first)
        return whole(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(QueueDirectory, "one", removed_before)
        assert [one.id for one in queue.all()] == [second]
    (queue.path / second / "request.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        queue.all()


def test_a_name_with_a_line_end_makes_no_second_row(tmp_path: Path) -> None:
    forged = "a\n19700101T000000Z-00000000  ended  b/suite.yaml"
    QueueDirectory(tmp_path).add(QueueRequest(forged, "alice", 1.0))
    listed = CliRunner().invoke(assay, ["queue", "list", "--runs", str(tmp_path)])
    assert listed.exit_code == 0, listed.exception
    assert len(listed.output.splitlines()) == 1


def test_a_user_id_without_a_name_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_has(user_id: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {user_id}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody_has)
    assert own_user_name() == str(os.getuid())
