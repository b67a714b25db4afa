"""Attempts at jobs from tables, Slurm's accounting and runs; what can't be read is named, never guessed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assay import api
from assay.errors import InputError
from assay.formats.job_attempts import expanded, from_sacct, from_table
from command_line import assay as typed

TABLE = """job,nodes,begin,end,outcome,productive_s,checkpoint_s
a,n1 n2,2025-11-01T00:00Z,2025-11-01T10:00Z,completed,30000,1000
b,n1,1761955200,,running,,
c,n2,2025-11-01T00:00Z,2025-11-01T01:00Z,interrupted,,
"""


def job(
    number: int, state: str, start: int, end: int, nodes: str = "n[1-2]", elapsed: int = 0, **more: object
) -> object:
    time = {"start": start, "end": end, "elapsed": elapsed or max(0, end - start)}
    return {"job_id": number, "state": {"current": [state]}, "time": time, "nodes": nodes, **more}


def sacct(directory: Path, *jobs: object) -> Path:
    path = directory / "jobs.json"
    path.write_text(json.dumps({"jobs": jobs, "meta": {}}))
    return path


def test_a_table_is_read_and_what_runs_is_censored(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    found = from_table(path, 1762041600.0)
    assert [(one.job, one.nodes, one.outcome, one.duration_s) for one in found] == [
        ("a", ("n1", "n2"), "completed", 36000),
        ("b", ("n1",), "running", 86400),
        ("c", ("n2",), "interrupted", 3600),
    ]
    assert (found[0].productive_s, found[0].restart_s) == (30000, None)


def test_every_problem_of_a_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job,nodes,begin,end,outcome,lost_s\na,n,1,2,done,\nb,n,x,2,failed,\nc,n,5,2,failed,\n"
        "d,n,1,,failed,\ne,n,1,2,failed,-3\n"
    )
    with pytest.raises(InputError) as caught:
        from_table(path, 100.0)
    assert [problem.where.rpartition(":")[2] for problem in caught.value.problems] == [
        "2",
        "3",
        "4",
        "5",
        "6",
    ]
    path.write_text("job,nodes\n")
    with pytest.raises(InputError, match="begin, end, outcome are missing"):
        from_table(path, 100.0)


def test_slurm_s_states_and_nodes_are_read(tmp_path: Path) -> None:
    path = sacct(
        tmp_path,
        job(1, "COMPLETED", 100, 200),
        job(2, "NODE_FAIL", 100, 150, failed_node="n2"),
        job(3, "RUNNING", 100, 0, elapsed=300),
        job(4, "PENDING", 0, 0),
        job(5, "CANCELLED", 0, 120),
        job(6, "FAILED", 400, 900),
    )
    found, unknown = from_sacct(path, 500.0)
    assert unknown == []
    assert [(one.job, one.outcome, one.duration_s, one.blamed) for one in found] == [
        ("1", "completed", 100, ""),
        ("2", "interrupted", 50, "n2"),
        ("3", "running", 300, ""),
        ("6", "running", 100, ""),
    ]
    assert found[0].nodes == ("n1", "n2")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"jobs": 3}', '{"jobs": [3]}', '{"jobs": [{"state": {}}]}'])
def test_what_is_no_accounting_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"jobs\.json"):
        from_sacct(path, 1.0)


@pytest.mark.parametrize("names", ["n[1", "n[a-b]", "n[1-999999999]"])
def test_names_of_nodes_that_can_t_be_read_are_an_error(names: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|range|more than"):
        list(expanded(names))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80), st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(
            ["jobs", "state", "current", "time", "start", "end", "nodes", "job_id", "set", "number"]),
        inner, max_size=5)))  # fmt: skip
@example("", [{"state": {"current": []}}])
def test_whatever_is_given_ends_in_attempts_or_a_clear_error(
    tmp_path: Path, text: str, value: object
) -> None:
    path = tmp_path / "anything"
    path.write_bytes(text.encode(errors="replace"))
    with contextlib.suppress(InputError):
        assert all(one.duration_s >= 0 for one in from_table(path, 1e9))
    path.write_text(json.dumps({"jobs": value}))
    with contextlib.suppress(InputError):
        assert all(one.duration_s >= 0 for one in from_sacct(path, 1e9)[0])


def test_times_in_milliseconds_are_an_error(tmp_path: Path) -> None:
    times = {"start": 1793000000000, "end": 1793036000000}
    job = {"job_id": 1, "nodes": "n1", "state": {"current": ["COMPLETED"]}, "time": times}
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"jobs": [job]}))
    with pytest.raises(InputError, match=r"job 1: time\.start: found 1793000000000, in milliseconds"):
        from_sacct(file, 1.8e9)
    file.write_text("job,nodes,begin,end,outcome\n1,n1,1793000000000,1793036000000,completed\n")
    with pytest.raises(InputError, match="begin: found 1793000000000, in milliseconds"):
        from_table(file, 1.8e9)


def test_a_final_state_without_an_end_ends_after_the_time_that_the_job_took(tmp_path: Path) -> None:
    path = sacct(
        tmp_path,
        job(1, "NODE_FAIL", 100, 0, elapsed=50),
        job(2, "COMPLETED", 100, 0, elapsed=9_000),
        job(3, "FAILED", 100, 0),
    )
    found, unknown = from_sacct(path, 500.0)
    assert [(one.job, one.outcome, one.duration_s) for one in found] == [
        ("1", "interrupted", 50),
        ("2", "running", 400),
    ]
    assert [problem.what for problem in unknown] == [
        "job 3 is FAILED, but has neither an end nor a time that it took"
    ]
    assert api.goodput(sacct=path, until=500.0).unreadable == unknown


def test_a_real_node_failure_without_an_end_is_a_failure(foreign_logs: Path) -> None:
    found, unknown = from_sacct(foreign_logs / "failing" / "sacct-final-state-without-end.json", 2e9)
    assert [(one.outcome, one.duration_s) for one in found] == [
        ("interrupted", 20_615),
        ("interrupted", 87_989),
    ]
    assert unknown == []


def test_the_answer_of_ended_jobs_does_not_change_with_the_time_of_asking(tmp_path: Path) -> None:
    path = sacct(tmp_path, job(1, "COMPLETED", 100, 200), job(2, "NODE_FAIL", 100, 150))
    first, later = (api.goodput(sacct=path, until=until) for until in (300.0, 1e9))
    assert (first.share, first.by_size, first.of_nodes) == (later.share, later.by_size, later.of_nodes)


def test_a_job_that_is_listed_again_counts_once(tmp_path: Path) -> None:
    jobs = [job(1, "COMPLETED", 100, 200), job(2, "NODE_FAIL", 200, 250), job(2, "NODE_FAIL", 300, 350)]
    once, again = (
        api.goodput(sacct=sacct(tmp_path, *jobs, *more), until=500.0) for more in ((), (jobs[0], jobs[1]))
    )
    assert (once.attempts, once.by_size) == (again.attempts, again.by_size)
    assert once.unreadable == []
    assert [str(problem) for problem in again.unreadable] == [
        f"job {number}: 1 of 2 records, which repeat its nodes and times" for number in (1, 2)
    ]


def test_the_command_answers_for_runs_and_files(tmp_path: Path) -> None:
    path = sacct(tmp_path, *[job(n, "NODE_FAIL", n * 3600 + 1, n * 3600 + 3601) for n in range(4)])
    said = typed(tmp_path, "goodput", "--sacct", str(path), "--checkpoint-cost", "60s")
    assert said.returncode == 0, said.stderr
    assert (
        "A job on 2 nodes runs 60 min between failures (23.43 min to 3.67 h, 4 failures in 4 h)"
        in said.stdout
    )
    assert "Checkpoints of 60 s: every" in said.stdout
    as_json = json.loads(typed(tmp_path, "goodput", "--sacct", str(path), "--json").stdout)
    assert as_json["attempts"] == {"interrupted": 4}
    assert as_json["jobs"][0]["rate"]["mean_s"] == 3600
    nothing = typed(tmp_path, "goodput", "--runs", str(tmp_path))
    assert (nothing.returncode, nothing.stdout) == (4, "")
    assert "no job ran" in nothing.stderr


def test_runs_of_a_session_are_attempts(tmp_path: Path) -> None:
    suite = {
        "suite": "two", "workload": "command", "repeats": 2, "systems": ["local"],
        "params": {"argv": ["sh", "-c", "echo value: 1; exit $((ASSAY_SEED % 1))"],
                   "metrics": {"value": {"pattern": "value: (?P<value>[0-9]+)", "unit": ""}}},
    }  # fmt: skip
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    typed(tmp_path, "run", "suite.json", "--quiet")
    answer = api.goodput("two", runs=tmp_path / "runs", until=4e9)
    assert ([one.outcome for one in answer.attempts], answer.unreadable) == (["completed", "completed"], [])
    assert all(one.duration_s > 0 and len(one.nodes) == 1 for one in answer.attempts)
    assert answer.by_size
    damaged = next(tmp_path.glob("runs/two/*/*/attempt-1/run.json"))
    damaged.write_text("{")
    found_again = api.goodput("two", runs=tmp_path / "runs")
    assert (len(found_again.attempts), len(found_again.unreadable)) == (1, 1)
    assert "not counted: " in typed(tmp_path, "goodput", "two").stdout


def test_a_blamed_node_that_the_job_did_not_have_is_an_error(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("job,nodes,begin,end,outcome,blamed\na,n1 n1,0,10,interrupted,n7\n")
    with pytest.raises(InputError, match="blamed: n7 is not among the nodes n1"):
        from_table(table, 100.0)
