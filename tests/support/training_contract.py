"""What every training workload promises, by real trainings of its small form on data that a test makes."""

from __future__ import annotations

import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from assay.cli import assay
from assay.payload_files import lay_out
from assay.records import Reading, Shape
from assay.workloads import WORKLOADS
from payload_processes import Forks, end, run_workload

STEPS, KEPT_AT = 4, 3  # of the trainings that are compared step by step


@pytest.mark.slow
@pytest.mark.torch
class TrainingContract(ABC):
    """Inherit it, name the workload, its small form and its round, make and spoil a data set.

    real       parameters of a training that reaches its `target` in seconds; `batch_size` an even number of
               times in the data. Two ranks are compared with one at this batch size
    learnt_nothing  parameters on top of them with which a model learns nothing, so that it misses the target;
             one epoch, as more would teach it no more
    chance     parameters that switch off what each rank draws by itself: dropout
    ruleset    of mlperf-logging's compliance checker; None where it has no rules for this benchmark
    tolerance  of losses of two ranks against one rank's, relative
    brief      only what is marked `essential` runs always, the rest by `make test-all`
    """

    workload: ClassVar[str]
    real: ClassVar[Mapping[str, Any]]
    learnt_nothing: ClassVar[Mapping[str, Any]] = {"learning_rate": 1e-12, "max_epochs": 1}
    chance: ClassVar[Mapping[str, Any]] = {}
    ruleset: ClassVar[str | None] = None
    tolerance: ClassVar[float] = 1e-4
    brief: ClassVar[bool] = False
    _forks: ClassVar[Forks]

    @staticmethod
    @abstractmethod
    def make_data(directory: Path) -> None:
        """A small data set in the benchmark's usual layout."""

    @staticmethod
    @abstractmethod
    def spoil(directory: Path) -> str:
        """Damage a sample that is trained on; gives what the message has to name."""

    @pytest.fixture(scope="class")
    @classmethod
    def data(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The data set, made once."""
        directory = tmp_path_factory.mktemp("data")
        cls.make_data(directory)
        return directory

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _keep_forks(cls, forks: Forks) -> None:
        cls._forks = forks

    def run(self, directory: Path, params: Mapping[str, Any], ranks: int = 1) -> Reading:
        """Run it on the CPU; it must end well."""
        directory.mkdir(parents=True, exist_ok=True)
        on_cpu = {"device": "cpu"} | dict(params)
        return run_workload(directory, self.workload, ranks, 1, on_cpu, self._forks.start)

    def of_data(self, data: Path, **params: Any) -> dict[str, Any]:
        """Parameters of a real training on the data set."""
        return {"mode": "real", "data": str(data), "workers": 0} | dict(self.real) | params

    @pytest.mark.essential
    def test_the_data_are_read_alone_and_their_bytes_counted(self, tmp_path: Path, data: Path) -> None:
        params = self.of_data(data, mode="data-only", steps=2, warmup=0, window=1, workers=1)
        reading = self.run(tmp_path, params)
        assert reading.problems == ()
        figures = {m.metric: m.value for m in reading.measurements}
        assert set(figures) == {"throughput", "step_time", "read_rate"}
        assert min(figures.values()) > 0

    def test_two_ranks_and_a_resumed_run_train_as_one_rank_in_one_go(
        self, tmp_path: Path, data: Path
    ) -> None:
        size = self.real["batch_size"]
        few = self.of_data(data, max_steps=STEPS, eval_every=1000.0, window=1, target=None)
        few |= {"global_batch_size": 2 * size, **self.chance}
        kept = few | {"checkpoint": str(tmp_path / "kept"), "checkpoint_every": KEPT_AT}
        straight = self.run(tmp_path / "straight", kept)
        assert straight.problems == ()
        assert len(losses(straight)) == STEPS
        resumed = self.run(tmp_path / "resumed", kept)
        assert losses(resumed) == losses(straight)[KEPT_AT:]
        assert any("step 3" in problem for problem in resumed.problems), "no time to train without the start"
        together = self.run(tmp_path / "together", few, ranks=2)
        assert losses(together) == pytest.approx(losses(straight), rel=self.tolerance)

    def test_a_training_reaches_a_target_that_a_model_that_learns_nothing_misses(
        self, tmp_path: Path, data: Path
    ) -> None:
        params = self.of_data(data, division="closed")
        reading = self.run(tmp_path / "learns", params)
        assert reading.problems == ()
        assert reading.training is not None
        assert reading.training.status == "success"
        workload = WORKLOADS[self.workload]
        asked = workload.reader.metrics(workload.params(**params))
        assert {m.metric for m in reading.measurements} == {metric.name for metric in asked}
        log = tmp_path / "learns" / "rank-0.log"
        assert findings(log, self.ruleset) == []
        scored = CliRunner().invoke(assay, ["score", str(log), "--json"])
        assert scored.exit_code == 0, scored.output
        [run] = json.loads(scored.output)["sets"][0]["runs"]
        assert run["minutes"] == reading.training.minutes
        [epochs] = [m.value for m in reading.measurements if m.metric == "epochs_to_target"]
        as_long = {"max_epochs": epochs}  # as the one that learns took
        broken = self.run(tmp_path / "broken", params | as_long | dict(self.learnt_nothing))
        assert "was not reached: aborted" in broken.problems[0]
        assert "time_to_train" not in {m.metric for m in broken.measurements}

    @pytest.mark.essential
    def test_a_damaged_sample_is_named_and_no_figure_printed(
        self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        directory = tmp_path_factory.mktemp("spoilt")
        self.make_data(directory)
        name = self.spoil(directory)
        params = self.of_data(directory, workers=1, device="cpu")
        task = WORKLOADS[self.workload].task(WORKLOADS[self.workload].params(**params), Shape(1, 1), 1)
        lay_out(tmp_path, {file.name: file.data for file in task.files})
        log = tmp_path / "rank-0.log"
        code, errors = end(self._forks.start(list(task.argv), tmp_path, {}, log))
        assert code == 1, errors
        assert name in errors.splitlines()[-1]
        assert "time_to_train" not in log.read_text()


def run_by_command(workload: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run it once as a user does, in the current directory; gives what is shown of the run."""
    suite = {"suite": "once", "workload": workload, "params": params, "systems": ["here"], "repeats": 1}
    Path("suite.yaml").write_text(json.dumps(suite))
    Path("systems.yaml").write_text('{"here": {"launcher": "local", "env": {"OMP_NUM_THREADS": "1"}}}')
    CliRunner().invoke(assay, ["run", "suite.yaml"])
    shown = CliRunner().invoke(assay, ["show", "once", "--json"])
    assert shown.exit_code == 0, shown.output
    [run] = json.loads(shown.output)["runs"]
    return dict(run)


def losses(reading: Reading) -> tuple[float, ...]:
    """The loss at every window, in order."""
    return next(series.y for series in reading.series if series.name == "loss")


def findings(log: Path, ruleset: str | None) -> list[str]:
    """What mlperf-logging's compliance checker finds but the quality target, which a small run misses."""
    if ruleset is None:
        return []
    checker = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "training"]
    done = subprocess.run(
        [*checker, "--ruleset", ruleset, str(log)],
        cwd=log.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if "INFO" not in line]
    assert any("compliance" in line for line in done.stderr.splitlines()), done.stderr
    missed = ("ERROR - FAILED", "Failed checks for eval_accuracy", "compliance_checker.log")
    return [line for line in said if line.strip() and not any(known in line for known in missed)]
