"""LSF: the contract on one host and over two, and what only LSF can show; its commands are stood in for."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay import launch
from assay.errors import LaunchError, OptionsError, PlatformError
from assay.launch import processes
from assay.launch.launcher import JobRefusedError, Launcher
from assay.launch.lsf.launcher import LsfLauncher
from assay.launch.lsf.options import LsfSystem
from assay.records import Extent, Handle, JobState, RankExit
from launcher_contract import (
    LauncherContract,
    follow_to_end,
    job,
    python,
    run,
    wait_for_output,
)
from lsf_cluster import HOSTS, job_of, lsf_commands  # noqa: F401  (a fixture)
from lsf_stand_in import Cluster

SLEEP = "import time; print('up', flush=True); time.sleep(60)"

pytestmark = pytest.mark.usefixtures("lsf")


def bkill(handle: Handle, *, as_admin: bool = False) -> None:
    env = {**os.environ, **({"LSF_STAND_IN_ADMIN": "1"} if as_admin else {})}
    subprocess.run(["bkill", number(handle)], check=True, capture_output=True, env=env)


def number(handle: Handle) -> str:
    return str(handle.data["job_id"])


def eventually(fact: Callable[[], bool], patience_s: float = 20.0) -> bool:
    give_up = time.monotonic() + patience_s
    while not fact() and time.monotonic() < give_up:
        time.sleep(0.05)
    return fact()


class TestOnOneHost(LauncherContract):
    brief = True

    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return launch.make("lsf", LsfSystem(grace=grace_s, placement="pack"), spool=spool)

    def left(self, token: str) -> list[str]:
        found = [Path(f"/proc/{pid}/cmdline") for pid in processes.with_variable("ASSAY_TOKEN", token)]
        return [path.read_text() for path in found]

    def end_as_somebody_else(self, handle: Handle) -> None:
        bkill(handle, as_admin=True)


left = TestOnOneHost().left


def made(tmp_path: Path, **options: object) -> LsfLauncher:
    return LsfLauncher(LsfSystem.model_validate({"grace": 0.5, **options}), tmp_path / "jobs")


@pytest.fixture
def launcher(tmp_path: Path) -> LsfLauncher:
    """Each worker has a host."""
    return made(tmp_path)


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A command of LSF that does not come back is given up soon, and so is LSF's word on a job's end."""
    monkeypatch.setattr("assay.launch.batch.life.LAST_WORD_S", 1.0)
    monkeypatch.setattr("assay.launch.lsf.commands.ASK_TIMEOUT_S", 1.0)
    return


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
def test_what_the_contract_promises_holds_over_two_hosts(launcher: LsfLauncher, promise: str) -> None:
    getattr(TestOnOneHost(), promise)(launcher)


def test_two_workers_have_two_hosts_and_global_numbers(launcher: LsfLauncher) -> None:
    tell = "import json, os; print(json.dumps(dict(os.environ)))"
    status, streams = run(launcher, job(python(tell), 2))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert status.exits == (RankExit(0, 0), RankExit(1, 0))
    told = [json.loads(streams[f"rank-{rank}"]) for rank in (0, 1)]
    assert [t["RANK"] for t in told] == ["0", "1"]
    assert [t["LOCAL_RANK"] for t in told] == ["0", "0"]
    assert [t["NODE_RANK"] for t in told] == ["0", "1"]
    assert [t["LSF_STAND_IN_HOST"] for t in told] == [*HOSTS]
    assert {t["MASTER_ADDR"] for t in told} == {HOSTS[0]}
    assert {"probe-0", "probe-1"} <= streams.keys()
    assert len(status.nodes) == 2


def test_a_failing_rank_ends_those_of_the_other_host(launcher: LsfLauncher) -> None:
    code = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(60)"
    asked = job(python(code), 2)
    began = time.monotonic()
    status, _ = run(launcher, asked)
    assert time.monotonic() - began < 30
    assert status.state is JobState.FAILED
    assert status.cause.startswith("rank 1 exited 3")
    assert [e for e in status.exits if e.first] == [RankExit(1, 3, None, first=True)]
    assert left(asked.token) == []


