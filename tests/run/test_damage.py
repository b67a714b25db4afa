"""Damaged run directories: no traceback, and no run that drops out without a word."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import durable, inputs, store
from assay.cli import assay
from assay.errors import EXIT_ENVIRONMENT, EXIT_INPUT, AssayError, HostError, InputError, LaunchError
from assay.launch.spool import naming_disk_errors
from assay.questions import evidence
from assay.rundir import session as rundir
from assay.workloads import PLACES
from command_line import assay as typed
from conftest import long_but

DEEP = "[" * 200_000
SUITE = {
    "suite": "demo",
    "workload": "script",
    "params": {"code": "import os; print('v', 100 + os.getpid() % 7)"},
    "systems": ["here", "there"],
    "repeats": 3,
}
FILES = (
    "session.json",
    "plan.json",
    "suite.yaml",
    "systems.yaml",
    "script-1x1-here-r01/attempt-1/run.json",
    "script-1x1-here-r01/attempt-1/plan.json",
    "script-1x1-here-r01/attempt-1/provenance.json",
    "script-1x1-here-r01/attempt-1/reading.json",
    "script-1x1-here-r01/attempt-1/logs/rank-0.log",
)
COMMANDS = (
    ("show", "--json"),
    ("show", "--trials"),
    ("show", "demo", "--json"),
    ("show", "demo"),
    ("compare", "demo", "--json"),
    ("compare", "demo:here", "demo:there"),
    ("report", "demo", "-o", "page.html", "--json"),
    ("export", "demo", "--json"),
    ("index",),
)


def call(*words: str) -> Result:
    """A command as the command line runs it: what it reports is its end, anything else a traceback."""
    said = CliRunner().invoke(assay, list(words))
    if said.exception is not None and not isinstance(said.exception, SystemExit | AssayError):
        pytest.fail(f"{words}: {''.join(traceback.format_exception(said.exception))[-3000:]}")
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with six runs, three a side."""
    here = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PLACES, "script", "script_workload:SCRIPT")
        patch.chdir(here)
        Path("suite.yaml").write_text(json.dumps(SUITE))
        Path("systems.yaml").write_text('{"here": {"launcher": "local"}, "there": {"launcher": "local"}}')
        assert call("run", "suite.yaml").exit_code == 0
        yield here


