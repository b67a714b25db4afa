"""Runs, stacks, frames and MLPerf logs of every kind that pages show."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import made_a2d2
import nightly_runs
import observed_stacks
import swept_runs
from assay import api, store
from assay.cli import assay
from assay.node_sweep import NODES
from assay.run.index import update_index

SIZES = "system,benchmark,metric,value,unit,better,run,shape\n" + "".join(
    f"cluster,resnet50,throughput,{value},images/s,higher,{shape}-{run},{shape}\n"
    for shape, values in (("1x8", (800, 805, 796)), ("2x8", (1560, 1555, 1570)), ("4x8", (2990, 3010, 2970)))
    for run, value in enumerate(values)
)
LAYOUTS = "system,benchmark,metric,value,unit,better,run,shape\n" + "".join(
    f"cluster,resnet50,throughput,{value},images/s,higher,{shape}-{run},{shape}\n"
    for shape, values in (("2x8", (800, 805, 796)), ("16x1", (700, 705, 696)))
    for run, value in enumerate(values)
)
HALF = """
suite: half
workload: command
params:
  argv: ["sh", -c, 'if [ -n "$BAD" ]; then echo "no <b>luck"; exit 1; fi; echo value: 1']
  metrics: {value: {pattern: 'value: (?P<value>[0-9]+)', unit: ""}}
repeats: 1
retries: 0
systems: [good, bad]
"""
MLLOG = ':::MLLOG {{"namespace": "", "time_ms": {at}, "event_type": "{kind}", "key": "{key}", "value": {value}, "metadata": {{"file": "x", "lineno": 1{more}}}}}\n'  # noqa: E501 - one line of a log


def make(directory: Path) -> tuple[Path, tuple[str, ...]]:
    """The runs directory, and the options of a server that shows the rest too.

    It has sizes of a cluster, layouts, a failed run, a history with a step, swept nodes, stacks, frames and
    MLPerf logs.
    """
    runs, logs = directory / "runs", directory / "v3.1"
    for name, table in (("sizes", SIZES), ("layouts", LAYOUTS)):
        (directory / f"{name}.csv").write_text(table)
        done = CliRunner().invoke(assay, ["import", str(directory / f"{name}.csv"), "--runs", str(runs)])
        assert done.exit_code == 0, done.output
    (directory / "suite.yaml").write_text(HALF)
    (directory / "systems.yaml").write_text(
        "good: {launcher: local}\nbad: {launcher: local, env: {BAD: '1'}}\n"
    )
    api.run(directory / "suite.yaml", runs=runs)
    for suite in ("nightly", NODES):
        nightly_runs.write(runs, suite)
    swept_runs.write(runs)
    assert update_index(runs) == ()
    store.update(runs, observed_stacks.results())  # without directories: nothing but the index has them
    catalog = directory / "catalog.duckdb"
    api.scan_data(made_a2d2.make(directory / "a2d2", frames=6), catalog=catalog, processes=1)
    for system, runs_of_set in (("small", 1), ("large", 5)):
        (logs / "results" / system).mkdir(parents=True)
        for run in range(runs_of_set):
            log = _mlperf_log(minutes=20 + run, accuracy=0.7 if system == "small" else 0.76)
            (logs / "results" / system / f"result_{run}.txt").write_text(log)
    return runs, ("--catalog", str(catalog), "--mlperf", str(logs))


def _mlperf_log(minutes: int, accuracy: float) -> str:
    """A log of ResNet-50, whose target is an accuracy of 0.759."""
    lines = [
        (0, "POINT_IN_TIME", "submission_benchmark", '"resnet"', ""),
        (0, "INTERVAL_START", "run_start", "null", ""),
        (minutes, "POINT_IN_TIME", "eval_accuracy", accuracy, ', "epoch_num": 35'),
        (minutes, "INTERVAL_END", "run_stop", "null", ', "status": "success"'),
    ]
    return "".join(
        MLLOG.format(at=1_600_000_000_000 + 60_000 * at, kind=kind, key=key, value=value, more=more)
        for at, kind, key, value, more in lines
    )