def test_cancelling_ends_the_ranks_of_both_hosts(launcher: LsfLauncher) -> None:
    asked = job(python(SLEEP), 2)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-1")
    launcher.cancel(handle)
    assert left(asked.token) == []
    assert launcher.status(handle).state is JobState.CANCELLED


def test_ranks_of_two_hosts_have_their_grace_time_when_somebody_else_ends_the_job(
    tmp_path: Path,
    lsf: Cluster,
) -> None:
    with lsf.changed() as state:
        state["kill_interval_s"] = 5.0
    code = (
        "import signal, sys, time\n"
        "def save(*_):\n    time.sleep(1); print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\nprint('up', flush=True)\ntime.sleep(60)"
    )
    launcher = made(tmp_path, grace=10)
    handle = launcher.submit(job(python(code), 2))
    for rank in ("rank-0", "rank-1"):
        wait_for_output(launcher, handle, rank)
    bkill(handle, as_admin=True)
    streams = follow_to_end(launcher, handle)
    assert (streams["rank-0"], streams["rank-1"]) == (b"up\nsaved\n", b"up\nsaved\n")
    assert launcher.status(handle).state is JobState.STOPPED


# What waits


def test_a_job_that_waits_says_for_what_and_can_be_cancelled(tmp_path: Path) -> None:
    launcher = made(tmp_path, bsub=["-b 23:59"])
    handle = launcher.submit(job(python("print(1)")))
    assert eventually(lambda: "start time has not yet arrived" in launcher.status(handle).cause, 5)
    assert launcher.status(handle).state is JobState.PENDING
    launcher.cancel(handle)
    assert launcher.status(handle).state is JobState.CANCELLED
    assert follow_to_end(launcher, handle) == {}


def test_a_waiting_job_that_somebody_else_kills_is_stopped(tmp_path: Path) -> None:
    launcher = made(tmp_path, bsub=["-b 23:59"])
    handle = launcher.submit(job(python("print(1)")))
    bkill(handle, as_admin=True)
    assert follow_to_end(launcher, handle) == {}
    status = launcher.status(handle)
    assert status.state is JobState.STOPPED, status
    assert "LSF says EXIT (TERM_ADMIN: job killed by root or LSF administrator)" in status.cause


def test_a_reason_that_waiting_does_not_fix_has_its_remedy(tmp_path: Path) -> None:
    launcher = made(tmp_path, bsub=["-H"])
    handle = launcher.submit(job(python("print(1)")))
    assert eventually(lambda: "bresume lets it go on" in launcher.status(handle).cause, 5)
    launcher.cancel(handle)


def test_a_job_in_the_queue_whose_number_was_not_kept_is_found_there(tmp_path: Path) -> None:
    launcher = made(tmp_path, bsub=["-b 23:59"])
    handle = launcher.submit(job(python("print(1)")))
    (launcher.directory / handle.token / "submitted.json").unlink()
    assert launcher.find(handle.token) == handle
    launcher.cancel(handle)


def test_a_job_that_was_given_up_runs_nothing_when_its_turn_comes(
    tmp_path: Path,
    lsf: Cluster,
) -> None:
    launcher = made(tmp_path, bsub=["-b 23:59"])
    asked = job(python("print('ran')"))
    handle = launcher.submit(asked)
    launcher._kept(asked.token).give_up()  # as an Assay does that never learnt of the number
    with lsf.changed() as state:
        state["jobs"][number(handle)]["begin"] = False
    subprocess.run(["badmin", "reconfig"], check=True)
    assert "rank-0" not in follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.CANCELLED
    assert eventually(lambda: job_of(lsf, asked.token)["exit_code"] == 75)


