"""Commands that Assay asks something of."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from assay import shell


def test_a_command_is_kept_with_its_answer_and_its_time() -> None:
    done = shell.run(["sh", "-c", "cat; echo wrong >&2; exit 3"], stdin="naïve")
    assert done.argv[0] == "sh"
    assert (done.stdout, done.stderr, done.exit_code, done.ok) == ("naïve", "wrong\n", 3, False)
    assert 0 < done.duration_s < 10


def test_words_are_not_parsed_by_a_shell() -> None:
    assert shell.run(["printf", "%s", "$HOME; a  b"]).stdout == "$HOME; a  b"


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    assert shell.run(["printf", r"a\377b"]).stdout == "a\ufffdb"


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(shell.ProgramMissingError, match="no-such-program"):
        shell.run(["no-such-program"])


def test_a_program_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(shell.ProgramMissingError, match="plain: Permission denied"):
        shell.run([str(tmp_path / "plain")])


def test_a_command_that_does_not_answer_is_killed_with_what_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(shell.CommandTimeoutError, match=r"within 0\.3 s"):
        shell.run(["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait"], timeout_s=0.3)
    assert time.monotonic() - began < 5
    child = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    for _ in range(100):
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("what the command started still runs")


def test_variables_are_added_to_assays_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_ASSAY", "1")
    done = shell.run(["sh", "-c", "echo $OF_ASSAY $ADDED"], env={"ADDED": "2"}, cwd=Path(os.sep))
    assert done.stdout == "1 2\n"


def test_a_command_with_time_to_clean_up_sees_its_sessions_die_first(tmp_path: Path) -> None:
    child = f"setsid sh -c 'echo $$ > {tmp_path}/pid; sleep 60 & wait' & wait; echo cleaned > {tmp_path}/said"
    with pytest.raises(shell.CommandTimeoutError):
        shell.run(["sh", "-c", child], timeout_s=1, grace_s=30)
    assert (tmp_path / "said").read_text() == "cleaned\n"
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_command_that_ignores_its_end_is_killed_with_its_sessions(tmp_path: Path) -> None:
    child = f"trap '' TERM; setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & sleep 60; sleep 60"
    with pytest.raises(shell.CommandTimeoutError):
        shell.follow(["sh", "-c", child], print, timeout_s=1, grace_s=0.2)
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
