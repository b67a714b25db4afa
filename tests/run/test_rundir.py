"""The run directory holds what was written, whole, and says so when it can't."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from assay.durable import append, write_atomic
from assay.errors import BusyError, HostError, InputError
from assay.records import (
    Handle,
    Measurement,
    Output,
    Plan,
    Provenance,
    Reading,
    RenderedJob,
    RunState,
    Shape,
    Trial,
)
from assay.rundir import session as rundir
from assay.rundir.files import SCHEMA, Header

PARAMS = {"argv": ["train", "--api-key", "hunter2"], "env": {"HF_TOKEN": "hunter3", "DEPTH": "50"}}


def trial(name: str = "digits-1x1-r01") -> Trial:
    return Trial(
        id=name,
        suite="demo",
        benchmark="digits",
        workload="command",
        system="here",
        shape=Shape(1, 1),
        params=PARAMS,
        varied={},
        block=1,
        seed=7,
        timeout_s=60.0,
        retries=0,
        digest="d1",
    )


def plan(*trials: Trial) -> Plan:
    return Plan(
        suite="demo",
        suite_digest="s1",
        digest="p1",
        seed=1,
        repeats=1,
        systems=("here",),
        baseline=None,
        margin=0.02,
        interleaved=True,
        primary_metric={"digits": "time_to_train"},
        expectations={},
        trials=trials or (trial(),),
    )


def header(**changes: object) -> Header:
    known = Header(
        schema=SCHEMA,
        assay_version="0.1.0",
        suite="demo",
        suite_digest="s1",
        plan_digest="p1",
        created_at=1_700_000_000.0,
        host="node1",
        command_line=("assay", "run", "suite.yaml"),
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def new_session(root: Path) -> rundir.Session:
    return rundir.create(root, header(), plan(), {"suite.yaml": "suite: demo\n"})


def begun(root: Path) -> rundir.Attempt:
    rendered = RenderedJob("train --api-key hunter2 # hunter3", {"HF_TOKEN": "hunter3"}, {})
    return new_session(root).begin(trial(), "t0k3n", rendered)[0]


def test_a_session_reads_back_as_it_was_created(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    assert session.id == "demo/2023-11-14T221320Z"
    assert [found.id for found in rundir.sessions(tmp_path)] == [session.id]
    again = rundir.Session(session.path)
    assert again.header == header()
    assert again.plan().trials[0].id == "digits-1x1-r01"
    assert (session.path / "suite.yaml").read_text() == "suite: demo\n"


def test_two_sessions_of_one_second_get_two_names_in_order(tmp_path: Path) -> None:
    first, second = new_session(tmp_path), new_session(tmp_path)
    assert first.id != second.id
    assert [found.id for found in rundir.sessions_of(tmp_path, "demo")] == [first.id, second.id]


def test_an_attempt_moves_through_its_states_and_keeps_its_identity(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    attempt, run = session.begin(trial(), "t0k3n", RenderedJob("train", {}, {}))
    assert attempt.run().state is RunState.SUBMITTING
    assert attempt.run().token == "t0k3n"
    assert run.id == f"{session.id}/digits-1x1-r01"
    attempt.write_run(replace(run, state=RunState.RUNNING, handle=Handle("local", "t0k3n", {"pid": 12})))
    assert attempt.run().handle == Handle("local", "t0k3n", {"pid": 12})
    attempt.settle(replace(run, state=RunState.FINISHED))
    assert attempt.run().state is RunState.FINISHED


def test_attempts_are_numbered_on_from_the_last_even_where_one_was_removed(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    for token in ("a", "b"):
        session.begin(trial(), token, RenderedJob("train", {}, {}))
    session.attempts_at(trial().id)[0].path.rename(tmp_path / "elsewhere")
    third, _ = session.begin(trial(), "c", RenderedJob("train", {}, {}))
    assert third.number == 3
    assert [attempt.number for attempt in session.attempts()] == [2, 3]
    assert session.last_attempts()[trial().id].run().token == "c"


def test_a_half_made_attempt_of_a_killed_assay_is_not_an_attempt(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    (session.path / trial().id / ".attempt-1.new" / "logs").mkdir(parents=True)
    assert list(session.attempts()) == []
    attempt, _ = session.begin(trial(), "a", RenderedJob("train", {}, {}))
    assert attempt.number == 1
    assert not list(attempt.path.parent.glob(".*"))


def test_logs_are_kept_byte_for_byte_and_their_sizes_are_the_cursor(tmp_path: Path) -> None:
    attempt = begun(tmp_path)
    attempt.append("rank-10", b"ten\n")
    attempt.append("rank-2", b"\xff\x00tw")
    attempt.append("rank-2", b"o\n")
    assert attempt.kept() == {"rank-2": 6, "rank-10": 4}
    assert list(attempt.logs()) == ["rank-2.log", "rank-10.log"]
    assert attempt.logs()["rank-2.log"].read_bytes() == b"\xff\x00two\n"


def test_no_secret_reaches_the_directory(tmp_path: Path) -> None:
    attempt = begun(tmp_path)
    attempt.write_provenance(Provenance(({"env.WANDB_API_KEY": "hunter4", "env.NCCL_DEBUG": "INFO"},)))
    rundir.create(tmp_path, header(command_line=("assay", "run", "TOKEN=hunter5")), plan(), {})
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter" not in kept
    assert b'"INFO"' in kept
    assert b'"DEPTH": "50"' in kept
    assert attempt.run().token == "t0k3n"


def test_a_second_assay_is_told_who_holds_the_session(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    holder = rf"process, {os.getpid()} on .* since .*: wait"
    with session.lock(), pytest.raises(BusyError, match=holder), rundir.Session(session.path).lock():
        pass
    with session.lock():
        pass


def test_a_lock_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from assay.rundir.session import Session\n"
        "with Session(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, session.path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(BusyError, match=f"process, {holder.pid}"), session.lock():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with session.lock():
            pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{\n not json", r"run.json:2: not JSON"),
        ("[]", r"run.json: not a file that Assay wrote"),
        ('{"schema": 99}', r"newer version of Assay \(schema 99"),
    ],
)
def test_a_damaged_or_newer_record_is_named_with_its_file(tmp_path: Path, text: str, expected: str) -> None:
    attempt = begun(tmp_path)
    (attempt.path / "run.json").write_text(text)
    with pytest.raises(InputError, match=expected):
        attempt.run()


def test_a_newer_record_that_still_fits_is_refused_too(tmp_path: Path) -> None:
    attempt = begun(tmp_path)
    plain = json.loads((attempt.path / "run.json").read_text())
    (attempt.path / "run.json").write_text(json.dumps(plain | {"schema": SCHEMA + 1}))
    with pytest.raises(InputError, match="newer version of Assay"):
        attempt.run()


def test_a_name_that_would_leave_the_directory_is_refused(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    for name in ("../x", "a/b", ".hidden", "", "a\nb"):
        with pytest.raises(InputError, match="can't be a file name"):
            session.begin(trial(name), "t", RenderedJob("", {}, {}))
    for name in ("../../x", "/etc/x", "a/../../x", ""):
        with pytest.raises(InputError, match="below the working directory"):
            begun(tmp_path).keep_outputs([Output(name, b"x")])


def test_outputs_are_kept_anew_so_that_collecting_twice_doubles_nothing(tmp_path: Path) -> None:
    attempt = begun(tmp_path)
    parts = [Output("model/a.bin", b"one"), Output("model/a.bin", b"two"), Output("empty", b"")]
    for _ in range(2):
        assert attempt.keep_outputs(parts) == {"model/a.bin", "empty"}
        assert (attempt.path / "outputs/model/a.bin").read_bytes() == b"onetwo"
        assert (attempt.path / "outputs/empty").read_bytes() == b""


def test_a_session_that_is_marked_finished_reads_so(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    assert session.header.finished_at is None
    rundir.mark_finished(session, 5.0)
    assert session.header.finished_at == rundir.Session(session.path).header.finished_at == 5.0


def test_a_reading_is_cached_under_its_key_and_a_damaged_cache_is_no_cache(tmp_path: Path) -> None:
    attempt = begun(tmp_path)
    assert attempt.cached_reading("k1") is None
    attempt.cache_reading("k1", Reading(problems=("x",)))
    assert attempt.cached_reading("k1") == Reading(problems=("x",))
    assert attempt.cached_reading("k2") is None
    for text in ("{", '{"key": "k1", "reading": {"n": ' * 5000):
        (attempt.path / "reading.json").write_text(text)
        assert attempt.cached_reading("k1") is None


@pytest.mark.parametrize("figure", ["NaN", "1e400", "null", '"1"'])
def test_a_cached_figure_that_is_no_number_is_no_cache(tmp_path: Path, figure: str) -> None:
    attempt = begun(tmp_path)
    attempt.cache_reading("k1", Reading((Measurement("m", 1.5, "s", {}, "rank-0.log", 1),)))
    assert attempt.cached_reading("k1") is not None
    cache = attempt.path / "reading.json"
    cache.write_text(cache.read_text().replace("1.5", figure))
    assert attempt.cached_reading("k1") is None


def test_a_stamp_changes_when_the_attempt_does(tmp_path: Path) -> None:
    attempt = begun(tmp_path)
    before = attempt.stamp()
    assert attempt.stamp() == before
    attempt.settle(replace(attempt.run(), state=RunState.FAILED))
    assert attempt.stamp() != before


@contextmanager
def no_space_beyond(size_bytes: int) -> Iterator[None]:
    """Files can't grow further in this process: what a full disk looks like to a writer.

    Not a fixture: pytest's own report of the test may go to a file that is longer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_old_record_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_atomic(path, b"old")
    told = pytest.raises(HostError, match=r"free in .*Nothing that was stored is lost.*run the same command")
    with told, no_space_beyond(4096):
        write_atomic(path, b"x" * 4097)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_the_disk_has_the_logs_and_the_record_before_a_final_state_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = new_session(tmp_path)
    attempt, run = session.begin(trial(), "t", RenderedJob("", {}, {}))
    for stream in ("rank-0", "probe-0"):
        attempt.append(stream, b"line\n")
    seen: list[tuple[str, RunState]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, attempt.run().state))

    monkeypatch.setattr(os, "fsync", noted)
    attempt.settle(replace(run, state=RunState.FINISHED))
    before = {name for name, state in seen if state is RunState.SUBMITTING}
    assert before == {"rank-0.log", "probe-0.log", f".run.json.{os.getpid()}.tmp"}
    assert seen[-1] == ("attempt-1", RunState.FINISHED)
    assert len(seen) == 4


def test_a_full_disk_keeps_a_prefix_of_the_log_whose_size_tells_how_much(tmp_path: Path) -> None:
    data = bytes(range(256)) * 20
    with pytest.raises(HostError, match="free in"), no_space_beyond(4096):
        append(tmp_path / "rank-0.log", data)
    assert (tmp_path / "rank-0.log").read_bytes() == data[:4096]


def test_a_renamed_directory_renames_its_runs(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.begin(trial(), "t", RenderedJob("", {}, {}))
    assert next(session.attempts()).run().id == f"{session.id}/digits-1x1-r01"
    moved = rundir.Session(session.path.rename(session.path.with_name("first")))
    run = next(moved.attempts()).run()
    assert (run.id, run.session) == ("demo/first/digits-1x1-r01", "first")
