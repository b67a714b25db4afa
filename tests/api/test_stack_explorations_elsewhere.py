"""`assay stack explore` on other launchers: what a launcher's options say is checked first, then used."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.wheels import make_wheel

from assay.api.stack_explorations import explore
from assay.errors import InputError
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)

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


def test_an_option_that_the_launcher_lacks_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        explore(spec(tmp_path, "{launcher: slurm, image: x}"), runs=tmp_path / "runs")
    assert {one.where for one in error.value.problems} == {f"{tmp_path / 'spec.yaml'}:8"}
    assert not (tmp_path / "runs/.stacks/explorations/elsewhere/environments").exists()
