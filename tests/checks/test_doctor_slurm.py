"""`assay doctor` of a Slurm cluster: what each fact means, and the facts of a real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli import assay
from assay.launch.slurm.doctor import examine
from assay.records import Scalar
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)

FINE: dict[str, Scalar] = {
    "slurm.version": "slurm 22.05.8",
    "slurm.cluster": "alps",
    "slurm.accounting": True,
    "slurm.remembers_s": 300,
    "partition.all": "batch, gpu",
    "partition.name": "batch",
    "partition.state": "UP",
    "partition.max_time": "1-00:00:00",
    "partition.max_nodes": "UNLIMITED",
    "nodes.count": 2,
    "nodes.free": 2,
    "nodes.states": "2 idle",
    "nodes.unusable": "",
    "nodes.gres": "gpu:a100:4",
    "options.accepted": "Job 7 to start",
    "job.directory": "/runs",
    "job.nodes": 2,
    "job.hosts": "n1, n2",
    "job.python": "3.11.7",
    "job.torch": True,
}


def test_a_cluster_that_lacks_nothing_is_fine() -> None:
    assert {check.state for check in examine(FINE)} == {"ok"}


@pytest.mark.parametrize(
    ("facts", "name", "state", "words"),
    [
        ({"slurm.missing": "sbatch"}, "commands", "fail", "login node"),
        ({"slurm.version": "22", "slurm.silent": "Unable to contact"}, "controller", "fail", "scontrol ping"),
        (FINE | {"partition.name": None}, "partition", "fail", "set `partition`"),
        (FINE | {"partition.state": None}, "partition", "fail", "choose from batch, gpu"),
        (FINE | {"partition.state": "DOWN"}, "partition", "fail", "choose another"),
        (FINE | {"nodes.count": 0}, "nodes", "fail", "another partition"),
        (FINE | {"nodes.free": 0}, "nodes", "warn", "squeue --start"),
        (FINE | {"nodes.unusable": "n2 down* (Not responding)"}, "nodes", "warn", "Not responding"),
        (FINE | {"slurm.accounting": False}, "accounting", "ok", "300 s"),
        (FINE | {"options.error": "Invalid account"}, "options", "fail", "systems.yaml"),
        (FINE | {"job.waits": "pending: Resources"}, "test job", "unknown", "Resources"),
        (FINE | {"job.error": "n2 does not reach n1:10007"}, "test job", "fail", "10000 to 29999"),
        (FINE | {"job.error": "can't write the job's directory"}, "test job", "fail", "`directory`"),
        (FINE | {"job.error": "exited 2: /no/python"}, "test job", "fail", "`python`"),
        (FINE | {"job.torch": False}, "python", "warn", "without torch"),
    ],
)
def test_what_is_wrong_is_told_with_what_mends_it(
    facts: dict[str, Scalar], name: str, state: str, words: str
) -> None:
    found = {check.name: check for check in examine(facts)}
    assert found[name].state == state
    assert words in f"{found[name].evidence} {found[name].remedy}"


@pytest.mark.slurm
@pytest.mark.usefixtures("slurm_cluster")
@pytest.mark.parametrize(
    ("options", "exit_code", "failing"),
    [
        ("", 0, set()),
        (", partition: nope", 5, {"partition", "nodes", "options"}),
        (", gres: 'gpu:99'", 5, {"options"}),
        (", python: /no/python", 5, {"test job"}),
    ],
)
def test_doctor_of_a_real_cluster(tmp_path: Path, options: str, exit_code: int, failing: set[str]) -> None:
    systems = tmp_path / "systems.yaml"
    systems.write_text(f"cluster: {{launcher: slurm{options}}}\n")
    asked = ["doctor", "cluster", "--systems", str(systems), "--runs", str(tmp_path), "--json"]
    result = CliRunner().invoke(assay, asked)
    assert result.exit_code == exit_code, result.output
    found = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert {name for name, check in found.items() if check["state"] == "fail"} == failing
    if not failing:
        assert "reached each other" in found["test job"]["evidence"]
        assert found["memory"]["state"] == "ok"
        assert "hypervisor" in found
    assert [path.name for path in tmp_path.iterdir()] == ["systems.yaml"]