def test_a_job_that_waits_in_vain_is_taken_out_of_the_queue_with_who_else_would(
    tmp_path: Path,
    lsf: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.launch.batch.life.HOPELESS_FOR_S", 0.5)
    launcher = made(tmp_path, bsub=["-b 23:59"])
    handle = launcher.submit(job(python("print(1)")))
    with lsf.changed() as state:
        state["jobs"][number(handle)]["pend_reason"] = "The queue is inactivated by the administrator;"
    assert follow_to_end(launcher, handle) == {}
    status = launcher.status(handle)
    assert (status.state, status.extent) == (JobState.FAILED, Extent.PLATFORM), status
    assert "inactivated by the administrator; the queue or its hosts take no jobs now" in status.cause
    assert job_of(lsf, handle.token)["stat"] == "EXIT"


# What LSF refuses, ends or loses


def test_a_queue_that_is_not_there_is_the_platforms_fault_and_the_job_never_runs(tmp_path: Path) -> None:
    launcher = made(tmp_path, queue="nope")
    asked = job(python("print(1)"))
    with pytest.raises(PlatformError, match=r"bsub refused the job: nope: No such queue\. Job not submitted"):
        launcher.submit(asked)
    assert launcher.find(asked.token) is None


@pytest.mark.parametrize(
    ("options", "ranks", "said", "extent"),
    [
        ({}, 99, "Too many processors requested", Extent.SHAPE),
        ({"resources": ["select[mem>1"]}, 1, "Bad resource requirement syntax", Extent.SYSTEM),
        ({"hosts": ["nowhere"]}, 1, "Bad host name", Extent.SYSTEM),
    ],
)
def test_a_refusal_says_which_other_jobs_would_meet_it(
    tmp_path: Path, options: dict[str, object], ranks: int, said: str, extent: Extent
) -> None:
    with pytest.raises(JobRefusedError, match=said) as refused:
        made(tmp_path, **options).submit(job(python("print(1)"), ranks))
    assert refused.value.extent is extent


def test_a_directory_that_a_shell_would_take_apart_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="can't be named to LSF"):
        made(tmp_path / "with space").render(job(python("")))


def test_a_command_that_fails_before_the_ranks_is_told_with_its_own_words(tmp_path: Path) -> None:
    launcher = made(tmp_path, before=["echo loading", "echo 'no module named cuda/99' >&2; exit 7"])
    status, streams = run(launcher, job(python("print(1)")))
    assert status.state is JobState.FAILED
    assert "exited 7 before the ranks started" in status.cause
    assert "no module named cuda/99" in status.cause
    assert streams["batch"] == b"loading\nno module named cuda/99\n"


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_the_users_commands_export_reaches_the_ranks(tmp_path: Path, ranks: int) -> None:
    launcher = made(tmp_path, before=["export OF_THE_SITE='a b'", "cd /"])
    status, streams = run(launcher, job(python("import os; print(os.environ['OF_THE_SITE'])"), ranks))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert [streams[f"rank-{rank}"] for rank in range(ranks)] == [b"a b\n"] * ranks


def test_each_rank_has_a_gpu_of_the_allocation(tmp_path: Path) -> None:
    launcher = made(tmp_path, gpu="mode=exclusive_process", placement="pack")
    status, streams = run(launcher, job(python("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"), 2))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert streams["rank-0"] == streams["rank-1"] == b"0,1\n"


def test_a_keeper_that_can_not_start_on_a_host_fails_the_job_with_the_words_of_that_host(
    tmp_path: Path,
) -> None:
    launcher = made(tmp_path, python="/no/python", startup="3s")
    status, _ = run(launcher, job(python("print(1)"), 2))
    assert status.state is JobState.FAILED
    assert "exited 127 before the ranks started" in status.cause
    assert "/no/python" in status.cause


@pytest.mark.parametrize(
    ("term", "state", "words"),
    [
        ("TERM_MEMLIMIT", JobState.FAILED, "ran out of the memory that LSF gave it: raise `mem`"),
        ("TERM_PREEMPT", JobState.LOST, "TERM_PREEMPT: job killed after preemption"),
    ],
)
def test_what_lsf_itself_ends_has_its_cause(
    launcher: LsfLauncher,
    lsf: Cluster,
    term: str,
    state: JobState,
    words: str,
) -> None:
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    with lsf.changed() as changed:
        changed["jobs"][number(handle)]["kill"] = term
    assert follow_to_end(launcher, handle)["rank-0"] == b"up\n"
    status = launcher.status(handle)
    assert (status.state, words in status.cause) == (state, True), status
    assert left(handle.token) == []


