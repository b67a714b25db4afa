"""Containers on this machine: the contract by a real podman, and what is special to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay import launch
from assay.errors import LaunchError
from assay.launch import processes
from assay.launch.podman import ContainerSystem
from assay.launch.podman.launcher import PodmanLauncher
from assay.records import Handle, JobState
from assay.testing.launchers import (
    IGNORE_TERM,
    LauncherContract,
    follow_to_end,
    job,
    python,
    run,
    wait_for_output,
)
from cli_contract import CliContract
from containers import ULIMITS, need_podman, this_machine

IMAGE = "localhost/assay-test/podman-launcher:1"  # by it these tests know their containers from others'
SLEEP = "import time; print('up', flush=True); time.sleep(60)"


pytestmark = [pytest.mark.podman, pytest.mark.usefixtures("podman")]


@pytest.fixture(scope="module")
def podman() -> Iterator[None]:
    need_podman(IMAGE)
    yield
    left = podman_ps(f"--filter=ancestor={IMAGE}")
    if left:
        subprocess.run(["podman", "rm", "--force", "--time=0", *left], check=True, capture_output=True)


class TestPodmanLauncher(LauncherContract):
    brief = True

    def make(self, spool: Path, *, grace_s: float) -> launch.launcher.Launcher:
        system = ContainerSystem(**this_machine(IMAGE), grace=grace_s)
        return launch.make("podman", system, spool=spool)

    def left(self, token: str) -> list[str]:
        inside = [str(pid) for pid in processes.with_variable("ASSAY_TOKEN", token)]
        return inside + containers(token, "--filter=status=running")

    def end_as_somebody_else(self, handle: Handle) -> None:
        by_hand("rm", "--force", handle)


class TestPodmanOnTheCommandLine(CliContract):
    def system(self) -> dict[str, Any]:
        return {"launcher": "podman", **this_machine(IMAGE)}

    def left(self) -> list[str]:
        return podman_ps(f"--filter=ancestor={IMAGE}", "--filter=status=running")


def containers(token: str, *filters: str) -> list[str]:
    return podman_ps(f"--filter=label=assay.dev/token={token}", *filters)


def podman_ps(*filters: str) -> list[str]:
    argv = ["podman", "ps", "--all", "--quiet", *filters]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def make(tmp_path: Path, **more: object) -> PodmanLauncher:
    system = ContainerSystem.model_validate({**this_machine(IMAGE), "grace": 0.5, **more})
    return PodmanLauncher("podman", system, tmp_path / "jobs")


def by_hand(*words: str | Handle) -> None:
    argv = [word if isinstance(word, str) else str(word.data["container"]) for word in words]
    subprocess.run(["podman", *argv], check=True, capture_output=True)


def first_process(handle: Handle) -> int:
    argv = ["podman", "inspect", "--format={{.State.Pid}}", str(handle.data["container"])]
    return int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


# Lost


def test_a_container_whose_keeper_is_killed_is_lost_with_its_exit_code(tmp_path: Path) -> None:
    launcher = make(tmp_path, memory="2g")
    handle = launcher.submit(job(python(SLEEP), 2))
    wait_for_output(launcher, handle)
    os.kill(first_process(handle), signal.SIGKILL)
    assert follow_to_end(launcher, handle)["rank-0"] == b"up\n"
    status = launcher.status(handle)
    assert status.state is JobState.LOST
    assert "exit code 137" in status.cause
    assert "2g" in status.cause
    launcher.forget(handle)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["rm", "--force"], "was removed"),
        (["rm", "--force", "--time=0"], "was removed"),
        (["kill"], "somebody killed it with podman"),
        (["stop"], "its keeper was sent SIGTERM, but not by this run"),
    ],
)
def test_a_container_that_somebody_ended_is_stopped_and_not_lost(
    tmp_path: Path, words: list[str], cause: str
) -> None:
    launcher = make(tmp_path)
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    by_hand(*words, handle)
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert (status.state, cause in status.cause) == (JobState.STOPPED, True), status
    launcher.forget(handle)


def test_a_container_that_is_killed_because_its_ranks_do_not_heed_a_stop_is_stopped(tmp_path: Path) -> None:
    launcher = make(tmp_path, grace=60)
    handle = launcher.submit(job(python(IGNORE_TERM + "time.sleep(60)")))
    wait_for_output(launcher, handle)
    by_hand("stop", "--time=1", handle)
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert (status.state, "its keeper was sent SIGTERM" in status.cause) == (JobState.STOPPED, True), status
    launcher.forget(handle)


def test_a_stopped_container_can_be_cancelled(tmp_path: Path) -> None:
    launcher = make(tmp_path)
    asked = job(python(SLEEP))
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle)
    os.kill(first_process(handle), signal.SIGSTOP)
    launcher.cancel(handle)
    assert launcher.status(handle).state is JobState.CANCELLED
    assert containers(asked.token, "--filter=status=running") == []


def test_a_rank_that_needs_more_than_the_memory_limit_is_told_with_the_limit(tmp_path: Path) -> None:
    launcher = make(tmp_path, memory="64m")
    status, _ = run(launcher, job(python("held = [bytearray(2**20) for _ in range(400)]")))
    assert status.state is JobState.FAILED
    assert "rank 0 was killed by SIGKILL" in status.cause
    assert "raise the system's memory (64m)" in status.cause


def test_root_gives_the_jobs_files_to_a_user_that_is_named_by_number(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    launcher = make(tmp_path, user="1000660000:0", python="/usr/bin/python3")
    code = "import os; open('kept', 'w').write('1'); print(os.getuid(), os.getgid(), open('sent').read())"
    status, streams = run(launcher, job(python(code), files={"sent": b"it"}))
    assert (status.state, streams["rank-0"]) == (JobState.SUCCEEDED, b"1000660000 0 it\n")


# What is left, and what is known of it


def test_a_forgotten_job_leaves_no_container(tmp_path: Path) -> None:
    launcher = make(tmp_path)
    asked = job(python("print(1)"))
    handle = launcher.submit(asked)
    follow_to_end(launcher, handle)
    assert containers(asked.token) != []
    launcher.forget(handle)
    assert containers(asked.token) == []


def test_the_facts_name_image_engine_and_runtime(tmp_path: Path) -> None:
    launcher = make(tmp_path, shm_size="32m")
    handle = launcher.submit(job(python("import os; print(os.statvfs('/dev/shm').f_blocks)")))
    follow_to_end(launcher, handle)
    facts = launcher.status(handle).facts
    assert str(facts["container.engine"]).startswith("podman version")
    assert facts["container.image"] == this_machine(IMAGE)["image"]
    assert str(facts["container.image_digest"]).startswith("sha256:")
    assert facts["container.runtime"]
    assert facts["container.network"] == "host"
    assert facts["container.shm_bytes"] == 32 * 2**20
    launcher.forget(handle)


def test_limits_devices_and_volumes_reach_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "word").write_text("here")
    code = f"""
