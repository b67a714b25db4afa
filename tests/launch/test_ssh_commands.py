"""What is shown of a job over ssh, what may be said of its system, what ssh means; no server is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from assay import launch
from assay.errors import InputError
from assay.launch.ssh import SshSystem, connection
from assay.launch.ssh.connection import Connection
from assay.records import Shape
from assay.shell import CompletedCommand
from assay.testing.launchers import job, python
from conftest import GOLDEN

GOLDEN = GOLDEN / "ssh.txt"
SYSTEM = SshSystem.model_validate_json("""{
    "hosts": ["node1", "admin@node2", "node3"],
    "python": "/opt/torch/bin/python",
    "directory": "/scratch/assay/",
    "master_address": "10.1.0.1",
    "port": 2222,
    "user": "bench",
    "identity": "/home/bench/key",
    "config": "/home/bench/config",
    "env": {"NCCL_SOCKET_IFNAME": "ib0"},
    "pin_cpus": true
}""")


def test_what_is_shown_is_the_golden_one() -> None:
    asked = replace(job(python("print(1)"), cwd="/work"), shape=Shape(4, 8, 2))
    rendered = launch.make("ssh", SYSTEM, spool=Path("jobs")).render(asked)
    env = "".join(f"{name}={value}\n" for name, value in sorted(rendered.env.items()))
    assert f"{rendered.command}\n{env}" == GOLDEN.read_text()


def test_every_word_reaches_the_host_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    argv = Connection("node1", SYSTEM).argv(["echo", "a b", "$(reboot)", "~", "'"])
    assert argv[-2:] == ["node1", """echo 'a b' '$(reboot)' '~' ''"'"''"""]
    assert argv[-3] == "--"
    for pair in (["-F", "/home/bench/config"], ["-p", "2222"], ["-l", "bench"], ["-i", "/home/bench/key"]):
        place = argv.index(pair[0])
        assert argv[place : place + 2] == pair
    assert (tmp_path / next(tmp_path.iterdir()).name).stat().st_mode & 0o077 == 0


def test_more_workers_than_hosts_are_refused_with_what_to_write() -> None:
    launcher = launch.make("ssh", SYSTEM, spool=Path("jobs"))
    with pytest.raises(InputError, match=r"needs 4 hosts, .* has 3: add `hosts`, or .* 4x2x1"):
        launcher.render(replace(job(python("")), shape=Shape(4, 2)))
    assert SYSTEM.max_nodes == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"hosts": []}, "at least 1"),
        ({"hosts": ["-oProxyCommand=reboot"]}, "is not a host"),
        ({"hosts": ["a b"]}, "is not a host"),
        ({"hosts": ["a", "b", "a"]}, "a: listed twice"),
        ({"hosts": ["a"], "directory": "jobs"}, "absolute path"),
        ({"hosts": ["a"], "port": 0}, "greater than or equal to 1"),
        ({"hosts": ["a"], "host": "b"}, "Extra inputs"),
    ],
)
def test_what_can_not_be_meant_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SshSystem.model_validate(wrong)


@pytest.mark.parametrize("host", ["node1", "user@node1.example", "10.0.0.1", "fe80::1%eth0", "a_b"])
def test_hosts_are_written_as_after_ssh(host: str) -> None:
    assert SshSystem(hosts=(host,)).hosts == (host,)


@pytest.mark.parametrize(
    ("stderr", "remedy"),
    [
        ("ssh: connect to host a port 22: Connection timed out", "ping a"),
        ("ssh: connect to host a port 22: No route to host", "ping a"),
        ("bench@a: Permission denied (publickey).", "ssh-copy-id a"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.", "ssh a"),
        ("Something that nobody knows", "a can't be reached: Something that nobody knows"),
        ("", "it printed nothing"),
    ],
)
def test_each_of_sshs_words_has_its_remedy(stderr: str, remedy: str) -> None:
    assert remedy in connection.unreachable("a", stderr)


def test_a_host_that_does_not_answer_is_told_by_what_it_lacks() -> None:
    absent = CompletedCommand(("ssh",), 127, "", "bash: line 1: python3: command not found", 0.1)
    assert "set `python`" in connection.no_answer("a", "python3", absent)
    old = CompletedCommand(("ssh",), 1, "", "SyntaxError: invalid syntax", 0.1)
    assert "must be Python 3.9 or newer" in connection.no_answer("a", "python3", old)
    assert "set the system's `directory`" in connection.refused("a", "/x: Disk quota exceeded")
    assert "may write to" in connection.refused("a", "/x: Permission denied")
