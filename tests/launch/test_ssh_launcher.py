"""Jobs over ssh: the contract with real servers, and what a network can do to them."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay import launch
from assay.errors import LaunchError
from assay.launch import processes
from assay.launch.launcher import Launcher
from assay.launch.ssh import SshSystem
from assay.launch.ssh.launcher import SshLauncher
from assay.records import Handle, JobState, Shape
from assay.testing.launchers import (
    LauncherContract,
    follow_to_end,
    job,
    left_here,
    python,
    run,
    wait_for_output,
)
from cli_contract import CliContract
from ssh_hosts import Hosts, hosts

pytestmark = [pytest.mark.ssh, pytest.mark.usefixtures("servers")]
SERVERS: list[Hosts] = []
SLEEP = "import time; print('up', flush=True); time.sleep(60)"


@pytest.fixture(scope="module")
def servers() -> Iterator[Hosts]:
    with hosts(3) as made, tempfile.TemporaryDirectory(prefix="assay-ssh-run-") as runtime:
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = runtime
        SERVERS.append(made)
        yield made
        SERVERS.remove(made)
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before


def system(place: Path, **more: object) -> SshSystem:
    (made,) = SERVERS
    common = {"hosts": made.names, "config": made.config, "python": sys.executable}
    return SshSystem.model_validate({**common, "directory": str(place), "grace": 0.5, **more})


class TestSshLauncher(LauncherContract):
    brief = True

    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        self.spool = spool
        return launch.make("ssh", system(spool / "remote", grace=grace_s), spool=spool)

    def left(self, token: str) -> list[str]:
        return left_here(token)

    def end_as_somebody_else(self, handle: Handle) -> None:
        (claim,) = self.spool.glob(f"remote/{handle.token}.1/node-1/claim.json")
        os.kill(json.loads(claim.read_text())["pid"], signal.SIGTERM)


class TestSshOnTheCommandLine(CliContract):
    @pytest.fixture(autouse=True)
    def where(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "remote"

    def system(self) -> dict[str, Any]:
        (made,) = SERVERS
        common = {"launcher": "ssh", "hosts": made.names, "config": made.config}
        return {**common, "python": sys.executable, "directory": str(self.directory)}

    def left(self) -> list[str]:
        return [str(path) for path in self.directory.glob("*")]


def make(tmp_path: Path, **more: object) -> SshLauncher:
    return SshLauncher(system(tmp_path / "remote", **more))


COUNTING = "import time\nfor i in range({}): print(i, flush=True); time.sleep({})"


def counted(data: bytes) -> list[int]:
    return [int(line) for line in data.split()]


# What a network does


def test_a_broken_connection_is_made_again_without_loss_or_repetition(servers: Hosts, tmp_path: Path) -> None:
    launcher = make(tmp_path)
    handle = launcher.submit(job(python(COUNTING.format(400, 0.01)), 2))
    streams: defaultdict[str, bytes] = defaultdict(bytes)
    breaks, told = [60, 200], set()
    for output in launcher.follow(handle, {}):
        told.add(launcher.status(handle).cause)
        if output is not None:
            streams[output.stream] += output.data
        if breaks and streams["rank-1"].count(b"\n") > breaks[0]:
            breaks.pop(0)
            servers.stop("host1")
            servers.serve("host1")
    assert breaks == []
    assert counted(streams["rank-0"]) == counted(streams["rank-1"]) == list(range(400))
    assert any("host1 can't be reached" in cause for cause in told), told
    assert launcher.status(handle).state is JobState.SUCCEEDED
    launcher.forget(handle)


@pytest.mark.slow
def test_a_host_without_a_network_for_a_while_is_waited_for(servers: Hosts, tmp_path: Path) -> None:
    launcher = make(tmp_path)
    handle = launcher.submit(job(python(COUNTING.format(60, 0.1)), 2, timeout_s=90))
    streams: defaultdict[str, bytes] = defaultdict(bytes)
    began, cut, mended = time.monotonic(), False, False
    for output in launcher.follow(handle, {}):
        if output is not None:
            streams[output.stream] += output.data
        if not cut and time.monotonic() - began > 2:
            servers.unplug("host1")
            cut = True
        if not mended and time.monotonic() - began > 25:
            servers.unplug("host1", plugged=True)
            mended = True
    assert counted(streams["rank-1"]) == list(range(60))
    assert launcher.status(handle).state is JobState.SUCCEEDED


def test_a_host_that_is_not_heard_of_for_longer_than_the_job_may_take_is_lost(
    servers: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.launch.ssh.launcher.GIVE_UP_S", 0.0)
    launcher = make(tmp_path)
    handle = launcher.submit(job(python(SLEEP), 2, timeout_s=3))
    wait_for_output(launcher, handle, "rank-1")
    servers.stop("host1")
    try:
        follow_to_end(launcher, handle)
        status = launcher.status(handle)
    finally:
        servers.serve("host1")
    assert status.state is JobState.LOST
    assert "host1 can't be reached" in status.cause
    launcher.cancel(handle)
    launcher.forget(handle)


# How jobs start and end on several hosts


def test_no_rank_starts_before_the_last_host_is_there(tmp_path: Path) -> None:
    launcher = make(tmp_path)

    def comes_late(token: str, node: int, what: str, *arguments: str, **more: Any) -> Any:
        if (what, node) == ("begin", 0):
            time.sleep(1)
            (tmp_path / "there").touch()
        return ask(token, node, what, *arguments, **more)

    ask, launcher._ask = launcher._ask, comes_late  # type: ignore[method-assign]
    tell = f"import os; print(os.path.exists({str(tmp_path / 'there')!r}))"
    status, streams = run(launcher, job(python(tell), 3))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert {streams[f"rank-{rank}"] for rank in range(3)} == {b"True\n"}


def test_a_share_whose_keeper_is_killed_ends_the_job_on_all_hosts(tmp_path: Path) -> None:
    launcher = make(tmp_path)
    asked = job(python(SLEEP), 3)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-2")
    claim = tmp_path / "remote" / f"{asked.token}.1" / "node-1" / "claim.json"
    os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)
    assert follow_to_end(launcher, handle)["rank-2"] == b"up\n"
    status = launcher.status(handle)
    assert status.state is JobState.LOST
    assert "keeper on host1 was killed" in status.cause
    assert processes.with_variable("ASSAY_TOKEN", asked.token) == []


def test_after_a_killed_assay_all_hosts_run_on_until_their_time_limit(tmp_path: Path) -> None:
    launcher = make(tmp_path)
    asked = job(python(SLEEP), 2, timeout_s=2)
    handle = launcher.submit(asked)  # and nobody follows
    ends = [tmp_path / "remote" / f"{asked.token}.{n}" / f"node-{n}" / "ended.json" for n in range(2)]
    give_up = time.monotonic() + 20
    while not all(end.exists() for end in ends) and time.monotonic() < give_up:
        time.sleep(0.1)
    assert [json.loads(end.read_text())["state"] for end in ends] == ["timed out"] * 2
    while processes.with_variable("ASSAY_TOKEN", asked.token):  # a keeper that has said its last word
        assert time.monotonic() < give_up
        time.sleep(0.1)
    assert launcher.status(handle).state is JobState.TIMED_OUT


def test_a_job_that_was_begun_on_all_hosts_but_the_first_is_given_up_and_ended(tmp_path: Path) -> None:
    launcher = make(tmp_path)
    asked = job(python(SLEEP), 3)

    def stops(token: str, node: int, what: str, *arguments: str, **more: Any) -> Any:
        if (what, node) == ("begin", 0):
            raise KeyboardInterrupt  # as a kill -9 would: nothing is undone
        return ask(token, node, what, *arguments, **more)

    ask, launcher._ask = launcher._ask, stops  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        launcher.submit(asked)
    assert processes.with_variable("ASSAY_TOKEN", asked.token) != []
    later = make(tmp_path)
    assert later.find(asked.token) is None
    assert processes.with_variable("ASSAY_TOKEN", asked.token) == []
    with pytest.raises(LaunchError, match="abandoned before"):
        later.submit(asked)


def test_files_of_the_other_hosts_are_told_by_their_node(tmp_path: Path) -> None:
    launcher = make(tmp_path)
    code = "import os; open('rank.txt', 'w').write(os.environ['RANK'])"
    handle = launcher.submit(job(python(code), 3, outputs=("rank.txt",)))
    follow_to_end(launcher, handle)
    found = {part.stream: part.data for part in launcher.fetch(handle, ["rank.txt"])}
    assert found == {"rank.txt": b"0", "node-1/rank.txt": b"1", "node-2/rank.txt": b"2"}


def test_workers_packed_on_one_host_meet_there(tmp_path: Path) -> None:
    asked = replace(job(python("import os; print(os.environ['MASTER_ADDR'])"), 4), shape=Shape(4, 1, 2))
    status, streams = run(make(tmp_path), asked)
    assert status.state is JobState.SUCCEEDED
    assert status.hosts == ("host0", "host1")
    assert sorted(name for name in streams if name.startswith("rank")) == [f"rank-{n}" for n in range(4)]
    assert {streams[f"rank-{n}"] for n in range(4)} == {streams["rank-0"]}


def test_each_hosts_clock_is_known(tmp_path: Path) -> None:
    launcher = make(tmp_path)
    handle = launcher.submit(job(python("print(1)"), 2))
    follow_to_end(launcher, handle)
    facts = launcher.status(handle).node_facts
    assert [facts[f"probe-{n}"]["ssh.host"] for n in range(2)] == ["host0", "host1"]
    for n in range(2):
        offset_s, error_s = (facts[f"probe-{n}"][f"clock.{what}_s"] for what in ("offset", "offset_error"))
        assert abs(float(str(offset_s))) <= float(str(error_s)) + 1e-5  # it is this machine's own clock


# Refused


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        ({"hosts": ["no-such-host.invalid"]}, "resolve", "HostName"),
        ({"port": 9}, "refused", "correct `port`"),
        ({"python": "/usr/bin/python0"}, "can't run /usr/bin/python0 there", "set `python`"),
        ({"directory": "/proc/assay"}, "/proc/assay", "No such file"),
        ({"hosts": ["stranger"]}, "Host key verification failed", "connect once manually: ssh stranger"),
        ({"hosts": ["locked"]}, "Permission denied", "ssh-copy-id locked"),
    ],
)
def test_a_host_that_can_not_be_used_is_told_with_a_remedy(
    servers: Hosts, tmp_path: Path, options: dict[str, object], cause: str, remedy: str
) -> None:
    address = servers.address(0)
    config = tmp_path / "config"
    stranger = f"Host stranger\n  HostName {address}\n  User nobody\n  UserKnownHostsFile /dev/null\n"
    locked = f"Host locked\n  HostName {address}\n  HostKeyAlias any\n  User nobody\n"
    config.write_text(stranger + locked + Path(servers.config).read_text())
    with pytest.raises(LaunchError) as refused:
        make(tmp_path, config=str(config), **options).submit(job(python("print(1)")))
    assert cause in str(refused.value)
    assert remedy in str(refused.value)


def test_a_full_disk_of_a_host_is_told_and_nothing_is_left_there(servers: Hosts, tmp_path: Path) -> None:
    full = servers.folder / "full"
    with pytest.raises(LaunchError, match=r"No space left on device; free up space there"):
        make(tmp_path, directory=str(full)).submit(job(python("print(1)")))
    assert list(full.iterdir()) == []


def test_one_host_that_refuses_leaves_nothing_on_the_others(servers: Hosts, tmp_path: Path) -> None:
    launcher = make(tmp_path, hosts=["host0", "no-such-host.invalid"])
    asked = job(python(SLEEP), 2)
    with pytest.raises(LaunchError, match="no-such-host"):
        launcher.submit(asked)
    assert list((tmp_path / "remote").iterdir()) == []