def test_lsfs_run_limit_ends_a_job_that_started_too_slowly(tmp_path: Path, lsf: Cluster) -> None:
    launcher = made(tmp_path, before=["sleep 60"])
    with lsf.changed() as state:
        state["minute_s"] = 0.1
    status, _ = run(launcher, job(python("print(1)")))
    assert status.state is JobState.TIMED_OUT, status
    assert "raise the system's `startup`" in status.cause


def test_a_directory_that_the_hosts_do_not_see_is_told(tmp_path: Path, lsf: Cluster) -> None:
    launcher = made(tmp_path, bsub=["-b 23:59"])
    handle = launcher.submit(job(python("print(1)")))
    kept = launcher._kept(handle.token).directory
    (kept / "spec.json").rename(kept / "elsewhere.json")  # as on a host that sees another disk there
    with lsf.changed() as state:
        state["jobs"][number(handle)]["begin"] = False
    subprocess.run(["badmin", "reconfig"], check=True)
    assert eventually(lambda: job_of(lsf, handle.token)["exit_code"] == 74)
    (kept / "elsewhere.json").rename(kept / "spec.json")
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert status.state is JobState.FAILED
    assert "set the system's `directory`" in status.cause


def test_a_job_that_was_requeued_is_lost_and_its_second_start_runs_nothing(
    launcher: LsfLauncher,
    lsf: Cluster,
) -> None:
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    with lsf.changed() as state:
        state["jobs"][number(handle)]["begin"] = True
        state["jobs"][number(handle)]["kill"] = "TERM_REQUEUE_ADMIN"
    assert eventually(lambda: job_of(lsf, handle.token)["ended"] is not None)
    with lsf.changed() as state:  # brequeue: it waits again under its number
        state["jobs"][number(handle)] |= {
            "stat": "PEND",
            "kill": "",
            "term": "",
            "hosts": [],
            "started": None,
        }
    assert follow_to_end(launcher, handle)["rank-0"] == b"up\n"
    status = launcher.status(handle)
    assert status.state is JobState.LOST, status
    assert "LSF requeued it" in status.cause
    assert job_of(lsf, handle.token)["stat"] == "EXIT"


# Hosts that fail


def test_a_host_that_lsf_misses_for_a_while_is_told_and_no_failure(
    launcher: LsfLauncher,
    lsf: Cluster,
) -> None:
    word = launcher.directory.parent / "word"
    code = (
        f"import os, time; print('up', flush=True)\nwhile not os.path.exists({str(word)!r}): time.sleep(0.05)"
    )
    handle = launcher.submit(job(python(code)))
    wait_for_output(launcher, handle)
    with lsf.changed() as state:
        state["hosts"][HOSTS[0]]["status"] = "unreach"
    assert eventually(lambda: "LSF says UNKWN: 127.0.1.1 does not answer" in launcher.status(handle).cause)
    assert launcher.status(handle).state is JobState.RUNNING
    with lsf.changed() as state:
        state["hosts"][HOSTS[0]]["status"] = "ok"
    word.touch()
    follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.SUCCEEDED


