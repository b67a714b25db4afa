"""Slurm without a Slurm: the script that is sent, what may be asked, what its answers mean."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from assay import shell
from assay.errors import InputError
from assay.launch.batch.job_state import without_word
from assay.launch.batch.life import QueueAnswer
from assay.launch.batch.queue import QueueSilentError
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.launch.slurm.launcher import SlurmLauncher
from assay.launch.slurm.options import SlurmSystem
from assay.launch.slurm.script import batch_script
from assay.launch.slurm.states import Slurm, SlurmJob
from assay.records import Job, JobState, Shape
from conftest import GOLDEN, ROOT
from launcher_contract import job, python

GOLDEN = GOLDEN
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


def wide(shape: str) -> Job:
    return replace(job(python("print(1)"), trial_id="training-2x8-größe r01"), shape=Shape.parse(shape))


@pytest.mark.parametrize(
    ("golden", "shape", "options"),
    [
        ("slurm_plain.sh", "1x1", {"python": "python3"}),
        ("slurm_two_nodes.sh", "2x8", {"python": "python3", "gres": "gpu"}),
        ("slurm_pyxis.sh", "8x1x2", EVERY_OPTION),
        (
            "slurm_apptainer.sh",
            "2x8",
            {"container_runtime": "apptainer", "container_image": "/images/my torch.sif", "gres": "gpu"},
        ),
    ],
)
def test_the_script_is_what_it_was_byte_for_byte(
    golden: str, shape: str, options: dict[str, object], tmp_path: Path
) -> None:
    launcher = SlurmLauncher(SlurmSystem.model_validate(options), tmp_path)
    script = launcher.render(wide(shape)).command.partition("\n\n#")[0] + "\n"
    assert script == (GOLDEN / golden).read_text()
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("placement", "shape", "nodes", "per_node"),
    [("spread", "4x2", 4, 2), ("pack", "4x2", 1, 8), ("spread", "4x2x2", 2, 4), ("pack", "4x2x2", 2, 4)],
)
def test_the_shape_says_how_many_nodes_and_ranks_on_each(
    placement: str, shape: str, nodes: int, per_node: int
) -> None:
    system = SlurmSystem.model_validate({"placement": placement, "gres": "gpu", "cpus_per_rank": 3})
    script = batch_script(wide(shape), system, "python3", "assay-x")
    assert f"#SBATCH --nodes={nodes}\n" in script
    assert f"#SBATCH --gres=gpu:{per_node}\n" in script
    assert f"#SBATCH --cpus-per-task={3 * per_node}\n" in script


def test_slurms_time_limit_leaves_room_for_the_trials_own() -> None:
    system = SlurmSystem.model_validate({"startup": "2min", "grace": 30})
    asked = replace(job(python("")), timeout_s=61)
    assert "#SBATCH --time=4\n" in batch_script(asked, system, "python3", "assay-x")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition": "gpu; rm -rf /"}, "not a value that Slurm takes"),
        ({"partition": "gpu\n#SBATCH --uid=0"}, "not a value"),
        ({"mem": "64 G"}, "not a value"),
        ({"gres": 'gpu"'}, "not a value"),
        ({"sbatch": ["--output=x"]}, "set by the launcher"),
        ({"sbatch": ["-N 4"]}, "set by the launcher"),
        ({"sbatch": ["--partition=x"]}, "option `partition`"),
        ({"sbatch": ["echo hello"]}, "not an option of sbatch"),
        ({"sbatch": ["--switches=1\nrm"]}, "one line"),
        ({"before": ["module load a\nrm -rf /"]}, "one line"),
        ({"before": [" "]}, "one line"),
        ({"directory": "relative"}, "absolute"),
        ({"container_mounts": ["/a:/b"]}, "container_image"),
        ({"container_image": "i", "container_mounts": ["/a"]}, "not a mount"),
        ({"container_image": "i", "container_mounts": ["/a:/b,/etc:/etc"]}, "not a mount"),
        ({"cpus_per_rank": 0}, "greater than or equal to 1"),
        ({"env": {"RANK": "1"}}, "set by the launcher"),
        ({"partitoin": "x"}, "Extra inputs"),
    ],
)
def test_options_that_can_not_be_sent_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SlurmSystem.model_validate(options)


def test_every_option_stands_in_the_document() -> None:
    page = (ROOT / "docs" / "launchers" / "slurm.md").read_text()
    assert [name for name in SlurmSystem.model_fields if f"`{name}`" not in page] == []


def test_a_directory_that_no_container_can_mount_is_refused(tmp_path: Path) -> None:
    system = SlurmSystem(container_image="image", directory=str(tmp_path / "a,b"))
    with pytest.raises(InputError, match="a,b"):
        SlurmLauncher(system, tmp_path).render(job(python("")))


# What Slurm's commands print, as recorded from Slurm 22.05 and, for sacct, from its manual

SCONTROL = (
    "JobId=7 JobName=assay-x UserId=root(0) Requeue=0 Restarts=0 ExitCode=0:53 JobState=FAILED "
    "Reason=ReqNodeNotAvail,_UnavailableNodes:snode2 Dependency=(null) NodeList=snode[1-2] Comment=a\n"
)
UNKNOWN = "slurm_load_jobs error: Invalid job id specified\n"
SILENT = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"


@pytest.fixture
def prints(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, tuple[int, str, str]]], None]:
    """Sets what each command prints; one that is not named is not installed."""

    def fake(commands: dict[str, tuple[int, str, str]]) -> None:
        def run(argv: tuple[str, ...], **_: object) -> shell.CompletedCommand:
            if argv[0] not in commands:
                raise shell.ProgramMissingError(f"{argv[0]}: No such file or directory")
            return shell.CompletedCommand(argv, *commands[argv[0]], 0.0)

        monkeypatch.setattr(shell, "run", run)

    return fake


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        (
            {"scontrol": (0, SCONTROL, "")},
            SlurmJob("FAILED", "ReqNodeNotAvail, UnavailableNodes:snode2", "snode[1-2]", "0:53"),
        ),
        ({"squeue": (0, "PENDING||Resources\n", "")}, SlurmJob("PENDING", "Resources", "")),
        (
            {
                "scontrol": (1, "", UNKNOWN),
                "squeue": (1, "", UNKNOWN),
                "sacct": (0, "CANCELLED by 1000|gpu01|None|0:15\n", ""),
            },
            SlurmJob("CANCELLED", "None", "gpu01", "0:15"),
        ),
        (
            {
                "scontrol": (1, "", SILENT),
                "squeue": (1, "", SILENT),
                "sacct": (0, "RUNNING|gpu01|None|0:0\n", ""),
            },
            SlurmJob("RUNNING", "None", "gpu01", "0:0"),
        ),
        (
            {
                "scontrol": (1, "", UNKNOWN),
                "squeue": (1, "", UNKNOWN),
                "sacct": (1, "", "Slurm accounting storage is disabled\n"),
            },
            None,
        ),
    ],
)
def test_the_first_command_that_knows_the_job_tells(
    prints: Callable[[dict[str, tuple[int, str, str]]], None],
    commands: dict[str, tuple[int, str, str]],
    told: SlurmJob | None,
) -> None:
    prints(commands)
    assert Slurm().ask(7, "token") == told


@pytest.mark.parametrize(
    "commands",
    [{}, {"scontrol": (1, "", SILENT), "squeue": (1, "", UNKNOWN)}],
)
def test_no_answer_is_not_taken_for_a_job_that_is_gone(
    prints: Callable[[dict[str, tuple[int, str, str]]], None], commands: dict[str, tuple[int, str, str]]
) -> None:
    prints(commands)
    with pytest.raises(QueueSilentError):
        Slurm().ask(7, "token")


# What an end without the keepers' word means


@pytest.mark.parametrize(
    ("told", "state", "words"),
    [
        (None, JobState.LOST, "does not know the job"),
        (SlurmJob("PENDING", "Resources", ""), JobState.PENDING, "pending: Resources"),
        (SlurmJob("PENDING", "PartitionTimeLimit", ""), JobState.PENDING, "lower `timeout`"),
        (SlurmJob("PENDING", "None", ""), JobState.PENDING, "no reason yet"),
        (SlurmJob("CONFIGURING", "None", "n1"), JobState.PENDING, "configuring"),
        (SlurmJob("RUNNING", "None", "n[1-2]"), JobState.PENDING, "starting on n[1-2]"),
        (SlurmJob("PENDING", "BeginTime", "", restarts=1), JobState.LOST, "requeued"),
        (SlurmJob("NODE_FAIL", "None", "n[1-2]", "0:15"), JobState.LOST, "n2 (down*)"),
        (SlurmJob("PREEMPTED", "None", "n1", "0:15"), JobState.LOST, "preempted"),
        (SlurmJob("TIMEOUT", "TimeLimit", "n1", "0:15"), JobState.TIMED_OUT, "raise the system's `startup`"),
        (SlurmJob("OUT_OF_MEMORY", "OutOfMemory", "n1", "0:125"), JobState.FAILED, "raise `mem`"),
        (SlurmJob("CANCELLED", "None", "n1", "0:15"), JobState.STOPPED, "somebody else ended the job"),
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
    ],
)
def test_each_end_that_slurm_tells_has_its_cause(
    tmp_path: Path, told: SlurmJob | None, state: JobState, words: str
) -> None:
    (tmp_path / "spec.json").write_text('{"nodes": 1}')
    status = without_word(
        SharedJobDirectory(tmp_path), QueueAnswer(0.0, False, told), ["n2 (down*)"], "Slurm"
    )
    assert status.state is state
    assert words in status.cause


@pytest.mark.parametrize(
    ("other_began", "state", "cause"),
    [
        (False, JobState.FAILED, "rank 1 exited 3, before node 0 of n[1-2] had begun"),
        (
            True,
            JobState.LOST,
            "the keeper of node 0 of n[1-2] left no word; Slurm says FAILED, exit code 3:0",
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
    told = SlurmJob("FAILED", "None", "n[1-2]", "3:0")
    status = without_word(SharedJobDirectory(tmp_path), QueueAnswer(0.0, False, told), [], "Slurm")
    assert (status.state, status.cause) == (state, cause)
    assert [one.rank for one in status.exits] == ([] if other_began else [1])


def test_a_job_that_waits_after_it_had_begun_was_requeued(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"nodes": 1}')
    status = without_word(
        SharedJobDirectory(tmp_path),
        QueueAnswer(0.0, True, SlurmJob("PENDING", "BeginTime", "")),
        [],
        "Slurm",
    )
    assert status.state is JobState.LOST
    assert "requeued it (BeginTime)" in status.cause
