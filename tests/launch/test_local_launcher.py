"""The local launcher: the contract, and what only this machine can show."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from assay import launch, payload_files
from assay.errors import InputError, LaunchError
from assay.launch import job_spec, processes
from assay.launch.launcher import Launcher
from assay.launch.local import LocalSystem
from assay.launch.local.launcher import LocalLauncher
from assay.payload_files import path_of
from assay.records import Handle, JobState, Shape
from assay.testing.launchers import (
    DAEMONISE,
    END_WELL,
    IGNORE_TERM,
    LauncherContract,
    eventually,
    follow_to_end,
    job,
    left_here,
    python,
    run,
    wait_for_output,
)
from assay_payloads.keeping import keeper as keeper_program
from assay_payloads.keeping.processes import how

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
TELL_ENV = "import json, os; print(json.dumps(dict(os.environ)))"


class TestLocalLauncher(LauncherContract):
    kills = 40  # where all of a submission is our own doing

    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return launch.make("local", LocalSystem(grace=grace_s), spool=spool)

    def left(self, token: str) -> list[str]:
        return left_here(token)

    def end_as_somebody_else(self, handle: Handle) -> None:
        os.kill(int(str(handle.data["pid"])), signal.SIGTERM)


@pytest.fixture
def launcher(tmp_path: Path) -> LocalLauncher:
    return LocalLauncher(LocalSystem(grace=0.5), tmp_path / "jobs")


def environment(launcher: Launcher, **asked: object) -> dict[str, str]:
    status, streams = run(launcher, job(python(TELL_ENV), **asked))  # type: ignore[arg-type]
    assert status.state is JobState.SUCCEEDED, (status, streams)
    env: dict[str, str] = json.loads(streams["rank-0"])
    return env


# The keeper's death


@pytest.mark.parametrize("code", [SLEEP, IGNORE_TERM + "time.sleep(60)"])
def test_a_killed_keeper_takes_its_ranks_along_and_the_job_is_lost(
    launcher: LocalLauncher, code: str
) -> None:
    asked = job(python(code), 2)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle)
    os.kill(int(str(handle.data["pid"])), signal.SIGKILL)
    assert eventually(lambda: processes.with_variable("ASSAY_TOKEN", asked.token) == [])
    status = launcher.status(handle)
    assert status.state is JobState.LOST
    assert "was killed" in status.cause
    assert follow_to_end(launcher, handle)["rank-0"] == b"up\n"


def test_following_a_job_whose_keeper_was_killed_ends_its_daemons_too(launcher: LocalLauncher) -> None:
    asked = job(python(DAEMONISE + "time.sleep(60)"))
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle)
    os.kill(int(str(handle.data["pid"])), signal.SIGKILL)
    assert eventually(lambda: launcher.status(handle).state is JobState.LOST)
    assert follow_to_end(launcher, handle)["rank-0"] == b"daemon\n"
    assert processes.with_variable("ASSAY_TOKEN", asked.token) == []


def test_a_daemon_that_hid_its_token_is_ended_by_the_keeper(launcher: LocalLauncher) -> None:
    hide = """
import os, time
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    os.setsid()
    print(os.getpid(), flush=True)
    os.execve("/bin/sleep", ["sleep", "600"], {})
