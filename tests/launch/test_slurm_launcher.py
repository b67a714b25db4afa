"""Slurm: the contract on a real cluster, on one node and over two; and what only Slurm can show."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from assay import launch
from assay.errors import PlatformError
from assay.launch import processes
from assay.launch.launcher import Launcher
from assay.launch.slurm.launcher import SlurmLauncher
from assay.launch.slurm.options import SlurmSystem
from assay.records import Extent, Handle, JobState, RankExit
from conftest import require
from launcher_contract import LauncherContract, follow_to_end, job, python, run, wait_for_output
from slurm_cluster import nodes_that_answer, slurm_cluster  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("slurm_cluster")]

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
RESTORE = shlex.split(os.environ.get("ASSAY_SLURM_UP", ""))  # a command that starts what does not run


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def eventually(fact: Callable[[], bool], patience_s: float) -> bool:
    give_up = time.monotonic() + patience_s
    while not fact() and time.monotonic() < give_up:
        time.sleep(0.1)
    return fact()


class TestOnOneNode(LauncherContract):
    brief = True

    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return launch.make("slurm", SlurmSystem(grace=grace_s, placement="pack"), spool=spool)

    def left(self, token: str) -> list[str]:
        found = [Path(f"/proc/{pid}/cmdline") for pid in processes.with_variable("ASSAY_TOKEN", token)]
        return [path.read_text() for path in found]

    def end_as_somebody_else(self, handle: Handle) -> None:
        said("scancel", number(handle))


left = TestOnOneNode().left


def made(tmp_path: Path, **options: object) -> SlurmLauncher:
    return SlurmLauncher(SlurmSystem.model_validate({"grace": 0.5, **options}), tmp_path / "jobs")


@pytest.fixture
def launcher(tmp_path: Path) -> SlurmLauncher:
    """Each worker has a node."""
    return made(tmp_path)


def number(handle: Handle) -> str:
    return str(handle.data["job_id"])


def in_slurm(token: str) -> str:
    return said("squeue", "--noheader", f"--name=assay-{token}", "--format=%T").strip()


# Over two nodes


@pytest.mark.parametrize(
    "promise",
    [
        "test_ranks_run_at_the_same_time_and_can_meet_at_the_given_address",
        "test_a_rank_killed_by_a_signal_is_named_with_it",
        "test_a_rank_that_ends_well_before_the_others_ends_nobody",
        "test_a_hanging_rank_ends_at_the_time_limit",
        "test_cancelling_right_after_submitting_leaves_no_process",
        "test_a_job_that_prints_nothing_is_a_success_with_nothing_printed",
    ],
)
def test_what_the_contract_promises_holds_over_two_nodes(launcher: SlurmLauncher, promise: str) -> None:
    getattr(TestOnOneNode(), promise)(launcher)


def test_two_workers_have_two_nodes_and_global_numbers(launcher: SlurmLauncher) -> None:
    tell = "import json, os, socket; print(json.dumps({**os.environ, 'HERE': socket.gethostname()}))"
    status, streams = run(launcher, job(python(tell), 2))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert status.exits == (RankExit(0, 0), RankExit(1, 0))
    told = [json.loads(streams[f"rank-{rank}"]) for rank in (0, 1)]
    assert [t["RANK"] for t in told] == ["0", "1"]
    assert [t["LOCAL_RANK"] for t in told] == ["0", "0"]
    assert [t["NODE_RANK"] for t in told] == ["0", "1"]
    assert told[0]["HERE"] != told[1]["HERE"]
    assert status.hosts == (told[0]["SLURMD_NODENAME"], told[1]["SLURMD_NODENAME"])
    assert {t["MASTER_ADDR"] for t in told} == {told[0]["SLURMD_NODENAME"]}
    assert {"probe-0", "probe-1"} <= streams.keys()
    assert len(status.nodes) == 2


def test_a_failing_rank_ends_those_of_the_other_node(launcher: SlurmLauncher) -> None:
    code = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(60)"
    asked = job(python(code), 2)
    began = time.monotonic()
    status, _ = run(launcher, asked)
    assert time.monotonic() - began < 30
    assert status.state is JobState.FAILED
    assert status.cause.startswith("rank 1 exited 3")
    assert [e for e in status.exits if e.first] == [RankExit(1, 3, None, first=True)]
    assert left(asked.token) == []


def test_cancelling_ends_the_ranks_of_both_nodes(launcher: SlurmLauncher) -> None:
    asked = job(python(SLEEP), 2)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-1")
    launcher.cancel(handle)
    assert left(asked.token) == []
    assert launcher.status(handle).state is JobState.CANCELLED
    assert eventually(lambda: in_slurm(asked.token) == "", 10)


def test_no_rank_starts_before_the_last_node_is_there(tmp_path: Path) -> None:
    there, late = tmp_path / "there", tmp_path / "late-python"
    comes = f'case "$SLURMD_NODENAME $*" in "snode2 "*keeper.py*) sleep 1; touch {there};; esac'
    late.write_text(f'#!/bin/sh\n{comes}\nexec {sys.executable} "$@"\n')
    late.chmod(0o755)
    tell = f"import os; print(os.path.exists({str(there)!r}))"
    status, streams = run(made(tmp_path, python=str(late)), job(python(tell), 2))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert (streams["rank-0"], streams["rank-1"]) == (b"True\n", b"True\n")


# What waits


def test_a_job_that_waits_says_for_what_and_can_be_cancelled(tmp_path: Path) -> None:
    launcher = made(tmp_path, sbatch=["--begin=now+1hour"])
    handle = launcher.submit(job(python("print(1)")))
    assert eventually(lambda: "BeginTime" in launcher.status(handle).cause, 5)
    assert launcher.status(handle).state is JobState.PENDING
    launcher.cancel(handle)
    assert launcher.status(handle).state is JobState.CANCELLED
    assert follow_to_end(launcher, handle) == {}
    assert in_slurm(handle.token) == ""


def test_a_waiting_job_that_somebody_else_cancels_is_stopped(tmp_path: Path) -> None:
    launcher = made(tmp_path, sbatch=["--begin=now+1hour"])
    handle = launcher.submit(job(python("print(1)")))
    said("scancel", number(handle))
    assert follow_to_end(launcher, handle) == {}
    status = launcher.status(handle)
    assert (status.state, "Slurm says CANCELLED" in status.cause) == (JobState.STOPPED, True), status


def test_a_reason_that_waiting_does_not_mend_has_its_remedy(tmp_path: Path) -> None:
    launcher = made(tmp_path, sbatch=["--hold"])
    handle = launcher.submit(job(python("print(1)")))
    assert eventually(lambda: "scontrol release" in launcher.status(handle).cause, 5)
    launcher.cancel(handle)


def test_a_job_in_the_queue_whose_number_was_not_kept_is_found_there(tmp_path: Path) -> None:
    launcher = made(tmp_path, sbatch=["--begin=now+1hour"])
    handle = launcher.submit(job(python("print(1)")))
    (launcher.directory / handle.token / "submitted.json").unlink()
    assert launcher.find(handle.token) == handle
    launcher.cancel(handle)


def test_a_job_that_was_given_up_runs_nothing_when_its_turn_comes(tmp_path: Path) -> None:
    launcher = made(tmp_path)
    asked = job(python("print('ran')"))
    handle = launcher.submit(asked)
    job_directory = launcher.directory / asked.token
    launcher._kept(asked.token).give_up()  # as an Assay does that never learnt of the number
    given_up = launcher._kept(asked.token).given_up()
    streams = follow_to_end(launcher, handle)
    assert ("rank-0" not in streams) == given_up
    assert (launcher.status(handle).state is JobState.CANCELLED) == given_up
    assert (job_directory / "streams").exists() != given_up


# What Slurm refuses, ends or loses


def test_what_sbatch_refuses_is_told_in_its_words_and_never_runs(tmp_path: Path) -> None:
    launcher = made(tmp_path, partition="no-such-partition")
    asked = job(python("print(1)"))
    with pytest.raises(PlatformError, match=r"sbatch refused the job: .*invalid partition"):
        launcher.submit(asked)
    assert launcher.find(asked.token) is None


@contextmanager
def partition(state: str) -> Iterator[str]:
    """A partition that takes no jobs, of the first node."""
    name = f"assay-{state.lower()}-{os.getpid()}"
    node = said("scontrol", "show", "hostnames", said("sinfo", "--noheader", "--format=%N").split()[0])
    said("scontrol", "create", f"PartitionName={name}", f"Nodes={node.split()[0]}", f"State={state}")
    try:
        yield name
    finally:
        eventually(lambda: said("squeue", "--noheader", f"--partition={name}") == "", 60)
        said("scontrol", "delete", f"PartitionName={name}")


def test_a_partition_that_takes_no_jobs_is_the_platforms_fault(tmp_path: Path) -> None:
    with partition("INACTIVE") as name, pytest.raises(PlatformError, match="partition not available"):
        made(tmp_path, partition=name).submit(job(python("print(1)")))


def test_a_job_that_waits_in_vain_is_taken_out_of_the_queue_with_who_else_would(tmp_path: Path) -> None:
    with partition("DOWN") as name:
        down = made(tmp_path / "down", partition=name)
        wide = made(tmp_path / "wide")
        for launcher, ranks, reason, extent in (
            (down, 1, "PartitionDown", Extent.PLATFORM),
            (wide, 5, "Partition", Extent.SHAPE),
        ):
            handle = launcher.submit(job(python("print(1)"), ranks))
            assert follow_to_end(launcher, handle) == {}
            status = launcher.status(handle)
            assert (status.state, status.extent) == (JobState.FAILED, extent), status
            assert reason in status.cause
            assert eventually(lambda handle=handle: in_slurm(handle.token) == "", 10)  # type: ignore[misc]
            launcher.forget(handle)


def test_a_command_that_fails_before_the_ranks_is_told_with_its_own_words(tmp_path: Path) -> None:
    launcher = made(tmp_path, before=["echo loading", "echo 'no module named cuda/99' >&2; exit 7"])
    status, streams = run(launcher, job(python("print(1)")))
    assert status.state is JobState.FAILED
    assert "exited 7 before the ranks started" in status.cause
    assert "no module named cuda/99" in status.cause
    assert streams["batch"] == b"loading\nno module named cuda/99\n"


def test_what_the_users_commands_export_reaches_the_ranks(tmp_path: Path) -> None:
    launcher = made(tmp_path, before=["export OF_THE_SITE='a b'", "cd /"])
    status, streams = run(launcher, job(python("import os; print(os.environ['OF_THE_SITE'])")))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert streams["rank-0"] == b"a b\n"


def test_each_rank_has_a_gpu_of_the_allocation(tmp_path: Path) -> None:
    launcher = made(tmp_path, gres="gpu", placement="pack")
    tell = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    status, streams = run(launcher, job(python(tell), 2))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert streams["rank-0"] == streams["rank-1"] == b"0,1\n"


def test_a_job_that_somebody_else_cancels_is_stopped_and_whole(launcher: SlurmLauncher) -> None:
    asked = job(python(SLEEP), 2)
    handle = launcher.submit(asked)
    for rank in ("rank-0", "rank-1"):
        wait_for_output(launcher, handle, rank)
    said("scancel", number(handle))
    streams = follow_to_end(launcher, handle)
    assert (streams["rank-0"], streams["rank-1"]) == (b"up\n", b"up\n")
    status = launcher.status(handle)
    assert (status.state, "Slurm says CANCELLED" in status.cause) == (JobState.STOPPED, True), status
    assert left(asked.token) == []


@pytest.mark.parametrize("exit_code", [0, 3])
def test_a_job_that_is_cancelled_after_its_last_rank_ended_is_stopped(tmp_path: Path, exit_code: int) -> None:
    ends_late, late = tmp_path / "python-that-ends-late", tmp_path / "late"
    # not a child: Slurm's signals miss what is forked just then, and the job completes when that has ended
    stays = f'*keeper.py*) {sys.executable} "$@"; touch {late}; exec sleep 20;;'
    ends_late.write_text(f'#!/bin/sh\ncase "$*" in {stays} esac\nexec {sys.executable} "$@"\n')
    ends_late.chmod(0o755)
    launcher = made(tmp_path, python=str(ends_late), placement="pack")
    handle = launcher.submit(job(python(f"raise SystemExit({exit_code})")))
    assert eventually(late.exists, 30)
    said("scancel", number(handle))
    follow_to_end(launcher, handle)
    for asking in (launcher, made(tmp_path, placement="pack")):
        status = asking.status(handle)
        assert (status.state, "Slurm says CANCELLED" in status.cause) == (JobState.STOPPED, True), status


def test_a_requeued_job_is_lost_and_its_second_start_runs_nothing(launcher: SlurmLauncher) -> None:
    asked = job(python(SLEEP))
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle)
    said("scontrol", "update", f"JobId={number(handle)}", "Requeue=1")
    said("scontrol", "requeue", number(handle))
    streams = follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert streams["rank-0"] == b"up\n"
    assert status.state is JobState.LOST, status
    assert "requeued" in status.cause
    assert eventually(lambda: in_slurm(asked.token) == "", 60)


def test_a_controller_that_does_not_answer_is_waited_for(
    launcher: SlurmLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.launch.batch.life.LAST_WORD_S", 1.0)
    code = "import time\nfor i in range(60): print(i, flush=True); time.sleep(0.1)"
    handle = launcher.submit(job(python(code)))
    wait_for_output(launcher, handle)
    config = dict(
        line.split("=", 1) for line in said("scontrol", "show", "config").splitlines() if "=" in line
    )
    pids = {key.strip(): value.strip() for key, value in config.items()}
    controller = int(Path(pids["SlurmctldPidFile"]).read_text())
    os.kill(controller, signal.SIGSTOP)
    try:
        streams = follow_to_end(launcher, handle)
        assert launcher.status(handle).state is JobState.SUCCEEDED
    finally:
        os.kill(controller, signal.SIGCONT)
    assert streams["rank-0"].split() == [b"%d" % i for i in range(60)]


# Nodes that fail


@pytest.fixture
def power() -> Iterator[Callable[[str], None]]:
    """Cuts a node's power: kills its slurmd and all that runs there; afterwards it comes back."""
    require("slurm-up", bool(RESTORE), "ASSAY_SLURM_UP names no command that brings a dead node back")

    def cut(node: str) -> None:
        for pid in said("ip", "netns", "pids", node).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    yield cut
    subprocess.run(RESTORE, check=True, capture_output=True)
    assert eventually(lambda: nodes_that_answer() >= 2, 90)


