"""What the launcher of every batch system promises beside what all launchers do: two hosts, a queue, ends."""

from __future__ import annotations

import json
import re
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay import launch
from assay.errors import PlatformError
from assay.launch.batch.launcher import BatchLauncher
from assay.launch.launcher import Launcher
from assay.records import Handle, JobState, RankExit
from assay.testing.launchers import (
    LauncherContract,
    eventually,
    follow_to_end,
    job,
    left_here,
    python,
    run,
    wait_for_output,
)

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
SAVE = """
import signal, sys, time
def save(*_):
    time.sleep(1); print("saved", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(60)
"""
BATCH_LAUNCHER = BatchLauncher[Any]
Options = Mapping[str, object]


def number(handle: Handle) -> str:
    return str(handle.data["job_id"])


class BatchLauncherContract(LauncherContract):
    """Inherit it, name the launcher, and say with which options and words its batch system does what.

    launcher_name  as systems.yaml has it
    hosts          the two that a job over two has
    host_variable  of a rank's environment: which of them it runs on
    waits          options of a job that waits for its time; `waits_for`: what its status then says
    held           options of a job that is held; `released_by`: the command that releases it
    nowhere        options that name no queue of the cluster; `refusal`: what is said of them
    with_gpus      options with which each rank has a GPU
    ended_by_hand  what is said of a job that `end_as_somebody_else` ended
    """

    brief = True
    launcher_name: ClassVar[str]
    hosts: ClassVar[tuple[str, str]]
    host_variable: ClassVar[str]
    waits: ClassVar[Options]
    waits_for: ClassVar[str]
    held: ClassVar[Options]
    released_by: ClassVar[str]
    nowhere: ClassVar[Options]
    refusal: ClassVar[str]
    with_gpus: ClassVar[Options]
    ended_by_hand: ClassVar[str]

    @abstractmethod
    def queued(self, token: str) -> bool:
        """Whether the batch system's own commands know of a job with this token that waits or runs."""

    @abstractmethod
    def let_start(self, handle: Handle) -> None:
        """Let a job start that waits for its time."""

    @abstractmethod
    def requeue(self, handle: Handle) -> None:
        """End a job that runs and put it back into the queue, as an administrator does."""

    @abstractmethod
    def down(self) -> AbstractContextManager[None]:
        """The batch system answers nobody meanwhile; jobs go on."""

    def give_time(self) -> None:
        """Leave processes 5 s at least between the signals that end a job, where that is not usual."""

    def made(self, tmp_path: Path, **options: object) -> BATCH_LAUNCHER:
        """A launcher with these options, which gives each worker a host."""
        return self._launcher(tmp_path / "jobs", {"grace": 0.5, **options})

    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return self._launcher(spool, {"grace": grace_s, "placement": "pack"})

    def _launcher(self, spool: Path, options: Options) -> BATCH_LAUNCHER:
        system = launch.SYSTEM_MODELS[self.launcher_name].model_validate(options)
        launcher = launch.make(self.launcher_name, system, spool=spool)
        assert isinstance(launcher, BatchLauncher)
        return launcher

    def left(self, token: str) -> list[str]:
        return left_here(token)

    @pytest.fixture
    def over_two(self, tmp_path: Path) -> BATCH_LAUNCHER:
        """A launcher whose jobs of two ranks have two hosts."""
        return self.made(tmp_path)

    # Over two hosts

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
    def test_what_every_launcher_promises_holds_over_two_hosts(
        self, over_two: BATCH_LAUNCHER, promise: str
    ) -> None:
        getattr(self, promise)(over_two)

    def test_two_workers_have_two_hosts_and_global_numbers(self, over_two: BATCH_LAUNCHER) -> None:
        tell = "import json, os, socket; print(json.dumps({**os.environ, 'HERE': socket.gethostname()}))"
        status, streams = run(over_two, job(python(tell), 2))
        assert status.state is JobState.SUCCEEDED, (status, streams)
        assert status.exits == (RankExit(0, 0), RankExit(1, 0))
        told = [json.loads(streams[f"rank-{rank}"]) for rank in (0, 1)]
        assert [t["RANK"] for t in told] == ["0", "1"]
        assert [t["LOCAL_RANK"] for t in told] == ["0", "0"]
        assert [t["NODE_RANK"] for t in told] == ["0", "1"]
        assert tuple(t[self.host_variable] for t in told) == self.hosts
        assert {t["MASTER_ADDR"] for t in told} == {self.hosts[0]}
        assert status.hosts == tuple(t["HERE"] for t in told)
        assert {"probe-0", "probe-1"} <= streams.keys()
        assert len(status.nodes) == 2

    def test_a_failing_rank_ends_those_of_the_other_host(self, over_two: BATCH_LAUNCHER) -> None:
        code = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(60)"
        asked = job(python(code), 2)
        began = time.monotonic()
        status, _ = run(over_two, asked)
        assert time.monotonic() - began < 30
        assert status.state is JobState.FAILED
        assert status.cause.startswith("rank 1 exited 3")
        assert [e for e in status.exits if e.first] == [RankExit(1, 3, None, first=True)]
        assert self.left(asked.token) == []

    def test_cancelling_ends_the_ranks_of_both_hosts(self, over_two: BATCH_LAUNCHER) -> None:
        asked = job(python(SLEEP), 2)
        handle = over_two.submit(asked)
        wait_for_output(over_two, handle, "rank-1")
        over_two.cancel(handle)
        assert self.left(asked.token) == []
        assert over_two.status(handle).state is JobState.CANCELLED
        assert eventually(lambda: not self.queued(asked.token))

    def test_a_job_over_two_hosts_that_somebody_else_ends_is_stopped_and_whole(
        self, over_two: BATCH_LAUNCHER
    ) -> None:
        asked = job(python(SLEEP), 2)
        handle = over_two.submit(asked)
        for rank in ("rank-0", "rank-1"):
            wait_for_output(over_two, handle, rank)
        self.end_as_somebody_else(handle)
        streams = follow_to_end(over_two, handle)
        assert (streams["rank-0"], streams["rank-1"]) == (b"up\n", b"up\n")
        status = over_two.status(handle)
        assert (status.state, self.ended_by_hand in status.cause) == (JobState.STOPPED, True), status
        assert self.left(asked.token) == []

    def test_ranks_of_two_hosts_have_their_grace_time_when_somebody_else_ends_the_job(
        self, tmp_path: Path
    ) -> None:
        self.give_time()
        launcher = self.made(tmp_path, grace=10)
        handle = launcher.submit(job(python(SAVE), 2))
        for rank in ("rank-0", "rank-1"):
            wait_for_output(launcher, handle, rank)
        self.end_as_somebody_else(handle)
        streams = follow_to_end(launcher, handle)
        assert (streams["rank-0"], streams["rank-1"]) == (b"up\nsaved\n", b"up\nsaved\n")
        assert launcher.status(handle).state is JobState.STOPPED

    def test_no_rank_starts_before_the_last_host_is_there(self, tmp_path: Path) -> None:
        there, late = tmp_path / "there", tmp_path / "late-python"
        second = f'case "${self.host_variable} $*" in "{self.hosts[1]} "*keeper.py*)'
        late.write_text(f'#!/bin/sh\n{second} sleep 1; touch {there};; esac\nexec {sys.executable} "$@"\n')
        late.chmod(0o755)
        tell = f"import os; print(os.path.exists({str(there)!r}))"
        status, streams = run(self.made(tmp_path, python=str(late)), job(python(tell), 2))
        assert status.state is JobState.SUCCEEDED, (status, streams)
        assert (streams["rank-0"], streams["rank-1"]) == (b"True\n", b"True\n")

    # What waits

    def test_a_job_that_waits_says_for_what_and_can_be_cancelled(self, tmp_path: Path) -> None:
        launcher = self.made(tmp_path, **self.waits)
        handle = launcher.submit(job(python("print(1)")))
        assert eventually(lambda: self.waits_for in launcher.status(handle).cause)
        assert launcher.status(handle).state is JobState.PENDING
        launcher.cancel(handle)
        assert launcher.status(handle).state is JobState.CANCELLED
        assert follow_to_end(launcher, handle) == {}
        assert not self.queued(handle.token)

    def test_a_waiting_job_that_somebody_else_ends_is_stopped(self, tmp_path: Path) -> None:
        launcher = self.made(tmp_path, **self.waits)
        handle = launcher.submit(job(python("print(1)")))
        self.end_as_somebody_else(handle)
        assert follow_to_end(launcher, handle) == {}
        status = launcher.status(handle)
        assert (status.state, self.ended_by_hand in status.cause) == (JobState.STOPPED, True), status

    def test_a_reason_that_waiting_does_not_fix_has_its_remedy(self, tmp_path: Path) -> None:
        launcher = self.made(tmp_path, **self.held)
        handle = launcher.submit(job(python("print(1)")))
        assert eventually(lambda: self.released_by in launcher.status(handle).cause)
        launcher.cancel(handle)

    def test_a_job_in_the_queue_whose_number_was_not_kept_is_found_there(self, tmp_path: Path) -> None:
        launcher = self.made(tmp_path, **self.waits)
        handle = launcher.submit(job(python("print(1)")))
        (launcher.directory / handle.token / "submitted.json").unlink()
        assert launcher.find(handle.token) == handle
        launcher.cancel(handle)

    def test_a_job_that_was_given_up_runs_nothing_when_its_turn_comes(self, tmp_path: Path) -> None:
        launcher = self.made(tmp_path, **self.waits)
        handle = launcher.submit(job(python("print('ran')")))
        kept = launcher._kept(handle.token)
        kept.give_up()  # as an Assay does that never learnt of the number
        self.let_start(handle)
        assert "rank-0" not in follow_to_end(launcher, handle)
        assert launcher.status(handle).state is JobState.CANCELLED
        assert not (kept.directory / "streams").exists()
        assert eventually(lambda: script_exit_code(launcher, handle) == "75")

    # How it is refused, or fails before its ranks start

    def test_a_queue_that_is_not_there_is_the_platforms_fault_and_the_job_never_runs(
        self, tmp_path: Path
    ) -> None:
        launcher = self.made(tmp_path, directory=str(tmp_path / "jobs"), **self.nowhere)
        asked = job(python("print(1)"))
        with pytest.raises(PlatformError, match=self.refusal):
            launcher.submit(asked)
        assert asked.token not in {left.token for left in launcher.leftovers()}
        assert launcher.find(asked.token) is None
        launcher.discard([asked.token])
        assert asked.token not in {left.token for left in launcher.leftovers()}

    def test_a_command_that_fails_before_the_ranks_is_told_with_its_own_words(self, tmp_path: Path) -> None:
        before = ["echo loading", "echo 'no module named cuda/99' >&2; exit 7"]
        status, streams = run(self.made(tmp_path, before=before), job(python("print(1)")))
        assert status.state is JobState.FAILED
        assert "exited 7 before the ranks started" in status.cause
        assert "no module named cuda/99" in status.cause
        # a batch system carries output and errors side by side: their order may change
        lines = sorted(streams["batch"].splitlines())
        assert lines == [b"loading", b"no module named cuda/99"], streams

    def test_a_keeper_that_can_not_start_fails_the_job_with_the_words_of_its_host(
        self, tmp_path: Path
    ) -> None:
        launcher = self.made(tmp_path, python="/no/python", startup="3s")
        status, _ = run(launcher, job(python("print(1)"), 2))
        assert status.state is JobState.FAILED
        assert re.search(r"exited \d+ before the ranks started.*/no/python", status.cause), status

    def test_a_directory_that_the_hosts_do_not_see_is_told(self, tmp_path: Path) -> None:
        launcher = self.made(tmp_path, **self.waits)
        handle = launcher.submit(job(python("print(1)")))
        kept = launcher._kept(handle.token).directory
        (kept / "spec.json").rename(kept / "elsewhere.json")  # as on a host that sees another disk there
        self.let_start(handle)
        assert eventually(lambda: script_exit_code(launcher, handle) == "74")
        (kept / "elsewhere.json").rename(kept / "spec.json")
        follow_to_end(launcher, handle)
        status = launcher.status(handle)
        assert status.state is JobState.FAILED
        assert "set the system's `directory`" in status.cause

    # What ranks are given

    @pytest.mark.parametrize("ranks", [1, 2])
    def test_what_the_users_commands_export_reaches_the_ranks(self, tmp_path: Path, ranks: int) -> None:
        launcher = self.made(tmp_path, before=["export OF_THE_SITE='a b'", "cd /"])
        status, streams = run(launcher, job(python("import os; print(os.environ['OF_THE_SITE'])"), ranks))
        assert status.state is JobState.SUCCEEDED, (status, streams)
        assert [streams[f"rank-{rank}"] for rank in range(ranks)] == [b"a b\n"] * ranks

    def test_each_rank_has_a_gpu_of_the_allocation(self, tmp_path: Path) -> None:
        launcher = self.made(tmp_path, **self.with_gpus, placement="pack")
        tell = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
        status, streams = run(launcher, job(python(tell), 2))
        assert status.state is JobState.SUCCEEDED, (status, streams)
        assert streams["rank-0"] == streams["rank-1"] == b"0,1\n"

    # How the batch system ends it, or does not answer

    @pytest.mark.parametrize("exit_code", [0, 3])
    def test_a_job_that_is_ended_after_its_last_rank_is_stopped(self, tmp_path: Path, exit_code: int) -> None:
        ends_late, late = tmp_path / "python-that-ends-late", tmp_path / "late"
        # no child: Slurm's signals miss what is forked just then, and the job completes once that has ended
        stays = f'*keeper.py*) {sys.executable} "$@"; touch {late}; exec sleep 20;;'
        ends_late.write_text(f'#!/bin/sh\ncase "$*" in {stays} esac\nexec {sys.executable} "$@"\n')
        ends_late.chmod(0o755)
        launcher = self.made(tmp_path, python=str(ends_late), placement="pack")
        handle = launcher.submit(job(python(f"raise SystemExit({exit_code})")))
        assert eventually(late.exists, 30)
        self.end_as_somebody_else(handle)
        follow_to_end(launcher, handle)
        for asking in (launcher, self.made(tmp_path, placement="pack")):
            status = asking.status(handle)
            assert (status.state, self.ended_by_hand in status.cause) == (JobState.STOPPED, True), status

    def test_a_requeued_job_is_lost_and_its_second_start_runs_nothing(self, over_two: BATCH_LAUNCHER) -> None:
        handle = over_two.submit(job(python(SLEEP)))
        wait_for_output(over_two, handle)
        self.requeue(handle)
        assert follow_to_end(over_two, handle)["rank-0"] == b"up\n"
        status = over_two.status(handle)
        assert status.state is JobState.LOST, status
        assert f"{over_two.queue.called} requeued it" in status.cause
        assert eventually(lambda: not self.queued(handle.token), 60)

    def test_a_batch_system_that_does_not_answer_is_waited_for(
        self, over_two: BATCH_LAUNCHER, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("assay.launch.batch.job_state.LAST_WORD_S", 1.0)
        code = "import time\nfor i in range(40): print(i, flush=True); time.sleep(0.1)"
        handle = over_two.submit(job(python(code)))
        wait_for_output(over_two, handle)
        with self.down():
            streams = follow_to_end(over_two, handle)
            assert over_two.status(handle).state is JobState.SUCCEEDED
        assert streams["rank-0"].split() == [b"%d" % i for i in range(40)]


def script_exit_code(launcher: BATCH_LAUNCHER, handle: Handle) -> str:
    """Of the batch script, once the batch system calls the job over; "" until then."""
    told = launcher.queue.ask(int(number(handle)), handle.token)
    return told.exit_code.partition(":")[0] if told is not None and told.over else ""