time.sleep(0.5)
"""
    handle = launcher.submit(job(python(hide)))
    wait_for_output(launcher, handle)
    daemon = int((launcher.spool / handle.token / "streams" / "rank-0.log").read_text())
    assert Path(f"/proc/{daemon}").exists()
    assert eventually(lambda: launcher.status(handle).state is JobState.SUCCEEDED)  # nobody follows
    assert not Path(f"/proc/{daemon}").exists()


def test_a_job_that_ends_between_two_looks_is_not_taken_for_lost(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = launcher.submit(job(python("print(1)")))
    follow_to_end(launcher, handle)
    ended = launcher.spool / handle.token / "ended.json"
    hidden = ended.rename(ended.with_name("hidden"))

    def runs_until_it_has_ended(pid: int, start_ticks: int) -> bool:
        hidden.rename(ended)
        return False

    monkeypatch.setattr(processes, "runs", runs_until_it_has_ended)
    assert launcher.status(handle).state is JobState.SUCCEEDED


def test_the_keeper_is_out_of_reach_of_a_ctrl_c(launcher: LocalLauncher) -> None:
    handle = launcher.submit(job(python(SLEEP)))
    keeper = int(str(handle.data["pid"]))
    assert os.getpgid(keeper) != os.getpgid(0)
    assert os.getsid(keeper) != os.getsid(0)
    launcher.cancel(handle)


def test_a_kill_for_want_of_memory_is_told_from_another() -> None:
    ranks = keeper_program.Processes([], "rank {}")
    ranks.ended, ranks.first_failed = {1: signal.SIGKILL.value}, 1
    assert ranks._why_it_failed() == "rank 1 was killed by SIGKILL"
    ranks.oom_kills -= 1
    assert "memory" in ranks._why_it_failed()


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert how(9) == {"exit_code": None, "signal": "SIGKILL"}
    assert how(40) == {"exit_code": None, "signal": "signal 40"}
    assert how(3 << 8) == {"exit_code": 3, "signal": None}


def test_a_program_that_opens_its_output_again_overwrites_nothing(launcher: LocalLauncher) -> None:
    _, streams = run(launcher, job(("sh", "-c", "echo a; echo b >> /dev/stdout; echo c")))
    assert streams["rank-0"] == b"a\nb\nc\n"


def test_a_program_that_empties_its_own_output_is_found_out(launcher: LocalLauncher) -> None:
    handle = launcher.submit(job(("sh", "-c", "echo much more; sleep 1; echo less > /dev/stdout; sleep 9")))
    with pytest.raises(LaunchError, match="rank-0 truncated its own output"):
        follow_to_end(launcher, handle)
    launcher.cancel(handle)


def test_a_stopped_keeper_can_be_cancelled(launcher: LocalLauncher) -> None:
    asked = job(python(SLEEP))
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle)
    os.kill(int(str(handle.data["pid"])), signal.SIGSTOP)
    launcher.cancel(handle)
    assert processes.with_variable("ASSAY_TOKEN", asked.token) == []
    assert launcher.status(handle).state is JobState.CANCELLED


def test_a_keeper_that_comes_too_late_starts_nothing(launcher: LocalLauncher, tmp_path: Path) -> None:
    asked = job(python("print('ran')"))
    follow_to_end(launcher, launcher.submit(asked))
    directory = launcher.spool / asked.token
    late = LocalLauncher(launcher.system, tmp_path / "other")
    assert late.find(asked.token) is None
    for detach in ([], ["--detach"], ["--detach"]):
        argv = [
            sys.executable,
            "-I",
            "-S",
            str(payload_files.DIRECTORY / path_of(job_spec.KEEPER)),
            str(late.spool / asked.token),
            *detach,
        ]
        refused = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert refused.returncode == keeper_program.EXIT_NOT_OURS
        assert "abandoned" in refused.stderr
        (late.spool / asked.token / "spec.json").write_bytes((directory / "spec.json").read_bytes())
    assert not (late.spool / asked.token / "streams").exists()


def test_a_keeper_that_fails_says_why(launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    write = LocalLauncher._write

    def write_and_block(self: LocalLauncher, asked: object, directory: Path) -> None:
        write(self, asked, directory)  # type: ignore[arg-type]
        (directory / "streams").write_text("in the way")

    monkeypatch.setattr(LocalLauncher, "_write", write_and_block)
    handle = launcher.submit(job(python("print(1)")))
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert status.state is JobState.LOST
    assert "FileExistsError" in status.cause


def test_a_job_from_before_the_machine_was_started_anew_is_lost(launcher: LocalLauncher) -> None:
    handle = launcher.submit(job(python(SLEEP)))
    wait_for_output(launcher, handle)
    claim = launcher.spool / handle.token / "claim.json"
    owner = json.loads(claim.read_text())
    claim.write_text(json.dumps({**owner, "boot_id": "another"}))
    assert launcher.status(handle).state is JobState.LOST
    assert "rebooted" in launcher.status(handle).cause
    claim.write_text(json.dumps({**owner, "boot_id": "another", "host": "elsewhere"}))
    with pytest.raises(LaunchError, match="elsewhere"):
        launcher.status(handle)
    claim.write_text(json.dumps(owner))
    launcher.cancel(handle)


def test_a_process_that_got_the_keepers_number_is_not_taken_for_it() -> None:
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert processes.runs(os.getpid(), int(stat[19]))
    assert not processes.runs(os.getpid(), int(stat[19]) + 1)


# What ranks are given


def test_threads_are_the_allowed_cores_shared_by_the_ranks_unless_set(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = int(keeper_program.allowed_cores())
    assert environment(launcher)["OMP_NUM_THREADS"] == str(max(1, cores))
    assert environment(launcher, ranks=cores + 1)["OMP_NUM_THREADS"] == "1"
    assert environment(launcher, env={"OMP_NUM_THREADS": "5"})["OMP_NUM_THREADS"] == "5"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert environment(launcher)["OMP_NUM_THREADS"] == "3"


def test_the_environment_is_assays_own_then_the_systems_then_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ABC":
        monkeypatch.setenv(name, "assay")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("RANK", "17")
    launcher = LocalLauncher(LocalSystem(env={"B": "system", "C": "system"}), tmp_path)
    env = environment(launcher, env={"C": "task"})
    assert (env["A"], env["B"], env["C"]) == ("assay", "system", "task")
    assert env["RANK"] == "0"
    assert "TORCHELASTIC_USE_AGENT_STORE" not in env


def test_pinned_ranks_have_disjoint_cores_and_too_many_are_refused(tmp_path: Path) -> None:
    launcher = LocalLauncher(LocalSystem(pin_cpus=True), tmp_path)
    cores = len(os.sched_getaffinity(0))
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    status, streams = run(launcher, job(python(code), cores))
    assert status.state is JobState.SUCCEEDED
    pinned = [json.loads(streams[f"rank-{rank}"]) for rank in range(cores)]
    assert sorted(core for own in pinned for core in own) == sorted(os.sched_getaffinity(0))
    status, _ = run(launcher, job(python(code), cores + 1))
    assert status.state is JobState.FAILED
    assert "pin_cpus" in status.cause
    assert "taskset" in launcher.render(job(python(code))).command


@pytest.mark.parametrize(
    ("cores", "ranks", "shares"),
    [([0, 1, 2, 3], 2, [[0, 1], [2, 3]]), ([2, 5, 7], 2, [[2], [5]]), ([0, 1], 1, [[0, 1]])],
)
def test_cores_are_shared_contiguously_and_equally(
    cores: list[int], ranks: int, shares: list[list[int]]
) -> None:
    assert keeper_program.share(cores, ranks) == shares


@pytest.mark.parametrize(("quota", "cores"), [(None, 64), (0.5, 0.5), (128.0, 64)])
def test_a_cgroups_quota_counts_where_it_is_less_than_the_cores(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: float
) -> None:
    monkeypatch.setattr(keeper_program.cgroups, "cores", lambda _: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert keeper_program.allowed_cores() == cores


def test_a_job_tells_what_its_node_counted_while_it_ran(launcher: LocalLauncher) -> None:
    busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    status, _ = run(launcher, job(python(busy), 2))
    [node] = status.nodes
    assert node.cpus == len(os.sched_getaffinity(0))
    assert node.job_cpu_s is not None
    assert 0.6 <= node.job_cpu_s < 2  # of both ranks
    assert status.ended_at is not None
    assert status.started_at is not None
    assert node.elapsed_s >= status.ended_at - status.started_at


def test_memory_of_a_program_that_is_smaller_than_its_keeper_is_unknown_and_not_the_keepers(
    launcher: LocalLauncher,
) -> None:
    status, _ = run(launcher, job(("sleep", "0")))
    [node] = status.nodes
    assert node.peak_rss_bytes is None


def test_a_job_whose_ranks_never_started_counts_nothing(tmp_path: Path) -> None:
    pinned = LocalLauncher(LocalSystem(pin_cpus=True), tmp_path / "jobs")
    status, _ = run(pinned, job(python("pass"), 1000))
    assert status.state is JobState.FAILED
    assert status.nodes == ()


def test_a_reserved_port_is_given_to_nobody_else_and_rank_0_can_listen_on_it() -> None:
    import socket

    held = keeper_program.reserve_port()
    port = held.getsockname()[1]
    with socket.create_server(("", port)):
        pass
    others = [keeper_program.reserve_port() for _ in range(500)]
    assert port not in {other.getsockname()[1] for other in others}
    for one in (held, *others):
        one.close()


@pytest.mark.long
@pytest.mark.torch
def test_torch_can_meet_at_the_reserved_port(launcher: LocalLauncher) -> None:
    pytest.importorskip("torch")
    code = (
        "import torch, torch.distributed as d; d.init_process_group('gloo'); t = torch.ones(1); "
        "d.all_reduce(t); print(int(t)); d.destroy_process_group()"
    )
    status, streams = run(launcher, job(("{python}", "-c", code), 2, timeout_s=120))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    assert streams["rank-0"].split()[-1] == streams["rank-1"].split()[-1] == b"2"


def test_the_systems_interpreter_runs_the_trial_and_the_probe(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nVIA_OTHER=1 exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    launcher = LocalLauncher(LocalSystem(python=str(other)), tmp_path / "jobs")
    assert environment(launcher)["VIA_OTHER"] == "1"
    assert launcher.render(job(python(""))).command.startswith(str(other))


def test_a_script_that_travels_can_be_executed_and_a_directory_of_the_users_can_be_run_in(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    status, streams = run(launcher, job(("./go.sh",), files={"go.sh": b"#!/bin/sh\npwd\n"}))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    _, streams = run(launcher, job(("pwd",), cwd=str(tmp_path)))
    assert streams["rank-0"].decode().strip() == str(tmp_path)
    status, _ = run(launcher, job(("pwd",), cwd=str(tmp_path / "absent")))
    assert status.state is JobState.FAILED
    assert "absent" in status.cause
    assert status.cause.startswith("rank 0 exited 126")


def test_results_that_lay_in_the_users_directory_before_are_not_this_jobs(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    (tmp_path / "old.csv").write_text("of an earlier trial")
    (tmp_path / "log.csv").write_text("of an earlier trial")
    asked = job(("sh", "-c", "echo mine > log.csv"), cwd=str(tmp_path), outputs=("*.csv",))
    handle = launcher.submit(asked)
    follow_to_end(launcher, handle)
    assert [(part.stream, part.data) for part in launcher.fetch(handle, ["*.csv"])] == [
        ("log.csv", b"mine\n")
    ]


def test_outputs_beyond_the_limit_are_refused_before_a_byte_is_given(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.launch.spool.OUTPUT_LIMIT_BYTES", 10)
    handle = launcher.submit(job(("sh", "-c", "echo 0123456789 > big.txt"), outputs=("*",)))
    follow_to_end(launcher, handle)
    with pytest.raises(LaunchError, match=r"big\.txt"):
        next(launcher.fetch(handle, ["*"]))


# The probe


def test_the_probe_is_its_own_stream_and_names_the_trials_interpreter(launcher: LocalLauncher) -> None:
    _, streams = run(launcher, job(python("print(1)")))
    assert sys.executable.encode() in streams["probe-0"]


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ("def main(python): raise TypeError('no')", "TypeError: no\nassay: the probe exited 126"),
        ("import time\ndef main(python): time.sleep(60)", "time limit"),
    ],
)
def test_a_failing_probe_is_told_in_its_stream_and_fails_nothing(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: str, said: str
) -> None:
    monkeypatch.setattr("assay.launch.job_spec.PROBE_TIMEOUT_S", 0.5)
    here = tmp_path / "installed"
    shutil.copytree(payload_files.DIRECTORY / "assay_payloads", here / "assay_payloads")
    (here / path_of(job_spec.PROBE)).write_text(probe)
    monkeypatch.setattr(payload_files, "DIRECTORY", here)
    status, streams = run(launcher, job(python("print(1)")))
    assert status.state is JobState.SUCCEEDED
    assert streams["rank-0"] == b"1\n"
    assert said in streams["probe-0"].decode()
    assert "the probe" in streams["probe-0"].decode()


# What is on the disk


def test_the_disk_holds_no_variable_of_a_job_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SHELL", "hunter2")
    launcher = LocalLauncher(LocalSystem(env={"OF_THE_SYSTEM": "hunter3"}), tmp_path)
    asked = job(python(SLEEP), env={"OF_THE_TASK": "hunter4"})
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle)
    directory = tmp_path / asked.token
    assert directory.stat().st_mode & 0o077 == 0
    for path in directory.rglob("*"):
        assert path.is_dir() or b"hunter" not in path.read_bytes()
    launcher.cancel(handle)


def test_what_can_not_be_written_whole_is_removed_again(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device", "spec.part")

    monkeypatch.setattr(job_spec, "write_spec", refuse)
    with pytest.raises(LaunchError, match="No space left"):
        launcher.submit(job(python("print(1)"), env={"OF_THE_TASK": "hunter4"}))
    assert [*launcher.spool.iterdir()] == []


def test_a_disk_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("a file")
    launcher = LocalLauncher(LocalSystem(), tmp_path / "jobs")
    with pytest.raises(LaunchError, match=r"can't start the job: .*/jobs"):
        launcher.submit(job(python("print(1)")))
    with pytest.raises(LaunchError, match=r"can't look for the job: .*/jobs"):
        launcher.find("token")


def test_a_token_that_is_a_path_is_refused(launcher: LocalLauncher) -> None:
    with pytest.raises(ValueError, match="not a token"):
        launcher.find("../other")


# What a user may ask


def test_more_than_one_node_is_refused_with_what_to_write_instead(launcher: LocalLauncher) -> None:
    from dataclasses import replace

    asked = replace(job(python("print(1)")), shape=Shape(4, 2, 2))
    with pytest.raises(InputError, match="4x2"):
        launcher.render(asked)
    assert LocalSystem.max_nodes == 1


def test_variables_that_the_launcher_sets_are_refused(launcher: LocalLauncher) -> None:
    with pytest.raises(ValidationError, match="the launcher sets MASTER_PORT"):
        LocalSystem(env={"MASTER_PORT": "29500"})
    with pytest.raises(InputError, match="the launcher sets RANK"):
        launcher.render(job(python(""), env={"RANK": "0"}))


def test_a_systems_options_are_read_as_people_write_them() -> None:
    system = LocalSystem.model_validate({"grace": "1min", "env": {"OMP_NUM_THREADS": 4}})
    assert (system.grace, system.env) == (60.0, {"OMP_NUM_THREADS": "4"})
    for wrong in ({"pin_cpu": True}, {"grace": "soon"}, {"grace": -1}, {"env": {"A": True}}):
        with pytest.raises(ValidationError):
            LocalSystem.model_validate(wrong)


def test_an_unknown_launcher_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="local"):
        launch.make("locale", LocalSystem(), spool=tmp_path)


@pytest.mark.parametrize("ends", ["", END_WELL, END_WELL.replace("exit(0)", "exit(3)")])
@pytest.mark.parametrize("batch_system", ["", "SLURM_JOB_ID"])
def test_a_sigterm_to_every_process_at_once_is_a_wish_to_end_not_a_failure(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch, ends: str, batch_system: str
) -> None:
    if batch_system:  # a busy node signals the first and the last process of a job some time apart
        monkeypatch.setenv(batch_system, "7")
    asked = job(python(ends + SLEEP), 2)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-1")
    keeper = int(str(handle.data["pid"]))
    if not batch_system:
        os.kill(keeper, signal.SIGSTOP)  # however busy this machine is, all of it is one moment to the keeper
    for pid in processes.with_variable("ASSAY_TOKEN", asked.token):
        if pid != keeper:
            os.kill(pid, signal.SIGTERM)
    time.sleep(0.05 if batch_system else 0)
    os.kill(keeper, signal.SIGTERM)
    os.kill(keeper, signal.SIGCONT)
    follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.STOPPED


def test_a_keeper_that_is_killed_while_it_ends_its_ranks_is_not_lost(tmp_path: Path) -> None:
    launcher = LocalLauncher(LocalSystem(grace=20.0), tmp_path / "jobs")
    handle = launcher.submit(job(python(IGNORE_TERM + "time.sleep(60)")))
    wait_for_output(launcher, handle)
    keeper = int(str(handle.data["pid"]))
    os.kill(keeper, signal.SIGTERM)
    give_up = time.monotonic() + 10
    while not (tmp_path / "jobs" / handle.token / "asked.json").exists():
        assert time.monotonic() < give_up
        time.sleep(0.01)
    os.kill(keeper, signal.SIGKILL)
    follow_to_end(launcher, handle)
    assert launcher.status(handle).state is JobState.STOPPED


COUNT = """
import time
for tick in range(20):
    print(tick, flush=True)
    time.sleep(0.1)
"""


def stop_for(pids: list[int], seconds: float) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("whole_job", [True, False])
def test_time_in_suspension_does_not_count_towards_the_time_limit(
    launcher: LocalLauncher, whole_job: bool
) -> None:
    handle = launcher.submit(job(python(COUNT), timeout_s=4.0))
    wait_for_output(launcher, handle)
    keeper = int(str(handle.data["pid"]))
    with_token = processes.with_variable("ASSAY_TOKEN", handle.token)
    (rank,) = {*with_token} & {*processes.with_variable("RANK", "0")}
    stop_for([keeper, rank] if whole_job else [rank], 2.5 if whole_job else 3.0)
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert status.state is JobState.SUCCEEDED, status
    assert status.nodes[0].suspended_s == pytest.approx(2.5 if whole_job else 3.0, abs=0.5)


def test_a_rank_that_stops_itself_reaches_the_time_limit_and_is_called_stopped(
    launcher: LocalLauncher,
) -> None:
    asked = job(python("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"), timeout_s=1.5)
    status, _ = run(launcher, asked)
    assert status.state is JobState.TIMED_OUT
    assert "rank 0 was stopped by a signal" in status.cause