import json, os, resource
def written(path):
    try:
        open(path + "/new", "w").close()
    except OSError as error:
        return error.strerror
print(json.dumps([resource.getrlimit(resource.RLIMIT_NOFILE)[1], sorted(os.sched_getaffinity(0)),
  os.path.exists("/dev/full_too"), open("/inside/word").read(), written("/inside"), written("{tmp_path}")]))
"""
    own = this_machine(IMAGE)["volumes"]
    launcher = make(
        tmp_path,
        cpuset="0",
        ulimits={**ULIMITS, "nofile": 1234},
        devices=["/dev/full:/dev/full_too"],
        volumes=[*own, f"{tmp_path / 'in'}:/inside", f"{tmp_path}:{tmp_path}:rw"],
    )
    status, streams = run(launcher, job(python(code)))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert json.loads(streams["rank-0"]) == [1234, [0], True, "here", "Read-only file system", None]


def test_a_directory_of_the_users_is_there_inside_to_run_in(tmp_path: Path) -> None:
    launcher, where = make(tmp_path), tmp_path / "mine"
    where.mkdir()
    asked = job(("sh", "-c", "pwd; echo result > log.csv"), cwd=str(where), outputs=("*.csv",))
    handle = launcher.submit(asked)
    assert follow_to_end(launcher, handle)["rank-0"].decode().strip() == str(where)
    assert [part.data for part in launcher.fetch(handle, ["*.csv"])] == [b"result\n"]


# Refused


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        ({"image": "localhost/none:1"}, "image not known", "podman pull localhost/none:1"),
        ({"python": "/usr/bin/python0"}, "python0", "set `python`"),
        ({"python": "/etc"}, "permission denied", "could not start"),
        ({"volumes": ["/nowhere"]}, "/nowhere", "correct `volumes`"),
        ({"devices": ["/dev/nowhere"]}, "/dev/nowhere", "correct `devices`"),
        ({"devices": ["nvidia.com/gpu=all"]}, "CDI", "nvidia-ctk cdi generate"),
        ({"cpuset": "0-4095"}, "not available", "lscpu"),
        ({"memory": "1k"}, "memory limit", "raise `memory`"),
        ({"network": "nowhere"}, "nowhere", "correct `network`"),
        ({"user": "nobody-here"}, "nobody-here", "correct `user`"),
        ({"args": ["--no-such-flag"]}, "no-such-flag", "correct `args`"),
        ({"ulimits": {**ULIMITS, "memlock": 2**60}}, "rlimit type 8", "hard limit of memlock is lower"),
        ({"ulimits": {"nofile": 2**30}}, "rlimit type 7", "hard limit of nofile is lower"),
    ],
)
def test_what_the_engine_refuses_is_told_with_a_remedy_and_leaves_no_container(
    tmp_path: Path, options: dict[str, object], cause: str, remedy: str
) -> None:
    asked = job(python("print(1)"))
    with pytest.raises(LaunchError) as refused:
        make(tmp_path, **options).submit(asked)
    assert cause in str(refused.value)
    assert remedy in str(refused.value)
    assert containers(asked.token) == []


def test_default_limits_that_the_machine_refuses_are_told_with_those_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "containers.conf"
    conf.write_text('[containers]\ndefault_ulimits = ["nofile=1073741816:1073741816"]\n')
    monkeypatch.setenv("CONTAINERS_CONF", str(conf))
    with pytest.raises(LaunchError, match=r"set for the system `ulimits: \{nofile: \d+, nproc: \d+\}`"):
        make(tmp_path, ulimits={}).submit(job(python("print(1)")))


def test_a_keeper_that_can_not_run_in_the_image_is_told_in_its_own_words(tmp_path: Path) -> None:
    asked = job(python("print(1)"))
    with pytest.raises(LaunchError, match=r"did not take the job: .*invalid option"):
        make(tmp_path, python="/usr/bin/cat").submit(asked)
    assert containers(asked.token) == []


def test_an_engine_that_is_not_installed_is_told_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match=r"podman is not installed .* apt-get install podman"):
        make(tmp_path).submit(job(python("print(1)")))
