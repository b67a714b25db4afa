"""A run from Python: the suite as an object, its events for whoever listens, and nothing printed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.errors import InputError
from assay.records import Plan, Run
from assay.run.progress import Silence
from assay.rundir.session import Session

SUITE: dict[str, Any] = {
    "suite": "echoes",
    "workload": "command",
    "repeats": 2,
    "params": {
        "argv": ["echo", "speed: 12.5"],
        "metrics": {"speed": {"pattern": r"speed: (?P<value>[\d.]+)", "unit": "1/s", "better": "higher"}},
    },
}


class Events(Silence):
    """Keeps what it is told."""

    heard: list[str]

    def trial_began(self, trial: Any, attempt: int, *, adopted: bool) -> None:
        self.heard.append(f"began {trial.id}")

    def trial_ended(self, result: Any, attempt: Any, *, settled: bool) -> None:
        self.heard.append(f"ended {result.run.trial.id}")

    def close(self) -> None:
        self.heard.append("close")


def listening(heard: list[str]) -> Any:
    def tell(session: Session, plan: Plan, done: Sequence[Run]) -> Events:
        events = Events(session, plan, done)
        events.heard = heard
        return events

    return tell


def test_a_suite_that_a_program_made_is_run_kept_and_resumed_and_its_events_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, systems = api.make_suite(SUITE)
    heard: list[str] = []
    found = api.run(suite, systems=systems, runs=tmp_path, progress=listening(heard))
    assert found.outcome == "good", found.completed.failures
    trials = [trial.id for trial in found.completed.plan.trials]
    assert heard == [f"{what} {trial}" for trial in trials for what in ("began", "ended")] + ["close"]
    assert [r.reading.measurements[0].value for r in found.completed.results] == [12.5, 12.5]
    kept = found.completed.session
    assert api.make_suite(eval((kept.path / "suite.yaml").read_text()))[0].name == "echoes"
    assert (kept.header.suite_file, kept.header.git, kept.header.command_line) == ("", {}, ())
    assert capsys.readouterr() == ("", "")

    with pytest.raises(InputError, match="not a system"):
        api.run(suite, systems=api.make_suite(SUITE, {"there": {"launcher": "local"}})[1], system=["nowhere"])


def test_the_plan_of_a_suite_object_is_that_of_its_file(tmp_path: Path) -> None:
    import json

    file = tmp_path / "suite.json"
    file.write_text(json.dumps(SUITE))
    suite, _ = api.make_suite(SUITE)
    planned = api.plan(suite, runs=tmp_path).plan
    assert planned.digest == api.plan(file, runs=tmp_path).plan.digest
    assert [trial.id for trial in planned.trials] == [
        t.id for t in api.plan(str(file), runs=tmp_path).plan.trials
    ]


def test_a_suite_object_is_checked_as_its_file_is() -> None:
    with pytest.raises(InputError, match=r"suite\.json:1: .*workload"):
        api.make_suite({"suite": "nothing"})


def test_a_run_in_another_thread_than_the_main_one_works(tmp_path: Path) -> None:
    suite, systems = api.make_suite(SUITE | {"repeats": 1})
    outcomes: list[str] = []
    thread = threading.Thread(
        target=lambda: outcomes.append(api.run(suite, systems=systems, runs=tmp_path).outcome)
    )
    thread.start()
    thread.join(60)
    assert outcomes == ["good"]


def test_the_library_prints_nothing_where_nobody_listens(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from assay import api, store
suite, systems = api.make_suite({SUITE!r})
api.run(suite, systems=systems, runs={str(tmp_path)!r})
store.index_path(Path({str(tmp_path)!r})).write_bytes(b"junk" * 4000)
api.run(suite, systems=systems, runs={str(tmp_path)!r}, new=True)
assert api.rank("echoes", runs={str(tmp_path)!r}) == ()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
