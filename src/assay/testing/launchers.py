"""What every launcher promises, as tests: a launcher's own test file inherits `LauncherContract`.

The jobs are real and small; they need a Python on the platform and nothing else.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import resource
import time
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest

from assay.errors import InputError, LaunchError
from assay.launch import processes
from assay.launch.launcher import Launcher
from assay.records import Handle, Job, JobState, JobStatus, NodeProgram, RankExit, Shape, Task, TaskFile

TELL_ALL = """
import json, os
with open("given.txt") as file:
    given = file.read()
print(json.dumps({"env": dict(os.environ), "given": given, "cwd": os.getcwd()}))
"""
IGNORE_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
END_WELL = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0))); "
)
WAIT_FOR_WORD = "import os, time\nwhile not os.path.exists({word!r}): time.sleep(0.01)\n"
# Forks twice and leaves session and process group, as a daemon does, and will not end when asked
DAEMONISE = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("daemon", flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(0.3)
"""
# The last rank starts a process that starts another, which needs the memory
GRANDCHILD_WITH_300_MB = """
import os, subprocess, sys
code = "text = b'x' * 300_000_000"
for _ in range(2):
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {code!r}], check=True)"
if os.environ["RANK"] == "1":
    exec(code)
"""


Test = TypeVar("Test", bound=Callable[..., None])


def essential(test: Test) -> Test:
    """Mark what to run always, where each test waits long for its platform."""
    test.essential = True  # type: ignore[attr-defined]
    return test


def python(code: str) -> tuple[str, ...]:
    return ("{python}", "-S", "-c", code)


def job(
    argv: tuple[str, ...],
    ranks: int = 1,
    *,
    timeout_s: float = 30.0,
    files: Mapping[str, bytes] | None = None,
    outputs: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    trial_id: str = "trial-1x1-r01",
    cwd: str | None = None,
    max_output_bytes: int | None = None,
) -> Job:
    sent = tuple(TaskFile(name, data) for name, data in (files or {}).items())
    task = Task(argv, env or {}, sent, cwd, outputs)
    return Job(
        uuid.uuid4().hex,
        trial_id,
        Shape(ranks, 1),
        task,
        seed=7,
        timeout_s=timeout_s,
        max_output_bytes=max_output_bytes,
    )


def follow_to_end(
    launcher: Launcher, handle: Handle, kept: Mapping[str, int] | None = None
) -> dict[str, bytes]:
    streams: defaultdict[str, bytearray] = defaultdict(bytearray)
    for output in launcher.follow(handle, kept or {}):
        if output is not None:
            streams[output.stream] += output.data
    return {name: bytes(data) for name, data in streams.items()}


def run(launcher: Launcher, to_run: Job) -> tuple[JobStatus, dict[str, bytes]]:
    handle = launcher.submit(to_run)
    streams = follow_to_end(launcher, handle)
    status = launcher.status(handle)
    launcher.forget(handle)
    return status, streams


def wait_for_output(launcher: Launcher, handle: Handle, stream: str = "rank-0", *, size: int = 1) -> None:
    printed = 0
    for output in launcher.follow(handle, {}):
        if output is not None and output.stream == stream:
            printed += len(output.data)
            if printed >= size:
                return
    pytest.fail(f"the job ended and {stream} had printed {printed} bytes")


def eventually(fact: Callable[[], bool], patience_s: float = 20.0) -> bool:
    give_up = time.monotonic() + patience_s
    while not fact() and time.monotonic() < give_up:
        time.sleep(0.02)
    return fact()


def left_here(token: str) -> list[str]:
    """The processes of a job that run on this machine, by their command lines."""
    left = []
    for pid in processes.with_variable("ASSAY_TOKEN", token):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            left.append(Path(f"/proc/{pid}/cmdline").read_text())
    return left


