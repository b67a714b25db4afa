"""LSF without an LSF: the contract, and what else its answers mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from assay.launch.batch.job_state import QueueAnswer, ended_status
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.launch.lsf.commands import Lsf, LsfJob, from_history
from assay.records import JobState, JobStatus
from batch_script_contract import TOKEN, BatchScriptContract

EVERY_OPTION = {
    "python": "/opt/my-env/bin/python",
    "queue": "gpu",
    "project": "proj-7",
    "user_group": "bench",
    "app": "pytorch",
    "reservation": "user1#0",
    "hosts": ["gpu01", "rack2"],
    "resources": ["select[type==any && mem>64000]", "rusage[mem=32000/host]"],
    "gpu": "mode=exclusive_process:mps=no",
    "mem": "64G",
    "exclusive": True,
    "cpus_per_rank": 12,
    "startup": "10min",
    "bsub": ["-sla gold", "-H"],
    "before": ["module load cuda/12.8", 'source "$HOME/env.sh"'],
}


# What LSF's commands print, in the forms of LSF 10.1's documentation


def told(**record: str) -> tuple[int, str, str]:
    """What `bjobs -json` prints of a job."""
    known = {"JOBID": "7", "JOB_NAME": f"assay-{TOKEN}", "EXEC_HOST": "", "EXIT_CODE": ""} | record
    document = {"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [known]}
    return 0, json.dumps(document, indent=2), ""


MISSING = 255, json.dumps({"RECORDS": [{"JOBID": "7", "ERROR": "Job <7> is not found"}]}), ""
NOT_FOUND = 255, "", "Job <7> is not found\n"
HISTORY = f"""
Job <7>, Job Name <assay-{TOKEN[:20]}
                     {TOKEN[20:]}>, User <me>, Project <default>, Command
                      <#!/bin/bash;#BSUB -n 4>
Mon Nov 23 07:00:00: Submitted from host <login>, to Queue <normal>, CWD </tmp>
                     , 4 Task(s);
Mon Nov 23 07:00:01: Dispatched 4 Task(s) on Host(s) <2*gpu01> <2*gpu02>, Alloc
                     ated 4 Slot(s) on Host(s) <2*gpu01> <2*gpu02>, Effective R
                     ES_REQ <select[type == local] order[r15s:pg] >;
Mon Nov 23 07:10:01: Exited with exit code 140. The CPU time used is 1.0 second
                     s;
Mon Nov 23 07:10:01: Completed <exit>; TERM_RUNLIMIT: job killed after reaching
                      LSF run time limit;

Summary of time in seconds spent in various states by  Mon Nov 23 07:10:01
  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL
  1        0        600      0        0        0        601
