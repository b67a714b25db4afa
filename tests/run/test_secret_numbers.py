"""Different secrets in labels and swept parameters stay different, by numbers that say nothing of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_secret_reference import assay as command
from test_secret_reference import holding

from assay import read, redact
from assay.errors import InputError
from assay.plan import make
from assay.rundir import session as rundir
from assay.rundir.secret_numbers import FILE
from assay.suite import load
from assay.workloads import WORKLOADS
from fake_workloads import LAUNCHERS

TOKENS = [f"hf_{letter}" + "aB3" * 10 for letter in "xyz"]
PROGRAM = """\
import sys
for who in sys.argv[1].split(","):
    print(f"who={who} seconds: 1.0{len(who)}")
"""
METRICS = "{seconds: {pattern: 'who=(?P<who>\\S+) seconds: (?P<value>[0-9.]+)', unit: s, better: lower}}"


def ran(directory: Path, argv: str, *, repeats: int = 1) -> Path:
    """The session of a run whose programs print whom their first argument names."""
    (directory / "program.py").write_text(PROGRAM)
    (directory / "suite.yaml").write_text(
        "suite: kept\nworkload: command\nparams:\n  files: [program.py]\n"
        f"  argv: {argv}\n  metrics: {METRICS}\nrepeats: {repeats}\n"
    )
    done = command(directory, "run", "suite.yaml", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    [session] = directory.glob("runs/kept/2*")
    return session


def swept(*secrets: str) -> str:
    return json.dumps([["{python}", "program.py", "me", "--password", secret] for secret in secrets])


def exported(directory: Path, name: str = "kept", *more: str) -> list[dict[str, Any]]:
    done = command(directory, "export", name, "--json", *more)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def who(directory: Path, runs: str = "runs") -> list[tuple[str, float]]:
    return [(row["labels"]["who"], row["value"]) for row in exported(directory, "kept", "--runs", runs)]


def test_secrets_in_labels_stay_apart_and_have_the_same_mark_whenever_they_are_read(tmp_path: Path) -> None:
    argv = json.dumps([["{python}", "program.py", ",".join(pair)] for pair in (TOKENS[:2], TOKENS[1:])])
    session = ran(tmp_path, argv, repeats=2)
    labels = {(str(row["labels"]["argv"]), row["labels"]["who"]) for row in exported(tmp_path)}
    assert len(labels) == 4, "two labels of each of two programs, and no mean over two of them"
    assert len({mark for _, mark in labels}) == 3
    before = who(tmp_path)
    for reading in session.glob("*/attempt-1/reading.json"):
        reading.unlink()
    assert command(tmp_path, "index", "--rebuild").returncode == 0
    assert who(tmp_path) == before
    shutil.copytree(session, tmp_path / "elsewhere" / "kept" / session.name)
    assert who(tmp_path, "elsewhere") == before
    for token in TOKENS:
        assert [path for path in holding(tmp_path / "runs", token) if "/logs/" not in path] == []


def test_a_number_is_not_given_twice_where_an_attempt_was_removed(tmp_path: Path) -> None:
    session = ran(tmp_path, f'["{{python}}", program.py, "{",".join(TOKENS[:2])}"]')
    first = dict(mark for mark in who(tmp_path))
    [trial] = [path for path in session.iterdir() if path.is_dir() and path.name != "jobs"]
    log = trial / "attempt-1" / "logs" / "rank-0.log"
    run = json.loads((trial / "attempt-1" / "run.json").read_text())
    log.write_text(log.read_text().replace(TOKENS[0], TOKENS[2]))
    (trial / "attempt-1" / "run.json").write_text(json.dumps(run | {"token": "another"}))
    (trial / "attempt-1" / "reading.json").unlink(missing_ok=True)
    assert command(tmp_path, "index", "--rebuild").returncode == 0
    later = dict(mark for mark in who(tmp_path))
    assert first.keys().isdisjoint(later.keys())
    assert len(later) == 2


def test_damage_elsewhere_in_the_session_takes_no_number_away(tmp_path: Path) -> None:
    argv = json.dumps([["{python}", "program.py", token] for token in TOKENS[:2]])
    session = ran(tmp_path, argv)
    marks = dict(who(tmp_path))
    first, second = session.glob("*/attempt-1")
    (first / "run.json").write_text("{")
    (session / "plan.json").unlink()
    reading = read.result(rundir.Attempt(second)).reading
    assert {m.labels["who"] for m in reading.measurements} < set(marks)


def test_a_damaged_file_of_numbers_is_an_error_that_says_so(tmp_path: Path) -> None:
    session = ran(tmp_path, f'["{{python}}", program.py, "{TOKENS[0]}"]')
    (session / FILE).write_text("{")
    [attempt] = rundir.Session(session).last_attempts().values()
    with pytest.raises(InputError, match=FILE):
        read.result(attempt)


def test_imported_labels_that_hold_secrets_stay_apart(tmp_path: Path) -> None:
    rows = [f"a,t,1,{run},{token}" for run, token in enumerate(TOKENS)]
    (tmp_path / "t.csv").write_text("\n".join(["system,metric,value,run,who", *rows]) + "\n")
    for runs in (tmp_path / "one", tmp_path / "two"):
        assert command(tmp_path, "import", "t.csv", "--runs", str(runs)).returncode == 0
        marks = [row["labels"]["who"] for row in exported(tmp_path, "t", "--runs", str(runs))]
        assert marks == [f"(redacted-{number})" for number in (1, 2, 3)]


def test_a_sweep_over_secrets_has_a_point_for_each(tmp_path: Path) -> None:
    session = ran(tmp_path, swept("hunter2xyz", "hunter3xyz"))
    rows = exported(tmp_path)
    assert sorted(row["labels"]["argv"][-1] for row in rows) == ["(redacted-1)", "(redacted-2)"]
    assert len({row["run"] for row in rows}) == 2
    plan = json.loads((session / "plan.json").read_text())
    assert len({str(trial["varied"]) for trial in plan["trials"]}) == 2
    for secret in ("hunter2xyz", "hunter3xyz"):
        assert holding(tmp_path / "runs", secret) == []


def test_numbers_of_a_sweep_and_of_labels_are_not_the_same(tmp_path: Path) -> None:
    argv = [
        ["{python}", "program.py", TOKENS[0], "--password", secret] for secret in ("hunter2a", "hunter3a")
    ]
    ran(tmp_path, json.dumps(argv))
    labels = [row["labels"] for row in exported(tmp_path)]
    assert {of["who"] for of in labels} & {of["argv"][-1] for of in labels} == set()


def test_benchmarks_and_variables_that_differ_in_a_secret_are_planned(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "suite: kept\nbenchmarks:\n"
        + "".join(
            f"  {name}:\n    workload: command\n    params:\n      argv: [train, --password, {secret}]\n"
            f"      env: [{{API_KEY: {secret}}}, {{API_KEY: other{secret}}}]\n      metrics: {METRICS}\n"
            for name, secret in (("a", "hunter2xyz"), ("b", "hunter3xyz"))
        )
    )
    models = {name: workload.params for name, workload in WORKLOADS.items()}
    planned = make(*load(tmp_path / "suite.yaml", params_models=models, launcher_models=LAUNCHERS))
    marks = {trial.varied["env"]["API_KEY"] for trial in planned.trials}
    assert marks == {f"(redacted-{number})" for number in (1, 2, 3, 4)}
    assert len({trial.id for trial in planned.trials}) == len(planned.trials)
    assert not [trial.id for trial in planned.trials if "hunter" in trial.id]


def test_the_same_text_has_the_plain_mark_where_it_only_runs_along() -> None:
    assert redact.text(f"{TOKENS[0]} and {TOKENS[1]}") == "(redacted) and (redacted)"
