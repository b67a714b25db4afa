"""`assay doctor` of a Slurm cluster: what each fact means, and the facts of a real one."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from assay.launch.slurm.doctor import examine
from batch_doctor_contract import JOB_RAN, BatchChecksContract, BatchDoctorContract, Facts
from slurm_cluster import down, slurm_cluster  # noqa: F401  (a fixture)

FINE: Facts = {
    **JOB_RAN,
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
}


class TestSlurmChecks(BatchChecksContract):
    examine = staticmethod(examine)
    fine = FINE
    wrong = (
        ({"slurm.missing": "sbatch"}, "commands", "fail", "login node"),
        ({"slurm.version": "22", "slurm.silent": "Unable to contact"}, "controller", "fail", "scontrol ping"),
        ({**FINE, "partition.name": None}, "partition", "fail", "set `partition`"),
        ({**FINE, "partition.state": None}, "partition", "fail", "choose from batch, gpu"),
        ({**FINE, "partition.state": "DOWN"}, "partition", "fail", "choose another"),
        ({**FINE, "nodes.count": 0}, "nodes", "fail", "another partition"),
        ({**FINE, "nodes.free": 0}, "nodes", "warn", "squeue --start"),
        ({**FINE, "nodes.unusable": "n2 down* (Not responding)"}, "nodes", "warn", "Not responding"),
        ({**FINE, "slurm.accounting": False}, "accounting", "ok", "300 s"),
        ({**FINE, "options.error": "Invalid account"}, "options", "fail", "systems.yaml"),
    )


@pytest.mark.slurm
@pytest.mark.usefixtures("slurm_cluster")
class TestSlurmDoctor(BatchDoctorContract):
    launcher_name = "slurm"
    found = (
        ("", 0, ()),
        (", partition: nope", 5, ("partition", "nodes", "options")),
        (", gres: 'gpu:99'", 5, ("options",)),
        (", python: /no/python", 5, ("test job",)),
    )

    def down(self) -> AbstractContextManager[None]:
        return down()