def test_a_lost_first_host_holds_a_trial_no_longer_than_its_limit(
    launcher: LsfLauncher,
    lsf: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.launch.batch.shared_directory.OVERDUE_S", 2.0)
    handle = launcher.submit(job(python(SLEEP), timeout_s=4))
    wait_for_output(launcher, handle)
    with lsf.changed() as state:
        state["hosts"][HOSTS[0]]["status"] = "unreach"
    lsf.send(signal.SIGKILL, host=HOSTS[0])
    assert follow_to_end(launcher, handle)["rank-0"] == b"up\n"
    status = launcher.status(handle)
    assert status.state is JobState.LOST, status
    assert "LSF still says UNKWN" in status.cause
    assert job_of(lsf, handle.token)["stat"] == "ZOMBI", "it is ended when the host comes back"


def test_a_lost_second_host_is_named(launcher: LsfLauncher, lsf: Cluster) -> None:
    handle = launcher.submit(job(python(SLEEP), 2))
    for rank in ("rank-0", "rank-1"):
        wait_for_output(launcher, handle, rank)
    with lsf.changed() as state:
        state["hosts"][HOSTS[1]]["status"] = "unavail"
    lsf.send(signal.SIGKILL, host=HOSTS[1])
    began = time.monotonic()
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert time.monotonic() - began < 30
    assert status.state is JobState.LOST, status
    assert "127.0.1.2 (unavail)" in status.cause
    assert left(handle.token) == []


# An LSF that is down or slow


def test_an_lsf_that_is_down_is_waited_for(
    launcher: LsfLauncher,
    lsf: Cluster,
    short_patience: None,
) -> None:
    code = "import time\nfor i in range(40): print(i, flush=True); time.sleep(0.1)"
    handle = launcher.submit(job(python(code)))
    wait_for_output(launcher, handle)
    with lsf.changed() as state:
        state["down"] = True
    streams = follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.SUCCEEDED
    assert streams["rank-0"].split() == [b"%d" % i for i in range(40)]


def test_what_an_lsf_that_is_down_can_not_be_asked_is_no_answer(
    launcher: LsfLauncher,
    lsf: Cluster,
    short_patience: None,
) -> None:
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    with lsf.changed() as state:
        state["down"] = True
    with pytest.raises(PlatformError, match="LSF does not answer: bsub: no answer within 1 s"):
        launcher.submit(job(python("print(1)")))
    with pytest.raises(LaunchError, match="LSF does not answer"):
        launcher.leftovers()
    assert launcher.status(handle).state is JobState.RUNNING
    with lsf.changed() as state:
        state["down"] = False
    launcher.cancel(handle)
    assert launcher.status(handle).state is JobState.CANCELLED


def test_a_slow_lsf_holds_no_output_up(launcher: LsfLauncher, lsf: Cluster) -> None:
    handle = launcher.submit(
        job(python("import time\nfor i in range(30): print(i, flush=True); time.sleep(0.1)"))
    )
    with lsf.changed() as state:
        state["slow_s"] = 3.0
    moments = [time.monotonic() for _ in launcher.follow(handle, {})]
    gaps = [b - a for a, b in itertools.pairwise(moments)]
    assert max(gaps) < 2.0
    assert launcher.status(handle).state is JobState.SUCCEEDED


# Numbers that come again, and jobs that LSF has forgotten


def test_a_number_that_came_again_is_not_taken_for_the_job_and_not_killed(
    launcher: LsfLauncher,
    lsf: Cluster,
) -> None:
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    with lsf.changed() as state:
        state["jobs"][number(handle)]["name"] = "somebody-elses"
    launcher.queue.end(int(number(handle)), handle.token)
    launcher.queue.ask_to_end(int(number(handle)), handle.token)
    assert launcher.queue.ask(int(number(handle)), handle.token) is None
    assert lsf.read()["jobs"][number(handle)]["kill"] == ""
    assert launcher.status(handle).state is JobState.RUNNING or left(handle.token)


@pytest.mark.parametrize(("exit_code", "state"), [(0, "DONE"), (7, "EXIT")])
def test_bhist_tells_of_a_job_that_bjobs_has_forgotten(
    tmp_path: Path,
    lsf: Cluster,
    exit_code: int,
    state: str,
) -> None:
    launcher = made(tmp_path, before=[f"exit {exit_code}"])
    handle = launcher.submit(job(python("print(1)")))
    follow_to_end(launcher, handle)
    with lsf.changed() as changed:
        changed["jobs"][number(handle)]["forgotten"] = True
    told = launcher.queue.ask(int(number(handle)), handle.token)
    assert told is not None
    assert (told.state, told.exit_code, told.nodes) == (state, str(exit_code), HOSTS[0])
