"""The batch script, as it is sent. Pure: equal jobs give equal bytes, and nothing of a user's is unquoted.

It names no directory: sbatch is told to run it in the job's own, which holds `spec.json` and the programs.
The script takes the job before anything else, by a hard link that is made once or not at all, so that a job
that was given up, or that Slurm starts a second time, runs nothing.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator

from assay import payload_files
from assay.launch import sent
from assay.launch.slurm.options import SlurmSystem
from assay.records import Job

NAME = "assay-"  # of a job: this and its token
OUTPUT = "slurm-%j.log"
EXIT_NOT_VISIBLE, EXIT_NOT_OURS = 74, 75
_FIRST_PORT, _PORTS = 10_000, 20_000  # below 32768, from where on Linux gives ports to whoever asks
_CLAIM = f"""\
readonly ASSAY_JOB="$PWD"
if ! [ -f spec.json ]; then
    echo "assay: $(hostname) does not see the job's directory" >&2
    exit {EXIT_NOT_VISIBLE}
fi
echo "$SLURM_JOB_ID" > "taken.$SLURM_JOB_ID"
if ! ln "taken.$SLURM_JOB_ID" taken; then
    echo "assay: the job was given up, or was started before" >&2
    exit {EXIT_NOT_OURS}
fi
"""


def nodes_of(job: Job, system: SlurmSystem) -> int:
    """How many nodes it runs on: as its shape says, else a node a worker, or one where they are packed."""
    if job.shape.nodes is not None:
        return job.shape.nodes
    return job.shape.workers if system.placement == "spread" else 1


def minutes_of(job: Job, system: SlurmSystem) -> int:
    """Slurm's time limit: the trial's own, the grace time and what it takes to start and end."""
    return math.ceil((job.timeout_s + system.grace + system.startup) / 60)


def batch_script(job: Job, system: SlurmSystem, python: str, name: str) -> str:
    """What sbatch is given; `name` is the job's in Slurm, by which it is found."""
    parts = [
        "#!/bin/bash\n",
        *(f"#SBATCH {option}\n" for option in _options(job, system, name)),
        _CLAIM,
        *_before(system),
        *_meeting(nodes_of(job, system)),
        " \\\n    ".join(_start(job, system, python)) + "\n",
    ]
    return "".join(parts)


def _options(job: Job, system: SlurmSystem, name: str) -> Iterator[str]:
    nodes = nodes_of(job, system)
    ranks = job.shape.ranks // nodes
    yield f"--job-name={name}"
    yield f"--comment={_comment(job.trial_id)}"
    yield f"--output={OUTPUT}"
    yield f"--nodes={nodes}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={ranks * system.cpus_per_rank}"
    yield f"--time={minutes_of(job, system)}"
    yield "--no-requeue"
    if system.gres is not None:
        yield f"--gres={system.gres}:{ranks}"
    named = {"clusters": system.cluster} | {
        option: getattr(system, option)
        for option in (
            "partition",
            "account",
            "qos",
            "reservation",
            "constraint",
            "nodelist",
            "exclude",
            "mem",
        )
    }
    yield from (f"--{option}={value}" for option, value in named.items() if value is not None)
    if system.exclusive:
        yield "--exclusive"
    yield from system.sbatch


def _comment(trial_id: str) -> str:
    """The trial's name as far as it is plain text: only people read it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", trial_id)[:100]


def _before(system: SlurmSystem) -> Iterator[str]:
    """The user's own commands, of which the first that fails ends the job."""
    if system.before:
        yield "set -e\n"
        yield from (f"{line}\n" for line in system.before)
        yield "set +e\n"


def _meeting(nodes: int) -> Iterator[str]:
    """Where ranks of several nodes meet; on one node the keeper finds a free port itself."""
    if nodes > 1:
        yield 'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"\n'
        yield f'MASTER_PORT="$(({_FIRST_PORT} + SLURM_JOB_ID % {_PORTS}))"\n'
        yield "export MASTER_ADDR MASTER_PORT\n"


def _start(job: Job, system: SlurmSystem, python: str) -> Iterator[str]:
    """The start of a keeper on each node, a line of the script each part."""
    nodes = nodes_of(job, system)
    cpus = job.shape.ranks // nodes * system.cpus_per_rank
    yield f"exec srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cpus}"
    # the keeper pins ranks itself; srun would bind it and all of them to its share
    yield "--cpu-bind=none --kill-on-bad-exit=1 --input=none"
    if system.container_image is not None:
        yield from _container(system, system.container_image)
    node = "--node-from SLURM_NODEID" if nodes > 1 else ""
    keeper = payload_files.path_of(sent.KEEPER)
    yield f'{shlex.quote(python)} -I -S "$ASSAY_JOB/{keeper}" "$ASSAY_JOB" {node}'.rstrip()


def _container(system: SlurmSystem, image: str) -> Iterator[str]:
    """What puts the keeper into the image; the job's directory lies at the same place in it."""
    mounts = "".join(f",{shlex.quote(mount)}" for mount in system.container_mounts)
    if system.container_runtime == "pyxis":
        yield f"--container-image={shlex.quote(image)}"
        yield f'--container-mounts="$ASSAY_JOB:$ASSAY_JOB"{mounts}'
        return
    gpus = "--nv " if system.gres is not None and system.gres.startswith("gpu") else ""
    yield f'apptainer exec {gpus}--bind "$ASSAY_JOB:$ASSAY_JOB"{mounts} {shlex.quote(image)}'
