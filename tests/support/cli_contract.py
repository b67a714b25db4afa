"""What `assay run` promises on every launcher, by the real command and a real workload."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytest

from assay.records import Run, RunState
from assay.rundir import session as rundir

MATMUL = {"sizes": [256], "dtypes": ["fp32"], "min_time_s": 0.2}
PATIENCE_S = 180


@pytest.mark.slow
@pytest.mark.torch
class CliContract(ABC):
    """Inherit it, say what the system is and how to see what is left of a suite's jobs."""

    @abstractmethod
    def system(self) -> dict[str, Any]:
        """An entry of systems.yaml."""

    @abstractmethod
    def left(self) -> list[str]:
        """Processes (containers, pods) of any job that still run, in words."""

    def left_at_the_end(self) -> list[str]:
        """The same once Assay has ended."""
        return self.left()

    def test_a_suite_gives_its_results(self, tmp_path: Path) -> None:
        with assay(self.write(tmp_path, repeats=2)) as running:
            said, error = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, error
        assert "FLOP/s" in said + error
        assert [run.state for run in runs(tmp_path)] == [RunState.FINISHED] * 2
        assert self.left_at_the_end() == []

    def test_ctrl_c_leaves_nothing_that_runs(self, tmp_path: Path) -> None:
        with assay(self.write(tmp_path, min_time_s=60.0)) as running:
            self.wait_until_it_prints(tmp_path)
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 130
        assert self.left_at_the_end() == []

    def test_a_killed_assays_job_is_adopted_by_the_next(self, tmp_path: Path) -> None:
        suite = self.write(tmp_path, min_time_s=8.0)
        with assay(suite) as running:
            self.wait_until_it_prints(tmp_path)
            running.kill()
            running.wait()
        assert self.left() != []
        with assay(suite) as later:
            _, error = later.communicate(timeout=PATIENCE_S)
        assert later.returncode == 0, error
        (run,) = runs(tmp_path)
        assert (run.state, run.adopted) == (RunState.FINISHED, True)
        assert self.left_at_the_end() == []

    @pytest.mark.long
    def test_two_suites_at_once_do_not_disturb_each_other(self, tmp_path: Path) -> None:
        suites = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            suites.append(self.write(tmp_path / name))
        with assay(suites[0]) as first, assay(suites[1]) as second:
            errors = [running.communicate(timeout=PATIENCE_S)[1] for running in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0), errors
        for suite in suites:
            assert [run.state for run in runs(suite.parent)] == [RunState.FINISHED]

    def write(self, folder: Path, *, repeats: int = 1, min_time_s: float = 0.2) -> Path:
        suite = {
            "suite": "contract",
            "workload": "matmul",
            "params": {**MATMUL, "min_time_s": min_time_s},
            "systems": ["there"],
            "repeats": repeats,
        }
        (folder / "suite.yaml").write_text(json.dumps(suite))
        (folder / "systems.yaml").write_text(json.dumps({"there": self.system()}))
        return folder / "suite.yaml"

    def wait_until_it_prints(self, folder: Path) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up:
            logs = (folder / "runs").glob("contract/[0-9]*/*/attempt-1/logs/rank-0.log")
            if any(log.stat().st_size for log in logs):
                return
            time.sleep(0.05)
        pytest.fail("no rank printed anything")


def assay(suite: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", "from assay.cli import main; main()", "run", str(suite)]
    return subprocess.Popen(
        [*argv, "--runs", str(suite.parent / "runs")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def runs(folder: Path) -> list[Run]:
    """The last attempt of each trial."""
    (session,) = list(rundir.sessions(folder / "runs"))
    return [attempt.run() for attempt in session.last_attempts().values()]
