"""kill -9 of Assay at any moment: run again until it is done, and nothing is lost or done twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assay.records import JobState, RunState
from assay.rundir import session as rundir

TRIALS = 3
LINES = 20
MOST_KILLS = 4

# Notes beside the run directory when it began and when it ended, so that each execution is counted.
PROGRAM = """
import os, time
def note(what):
    with open({notes!r}, "a") as file:
        file.write(what + " " + os.environ["ASSAY_TOKEN"] + "\\n")
note("began")
for i in range({lines}):
    print("line", i, flush=True)
    time.sleep({pause})
print("value 5", flush=True)
note("ended")
"""


@dataclass
class Storm:
    """One suite that is killed at random moments until it is done."""

    folder: Path
    seed: int
    states_hit: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.runs, self.notes = self.folder / "runs", self.folder / "notes"
        self.notes.touch()
        program = self.folder / "program.py"
        pause = self.random.uniform(0.1, 0.3) / LINES
        program.write_text(PROGRAM.format(notes=str(self.notes), lines=LINES, pause=pause))
        suite = {
            "suite": "storm",
            "workload": "command",
            "params": {
                "argv": ["{python}", "-I", "-S", str(program)],
                "metrics": {"value": {"pattern": "value (?P<value>[0-9]+)", "better": "higher"}},
            },
            "systems": ["local"],
            "repeats": TRIALS,
        }
        (self.folder / "suite.yaml").write_text(json.dumps(suite))

    def until_done(self) -> None:
        for _ in range(MOST_KILLS):
            with self.start() as assay:
                self.wait_for_a_bad_moment(assay)
                assay.send_signal(signal.SIGKILL)
                assay.wait()
            self.states_hit.update(self.states() or ["between"])
            self.states_hit["with some log"] += self.is_printing()
            if any(session.header.finished_at for session in rundir.sessions(self.runs)):
                return  # killed while it showed the results, or not at all
        with self.start() as assay:
            _, error = assay.communicate(timeout=60)
        assert assay.returncode == 0, error

    def start(self) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", "from assay.cli import main; main()", "run", "suite.yaml", "--quiet"]
        return subprocess.Popen(
            [*argv, "--runs", str(self.runs)],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def wait_for_a_bad_moment(self, assay: subprocess.Popen[bytes]) -> None:
        """While a job is submitted, while some of its log is kept, or at any time."""
        moment = self.random.choice([self.is_submitting, self.is_printing, None])
        until = time.monotonic() + (20 if moment else self.random.uniform(0.3, 1.8))
        known = len(self.attempts())
        while time.monotonic() < until and assay.poll() is None:
            if moment is not None and len(self.attempts()) > known and moment():
                time.sleep(self.random.uniform(0, 0.06))
                return
            time.sleep(0.002)

    def is_submitting(self) -> bool:
        return "submitting" in self.states()

    def is_printing(self) -> bool:
        open_attempts = [a for a in self.attempts() if not a.run().state.final]
        return any(attempt.kept().get("rank-0") for attempt in open_attempts)

    def attempts(self) -> list[rundir.Attempt]:
        return [a for session in rundir.sessions(self.runs) for a in session.attempts()]

    def states(self) -> list[str]:
        """Of attempts that are not over."""
        states = [attempt.run().state for attempt in self.attempts()]
        return [state.value for state in states if not state.final]


def check(storm: Storm) -> None:
    [session] = rundir.sessions(storm.runs)
    for path in session.path.rglob("*.json"):
        json.loads(path.read_text())
    runs = [attempt.run() for attempt in session.attempts()]
    finished = [run.trial.id for run in runs if run.state is RunState.FINISHED]
    assert sorted(finished) == [f"command-1x1-r{n:02}" for n in range(1, TRIALS + 1)]
    for run in runs:
        if run.state is not RunState.FINISHED:
            assert (run.state, run.job, run.adopted) == (RunState.FAILED, JobState.LOST, True), run
            assert run.cause.startswith("it never started"), run
    notes = Counter(storm.notes.read_text().splitlines())
    done = {run.token for run in runs if run.state is RunState.FINISHED}
    assert notes == {f"{what} {token}": 1 for token in done for what in ("began", "ended")}
    whole = "".join(f"line {i}\n" for i in range(LINES)) + "value 5\n"
    for attempt in session.last_attempts().values():
        assert attempt.logs()["rank-0.log"].read_text() == whole
        assert attempt.logs()["probe-0.log"].read_text().count(":::ASSAY-PROBE ") == 1
    assert not list(session.path.rglob("*.tmp"))
    assert not list(session.path.rglob(".*.new"))
    given_up = {run.token for run in runs} - done  # a mark stays, so that a job on its way doesn't start
    assert {path.name for path in session.spool.iterdir()} <= given_up
    assert not processes_of({run.token for run in runs})


def processes_of(tokens: set[str]) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environ = path.read_bytes()
        except OSError:
            continue
        if any(token.encode() in environ for token in tokens):
            found.append(path.parent.name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("storms", [2, pytest.param(12, marks=pytest.mark.long)])
def test_killed_at_any_moment_and_run_again_nothing_is_lost_or_done_twice(
    storms: int, tmp_path: Path
) -> None:
    def storm(seed: int) -> Storm:
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = Storm(folder, seed)
        made.until_done()
        check(made)
        return made

    with ThreadPoolExecutor(max_workers=2) as two:
        found = list(two.map(storm, range(storms)))
    hit: Counter[str] = sum((storm.states_hit for storm in found), Counter())
    assert hit["submitting"] > 0, hit
    assert hit["with some log"] > 0, hit
    assert hit.total() >= storms, hit