@pytest.fixture
def session(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it that may be damaged."""
    shutil.copytree(whole / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return next(Path("runs/demo").glob("2*"))


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def served(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as here, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # the name of a socket is short
        here.bind(path.name)


KINDS: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "a directory": lambda path: replaced(path, Path.mkdir),
    "a FIFO": lambda path: replaced(path, os.mkfifo),
    "a socket": lambda path: replaced(path, served),
    "a device": lambda path: replaced(path, lambda p: p.symlink_to("/dev/zero")),
    "empty": lambda path: path.write_bytes(b""),
    "deep": lambda path: path.write_text(DEEP),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 9),
}


def accounted(session: Path, words: tuple[str, ...], said: Result) -> None:
    """Either an error that names a file of the session, or all six runs, each with a cause or counted."""
    if isinstance(said.exception, AssayError):
        assert session.name in str(said.exception)
    elif words == ("show", "demo", "--json"):
        runs = json.loads(said.stdout)["runs"]
        assert len(runs) == 6
        assert all(run["counts"] or run["cause"] for run in runs)
    elif words == ("show", "demo"):
        heading = said.stdout.splitlines()[0]
        assert "6 runs" in heading or "5 runs, 1 failed" in heading


@pytest.mark.parametrize("kind", long_but(2, [*KINDS]))
@pytest.mark.parametrize("file", [name for name in FILES if name.endswith(("run.json", "rank-0.log"))])
def test_a_damaged_run_counts_as_failed_and_is_named(session: Path, file: str, kind: str) -> None:
    KINDS[kind](session / file)
    call("index", "--rebuild")
    shown = call("show", "demo").stdout
    assert "5 runs, 1 failed" in shown.splitlines()[0]
    assert "script-1x1-here-r01" in shown
    document = json.loads(call("compare", "demo", "--json").stdout)
    [comparison] = document["comparisons"]
    assert comparison["n"][0] == 2
    [doubt] = [d for d in comparison["doubts"] if d["code"] == "failed-runs-left-out"]
    assert "here: 1 of 3 runs gave no result (1 × " in doubt["evidence"]


def test_a_run_that_was_damaged_after_it_was_indexed_is_noticed(session: Path) -> None:
    (session / "script-1x1-here-r01/attempt-1/run.json").write_text(DEEP)
    said = call("show", "demo")
    assert "changed since the index was made" in said.stderr
    assert "5 runs, 1 failed" in said.stdout.splitlines()[0]
    assert "changed" not in call("show").stderr


def test_every_command_names_the_file_of_a_run_that_it_leaves_out(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (session / "script-1x1-here-r01/attempt-1/run.json").write_text(DEEP)
    for words in (
        ("show",),
        ("export", "demo", "-o", "x.csv"),
        ("history", "v"),
        ("export", "demo", "-o", "x.csv"),
    ):
        monkeypatch.setattr(evidence, "_warned", set())  # as in another process
        said = call(*words)
        assert said.stderr.count("script-1x1-here-r01/attempt-1/run.json: not JSON") == 1, words


@pytest.mark.parametrize(
    ("key", "value"), [("created_at", 1e300), ("started_at", -1e18), ("block", 10**22), ("attempt", 2**40)]
)
def test_a_copied_session_with_a_number_out_of_range_hides_no_other(
    session: Path, key: str, value: object
) -> None:
    bad = session.parent.parent / "poison" / session.name
    shutil.copytree(session, bad)
    for path in bad.glob("*/attempt-1/run.json"):
        plain = json.loads(path.read_text())
        (plain["trial"] if key == "block" else plain)[key] = value
        path.write_text(json.dumps(plain))
    for words in COMMANDS[:6]:
        assert call(*words).exit_code in (0, 3)
    said = call("show", "--trials")
    assert said.stdout.count("failed") == 6
    assert said.stdout.count("finished") == 6
    assert "changed since" not in said.stderr  # it is read once
    assert len(json.loads(call("export", "demo", "--json").stdout)) == 6


def test_a_session_json_that_can_t_be_read_leaves_out_no_other_session(
    session: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = session.parent.parent / "poison" / session.name
    shutil.copytree(session, bad)
    header = json.loads((bad / "session.json").read_text())
    (bad / "session.json").write_text(json.dumps({**header, "created_at": -1.0}))
    known = json.loads(call("stack", "show", "--json").stdout)
    assert "poison" in caplog.text
    assert "session.json: not a file that Assay wrote" in caplog.text
    (bad / "session.json").write_text(json.dumps(header))
    assert len(known["stacks"]) == len(json.loads(call("stack", "show", "--json").stdout)["stacks"]) > 0


@pytest.mark.parametrize("clock", [-86400.0, 253_400_000_000.0])
def test_a_clock_that_no_record_may_have_ends_a_run_before_it_begins(
    session: Path, monkeypatch: pytest.MonkeyPatch, clock: float
) -> None:
    before = sorted(session.parent.iterdir())
    monkeypatch.setattr("assay.rundir.session.time.time", lambda: clock)
    said = call("run", str(session / "suite.yaml"))
    assert isinstance(said.exception, HostError), said.output
    assert "set the clock" in str(said.exception)
    assert sorted(session.parent.iterdir()) == before


@pytest.mark.parametrize("margin", [1e300, 1, 0, -1])
def test_a_margin_that_no_suite_can_have_decides_nothing(session: Path, margin: float) -> None:
    plan = json.loads((session / "plan.json").read_text())
    (session / "plan.json").write_text(json.dumps({**plan, "margin": margin}))
    for words in (("compare", "demo"), ("report", "demo", "-o", "page.html"), ("show", "demo")):
        said = call(*words)
        assert isinstance(said.exception, InputError)
        assert "plan.json: not a file that Assay wrote" in str(said.exception)


@pytest.mark.parametrize("before", ["trouble", "known", "indexed_sessions", "update", "listed_sets"])
def test_an_index_that_is_removed_during_a_command_is_made_again(
    session: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    index = session.parent.parent / "index.duckdb"
    question, removed = getattr(store, before), []

    def remove(*args: object, **options: object) -> object:
        if not removed:
            index.unlink(missing_ok=True)
            removed.append(before)
        return question(*args, **options)

    os.utime(session / "script-1x1-here-r01/attempt-1/run.json")  # something to take in
    monkeypatch.setattr(store, before, remove)
    assert "demo" in call("show").stdout
    assert removed
    assert index.exists()


def test_an_index_that_can_t_be_made_is_one_error(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.writer, "_run_row", lambda *_: ("x",))
    (session.parent.parent / "index.duckdb").unlink()
    said = call("show")
    assert isinstance(said.exception, AssayError)
    assert "damaged" in str(said.exception)


def test_an_index_with_a_record_that_nobody_can_read_is_made_again(session: Path) -> None:
    call("index")
    with store.writing_at(store.index_path(session.parent.parent)) as index:
        index.execute('UPDATE runs SET reading_json = \'{"measurements": [{"value": null}]}\'')
    said = call("show", "demo")
    assert "6 runs" in said.stdout.splitlines()[0]


def test_list_reads_what_changed_and_says_so(session: Path) -> None:
    (session / "script-1x1-here-r01/attempt-1/run.json").write_text(DEEP)
    said = call("show")
    assert "changed since the index was made; reading what changed" in said.stderr
    assert re.search(r"^demo/\S+:here +2 +1 ", said.stdout, re.MULTILINE), said.stdout
    assert "changed" not in call("show").stderr


def test_list_shows_a_session_that_the_index_does_not_have_yet(session: Path) -> None:
    shutil.copytree(session, session.with_name("2026-01-01T000000Z"))
    said = call("show", "--suite", "demo", "--json")
    assert "demo/2026-01-01T000000Z/script-1x1-here-r01 and 5 more have changed since" in said.stderr
    document = json.loads(said.stdout)
    assert document["changed_since"] == []
    assert "2026-01-01T000000Z" in {row["session"] for row in document["sets"]}


def test_export_says_that_a_session_is_gone(session: Path) -> None:
    shutil.copytree(session, session.with_name("2026-01-01T000000Z"))
    shutil.rmtree(session)
    said = call("export", "demo", "--json")
    assert "changed since the index was made" in said.stderr
    assert {row["session"] for row in json.loads(said.stdout)} == {"2026-01-01T000000Z"}


def test_a_run_of_which_no_file_tells_what_it_was_is_an_error(session: Path) -> None:
    for name in ("plan.json", "script-1x1-here-r01/attempt-1/run.json"):
        (session / name).write_text("{")
    call("index")
    said = call("show", "demo")
    assert isinstance(said.exception, AssayError)
    assert "script-1x1-here-r01/attempt-1/run.json:1: not JSON" in str(said.exception)


def test_a_run_that_no_file_describes_hides_no_other_suite(session: Path) -> None:
    bad = session.parent.parent / "poison" / session.name
    shutil.copytree(session, bad)
    for name in ("plan.json", "script-1x1-here-r01/attempt-1/run.json"):
        (bad / name).write_text("{")
    for words in (("show",), ("show", "demo"), ("history", "v"), ("stack", "show")):
        said = call(*words)
        assert said.exit_code == 0
        assert ("poison" in said.stderr) == (words != ("show", "demo"))


LISTING = (("index",), ("show",), ("show", "--trials"), ("show", "demo"), ("export", "demo", "--json"))


@pytest.mark.parametrize("words", LISTING)
@pytest.mark.parametrize("lost", ["session.json", "plan.json"])
def test_a_file_that_a_session_lost_is_named_with_what_to_do(
    session: Path, words: tuple[str, ...], lost: str
) -> None:
    (session / lost).unlink()
    said = call(*words)
    assert f"{session}: {lost} is missing: its runs count" in said.stderr
    assert ("remove the directory" if lost == "session.json" else "`assay run`") in said.stderr
    assert said.exit_code == (words == ("index",))


def test_a_session_without_any_of_its_files_is_named(session: Path) -> None:
    empty = session.with_name("2030-01-01T000000Z")
    empty.mkdir()
    for words in LISTING:
        said = call(*words)
        assert f"{empty}: session.json and plan.json are missing, and there is no run" in said.stderr
    said = call("show", f"demo/{empty.name}")
    assert f"{empty}: session.json and plan.json are missing" in said.stderr
    assert isinstance(said.exception, AssayError)


def test_a_report_without_session_json_says_what_to_do(session: Path) -> None:
    (session / "session.json").unlink()
    said = call("report", "demo", "-o", "page.html")
    assert "session.json: is missing: restore the file" in str(said.exception)


def unfinished(session: Path) -> None:
    header = json.loads((session / "session.json").read_text())
    (session / "session.json").write_text(json.dumps({**header, "finished_at": None}))
    shutil.rmtree(session / "script-1x1-here-r03")


@pytest.fixture
def suite_here(session: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite that the session was made from."""
    monkeypatch.setitem(PLACES, "script", "script_workload:SCRIPT")
    for name in ("suite.yaml", "systems.yaml"):
        shutil.copyfile(whole / name, name)
    unfinished(session)


@pytest.mark.usefixtures("suite_here")
def test_a_session_without_session_json_is_not_resumed_and_that_is_said(session: Path) -> None:
    (session / "session.json").unlink()
    said = call("run", "suite.yaml", "--failed")
    assert "session.json is missing" in str(said.exception)
    assert "It may be the session to repeat" in str(said.exception)
    said = call("run", "suite.yaml")
    assert said.exit_code == 0
    assert f"{session}: session.json is missing" in said.stderr
    assert "This is a new session" in said.stderr
    assert len([*session.parent.glob("2*")]) == 2


@pytest.mark.usefixtures("suite_here")
def test_a_session_without_plan_json_is_resumed_and_has_it_again(session: Path) -> None:
    plan = (session / "plan.json").read_text()
    (session / "plan.json").unlink()
    assert call("run", "suite.yaml").exit_code == 0
    assert [*session.parent.glob("2*")] == [session]
    assert (session / "plan.json").read_text() == plan
    assert (session / "script-1x1-here-r03").is_dir()


@pytest.mark.parametrize("name", ["index.duckdb", ".index.lock", ".index.duckdb.new"])
def test_a_directory_in_place_of_a_file_of_the_index_is_an_error_that_names_it(
    session: Path, name: str
) -> None:
    path = Path("runs", name)
    path.unlink(missing_ok=True)
    path.mkdir()
    (session / "script-1x1-here-r01/attempt-1/run.json").touch()
    for words in (("index",), ("index", "--rebuild")):
        said = call(*words)
        assert isinstance(said.exception, AssayError)
        assert f"runs/{name}" in str(said.exception)
        assert "remove or rename" in str(said.exception)


@pytest.mark.parametrize("name", long_but(1, FILES))
def test_no_command_breaks_on_a_damaged_file(session: Path, name: str) -> None:
    dice = random.Random(name)
    for kind in dice.sample(sorted(KINDS), 2):
        kept = session.with_name("kept")
        shutil.copytree(session, kept)
        KINDS[kind](session / name)
        for words in dice.sample(COMMANDS, 4):
            accounted(session, words, call(*words))
        shutil.rmtree(session)
        kept.rename(session)


QUESTIONS = (
    ("show",),
    ("show", "--trials"),
    ("show", "demo"),
    ("export", "demo", "--json"),
    ("history", "v"),
    ("diff", "demo:here", "demo:there"),
    ("index",),
    ("run", "suite.yaml", "--quiet"),
)


def with_a_damaged_block(whole: bytes) -> Iterator[bytes]:
    """The index with each of its blocks overwritten in the middle in turn."""
    for block in range(3 * 4096, len(whole), 256 * 1024):  # after the headers of DuckDB's format
        at = block + 100 * 1024
        yield whole[:at] + b"damage" + whole[at + 6 :]


@pytest.mark.usefixtures("suite_here")
@pytest.mark.parametrize("words", long_but(1, QUESTIONS), ids=" ".join)
def test_an_index_that_is_damaged_inside_is_made_again_with_one_line_that_says_so(
    words: tuple[str, ...],
) -> None:
    index = Path("runs/index.duckdb")
    call("index", "--rebuild")
    for damaged in with_a_damaged_block(index.read_bytes()):
        index.write_bytes(damaged)
        if store.trouble(Path("runs")) is not None:
            continue  # found as it is opened
        try:
            store.find(Path("runs"), "demo")
        except store.DamagedIndexError:
            break
    else:
        pytest.fail("no question reads the damage")
    said = call(*words)
    assert said.exception is None or isinstance(said.exception, SystemExit), said.exception
    assert said.exit_code in (0, 3), said.stderr
    assert said.stderr.count("it is made again from the run directories") <= 1
    assert "--rebuild" not in said.stderr
    if words == ("show", "demo"):
        assert "index.duckdb: damaged (Corrupt database file" in said.stderr
        assert "made again" not in call(*words).stderr


@pytest.mark.long
def test_damage_that_only_a_writer_reads_is_no_traceback(session: Path) -> None:
    index = Path("runs/index.duckdb")
    call("index", "--rebuild")
    for damaged in with_a_damaged_block(index.read_bytes()):
        index.write_bytes(damaged)
        (session / "script-1x1-here-r01/attempt-1/run.json").touch()
        assert call("index").exit_code == 0


def test_an_empty_variable_names_no_runs_and_a_list_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for runs in ("", "."):
        monkeypatch.setenv("ASSAY_RUNS", runs)
        for words in (("show",), ("show", "--json"), ("show", "demo"), ("history", "v"), ("diff", "a", "b")):
            said = call(*words)
            assert f"{runs or 'runs'}: there are no runs here" in str(said.exception)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ESTALE, errno.ENOTCONN])