------------------------------------------------------------------------------
"""


class TestLsfScript(BatchScriptContract):
    launcher_name = "lsf"
    queue = Lsf()
    goldens = (
        ("lsf_plain.sh", "1x1", {"python": "python3"}),
        ("lsf_two_hosts.sh", "2x8", {"python": "python3", "gpu": "-"}),
        ("lsf_every_option.sh", "8x1x2", EVERY_OPTION),
    )
    shapes: ClassVar = [
        (
            placement,
            shape,
            {"gpu": "mode=shared"},
            [
                f"#BSUB -n {slots}",
                f'#BSUB -R "span[ptile={on_each}]"',
                f'#BSUB -gpu "num={gpus}:mode=shared"',
            ],
        )
        for placement, shape, slots, on_each, gpus in (
            ("spread", "4x2", 24, 6, 2),
            ("pack", "4x2", 24, 24, 8),
            ("spread", "4x2x2", 24, 12, 4),
        )
    ]
    time_limit = "#BSUB -W 4"
    refused = (
        ({"queue": "gpu; rm -rf /"}, "not a value for LSF"),
        ({"queue": "gpu\n#BSUB -u root"}, "not a value"),
        ({"hosts": ['a"b']}, "not a value"),
        ({"resources": ["select[$(id)]"]}, "not a resource requirement"),
        ({"resources": ['select[a"b]']}, "not a resource requirement"),
        ({"resources": ["span[hosts=1]"]}, "the launcher sets span"),
        ({"gpu": "num=4:mode=shared"}, "the launcher sets num"),
        ({"bsub": ["-o x"]}, "the launcher sets"),
        ({"bsub": ["-n 4"]}, "the launcher sets"),
        ({"bsub": ["-q x"]}, "option `queue`"),
        ({"bsub": ["-R select[x]"]}, "option `resources`"),
        ({"bsub": ["echo hello"]}, "not an option of bsub"),
        ({"bsub": ["-sla a\nrm"]}, "one line"),
    )
    answers = (
        (
            {"bjobs": told(STAT="RUN", EXEC_HOST="16*hostA:16*hostB")},
            LsfJob("RUN", "", "hostA, hostB"),
        ),
        (
            {"bjobs": told(STAT="PEND", PEND_REASON="Job slot limit reached: 2 hosts;\n Not enough hosts;")},
            LsfJob("PEND", "Job slot limit reached: 2 hosts; Not enough hosts", ""),
        ),
        (
            {"bjobs": told(STAT="EXIT", EXIT_CODE="130", EXIT_REASON="TERM_OWNER: job killed by owner")},
            LsfJob("EXIT", "TERM_OWNER: job killed by owner", "", "130"),
        ),
        ({"bjobs": told(STAT="DONE", EXEC_HOST="a")}, LsfJob("DONE", "", "a", "0")),
        (
            {"bjobs": MISSING, "bhist": (0, HISTORY, "")},
            LsfJob("EXIT", "TERM_RUNLIMIT", "gpu01, gpu02", "140"),
        ),
        (
            {"bjobs": told(STAT="RUN", JOB_NAME="another"), "bhist": (0, HISTORY, "")},
            LsfJob("EXIT", "TERM_RUNLIMIT", "gpu01, gpu02", "140"),
        ),
        ({"bjobs": NOT_FOUND, "bhist": (255, "", "No matching job found\n")}, None),
        ({"bjobs": NOT_FOUND}, None),
    )
    silences = (
        ({"bjobs": (255, "", "batch system daemon not responding ... still trying\n")},),
        ({"bjobs": (255, "", "-json: Illegal option\n")},),
        ({"bjobs": (0, '{"COMMAND": "bjobs", "RECO', "")},),
        ({"bjobs": NOT_FOUND, "bhist": (255, "", "Failed in an LSF library call: LIM is down\n")},),
    )
    ends = (
        (None, JobState.LOST, "LSF no longer knows the job"),
        (LsfJob("PEND", "New job is waiting for scheduling", ""), JobState.PENDING, "pend: New job"),
        (LsfJob("PEND", "There are no suitable hosts for the job", ""), JobState.PENDING, "resources, gpu"),
        (LsfJob("PSUSP", "", ""), JobState.PENDING, "no reason yet"),
        (LsfJob("RUN", "", "n1, n2"), JobState.PENDING, "starting on n1, n2"),
        (LsfJob("EXIT", "TERM_PREEMPT: job killed", "n1", "137"), JobState.LOST, "TERM_PREEMPT"),
        (LsfJob("EXIT", "TERM_RUNLIMIT", "n1", "140"), JobState.TIMED_OUT, "raise the system's `startup`"),
        (LsfJob("EXIT", "TERM_MEMLIMIT: x", "n1", "137"), JobState.FAILED, "raise `mem`"),
        (LsfJob("EXIT", "TERM_SWAP: x", "n1", "137"), JobState.FAILED, "bqueues -l"),
        (LsfJob("EXIT", "TERM_CWD_NOTEXIST: x", "n1", "2"), JobState.FAILED, "the system's `directory`"),
        (LsfJob("EXIT", "TERM_ADMIN: job killed", "n1", "130"), JobState.STOPPED, "ended the job"),
        (LsfJob("EXIT", "TERM_UNKNOWN: x", "n1", "1"), JobState.LOST, "n2 (unavail)"),
        (LsfJob("EXIT", "", "n1", "7"), JobState.FAILED, "exited 7 before the ranks"),
        (LsfJob("EXIT", "", "n1", "74"), JobState.FAILED, "set the system's `directory`"),
        (LsfJob("EXIT", "", "n1", "75"), JobState.LOST, "LSF requeued it"),
        (LsfJob("EXIT", "", "n1", "76"), JobState.FAILED, "different hosts than the job's shape"),
    )
    failed_node = "n2 (unavail)"


def test_a_history_of_the_same_number_with_another_name_is_another_jobs() -> None:
    assert from_history(HISTORY, 7, "f" * 32) is None
    assert from_history(HISTORY, 70, TOKEN) is None
    assert from_history(HISTORY[: HISTORY.index("Mon Nov 23 07:10")], 7, TOKEN) is None


def test_what_lsf_did_counts_whatever_the_ranks_made_of_it(tmp_path: Path) -> None:
    well, killed = JobStatus(JobState.SUCCEEDED), JobStatus(JobState.FAILED, "rank 0 was killed by SIGKILL")
    admin = QueueAnswer(0.0, True, LsfJob("EXIT", "TERM_ADMIN: job killed", "n1", "130"))
    memory = QueueAnswer(0.0, True, LsfJob("EXIT", "TERM_MEMLIMIT: x", "n1", "137"))
    assert ended_status(SharedJobDirectory(tmp_path), well, admin, "LSF").state is JobState.STOPPED
    ended = ended_status(SharedJobDirectory(tmp_path), killed, memory, "LSF")
    assert ended.state is JobState.FAILED
    assert ended.cause.endswith("raise `mem`; before that: rank 0 was killed by SIGKILL")
