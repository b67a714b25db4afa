"""`assay stack explore` on other launchers: what a launcher's options say is checked first, then used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.support.wheels import make_wheel

import kubernetes_cluster
from assay.errors import InputError
from assay.records import RunState
from assay.rundir.session import sessions_of
from assay.stacks.explore import explore
from killed_program import killed_at
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)
from ssh_hosts import hosts

SPEC = """\
explore: elsewhere
requirements: [pace]
vary:
  packages: {pace: ["1.0.0", "1.1.0"]}
incumbent: {packages: {pace: "1.0.0"}}
wheels: [wheels]
offline: true
options: OPTIONS
measure:
  workload: command
  shapes: [2x1]
  params:
    argv: ["{python}", measure.py]
    files: [measure.py]
    metrics: {rate: {pattern: 'rate (?P<value>[0-9.]+)', unit: 1/s, better: higher}}
  sample_every: never
search: random
max_repeats: 3
"""
MEASURE = """\
import pace, time
print("rate", pace.SPEED * (1 + (time.time_ns() // 1000 % 97) / 1e5))
"""


def spec(folder: Path, options: str) -> Path:
    for version, speed in {"1.0.0": 100, "1.1.0": 300}.items():
        make_wheel(folder / "wheels", "pace", version, f"SPEED = {speed}")
    (folder / "measure.py").write_text(MEASURE)
    path = folder / "spec.yaml"
    path.write_text(SPEC.replace("OPTIONS", options))
    return path


@pytest.mark.slurm
@pytest.mark.usefixtures("slurm_cluster")
def test_an_exploration_runs_on_two_nodes_of_slurm(tmp_path: Path) -> None:
    found = explore(spec(tmp_path, "{launcher: slurm}"), runs=tmp_path / "runs")
    (one,) = found.candidates
    assert one.comparison is not None
    assert one.comparison.ratio.value == pytest.approx(3, rel=0.01)
    assert "wait" not in one.why


@pytest.mark.ssh
@pytest.mark.long
def test_an_exploration_on_two_hosts_at_once_is_killed_and_resumes(tmp_path: Path) -> None:
    with hosts(2) as servers:
        options = {"launcher": "ssh", "hosts": servers.names, "config": servers.config}
        need_the_planted_effect_after_a_kill(tmp_path, {**options, "directory": str(tmp_path / "remote")})


@pytest.mark.kubernetes
@pytest.mark.long
def test_an_exploration_on_two_nodes_of_kubernetes_is_killed_and_resumes(
    tmp_path: Path, namespace: str
) -> None:
    kubernetes_cluster.need_nodes_here()
    options: dict[str, object] = {
        "launcher": "kubernetes",
        "namespace": namespace,
        "image": kubernetes_cluster.IMAGE,
    }
    seen = (str(tmp_path), sys.base_prefix)  # the environments, and their interpreter
    volumes = [{"mountPath": path, "hostPath": path, "readOnly": True} for path in seen]
    options |= {"imagePullPolicy": "IfNotPresent", "volumes": volumes, "runAsUser": 0}  # they are root's
    need_the_planted_effect_after_a_kill(tmp_path, options)


def need_the_planted_effect_after_a_kill(folder: Path, options: dict[str, object]) -> None:
    """Kill it during the first trial; then it finds the effect, each trial ran once, and on both nodes."""
    path, runs = spec(folder, json.dumps(options)), folder / "runs"
    argv = [sys.executable, "-m", "assay", "stack", "explore", str(path), "--runs", str(runs)]
    assert killed_at(argv, runs, "*/*/*/attempt-1/run.json")
    found = explore(path, runs=runs)
    (one,) = found.candidates
    assert one.comparison is not None, one.why
    assert one.comparison.ratio.value == pytest.approx(3, rel=0.01)
    (session,) = sessions_of(runs, "elsewhere")
    finished = [run for run in (a.run() for a in session.attempts()) if run.state is RunState.FINISHED]
    assert sorted(run.trial.id for run in finished) == sorted(trial.id for trial in session.plan().trials)
    assert {len(run.exits) for run in finished} == {2}
    assert not list((found.folder / "environments").iterdir())


def test_an_option_that_the_launcher_lacks_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        explore(spec(tmp_path, "{launcher: slurm, image: x}"), runs=tmp_path / "runs")
    assert {one.where for one in error.value.problems} == {f"{tmp_path / 'spec.yaml'}:8"}
    assert not (tmp_path / "runs/.stacks/explorations/elsewhere/environments").exists()
