"""The package that travels: what goes with a program, how it is found there, what earlier versions began."""

from __future__ import annotations

import ast
import doctest
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay import payload_files
from assay.launch import job_spec
from assay.launch.kubernetes.objects import payload
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.ssh import SshSystem
from assay.launch.ssh.connection import Connection
from assay.records import Shape
from assay.run.drive import run_suite
from assay.run.progress import Silence
from assay.run.request import RunRequest, plan_of
from assay.run.session_choice import held_session, left_unfinished
from assay.rundir import session as rundir
from assay.workloads import WORKLOADS
from conftest import ROOT, long_but

GOLDEN = ROOT / "tests" / "golden" / "sessions_before_assay_payloads"
MOST_BYTES = 1 << 20  # of a ConfigMap
WITHOUT_TORCH = [
    job_spec.KEEPER,
    job_spec.PROBE,
    *("assay_payloads.keeping.relay", "assay_payloads.keeping.mpi", "assay_payloads.keeping.ssh_host"),
    *("assay_payloads.probing.host_check", "assay_payloads.probing.rdma_check"),
    *("assay_payloads.probing.in_turn", "assay_payloads.micro.data_speed", "assay_payloads.micro.each_node"),
    *("assay_payloads.exchange.perftest", "assay_payloads.serving.llm_client"),
]


def test_the_examples_hold() -> None:
    assert doctest.testmod(payload_files) == (0, 3)


@pytest.mark.parametrize("program", long_but(4, [*WITHOUT_TORCH]))
def test_a_program_that_needs_no_library_is_imported_where_only_its_files_are(
    program: str, tmp_path: Path
) -> None:
    payload_files.lay_out(tmp_path, payload_files.files(program))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {program}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    ours = {name for name in done.stdout.split() if name.partition(".")[0] == "assay_payloads"}
    assert ours == {payload_files.module_of(path) for path in payload_files.travelling(program)}


def test_a_package_s_own_file_says_what_it_is_for_and_imports_nothing() -> None:
    own = [*(payload_files.DIRECTORY / "assay_payloads").rglob("__init__.py")]
    assert len(own) > 10
    for path in own:
        (statement,) = ast.parse(path.read_text()).body
        assert isinstance(statement, ast.Expr), path


def test_payloads_import_each_other_by_full_name() -> None:
    for path in (payload_files.DIRECTORY / "assay_payloads").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), path


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_programs_of_each_job_fit_in_a_config_map(kind: object) -> None:
    own: tuple[str, ...] = kind.programs  # type: ignore[attr-defined]
    files = payload_files.files(payload.RELAY, job_spec.KEEPER, job_spec.PROBE, *own)
    assert sum(len(path) + len(data) for path, data in files.items()) < MOST_BYTES / 4


def test_a_task_changes_with_what_its_program_imports_and_with_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    membw = WORKLOADS["membw"]

    def with_another(path: str) -> object:
        edited = {**payload_files.files("assay_payloads.training.resnet50", "assay_payloads.micro.membw")}
        edited[path] += b"\n# edited\n"
        with monkeypatch.context() as patched:
            patched.setattr(payload_files, "source", edited.__getitem__)
            return membw.task(membw.params(), Shape(1, 1), 1)

    now = membw.task(membw.params(), Shape(1, 1), 1)
    assert with_another("assay_payloads/training/step.py") == now
    for path in ("measuring/rank.py", "micro/membw.py", "micro/__init__.py", "__init__.py"):
        assert with_another(f"assay_payloads/{path}") != now


def begun_before(name: str, folder: Path) -> RunRequest:
    """A session that the version before assay_payloads began, and the request to resume it."""
    session = folder / "runs" / name / "2026-11-23T072409Z"
    shutil.copytree(GOLDEN / name, session)
    (session / "suite.yaml").rename(folder / "suite.yaml")
    return RunRequest(folder / "suite.yaml", folder / "runs")


def test_a_session_whose_programs_have_another_layout_since_is_not_resumed_and_it_is_said_why(
    tmp_path: Path,
) -> None:
    run = plan_of(begun_before("ours", tmp_path))
    with held_session(run) as session:
        assert session.name != "2026-11-23T072409Z"
        assert left_unfinished(session, run.plan) == (
            "a program that is sent with the trials, Assay's or the suite's, changed since "
            "ours/2026-11-23T072409Z, which stays unfinished (0 of 2 trials started): "
            "this is a new session, so that no session mixes the two"
        )


def test_a_session_of_the_user_s_own_program_is_resumed(tmp_path: Path) -> None:
    completed = run_suite(begun_before("theirs", tmp_path), Silence)
    assert completed.session.id == "theirs/2026-11-23T072409Z"
    assert [m.value for result in completed.results for m in result.reading.measurements] == [1.0, 1.0]
    assert len(list(rundir.sessions(tmp_path / "runs"))) == 1


def asked_over_ssh(what: str, directory: Path, *arguments: str) -> str:
    """What a host answers, asked without ssh by the very words that ssh would pass to its shell."""
    words = Connection("host", SshSystem(hosts=("host",), python=sys.executable)).program(
        what, str(directory), *arguments
    )[-1]
    assert len(words) < 1 << 17  # the most that Linux passes as one argument
    pipe = subprocess.PIPE  # as long as standard input is open, somebody listens
    with subprocess.Popen(["sh", "-c", words], stdin=pipe, stdout=pipe, text=True) as asked:
        assert asked.stdout is not None
        return asked.stdout.read()


def test_a_job_that_an_earlier_version_laid_out_on_a_host_is_followed_and_its_files_fetched(
    tmp_path: Path,
) -> None:
    job, work = tmp_path / "token.0", tmp_path / "token.0" / "work"
    (job / "streams").mkdir(parents=True)
    work.mkdir()
    (work / "result.txt").write_text("42\n")
    (job / "streams" / "rank-0.log").write_text("printed\n")
    spec = {"nodes": 1, "token": "token", "cwd": str(work), "outputs": ["result.txt"], "files_before": {}}
    for name, value in {"spec": spec, "ended": {"state": "succeeded"}, "claim": {"by": "nobody"}}.items():
        (job / f"{name}.json").write_text(json.dumps(value))
    said = asked_over_ssh("follow", job, "{}")
    assert ":::ASSAY-FRAME rank-0 0 8 " in said
    assert "printed\n" in said
    assert ":::ASSAY-FRAME ended-0 " in said
    assert "42\n" in asked_over_ssh("files", job, "*.txt")
