"""A keeper that is killed at any point: no value stays on the disk, and the trial is done again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_clean import clean, jobs
from test_secret_reference import holding, value, write  # noqa: F401  (a fixture)

from assay import launch, payload_files
from assay.launch import job_spec
from assay.launch.launcher import JobLostError, Launcher
from assay.launch.local.launcher import LocalLauncher
from assay.payload_files import path_of, source
from assay.records import JobState
from assay.testing.launchers import eventually, follow_to_end, job, python
from conftest import long_but
from containers import need_podman, this_machine
from lsf_cluster import lsf_commands  # noqa: F401  (a fixture)
from ssh_hosts import hosts

AS_TEXT = "written-4f1c9a77d2"
# `assay` whose keeper is killed once where the line `at` begins, after Assay itself where that is wanted
DRIVER = """
import os, pathlib, shutil, sys
from assay import payload_files
from assay.cli import main
at, mark, also_assay = sys.argv[1:4]
sys.argv[1:4] = []
kill = f"__import__('os').kill({os.getpid()}, 9); " if also_assay else ""
once = f"if not os.path.exists({mark!r}): open({mark!r}, 'x').close(); {kill}os.kill(os.getpid(), 9)"
indent = at[: len(at) - len(at.lstrip())]
here = pathlib.Path(f"{mark}.installed")
shutil.copytree(payload_files.DIRECTORY / "assay_payloads", here / "assay_payloads", dirs_exist_ok=True)
keeper = here / "assay_payloads/keeping/keeper.py"
keeper.write_text(keeper.read_text().replace(at, f"{indent}{once}\\n{at}", 1))
payload_files.DIRECTORY = here
main()
"""
POINTS = {
    "as it starts": '    spec, work = json.loads((directory / "spec.json").read_bytes()), directory / "work"',
    "before it has taken the job": '    if not claim(directory, spec["token"]):',
    "once it has taken the job": "    if taken is not None:\n",
    "before it has read the variables": '    spec["env"].update(',
    "before the ranks start": "    ended = keep(spec, directory, node, work)",
    "once the ranks run": '    write_whole(directory / "started.json"',
    "before it says how the job ended": '    write_whole(directory / "ended.json", ended)',
}


READ = list(POINTS)[4:]  # the keeper has read the variables by then


def run(directory: Path, secret: str, point: str, *, also_assay: bool) -> subprocess.CompletedProcess[str]:
    """`assay run` with a variable by reference and one as text, whose keeper is killed once."""
    at = POINTS[point]
    assert source(path_of(job_spec.KEEPER)).decode().count(at) == 1
    systems = f"here: {{launcher: local, env: {{API_KEY: {AS_TEXT}}}}}\n"
    write(directory, "{TOKEN: {from_env: HUB_TOKEN}}", systems)
    argv = [sys.executable, "-c", DRIVER, at, str(directory / "killed"), "yes" if also_assay else ""]
    done = subprocess.run(
        [*argv, "run", "suite.yaml", "--quiet"],
        cwd=directory,
        env={**os.environ, "HUB_TOKEN": secret},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (directory / "killed").exists(), "no keeper came to this point"
    return done


def attempts(directory: Path) -> list[dict[str, object]]:
    found = sorted(directory.glob("runs/*/*/*/attempt-*/run.json"))
    return [json.loads(path.read_text()) for path in found]


@pytest.mark.parametrize("point", long_but(1, [*POINTS]))
def test_what_a_killed_keeper_had_is_done_again_and_no_value_stays(
    tmp_path: Path,
    point: str,
    value: str,  # noqa: F811
) -> None:
    done = run(tmp_path, value, point, also_assay=False)
    first, *again = attempts(tmp_path)
    assert (first["state"], first["job"]) == ("failed", "lost")
    assert "was killed" in str(first["cause"])
    assert [attempt["state"] for attempt in again] == ["finished"]
    assert done.returncode == 0, done.stderr
    for secret in (value, AS_TEXT):
        assert holding(tmp_path / "runs", secret) == []
        assert secret not in done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("point", long_but(1, [*POINTS]))
def test_clean_leaves_no_value_of_a_keeper_and_an_assay_that_were_killed(
    tmp_path: Path,
    point: str,
    value: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(tmp_path, value, point, also_assay=True)
    monkeypatch.chdir(tmp_path)
    here = clean().stdout
    assert "here: not checked; runs has 1 job from it: assay clean here\n" in here
    # on a busy machine, a killed process ends a little later; its job is going on until then
    assert eventually(lambda: all(job["removed"] for job in jobs("here", "--yes") if job["session"]))
    assert [*tmp_path.glob("runs/*/*/jobs/*")] == []
    for secret in (value, AS_TEXT):
        assert holding(tmp_path / "runs", secret) == []


@pytest.mark.long
@pytest.mark.parametrize("point", long_but(1, [*reversed(POINTS)]))
def test_a_resumed_run_leaves_no_value_of_a_keeper_and_an_assay_that_were_killed(
    tmp_path: Path,
    point: str,
    value: str,  # noqa: F811
) -> None:
    run(tmp_path, value, point, also_assay=True)
    done = run(tmp_path, value, point, also_assay=True)
    assert done.returncode == 0, done.stderr
    for secret in (value, AS_TEXT):
        assert holding(tmp_path / "runs", secret) == []


@pytest.mark.long
@pytest.mark.parametrize("point", long_but(1, [*READ]))
def test_no_file_holds_a_variable_any_more_once_the_keeper_has_read_them(
    tmp_path: Path,
    point: str,
    value: str,  # noqa: F811
) -> None:
    run(tmp_path, value, point, also_assay=True)
    assert [*tmp_path.glob("runs/*/*/jobs/*/spec.json")]
    for secret in (value, AS_TEXT):
        assert holding(tmp_path / "runs", secret) == []


def kill_keepers(monkeypatch: pytest.MonkeyPatch, point: str, end: str = "os.kill(os.getpid(), 9)") -> None:
    """Let every keeper that is sent kill itself at this point."""
    at = POINTS[point]
    indent = at[: len(at) - len(at.lstrip())]
    path = path_of(job_spec.KEEPER)
    killing = source(path).decode().replace(at, f"{indent}{end}\n{at}", 1).encode()
    monkeypatch.setattr(payload_files, "source", lambda name: killing if name == path else source(name))


def ends_lost_and_leaves_nothing(launcher: Launcher, directory: Path) -> None:
    """A job with variables, an argument and a file that are secret, once it is over."""
    asked = job(python(f"'{AS_TEXT}'"), env={"API_KEY": AS_TEXT}, files={"key.pem": AS_TEXT.encode()})
    try:
        handle = launcher.submit(asked)
    except JobLostError as lost:
        cause = str(lost)
    else:
        follow_to_end(launcher, handle)
        status = launcher.status(handle)
        assert status.state is JobState.LOST, status
        cause = status.cause
        launcher.forget(handle)
    assert "killed" in cause
    assert holding(directory, AS_TEXT) == []


ELSEWHERE = pytest.mark.parametrize(
    "point", long_but(1, ["before it has taken the job", "before it has read the variables"])
)


@ELSEWHERE
@pytest.mark.ssh
def test_on_a_host(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_keepers(monkeypatch, point)
    with hosts(1) as made:
        there = {"hosts": made.names, "config": made.config, "python": sys.executable}
        options = launch.SYSTEM_MODELS["ssh"].model_validate({**there, "directory": str(tmp_path / "there")})
        ends_lost_and_leaves_nothing(launch.make("ssh", options, spool=tmp_path), tmp_path)


@ELSEWHERE
@pytest.mark.podman
def test_in_a_container(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_podman()
    kill_keepers(monkeypatch, point, "os._exit(137)")  # the first process of a container can't kill itself
    options = launch.SYSTEM_MODELS["podman"].model_validate(this_machine())
    ends_lost_and_leaves_nothing(launch.make("podman", options, spool=tmp_path), tmp_path)


@pytest.mark.long
@ELSEWHERE
@pytest.mark.usefixtures("lsf")
def test_in_a_batch_job(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_keepers(monkeypatch, point)
    options = launch.SYSTEM_MODELS["lsf"].model_validate({"directory": str(tmp_path)})
    ends_lost_and_leaves_nothing(launch.make("lsf", options, spool=tmp_path), tmp_path)


def test_a_directory_that_no_record_names_any_more_is_found_and_removed(
    tmp_path: Path,
    value: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(tmp_path, value, "as it starts", also_assay=True)
    monkeypatch.chdir(tmp_path)
    [record] = tmp_path.glob("runs/*/*/*/attempt-1/run.json")
    record.write_text("{")
    (record.parents[2] / "session.json").unlink()
    (tmp_path / "systems.yaml").unlink()
    monkeypatch.setattr(LocalLauncher, "leftovers", lambda _: ())  # those of other tests are not to be ended
    [left] = jobs("--yes")
    assert not left["removed"]
    assert "it is unknown whether it is running" in str(left["goes_on"])
    [left] = jobs("--yes", "--running")
    assert left["removed"]
    for secret in (value, AS_TEXT):
        assert holding(tmp_path / "runs", secret) == []


@pytest.mark.long
def test_a_system_that_the_file_lacks_is_looked_at_by_the_sessions_own_copy(
    tmp_path: Path,
    value: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(tmp_path, value, "as it starts", also_assay=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "systems.yaml").unlink()
    [other] = json.loads(clean("--json").stdout)["not_looked_at"]
    words = other["command"].split()
    assert words[:2] == ["assay", "clean"]
    [left] = [job for job in jobs(*words[2:], "--yes") if job["session"]]
    assert left["removed"]
