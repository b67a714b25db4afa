"""`assay run` answers on standard output, tells on standard error, and its exit code says how it went."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_extents import dead_python

import command_line as typed
from assay import store
from assay.cli import assay
from assay.errors import HostError
from assay.workloads import PLACES
from conftest import SUPPORT, long_rows_but

DRIVER = SUPPORT / "script_workload.py"
VARIED = "import random; print('v', 100 + random.random())"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(PLACES, "script", "script_workload:SCRIPT")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "suite.yaml"


def write(path: Path, code: str = VARIED, **more: Any) -> None:
    path.write_text(
        json.dumps(
            {
                "suite": "demo",
                "workload": "script",
                "params": {"code": code},
                "systems": ["local"],
                "repeats": 2,
                **more,
            }
        )
    )


def run(*words: str) -> Result:
    return CliRunner().invoke(assay, ["run", "suite.yaml", *words])


def test_one_json_document_holds_every_trial_and_failure(suite: Path) -> None:
    write(suite)
    said = run("--json")
    assert said.exit_code == 0, said.output
    document = json.loads(said.stdout)
    assert document["schema"] == "assay.run/1"
    assert [t["state"] for t in document["trials"]] == ["finished", "finished"]
    assert [m["metric"] for m in document["trials"][0]["measurements"]] == ["v"]
    assert document["failures"] == []
    assert document["session"] in said.stderr
    assert Path(document["path"], "session.json").is_file()


def test_a_failed_trial_makes_the_exit_code_1_and_is_listed(suite: Path) -> None:
    write(suite, "import sys; sys.exit(9)")
    said = run()
    assert said.exit_code == 1
    assert "2 of 2 trials failed" in said.stdout
    assert "script-1x1-r01" in said.stdout
    assert "assay show" in said.stdout


def test_a_system_that_can_not_be_used_makes_the_exit_code_5_and_says_what_is_left(suite: Path) -> None:
    write(suite, "print('v 1')", systems=["broken"])
    python = dead_python(suite.parent)
    suite.with_name("systems.yaml").write_text(f"broken: {{launcher: local, python: {python}}}\n")
    said = run()
    assert said.exit_code == 5, said.output
    words = " ".join(said.stdout.split())
    assert f"system broken: 2 trials are not run, because rank 0 exited 127 ({python}: not found)" in words
    assert "run the same command again: it resumes this session" in said.stdout
    assert "trials failed" not in said.stdout
    document = json.loads(run("--json").stdout)
    assert document["failures"] == []
    assert document["left"] == ["script-1x1-r01", "script-1x1-r02"]
    assert [met["extent"] for met in document["held"]] == ["system"]


@pytest.mark.usefixtures("no_neighbours")
def test_what_holds_is_0_what_fails_is_1_and_what_is_open_is_3(suite: Path) -> None:
    codes = {">= 50 x/s": 0, ">= 500 x/s": 1, ">= 100.5 x/s": 3}
    for requirement, code in codes.items():
        # two fixed values, so that the verdict does not hang on luck
        write(suite, "import os; print('v', 100 + int(os.environ['ASSAY_SEED']) % 97 / 96)", repeats=3)
        suite.write_text(json.dumps({**json.loads(suite.read_text()), "expect": {"v": requirement}}))
        said = run("--new")
        assert said.exit_code == code, (requirement, said.stdout)


@pytest.mark.parametrize(
    ("named", "order"), long_rows_but(1, [(["--baseline", "one"], ["one", "two"]), ([], ["two", "one"])])
)
def test_a_facts_values_stand_under_their_systems_whichever_is_the_baseline(
    suite: Path, named: list[str], order: list[str]
) -> None:
    threads = {"one": "1", "two": "2"}
    write(suite, systems=list(threads), baseline="two", repeats=1)
    systems = {n: {"launcher": "local", "env": {"OMP_NUM_THREADS": t}} for n, t in threads.items()}
    suite.with_name("systems.yaml").write_text(json.dumps(systems))
    run()
    said = CliRunner().invoke(assay, ["report", "demo", "-o", "page.html", *named])
    assert said.exit_code == 0, said.output
    tables = re.findall(r"<table.*?</table>", suite.with_name("page.html").read_text(), re.DOTALL)
    of_facts = [re.sub(r"<[^>]*>", " ", table).split() for table in tables if "env.OMP_NUM_THREADS" in table]
    assert of_facts
    for words in of_facts:
        at = words.index("env.OMP_NUM_THREADS")
        assert words[at + 1 : at + 3] == [threads[name] for name in order]
        assert [word for word in words if word in threads] == order


@pytest.mark.usefixtures("no_neighbours")
def test_two_systems_end_in_a_verdict_and_the_page_can_be_written(suite: Path) -> None:
    write(suite, systems=["a", "b"], baseline="a", margin="50%")
    suite.with_name("systems.yaml").write_text("a: {launcher: local}\nb: {launcher: local}\n")
    said = run("--report", "page.html")
    assert said.exit_code == 0, said.output
    assert "b compared with a" in said.stdout
    assert "equivalent" in said.stdout
    assert "<html" in suite.with_name("page.html").read_text()


def test_the_figures_of_one_system_have_their_doubts_beside_them(suite: Path) -> None:
    write(suite)
    said = run()
    assert said.exit_code == 0, said.output
    figure, doubt = said.stdout.index("local script 1 worker v: "), said.stdout.index("! too-few-runs")
    assert figure < doubt
    document = json.loads(run("--new", "--json").stdout)
    assert "too-few-runs" in [doubt["code"] for doubt in document["doubts"]]
    write(suite, expect={"v": ">= 50 x/s"})
    assert run("--new").stdout.count("! too-few-runs") == 1


def test_show_marks_and_wraps_doubts_like_run(suite: Path) -> None:
    write(suite)
    run()
    said = CliRunner().invoke(assay, ["show", "demo"], env={"COLUMNS": "80"}).stdout
    doubts = said[said.index("\n! ") :]
    assert "! too-few-runs" in doubts
    assert max(map(len, doubts.splitlines())) <= 80


@pytest.mark.parametrize(
    ("place", "words"),
    [("/proc/x", "/proc/x/demo: can't be created"), ("x" * 300, "can't be created (File name too long)")],
)
def test_a_runs_directory_that_can_not_be_made_is_an_error_of_this_machine(
    suite: Path, place: str, words: str
) -> None:
    write(suite)
    said = run("--runs", place)
    assert isinstance(said.exception, HostError), said.output
    assert words in str(said.exception)
    suite.with_name("demo.csv").write_text("system,metric,run,value\na,throughput,1,2\n")
    said = CliRunner().invoke(assay, ["import", "demo.csv", "--runs", place])
    assert isinstance(said.exception, HostError), said.output
    assert words in str(said.exception)


def test_json_alone_stands_on_standard_output_also_when_the_page_is_written(suite: Path) -> None:
    write(suite)
    said = run("--json", "--report", "page.html")
    assert json.loads(said.stdout)["schema"] == "assay.run/1"
    assert "page.html" in said.stderr


def test_quiet_tells_nothing_on_the_way(suite: Path) -> None:
    write(suite)
    said = run("--quiet")
    assert said.stderr == ""
    assert "script" in said.stdout


def test_an_index_that_can_not_be_written_does_not_hide_the_results(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise HostError("index.duckdb: No space left on device")

    write(suite)
    monkeypatch.setattr(store, "update", full)
    said = run()
    assert said.exit_code == 0
    assert "No space left" in said.stderr
    assert "n = 2" in said.stdout


def test_errors_of_the_suite_are_all_told_with_their_lines(suite: Path) -> None:
    suite.write_text("suite: demo\nworkload: scrip\nrepeat: 2\n")
    process = subprocess.run(
        [sys.executable, str(DRIVER), "run", "suite.yaml"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 4
    assert "suite.yaml:2: " in process.stderr
    assert "suite.yaml:3: " in process.stderr
    assert "Traceback" not in process.stderr


def test_on_a_terminal_a_live_line_shows_the_running_trial_and_two_ctrl_c_end_it_at_once(suite: Path) -> None:
    write(suite, "import time; print('v 1', flush=True); time.sleep(30)")
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), "run", "suite.yaml"], stdout=subprocess.DEVNULL, stderr=terminal
    )
    os.close(terminal)
    shown, deadline = b"", time.monotonic() + 30
    while b"block 1" not in shown and time.monotonic() < deadline:
        shown += os.read(main, 4096)
    assert b"script-1x1-r01" in shown
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    while process.poll() is None and time.monotonic() < deadline:
        try:
            shown += os.read(main, 4096)
        except OSError:  # the other end is closed
            break
    assert process.wait(timeout=30) == 130, shown
    assert b"Traceback" not in shown
    os.close(main)


def test_a_name_that_is_not_text_is_refused_for_runs_and_kept_readable_for_a_suite(suite: Path) -> None:
    write(suite)
    refused = typed.assay(suite.parent, "run", "suite.yaml", "--runs", "r\udcff")
    assert (refused.returncode, refused.stderr) == (
        4,
        "assay: r\\xff: the runs directory's name is not UTF-8; rename it or name another\n",
    )
    odd = suite.rename(suite.with_name("s\udcff.yaml"))
    assert typed.assay(suite.parent, "run", odd.name).returncode == 0
    (header,) = suite.parent.glob("runs/demo/*/session.json")
    assert json.loads(header.read_text())["command_line"] == ["assay", "run", "s?.yaml"]


def test_too_little_memory_is_said_without_a_traceback(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("assay.inputs.reading", full)
    write(suite)
    said = typed.assay(suite.parent, "run", "suite.yaml")
    assert (said.returncode, said.stderr) == (
        5,
        "assay: out of memory: this machine, or `ulimit -v`, allows too little\n",
    )


NO_PROCESSES = "assay: this machine or its container allows no more processes or threads ("


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread"), BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))],
)
def test_too_few_processes_are_said_without_a_traceback(
    suite: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("assay.inputs.reading", none_left)
    write(suite)
    said = typed.assay(suite.parent, "run", "suite.yaml")
    assert (said.returncode, said.stderr.startswith(NO_PROCESSES)) == (5, True), said.stderr


LOADING = """
import os, sys, threading
from assay.cli import one_blas_thread
one_blas_thread.install()
{limit}
try:
    import numpy, scipy.special
except MemoryError:
    sys.exit("no memory")
tasks = len(os.listdir("/proc/self/task"))
print(tasks, "OPENBLAS_NUM_THREADS" in os.environ)
"""


@pytest.mark.parametrize(
    ("room_bytes", "said"), [(None, (0, "1 False\n", "")), (150 << 20, (1, "", "no memory\n"))]
)
def test_numpy_starts_no_threads_and_without_memory_does_not_end_the_process(
    room_bytes: int | None, said: tuple[int, str, str]
) -> None:
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({room_bytes}, {room_bytes}))"
    code = LOADING.format(limit="" if room_bytes is None else limit)
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout, done.stderr) == said
