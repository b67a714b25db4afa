"""LSF: the contracts on stand-ins for its commands, and what only LSF can show."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pytest

from assay.errors import LaunchError, OptionsError, PlatformError
from assay.launch.launcher import JobRefusedError
from assay.records import Extent, Handle, JobState
from assay.testing.launchers import eventually, follow_to_end, job, left_here, python, run, wait_for_output
from batch_contract import BATCH_LAUNCHER, SLEEP, BatchLauncherContract, number
from lsf_cluster import HOSTS, down, job_of, lsf_commands  # noqa: F401  (a fixture)
from lsf_stand_in import UNFINISHED, Cluster

pytestmark = pytest.mark.usefixtures("lsf")


@pytest.mark.long  # the local launcher passes the same contract in every run
class TestLsf(BatchLauncherContract):
    launcher_name = "lsf"
    hosts = HOSTS
    host_variable = "LSF_STAND_IN_HOST"
    waits, waits_for = {"bsub": ["-b 23:59"]}, "start time has not yet arrived"
    held, released_by = {"bsub": ["-H"]}, "bresume resumes it"
    nowhere: ClassVar = {"queue": "nope"}
    refusal = r"bsub refused the job: nope: No such queue\. Job not submitted"
    with_gpus: ClassVar = {"gpu": "mode=exclusive_process"}
    ended_by_hand = "LSF says EXIT (TERM_ADMIN: job killed by root or LSF administrator)"

    @pytest.fixture(autouse=True)
    def cluster(self, lsf: Cluster) -> None:
        self.lsf = lsf

    def end_as_somebody_else(self, handle: Handle) -> None:
        env = {**os.environ, "LSF_STAND_IN_ADMIN": "1"}
        subprocess.run(["bkill", number(handle)], check=True, capture_output=True, env=env)

    def queued(self, token: str) -> bool:
        return job_of(self.lsf, token)["stat"] in UNFINISHED

    def let_start(self, handle: Handle) -> None:
        with self.lsf.changed() as state:
            state["jobs"][number(handle)]["begin"] = False
        subprocess.run(["badmin", "reconfig"], check=True)

    def requeue(self, handle: Handle) -> None:
        with self.lsf.changed() as state:
            state["jobs"][number(handle)] |= {"begin": True, "kill": "TERM_REQUEUE_ADMIN"}
        assert eventually(lambda: job_of(self.lsf, handle.token)["ended"] is not None)
        waits = {"stat": "PEND", "kill": "", "term": "", "hosts": [], "started": None}
        with self.lsf.changed() as state:  # brequeue: it waits again under its number
            state["jobs"][number(handle)] |= waits

    def down(self) -> AbstractContextManager[None]:
        return down(self.lsf)

    def give_time(self) -> None:
        with self.lsf.changed() as state:
            state["kill_interval_s"] = 5.0


made = TestLsf().made


@pytest.fixture
def launcher(tmp_path: Path) -> BATCH_LAUNCHER:
    """Each worker has a host."""
    return made(tmp_path)


# What LSF refuses, or lets wait in vain


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
    with pytest.raises(OptionsError, match="can't be passed to LSF"):
        made(tmp_path / "with space").render(job(python("")))


@pytest.mark.long
def test_a_job_that_waits_in_vain_is_taken_out_of_the_queue_with_who_else_would(
    tmp_path: Path,
    lsf: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.launch.batch.job_state.HOPELESS_FOR_S", 0.5)
    launcher = made(tmp_path, bsub=["-b 23:59"])
    handle = launcher.submit(job(python("print(1)")))
    with lsf.changed() as state:
        state["jobs"][number(handle)]["pend_reason"] = "The queue is inactivated by the administrator;"
    assert follow_to_end(launcher, handle) == {}
    status = launcher.status(handle)
    assert (status.state, status.extent) == (JobState.FAILED, Extent.PLATFORM), status
    assert "inactivated by the administrator; the queue or its hosts accept no jobs now" in status.cause
    assert job_of(lsf, handle.token)["stat"] == "EXIT"


# What LSF ends


@pytest.mark.parametrize(
    ("term", "state", "words"),
    [
        ("TERM_MEMLIMIT", JobState.FAILED, "used more memory than LSF allotted: raise `mem`"),
        pytest.param(
            "TERM_PREEMPT", JobState.LOST, "TERM_PREEMPT: job killed after preemption", marks=pytest.mark.long
        ),
    ],
)
def test_what_lsf_itself_ends_has_its_cause(
    launcher: BATCH_LAUNCHER,
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
    assert left_here(handle.token) == []


@pytest.mark.long
def test_lsfs_run_limit_ends_a_job_that_started_too_slowly(tmp_path: Path, lsf: Cluster) -> None:
    launcher = made(tmp_path, before=["sleep 60"])
    with lsf.changed() as state:
        state["minute_s"] = 0.1
    status, _ = run(launcher, job(python("print(1)")))
    assert status.state is JobState.TIMED_OUT, status
    assert "raise the system's `startup`" in status.cause


# Hosts that fail


@pytest.mark.long
def test_a_host_that_lsf_misses_for_a_while_is_told_and_no_failure(
    launcher: BATCH_LAUNCHER,
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
    assert eventually(lambda: "LSF says UNKWN: 127.0.1.1 does not respond" in launcher.status(handle).cause)
    assert launcher.status(handle).state is JobState.RUNNING
    with lsf.changed() as state:
        state["hosts"][HOSTS[0]]["status"] = "ok"
    word.touch()
    follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.SUCCEEDED


@pytest.mark.long
def test_a_lost_first_host_holds_a_trial_no_longer_than_its_limit(
    launcher: BATCH_LAUNCHER,
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


@pytest.mark.long
def test_a_lost_second_host_is_named(launcher: BATCH_LAUNCHER, lsf: Cluster) -> None:
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
    assert left_here(handle.token) == []


# An LSF that is down or slow


@pytest.mark.long
def test_what_an_lsf_that_is_down_can_not_be_asked_is_no_answer(
    launcher: BATCH_LAUNCHER,
    lsf: Cluster,
) -> None:
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    with down(lsf):
        with pytest.raises(PlatformError, match="LSF does not respond: bsub: no answer within 1 s"):
            launcher.submit(job(python("print(1)")))
        with pytest.raises(LaunchError, match="LSF does not respond"):
            launcher.leftovers()
        assert launcher.status(handle).state is JobState.RUNNING
    launcher.cancel(handle)
    assert launcher.status(handle).state is JobState.CANCELLED


@pytest.mark.long
def test_a_slow_lsf_holds_no_output_up(launcher: BATCH_LAUNCHER, lsf: Cluster) -> None:
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
    launcher: BATCH_LAUNCHER,
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
    assert launcher.status(handle).state is JobState.RUNNING or left_here(handle.token)


@pytest.mark.long
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