@pytest.mark.slow
def test_a_node_that_comes_back_before_slurm_missed_it_holds_a_trial_no_longer_than_its_limit(
    launcher: SlurmLauncher, power: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.launch.batch.shared_directory.OVERDUE_S", 5.0)
    code = "import os, time; print('up', flush=True); time.sleep(2 if os.environ['RANK'] == '0' else 60)"
    asked = job(python(code), 2, timeout_s=15)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-1")
    power(launcher._kept(asked.token).hosts()[1])
    subprocess.run(RESTORE, check=True, capture_output=True)
    began, told = time.time(), set()
    for _ in launcher.follow(handle, {}):
        told.add(launcher.status(handle).cause)
    status = launcher.status(handle)
    assert time.time() - began < 60
    assert status.state is JobState.LOST, status
    assert "snode2" in status.cause
    assert any("snode2 has not said how its share ended" in words for words in told)
    assert eventually(lambda: in_slurm(asked.token) == "", 60)


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_a_job_whose_node_loses_its_power_is_lost_with_the_node_named(
    launcher: SlurmLauncher, power: Callable[[str], None], which: int
) -> None:
    asked = job(python("import time; print('up', flush=True); time.sleep(300)"), 2, timeout_s=400)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-0")
    wait_for_output(launcher, handle, "rank-1")
    hosts = said("squeue", "--noheader", f"--jobs={number(handle)}", "--format=%N").strip()
    node = said("scontrol", "show", "hostnames", hosts).split()[which]
    power(node)
    began = time.monotonic()
    streams = follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert time.monotonic() - began < 120
    assert (streams["rank-0"], streams["rank-1"]) == (b"up\n", b"up\n")
    assert status.state is JobState.LOST, status
    assert node in status.cause
    assert eventually(lambda: left(asked.token) == [], 60)