@pytest.mark.parametrize("call_that_fails", ["fsync", "open", "rename", "mkdir"])
def test_a_write_that_the_machine_fails_is_an_error_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call_that_fails: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("system,benchmark,metric,value,unit,better,run\na,t,v,1,images/s,higher,1\n")
    real = getattr(os, call_that_fails)

    def fails(path: object, *words: object, **options: object) -> object:
        if call_that_fails == "fsync" or "runs" in str(path):
            raise OSError(number, os.strerror(number), "runs/x")
        return real(path, *words, **options)

    monkeypatch.setattr(os, call_that_fails, fails)
    done = typed(tmp_path, "import", "table.csv", "--name", "t")
    assert (done.returncode, "Traceback" in done.stderr) == (EXIT_ENVIRONMENT, False), done.stderr
    assert os.strerror(number) in done.stderr


def test_without_inodes_it_is_not_the_space_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.statvfs_result((4096, 4096, 1000, 900, 900, 500, 0, 0, 4096, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: full)
    with pytest.raises(HostError, match=r"no more files can be created"), durable.writing(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("goodput", "nope"), "nope: no runs with this name; `assay show` shows"),
        (("queue", "stop", "nope"), "the queue has no run 'nope'; `assay queue list` shows"),
    ],
)
def test_a_name_that_does_not_exist_says_where_the_names_are(
    session: Path, words: tuple[str, ...], said: str
) -> None:
    assert said in str(call(*words).exception)


