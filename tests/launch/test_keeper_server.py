"""One interpreter starts the keepers of a launcher's jobs, and outlives neither the launcher nor Assay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import LaunchError
from assay.launch import processes
from assay.launch.local import LocalSystem
from assay.launch.local.launcher import LocalLauncher
from assay.records import JobState
from assay.testing.launchers import follow_to_end, job, python, run, wait_for_output
from conftest import SUPPORT

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
KILLED = """
import os, sys
from pathlib import Path
from assay.launch.local.launcher import LocalLauncher
from assay.launch.local import LocalSystem
from assay.testing.launchers import job, python
launcher = LocalLauncher(LocalSystem(), Path(sys.argv[1]))
handle = launcher.submit(job(python("import time; time.sleep(60)")))
print(handle.token, handle.data["pid"], launcher._keepers._server.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def launcher(tmp_path: Path) -> LocalLauncher:
    return LocalLauncher(LocalSystem(), tmp_path / "jobs")


def servers() -> set[int]:
    """Those that this process started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"--serve" in (entry / "cmdline").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.parametrize(
    ("exit_code", "is_kept"), [(137, False), (-9, True), (None, True)], ids=["dead", "server died", "slow"]
)
def test_a_job_whose_keeper_is_dead_leaves_nothing_and_another_its_mark(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch, exit_code: int | None, is_kept: bool
) -> None:
    monkeypatch.setattr(launcher._keepers, "start", lambda _directory, _patience_s: exit_code)
    with pytest.raises(LaunchError):
        launcher.submit(job(python("1")))
    assert any(launcher.spool.iterdir()) is is_kept


def eventually(seen: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + 20
    while not seen() and time.monotonic() < give_up:
        time.sleep(0.02)
    return seen()


def test_jobs_share_one_server_which_ends_with_the_launcher(tmp_path: Path) -> None:
    before = servers()
    launcher = LocalLauncher(LocalSystem(), tmp_path / "jobs")
    for _ in range(3):
        assert run(launcher, job(python("print(1)")))[0].state is JobState.SUCCEEDED
    assert len(servers() - before) == 1
    del launcher
    assert servers() <= before


def test_a_server_that_was_killed_is_replaced(launcher: LocalLauncher) -> None:
    before = servers()
    run(launcher, job(python("print(1)")))
    [server] = servers() - before
    os.kill(server, signal.SIGKILL)
    assert eventually(lambda: server not in servers() or processes.start_ticks(server) is None)
    assert run(launcher, job(python("print(2)")))[1]["rank-0"] == b"2\n"


def test_a_server_that_is_stopped_is_not_waited_for_for_ever(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = servers()
    run(launcher, job(python("print(1)")))
    [server] = servers() - before
    os.kill(server, signal.SIGSTOP)
    monkeypatch.setattr("assay.launch.spool.KEEPER_START_S", 0.2)
    with pytest.raises(LaunchError, match=r"did not start within 0\.2 s"):
        launcher.submit(job(python("print(2)")))
    monkeypatch.undo()
    assert run(launcher, job(python("print(3)")))[1]["rank-0"] == b"3\n"


def test_a_keeper_goes_on_and_its_server_ends_where_assay_is_killed(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "jobs")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SUPPORT, SUPPORT.parent)))},
        capture_output=True,
        text=True,
        check=False,
    )
    token, keeper, server = killed.stdout.split()
    assert eventually(lambda: processes.start_ticks(int(server)) is None)
    assert processes.start_ticks(int(keeper)) is not None
    launcher = LocalLauncher(LocalSystem(), tmp_path / "jobs")
    handle = launcher.find(token)
    assert handle is not None
    launcher.cancel(handle)
    follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.CANCELLED


def test_a_keeper_carries_the_token_and_the_environment_of_its_own_job(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = job(python("import os; print(os.environ['OF_THIS_JOB'])"))
    for number in ("1", "2"):
        monkeypatch.setenv("OF_THIS_JOB", number)
        assert (
            run(launcher, replace(tell, token=f"{tell.token}{number}"))[1]["rank-0"].decode() == f"{number}\n"
        )
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    assert int(str(handle.data["pid"])) in processes.with_variable("ASSAY_TOKEN", handle.token)
    launcher.cancel(handle)


@pytest.mark.long
def test_a_server_that_is_stopped_holds_up_neither_the_end_of_the_launcher_nor_of_assay(
    tmp_path: Path,
) -> None:
    before = servers()
    launcher = LocalLauncher(LocalSystem(), tmp_path / "jobs")
    run(launcher, job(python("print(1)")))
    [server] = servers() - before
    os.kill(server, signal.SIGSTOP)
    began = time.monotonic()
    del launcher
    assert servers() <= before
    assert time.monotonic() - began < 15


def test_an_environment_larger_than_a_pipe_reaches_the_keeper_and_waits_for_no_stopped_server(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LARGE", "x" * 100_000)
    before = servers()
    measure = job(python("import os; print(len(os.environ['LARGE']))"))
    assert run(launcher, measure)[1]["rank-0"] == b"100000\n"
    [server] = servers() - before
    os.kill(server, signal.SIGSTOP)
    monkeypatch.setattr("assay.launch.spool.KEEPER_START_S", 0.2)
    with pytest.raises(LaunchError, match=r"did not start within 0\.2 s"):
        launcher.submit(replace(measure, token="another"))
    monkeypatch.undo()


@pytest.mark.long
def test_a_signal_that_the_parent_ignores_hides_no_end(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "suite: s\nworkload: command\nparams:\n  argv: [echo, 'v: 1']\n"
        "  metrics: {v: {pattern: 'v: (?P<value>[0-9]+)', unit: ''}}\n"
    )
    ended = subprocess.run(
        [Path(sys.executable).with_name("assay"), "run", "suite.yaml", "--quiet", "--json"],
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
