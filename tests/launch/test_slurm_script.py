"""Slurm without a Slurm: the contract, and what else its options and its answers mean."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import ClassVar

import pytest

from assay.errors import InputError
from assay.launch.batch.job_state import QueueAnswer, unreported_status
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.launch.slurm import SlurmSystem
from assay.launch.slurm.commands import Slurm, SlurmJob
from assay.launch.slurm.launcher import SlurmLauncher
from assay.records import JobState
from assay.testing.launchers import job, python
from batch_script_contract import BatchScriptContract

EVERY_OPTION = {
    "python": "/opt/my env/bin/python",
    "cluster": "alps",
    "partition": "gpu,long",
    "account": "proj-7",
    "qos": "high",
    "reservation": "maint",
    "constraint": "a100&nvme*2",
    "nodelist": "gpu[01-04]",
    "exclude": "gpu03",
    "exclusive": True,
    "gres": "gpu:a100",
    "cpus_per_rank": 12,
    "mem": "0",
    "startup": "10min",
    "sbatch": ["--switches=1", "--hint=nomultithread"],
    "before": ["module load cuda/12.8", 'source "$HOME/env.sh"'],
    "container_image": "nvcr.io#nvidia/pytorch:25.01-py3",
    "container_mounts": ["/data:/data:ro", "/scratch/a b:/scratch"],
}
# What Slurm's commands print, as recorded from Slurm 22.05 and, for sacct, from its manual
SCONTROL = (
    "JobId=7 JobName=assay-x UserId=root(0) Requeue=0 Restarts=0 ExitCode=0:53 JobState=FAILED "
    "Reason=ReqNodeNotAvail,_UnavailableNodes:snode2 Dependency=(null) NodeList=snode[1-2] Comment=a\n"
)
WAITS_FOR_NODES = (
    "JobId=7 JobName=assay-x Restarts=0 ExitCode=0:0 JobState=PENDING Partition=batch NodeList= "
    "Reason=Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved Comment=a\n"
)
UNKNOWN = "slurm_load_jobs error: Invalid job id specified\n"
SILENT = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"


class TestSlurmScript(BatchScriptContract):
    launcher_name = "slurm"
    queue = Slurm()
    goldens = (
        ("slurm_plain.sh", "1x1", {"python": "python3"}),
        ("slurm_two_nodes.sh", "2x8", {"python": "python3", "gres": "gpu"}),
        ("slurm_pyxis.sh", "8x1x2", EVERY_OPTION),
        (
            "slurm_apptainer.sh",
            "2x8",
            {"container_runtime": "apptainer", "container_image": "/images/my torch.sif", "gres": "gpu"},
        ),
    )
    shapes: ClassVar = [
        (
            placement,
            shape,
            {"gres": "gpu"},
            [
                f"#SBATCH --nodes={nodes}",
                f"#SBATCH --gres=gpu:{ranks}",
                f"#SBATCH --cpus-per-task={3 * ranks}",
            ],
        )
        for placement, shape, nodes, ranks in (
            ("spread", "4x2", 4, 2),
            ("pack", "4x2", 1, 8),
            ("spread", "4x2x2", 2, 4),
            ("pack", "4x2x2", 2, 4),
        )
    ]
    time_limit = "#SBATCH --time=4"
    refused = (
        ({"partition": "gpu; rm -rf /"}, "not a value for Slurm"),
        ({"partition": "gpu\n#SBATCH --uid=0"}, "not a value"),
        ({"gres": 'gpu"'}, "not a value"),
        ({"sbatch": ["--output=x"]}, "the launcher sets"),
        ({"sbatch": ["-N 4"]}, "the launcher sets"),
        ({"sbatch": ["--partition=x"]}, "option `partition`"),
        ({"sbatch": ["echo hello"]}, "not an option of sbatch"),
        ({"sbatch": ["--switches=1\nrm"]}, "one line"),
        ({"container_mounts": ["/a:/b"]}, "container_image"),
        ({"container_image": "i", "container_mounts": ["/a"]}, "not a mount"),
        ({"container_image": "i", "container_mounts": ["/a:/b,/etc:/etc"]}, "not a mount"),
    )
    answers = (
        (
            {"scontrol": (0, SCONTROL, "")},
            SlurmJob("FAILED", "ReqNodeNotAvail, UnavailableNodes:snode2", "snode[1-2]", "0:53"),
        ),
        (
            {
                "scontrol": (0, WAITS_FOR_NODES, ""),
                "sinfo": (0, "n1|idle|none\nn2|drained|bad dimm 44\nn3|down*|none\n", ""),
            },
            SlurmJob(
                "PENDING",
                "Nodes required for job are DOWN, DRAINED or reserved",
                "",
                "0:0",
                unusable=("n2 drained (bad dimm 44)", "n3 down*"),
            ),
        ),
        (
            {"scontrol": (0, WAITS_FOR_NODES, "")},
            SlurmJob("PENDING", "Nodes required for job are DOWN, DRAINED or reserved", "", "0:0"),
        ),
        ({"squeue": (0, "PENDING||Resources\n", "")}, SlurmJob("PENDING", "Resources", "")),
        (
            {
                "scontrol": (1, "", UNKNOWN),
                "squeue": (1, "", UNKNOWN),
                "sacct": (0, "CANCELLED by 1000|gpu01|None|0:15\n", ""),
            },
            SlurmJob("CANCELLED", "", "gpu01", "0:15"),
        ),
        (
            {
                "scontrol": (1, "", SILENT),
                "squeue": (1, "", SILENT),
                "sacct": (0, "RUNNING|gpu01|None|0:0\n", ""),
            },
            SlurmJob("RUNNING", "", "gpu01", "0:0"),
        ),
        (
            {
                "scontrol": (1, "", UNKNOWN),
                "squeue": (1, "", UNKNOWN),
                "sacct": (1, "", "Slurm accounting storage is disabled\n"),
            },
            None,
        ),
    )
    silences = (({},), ({"scontrol": (1, "", SILENT), "squeue": (1, "", UNKNOWN)},))
    ends = (
        (None, JobState.LOST, "no longer knows the job"),
        (SlurmJob("PENDING", "Resources", ""), JobState.PENDING, "pending: Resources"),
        (SlurmJob("PENDING", "PartitionTimeLimit", ""), JobState.PENDING, "reduce `timeout`"),
        (SlurmJob("PENDING", "", ""), JobState.PENDING, "no reason yet"),
        (
            SlurmJob("PENDING", "ReqNodeNotAvail", "", unusable=("n2 drained (bad dimm 44)",)),
            JobState.PENDING,
            "pending: ReqNodeNotAvail; n2 drained (bad dimm 44)",
        ),
        (SlurmJob("CONFIGURING", "", "n1"), JobState.PENDING, "configuring"),
        (SlurmJob("RUNNING", "", "n[1-2]"), JobState.PENDING, "starting on n[1-2]"),
        (SlurmJob("PENDING", "BeginTime", "", restarts=1), JobState.LOST, "requeued"),
        (SlurmJob("NODE_FAIL", "", "n[1-2]", "0:15"), JobState.LOST, "n2 (down*)"),
        (SlurmJob("PREEMPTED", "", "n1", "0:15"), JobState.LOST, "preempted"),
        (SlurmJob("TIMEOUT", "TimeLimit", "n1", "0:15"), JobState.TIMED_OUT, "raise the system's `startup`"),
        (SlurmJob("OUT_OF_MEMORY", "OutOfMemory", "n1", "0:125"), JobState.FAILED, "raise `mem`"),
        (SlurmJob("CANCELLED", "", "n1", "0:15"), JobState.STOPPED, "ended the job"),
        (
            SlurmJob("CANCELLED", "Resources", "", "0:0"),
            JobState.STOPPED,
            "ended the job while it waited (Resources): Slurm says CANCELLED",
        ),
        (SlurmJob("FAILED", "NonZeroExitCode", "n1", "7:0"), JobState.FAILED, "exited 7 before the ranks"),
        (
            SlurmJob("FAILED", "NonZeroExitCode", "n1", "0:53"),
            JobState.FAILED,
            "set the system's `directory`",
        ),
        (
            SlurmJob("FAILED", "NonZeroExitCode", "n1", "74:0"),
            JobState.FAILED,
            "set the system's `directory`",
        ),
    )
    failed_node = "n2 (down*)"


def test_a_directory_that_no_container_can_mount_is_refused(tmp_path: Path) -> None:
    system = SlurmSystem(container_image="image", directory=str(tmp_path / "a,b"))
    with pytest.raises(InputError, match="a,b"):
        SlurmLauncher(system, tmp_path).render(job(python("")))


@pytest.mark.parametrize(
    ("other_began", "state", "cause"),
    [
        (False, JobState.FAILED, "rank 1 exited 3, before node 0 of n[1-2] had started"),
        (
            True,
            JobState.LOST,
            "the keeper of node 0 of n[1-2] left no report; Slurm says FAILED, exit code 3:0",
        ),
    ],
)
def test_a_node_that_slurm_ended_before_it_began_is_not_lost_and_one_that_ran_is(
    tmp_path: Path, other_began: bool, state: JobState, cause: str
) -> None:
    (tmp_path / "spec.json").write_text('{"nodes": 2}')
    end = {"state": "failed", "cause": "rank 1 exited 3", "started_at": 5.0, "ended_at": 6.0, "streams": {}}
    exits = [{"rank": 1, "exit_code": 3, "signal": None, "first": True}]
    for number in range(2):
        (tmp_path / f"node-{number}").mkdir()
    (tmp_path / "node-1" / "started.json").write_text('{"started_at": 5.0}')
    (tmp_path / "node-1" / "ended.json").write_text(json.dumps({**end, "exits": exits, "node": None}))
    if other_began:
        (tmp_path / "node-0" / "started.json").write_text('{"started_at": 5.1}')
    told = SlurmJob("FAILED", "", "n[1-2]", "3:0")
    status = unreported_status(SharedJobDirectory(tmp_path), QueueAnswer(0.0, False, told), [], "Slurm")
    assert (status.state, status.cause) == (state, cause)
    assert [one.rank for one in status.exits] == ([] if other_began else [1])


def test_a_job_that_waits_after_it_had_begun_was_requeued(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"nodes": 1}')
    status = unreported_status(
        SharedJobDirectory(tmp_path),
        QueueAnswer(0.0, True, SlurmJob("PENDING", "BeginTime", "")),
        [],
        "Slurm",
    )
    assert status.state is JobState.LOST
    assert "requeued it (BeginTime)" in status.cause


@pytest.mark.parametrize("state", ["COMPLETING", "NODE_FAIL", "COMPLETED"])
def test_a_job_without_nodes_has_no_hole_in_its_message(tmp_path: Path, state: str) -> None:
    (tmp_path / "spec.json").write_text('{"nodes": 1, "timeout_s": 9, "grace_s": 9}')
    for begun in (False, True):
        answer = QueueAnswer(0.0, begun, SlurmJob(state, "", "", "0:0"))
        cause = unreported_status(SharedJobDirectory(tmp_path), answer, [], "Slurm").cause
        assert not re.search(r"on $|of ($|;)|\(\)", cause), cause
        (tmp_path / "started.json").write_text('{"started_at": 5.0}')