def test_a_timeout_of_more_than_a_year_is_refused(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text("suite: a\nworkload: membw\ntimeout: 99999999999999999999h\n")
    done = typed(tmp_path, "plan", "suite.yaml")
    assert (done.returncode, "is longer than a year" in done.stderr) == (EXIT_INPUT, True), done.stderr


def test_an_error_without_a_file_is_told_by_its_reason() -> None:
    with (
        pytest.raises(LaunchError, match=r"can't start the job: can't start new thread"),
        naming_disk_errors("start the job"),
    ):
        raise OSError("can't start new thread")


@pytest.mark.parametrize("value", [".inf", "!!binary aGVsbG8=", "9" * 5000])
def test_a_value_that_can_t_be_read_has_one_problem(tmp_path: Path, value: str) -> None:
    (tmp_path / "suite.yaml").write_text(f"suite: a\nworkload: membw\nrepeats: {value}\n")
    done = typed(tmp_path, "plan", "suite.yaml")
    assert (done.returncode, len(done.stderr.splitlines())) == (EXIT_INPUT, 1), done.stderr


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None, str], None]:
    """Makes the machine fail to read every file whose path contains a text; None: it reads again."""
    real = os.open
    failing: list[tuple[int, str]] = []

    def opened(path: str, flags: int, *rest: int, **options: int) -> int:
        for number, part in failing:
            if part in os.fspath(path) and not flags & os.O_CREAT:
                raise OSError(number, os.strerror(number), os.fspath(path))
        return real(path, flags, *rest, **options)

    def fail(number: int | None, part: str = "") -> None:
        failing[:] = [] if number is None else [(number, part)]

    monkeypatch.setattr(os, "open", opened)
    return fail