class RanksContract(ABC):
    """How ranks start, what comes of what they print, and how they end.

    Inherit it, say how a launcher is made and how to see what is left of a job.
    """

    @abstractmethod
    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        """A launcher with this grace time; the same spool finds the same jobs."""

    @abstractmethod
    def left(self, token: str) -> list[str]:
        """The processes (pods, steps) of a job that still run, as text."""

    @abstractmethod
    def end_as_somebody_else(self, handle: Handle) -> None:
        """What an administrator or the user does by hand to end a job, with the platform's own means."""

    def left_at_the_end(self, token: str) -> list[str]:
        """The same once a job is over; a platform that ends things of its own has a moment for it."""
        return self.left(token)

    @pytest.fixture
    def launcher(self, tmp_path: Path) -> Launcher:
        return self.make(tmp_path / "jobs", grace_s=0.5)

    # How it starts

    @pytest.mark.parametrize("ranks", [1, 3])
    @essential
    def test_every_rank_knows_its_number_its_seed_and_its_files(self, launcher: Launcher, ranks: int) -> None:
        to_run = job(python(TELL_ALL), ranks, files={"given.txt": b"here"}, env={"OF_THE_TASK": "yes"})
        status, streams = run(launcher, to_run)
        assert status.state is JobState.SUCCEEDED, (status, streams)
        assert status.exits == tuple(RankExit(rank, 0) for rank in range(ranks))
        assert status.hosts
        assert all(status.hosts), "the node of each keeper is known"
        reports = [json.loads(streams[f"rank-{rank}"]) for rank in range(ranks)]
        assert [t["env"]["RANK"] for t in reports] == [str(rank) for rank in range(ranks)]
        for t in reports:
            env = t["env"]
            assert env["WORLD_SIZE"] == str(ranks)
            assert 0 <= int(env["LOCAL_RANK"]) < int(env["LOCAL_WORLD_SIZE"]) <= ranks
            assert env["ASSAY_SEED"] == "7"
            assert env["ASSAY_TOKEN"] == to_run.token
            assert env["OF_THE_TASK"] == "yes"
            assert int(env["OMP_NUM_THREADS"]) >= 1
            assert t["given"] == "here"
        assert len({t["env"]["MASTER_ADDR"] + ":" + t["env"]["MASTER_PORT"] for t in reports}) == 1

    def test_ranks_run_at_the_same_time_and_can_meet_at_the_given_address(self, launcher: Launcher) -> None:
        meet = """
import os, socket, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(address) as server:
        print(server.accept()[0].recv(5).decode())
else:
    while True:
        try:
            socket.create_connection(address).send(b"hello")
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
"""
        status, streams = run(launcher, job(python(meet), 2))
        assert status.state is JobState.SUCCEEDED, (status, streams)
        assert streams["rank-0"] == b"hello\n"

    def test_two_jobs_at_once_have_different_addresses(self, launcher: Launcher) -> None:
        tell = "import os; print(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'], flush=True); "
        jobs = [job(python(tell + "import time; time.sleep(1)")) for _ in range(3)]
        handles = [launcher.submit(to_run) for to_run in jobs]
        addresses = {follow_to_end(launcher, handle)["rank-0"] for handle in handles}
        assert len(addresses) == 3

    def test_a_job_says_when_it_waits_when_it_runs_and_when_it_ended(self, launcher: Launcher) -> None:
        handle = launcher.submit(job(python("import time; print('up', flush=True); time.sleep(5)")))
        assert not launcher.status(handle).state.final
        wait_for_output(launcher, handle)
        assert launcher.status(handle).state is JobState.RUNNING
        follow_to_end(launcher, handle)
        status = launcher.status(handle)
        assert status.started_at is not None
        assert status.ended_at is not None
        assert abs(time.time() - status.ended_at) < 60
        assert 3.5 <= status.ended_at - status.started_at < 13

    @essential
    def test_a_token_is_submitted_once(self, launcher: Launcher) -> None:
        to_run = job(python("print('once')"))
        handle = launcher.submit(to_run)
        with pytest.raises(LaunchError, match=to_run.token):
            launcher.submit(to_run)
        assert follow_to_end(launcher, handle)["rank-0"] == b"once\n"

    def test_a_very_long_trial_name_is_no_obstacle(self, launcher: Launcher) -> None:
        status, streams = run(launcher, job(python("print(1)"), trial_id="größe/" + "x" * 2000))
        assert status.state is JobState.SUCCEEDED, status
        assert streams["rank-0"] == b"1\n"

    def test_a_file_name_that_leads_out_of_the_working_directory_is_refused(self, launcher: Launcher) -> None:
        for name in ("../outside", "/outside"):
            with pytest.raises(InputError, match="outside"):
                launcher.submit(job(python(""), files={name: b""}))

    # What it prints

    @essential
    def test_every_byte_comes_whether_text_or_not(self, launcher: Launcher) -> None:
        code = "import sys; sys.stdout.buffer.write('naïve 你好\\r\\n'.encode() + bytes(range(256)))"
        _, streams = run(launcher, job(python(code)))
        assert streams["rank-0"] == "naïve 你好\r\n".encode() + bytes(range(256))

    def test_standard_error_comes_with_standard_output_in_order(self, launcher: Launcher) -> None:
        code = "import os; [os.write(1 + i % 2, b'%d\\n' % i) for i in range(100)]"
        _, streams = run(launcher, job(python(code)))
        assert streams["rank-0"].split() == [b"%d" % i for i in range(100)]

    def test_a_job_that_prints_nothing_is_a_success_with_nothing_printed(self, launcher: Launcher) -> None:
        status, streams = run(launcher, job(python("pass"), 2))
        assert status.state is JobState.SUCCEEDED
        assert not streams.get("rank-0")
        assert not streams.get("rank-1")

    def test_following_a_silent_job_gives_word_five_times_a_second(self, launcher: Launcher) -> None:
        handle = launcher.submit(job(python("import time; time.sleep(1.5)")))
        moments = [time.monotonic() for _ in launcher.follow(handle, {})]
        gaps = [b - a for a, b in itertools.pairwise(moments)]
        assert len(gaps) >= 5
        assert sorted(gaps)[len(gaps) // 2] <= 0.2  # the usual gap: a busy machine may stretch one

    def test_following_from_what_is_kept_repeats_nothing(self, launcher: Launcher) -> None:
        handle = launcher.submit(job(python("print('abcdef')")))
        whole = follow_to_end(launcher, handle)
        sizes = {name: len(data) for name, data in whole.items()}
        assert follow_to_end(launcher, handle, sizes) == {}
        assert follow_to_end(launcher, handle, {**sizes, "rank-0": 2}) == {"rank-0": b"cdef\n"}

    def test_output_comes_while_the_job_runs(self, launcher: Launcher, tmp_path: Path) -> None:
        handle = launcher.submit(job(python("import time; print('first', flush=True); time.sleep(60)")))
        wait_for_output(launcher, handle)
        assert not launcher.status(handle).state.final
        launcher.cancel(handle)
        follow_to_end(launcher, handle)

    # How it ends

    @essential
    def test_a_failing_rank_is_named_with_its_exit_code_and_ends_the_others(self, launcher: Launcher) -> None:
        code = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(600)"
        began = time.monotonic()
        to_run = job(python(code), 3)
        status, _ = run(launcher, to_run)
        assert time.monotonic() - began < 300
        assert status.state is JobState.FAILED
        assert status.cause.startswith("rank 1 exited 3")
        assert [e for e in status.exits if e.first] == [RankExit(1, 3, None, first=True)]
        assert self.left_at_the_end(to_run.token) == []

    def test_a_rank_killed_by_a_signal_is_named_with_it(self, launcher: Launcher) -> None:
        code = "import os, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), 11)\ntime.sleep(60)"
        status, _ = run(launcher, job(python(code), 2))
        assert status.state is JobState.FAILED
        assert "rank 1" in status.cause
        assert "SIGSEGV" in status.cause
        assert [(e.rank, e.signal) for e in status.exits if e.first] == [(1, "SIGSEGV")]

    def test_a_rank_that_ends_well_before_the_others_ends_nobody(self, launcher: Launcher) -> None:
        code = "import os, time\nif os.environ['RANK'] == '1': time.sleep(0.7); print('late')"
        status, streams = run(launcher, job(python(code), 2))
        assert status.state is JobState.SUCCEEDED
        assert streams["rank-1"] == b"late\n"

    def test_a_program_that_does_not_exist_is_named_in_the_cause(self, launcher: Launcher) -> None:
        status, _ = run(launcher, job(("no-such-program", "--x")))
        assert status.state is JobState.FAILED
        assert "rank 0 exited 127" in status.cause
        assert "no-such-program" in status.cause

    @essential
    def test_what_each_node_runs_first_has_ended_before_its_ranks_start(self, launcher: Launcher) -> None:
        first = "import time; print(open('given.txt').read()); time.sleep(0.5); print(time.time())"
        to_run = job(python("import time; print(time.time())"), files={"given.txt": b"frames"})
        program = NodeProgram("staging", python(first), timeout_s=20.0)
        status, streams = run(launcher, replace(to_run, task=replace(to_run.task, before=program)))
        assert (status.state, status.cause) == (JobState.SUCCEEDED, "")
        content, ended_at = streams["staging-0"].decode().split()
        assert content == "frames"
        assert float(ended_at) <= float(streams["rank-0"])
        assert status.started_at is not None
        assert status.started_at >= float(ended_at) - 0.1  # no part of the trial's time

    def test_what_a_node_runs_first_ends_the_job_with_its_last_words(self, launcher: Launcher) -> None:
        failing = python("import sys; print('half way'); sys.exit('the disk is full')")
        hanging = python("import time; time.sleep(60)")
        for argv, limit_s, reason in (
            (failing, 20.0, "the disk is full"),
            (hanging, 0.5, "time limit of 0.5 s"),
        ):
            to_run = job(python("print('never')"))
            before = NodeProgram("staging", argv, timeout_s=limit_s)
            status, streams = run(launcher, replace(to_run, task=replace(to_run.task, before=before)))
            assert status.state is JobState.FAILED
            assert status.cause.startswith("staging on node 0: ")
            assert reason in status.cause
            assert "rank-0" not in streams

    def test_a_hanging_rank_ends_at_the_time_limit(self, launcher: Launcher) -> None:
        to_run = job(python("import time; print('up', flush=True); time.sleep(60)"), 2, timeout_s=1)
        status, streams = run(launcher, to_run)
        assert status.state is JobState.TIMED_OUT
        assert "time limit of 1 s" in status.cause
        assert not any(e.first for e in status.exits)
        assert streams["rank-0"] == b"up\n"
        assert self.left_at_the_end(to_run.token) == []

    def test_a_job_that_floods_its_log_is_ended_for_it(self, launcher: Launcher) -> None:
        code = "import time\nwhile True: print('x' * 999); time.sleep(0.0001)"
        status, _ = run(launcher, job(python(code), 2, timeout_s=120, max_output_bytes=5_000_000))
        assert status.state is JobState.FAILED
        assert "GB on one node, but max_output is 0.005 GB" in status.cause

    def test_a_rank_that_ignores_sigterm_is_killed_and_named(self, launcher: Launcher) -> None:
        to_run = job(python(IGNORE_TERM + "time.sleep(60)"), timeout_s=1)
        status, _ = run(launcher, to_run)
        assert status.state is JobState.TIMED_OUT
        assert [(e.rank, e.signal) for e in status.exits] == [(0, "SIGKILL")]
        assert "SIGTERM" in status.cause
        assert self.left_at_the_end(to_run.token) == []

    def test_a_rank_has_time_to_end_itself_when_asked(self, tmp_path: Path) -> None:
        code = """
import signal, sys, time
def save(*_):
    time.sleep(0.5); print("saved", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, save)
time.sleep(60)
"""
        status, streams = run(self.make(tmp_path, grace_s=20), job(python(code), timeout_s=1))
        assert status.state is JobState.TIMED_OUT
        assert streams["rank-0"] == b"saved\n"

    @pytest.mark.parametrize(
        "code", ["import time; print('up', flush=True); time.sleep(60)", IGNORE_TERM + "time.sleep(60)"]
    )
    @essential
    def test_cancelling_leaves_no_process(self, launcher: Launcher, code: str) -> None:
        to_run = job(python(code), 3)
        handle = launcher.submit(to_run)
        wait_for_output(launcher, handle, "rank-2")
        assert self.left(to_run.token) != []  # else the line below could not fail
        launcher.cancel(handle)
        assert self.left_at_the_end(to_run.token) == []
        assert launcher.status(handle).state is JobState.CANCELLED

    def test_cancelling_right_after_submitting_leaves_no_process(self, launcher: Launcher) -> None:
        to_run = job(python("import time; time.sleep(60)"), 2)
        handle = launcher.submit(to_run)
        launcher.cancel(handle)
        assert self.left_at_the_end(to_run.token) == []
        assert launcher.status(handle).state is JobState.CANCELLED

    @essential
    def test_a_job_that_somebody_else_ends_is_stopped_with_that_cause_and_not_cancelled(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        to_run = job(python("import time; print('up', flush=True); time.sleep(60)"), 2)
        handle = launcher.submit(to_run)
        for rank in ("rank-0", "rank-1"):
            wait_for_output(launcher, handle, rank)
        self.end_as_somebody_else(handle)
        streams = follow_to_end(launcher, handle)
        assert (streams["rank-0"], streams["rank-1"]) == (b"up\n", b"up\n")
        for asking in (launcher, self.make(tmp_path / "jobs", grace_s=0.5)):
            status = asking.status(handle)
            assert status.state is JobState.STOPPED, status
            assert "somebody" in status.cause
        launcher.cancel(handle)  # too late to be the one who ended it
        assert launcher.status(handle).state is JobState.STOPPED
        assert self.left_at_the_end(to_run.token) == []

    @pytest.mark.parametrize("exit_code", [0, 3])
    @essential
    def test_ranks_that_handle_the_sigterm_of_somebody_else_make_no_result(
        self, launcher: Launcher, exit_code: int
    ) -> None:
        code = END_WELL.replace("exit(0)", f"exit({exit_code})") + "print('up', flush=True); time.sleep(60)"
        to_run = job(python(code), 2)
        handle = launcher.submit(to_run)
        for rank in ("rank-0", "rank-1"):
            wait_for_output(launcher, handle, rank)
        self.end_as_somebody_else(handle)
        follow_to_end(launcher, handle)
        status = launcher.status(handle)
        assert status.state is JobState.STOPPED, status
        assert "somebody" in status.cause

    def test_what_a_job_printed_before_it_was_cancelled_is_not_lost(self, launcher: Launcher) -> None:
        code = "import time; print('up', flush=True); time.sleep(60)"
        handle = launcher.submit(job(python(code)))
        printed = b""
        for output in launcher.follow(handle, {}):
            if output is not None and output.stream == "rank-0":
                printed += output.data
                launcher.cancel(handle)
        assert printed == b"up\n"

    def test_cancelling_a_job_that_has_ended_changes_nothing(self, launcher: Launcher) -> None:
        handle = launcher.submit(job(python("print(1)")))
        follow_to_end(launcher, handle)
        launcher.cancel(handle)
        assert launcher.status(handle).state is JobState.SUCCEEDED

    def test_the_memory_of_the_largest_process_is_counted(self, launcher: Launcher) -> None:
        status, streams = run(launcher, job(python(GRANDCHILD_WITH_300_MB), 2))
        assert status.state is JobState.SUCCEEDED, (status, streams)
        assert status.nodes
        assert 300e6 <= max(node.peak_rss_bytes or 0 for node in status.nodes) < 330e6

    def test_a_daemon_that_a_rank_left_behind_is_ended_with_the_job(self, launcher: Launcher) -> None:
        to_run = job(python(DAEMONISE))
        handle = launcher.submit(to_run)
        wait_for_output(launcher, handle)
        assert self.left(to_run.token) != []
        assert follow_to_end(launcher, handle)["rank-0"] == b"daemon\n"
        assert launcher.status(handle).state is JobState.SUCCEEDED
        assert self.left_at_the_end(to_run.token) == []


class LauncherContract(RanksContract):
    """All of it: also what is shown of a job before, how it is found again, and what is kept of it.

    kills  at how many moments of a submission Assay is killed
    """

    kills: ClassVar[int] = 8

    # What is shown before

    def test_an_equal_job_renders_to_the_same_bytes_whatever_its_token(self, launcher: Launcher) -> None:
        first, second = (job(python("print(1)"), 2, files={"given.txt": b"here"}) for _ in range(2))
        assert first.token != second.token
        assert launcher.render(first) == launcher.render(second)
        assert first.token not in repr(launcher.render(first))

    @essential
    def test_rendering_shows_the_environment_and_the_digests_of_the_files(self, launcher: Launcher) -> None:
        to_run = job(python("print(1)"), files={"given.txt": b"here"}, env={"OF_THE_TASK": "yes"})
        rendered = launcher.render(to_run)
        assert rendered.env["OF_THE_TASK"] == "yes"
        assert rendered.files == {"given.txt": f"sha256:{to_run.task.files[0].sha256}"}
        assert "print(1)" in rendered.command

    # How much it can print

    @pytest.mark.parametrize("megabytes", [48, 200])
    def test_much_output_comes_whole_through_flat_memory(self, launcher: Launcher, megabytes: int) -> None:
        lines = megabytes * 2**20 // 64
        code = f"import sys\nfor i in range({lines}): sys.stdout.write('%063d\\n' % i)"
        handle = launcher.submit(job(python(code), timeout_s=300))
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        line, rest = 0, b""
        for output in launcher.follow(handle, {}):
            if output is None or output.stream != "rank-0":
                continue
            assert len(output.data) <= 2**20
            *whole, rest = (rest + output.data).split(b"\n")
            assert [int(text) for text in whole] == list(range(line, line + len(whole)))
            line += len(whole)
        assert (line, rest) == (lines, b"")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 32 * 1024

    # How it is found again

    @essential
    def test_a_job_whose_assay_was_killed_is_found_and_its_output_is_whole(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        code = "import time\nfor i in range(20): print(i, flush=True); time.sleep(0.05)"
        to_run = job(python(code))
        forked = multiprocessing.get_context("fork")
        submitted = forked.Event()
        assay = forked.Process(target=_submit_and_hang, args=(launcher, to_run, submitted))
        assay.start()
        assert submitted.wait(60)
        assay.kill()
        assay.join()
        later = self.make(tmp_path / "jobs", grace_s=0.5)
        handle = later.find(to_run.token)
        assert handle is not None
        wait_for_output(later, handle, size=4)
        streams = follow_to_end(later, handle, {"rank-0": 4})
        assert streams["rank-0"].split() == [b"%d" % i for i in range(2, 20)]
        assert later.status(handle).state is JobState.SUCCEEDED

    def test_a_job_is_found_after_it_has_ended(self, launcher: Launcher, tmp_path: Path) -> None:
        to_run = job(python("print(1)"))
        handle = launcher.submit(to_run)
        follow_to_end(launcher, handle)
        assert self.make(tmp_path / "jobs", grace_s=0.5).find(to_run.token) == handle

    def test_a_token_never_submitted_is_not_found_and_can_start_nothing_later(
        self, launcher: Launcher
    ) -> None:
        to_run = job(python("print(1)"))
        assert launcher.find(to_run.token) is None
        assert launcher.find(to_run.token) is None
        with pytest.raises(LaunchError):
            launcher.submit(to_run)
        assert self.left_at_the_end(to_run.token) == []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """As many moments of the kill as the launcher requests."""
        if "moment" in metafunc.fixturenames:
            metafunc.parametrize("moment", range(self.kills))

    @essential
    def test_killed_while_it_submits_a_job_either_runs_once_or_never(
        self, launcher: Launcher, tmp_path: Path, moment: int
    ) -> None:
        to_run = job(python("print('ran')"))
        assay = multiprocessing.get_context("fork").Process(target=launcher.submit, args=(to_run,))
        assay.start()
        time.sleep(random.Random(moment).uniform(0, 0.08))
        assay.kill()
        assay.join()
        later = self.make(tmp_path / "jobs", grace_s=0.5)
        handle = later.find(to_run.token)
        if handle is None:
            # a keeper that came too late may only now begin to read that it did
            assert later.find(to_run.token) is None
            give_up = time.monotonic() + 30
            while (left := self.left(to_run.token)) and time.monotonic() < give_up:
                time.sleep(0.05)
            assert left == [], left
        else:
            assert follow_to_end(later, handle)["rank-0"] == b"ran\n"
            assert later.status(handle).state is JobState.SUCCEEDED

    # What is kept of it

    @essential
    def test_files_that_a_job_wrote_come_whole_and_others_do_not(self, launcher: Launcher) -> None:
        code = """
import os
os.makedirs("deep/er")
open("deep/er/a.csv", "wb").write(bytes(range(256)) * 12000)
open("empty.csv", "w").close()
open("other.txt", "w").write("no")
os.symlink("/etc/passwd", "link.csv")
os.symlink("/etc", "directory")
"""
        to_run = job(python(code), files={"given.csv": b"sent"}, outputs=("**/*.csv",))
        handle = launcher.submit(to_run)
        follow_to_end(launcher, handle)
        files: defaultdict[str, bytes] = defaultdict(bytes)
        for part in launcher.fetch(handle, to_run.task.outputs):
            assert len(part.data) <= 2**20
            files[part.stream] += part.data
        assert dict(files) == {"deep/er/a.csv": bytes(range(256)) * 12000, "empty.csv": b""}
        assert list(launcher.fetch(handle, ["nothing-*"])) == []

    def test_a_pattern_that_leads_out_of_the_working_directory_is_refused(self, launcher: Launcher) -> None:
        handle = launcher.submit(job(python("pass")))
        follow_to_end(launcher, handle)
        for pattern in ("../*", "/etc/*"):
            with pytest.raises(InputError):
                list(launcher.fetch(handle, [pattern]))

    @essential
    def test_forgetting_removes_a_job_and_twice_is_once(self, launcher: Launcher) -> None:
        to_run = job(python("print(1)"))
        handle = launcher.submit(to_run)
        follow_to_end(launcher, handle)
        launcher.forget(handle)
        launcher.forget(handle)
        assert launcher.status(handle).state is JobState.LOST
        assert follow_to_end(launcher, handle) == {}

    def test_a_running_job_is_not_forgotten(self, launcher: Launcher) -> None:
        handle = launcher.submit(job(python("import time; time.sleep(60)")))
        with pytest.raises(LaunchError, match="is still running"):
            launcher.forget(handle)
        launcher.cancel(handle)

    def test_what_a_lost_run_left_is_found_without_its_handle_and_can_be_removed(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        to_run = job(python("import time; print('up', flush=True); time.sleep(60)"))
        wait_for_output(launcher, launcher.submit(to_run))
        later = self.make(tmp_path / "jobs", grace_s=0.5)
        leftovers = {left.token: left for left in later.leftovers()}
        assert leftovers[to_run.token].runs
        assert leftovers[to_run.token].what
        later.discard([to_run.token])
        assert self.left_at_the_end(to_run.token) == []
        assert to_run.token not in {left.token for left in later.leftovers()}
        later.discard([to_run.token])  # twice is once


def _submit_and_hang(launcher: Launcher, to_run: Job, submitted: Event) -> None:
    launcher.submit(to_run)
    submitted.set()
    time.sleep(60)