TRANSIENT = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EMFILE)


@pytest.mark.parametrize("number", TRANSIENT)
@pytest.mark.parametrize("part", ["-here-r01/attempt-1/run.json", "run.json", "provenance.json"])
def test_what_the_machine_fails_to_read_once_is_no_property_of_the_run(
    session: Path, faults: Callable[..., None], number: int, part: str
) -> None:
    for reading in session.glob("*/*/reading.json"):
        reading.unlink()
    whole = json.loads(call("compare", "demo", "--json").stdout)
    for reading in session.glob("*/*/reading.json"):
        reading.unlink()
    store.index_path(Path("runs")).unlink()
    faults(number, part)
    for words in (("show",), ("show", "demo"), ("compare", "demo"), ("compare", "demo:here", "demo:there")):
        failed = call(*words)
        assert isinstance(failed.exception, HostError), words
        assert re.search(rf"{session}/.*: can't be read: {os.strerror(number)}; .*", str(failed.exception))
        assert "remove the directory" not in str(failed.exception)
    faults(None)
    again = json.loads(call("compare", "demo", "--json").stdout)
    assert again["comparisons"][0]["n"] == whole["comparisons"][0]["n"] == [3, 3]
    assert [one["code"] for one in again["comparisons"][0]["doubts"]] == [
        one["code"] for one in whole["comparisons"][0]["doubts"]
    ]


def test_a_list_has_what_can_be_read_and_ends_with_an_error_that_names_the_rest(
    session: Path, faults: Callable[..., None]
) -> None:
    store.index_path(Path("runs")).unlink()
    faults(errno.EIO, "-here-r01/attempt-1/run.json")
    listed = call("show", "--trials", "--json")
    assert isinstance(listed.exception, HostError)
    assert len(json.loads(listed.stdout)["runs"]) == 5
    faults(errno.EIO, "run.json")
    store.index_path(Path("runs")).unlink()
    listed = call("show")
    assert isinstance(listed.exception, HostError)
    assert listed.stdout == ""
    assert "and 3 more, for such a reason" in str(listed.exception)


@pytest.mark.parametrize("number", TRANSIENT)
@pytest.mark.parametrize("file", ["session.json", "plan.json"])
def test_a_header_that_the_machine_fails_to_read_is_not_to_be_removed(
    session: Path, faults: Callable[..., None], number: int, file: str
) -> None:
    faults(number, f"{session.name}/{file}")
    shown = call("show", "demo")
    assert isinstance(shown.exception, HostError)
    assert "remove" not in str(shown.exception).replace("Don't remove anything", "")
    assert "restore" not in shown.stderr
    assert f"{file}: can't be read" in str(shown.exception)


def test_a_directory_that_the_machine_fails_to_look_into_is_not_taken_for_another_users(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: object, *_words: object, **_options: object) -> object:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    monkeypatch.setattr(os, "access", lambda *_words, **_options: False)
    monkeypatch.setattr(os, "scandir", fails)
    with pytest.raises(OSError, match="Stale file handle"):
        [*rundir.sessions(Path("runs"))]


def test_a_read_that_fails_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with inputs.open_plain(tmp_path / "a") as file:
        os.close(file.fileno())
        with pytest.raises(OSError, match="Bad file descriptor") as failed:
            file.read()
        with pytest.raises(OSError, match="Bad file descriptor") as closed:
            file.close()
    assert failed.value.filename == closed.value.filename == str(tmp_path / "a")
