"""What batch scripts have in common. Pure.

The script takes the job before anything else, with a hard link that is created exactly once or not at all, so
that an abandoned job, or a job that the batch system starts a second time, runs nothing. It names no
directory: it runs in the job's own, which contains `spec.json` and the programs.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator

from assay import payload_files
from assay.launch import job_spec
from assay.launch.batch import BatchSystem
from assay.records import Job

NAME = "assay-"  # a job's name is this and its token
EXIT_NOT_VISIBLE, EXIT_NOT_OURS = 74, 75
FIRST_PORT, PORTS = 10_000, 20_000  # below 32768, where Linux starts assigning ports


def token_of(name: str) -> str | None:
    """The token of the job with this name; None if it is not Assay's."""
    match = re.fullmatch(rf"{NAME}([0-9a-f]{{32}})", name)
    return match[1] if match else None


def nodes_of(job: Job, system: BatchSystem) -> int:
    """How many nodes it runs on: from its shape, otherwise one per worker, or one if they are packed."""
    if job.shape.nodes is not None:
        return job.shape.nodes
    return job.shape.workers if system.placement == "spread" else 1


def cpus_of(job: Job, system: BatchSystem) -> int:
    """CPUs that it needs on each node."""
    return job.shape.ranks // nodes_of(job, system) * system.cpus_per_rank


def minutes_of(job: Job, system: BatchSystem) -> int:
    """The batch system's time limit: the job's limit, the grace time, and the time to start and end."""
    return math.ceil((job.longest_s + system.grace + system.startup) / 60)


def plain(trial_id: str) -> str:
    """The trial's name, reduced to plain text: only people read it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", trial_id)[:100]


def claim(number: str) -> str:
    """Take the job; `number` is the variable with its number."""
    return f"""\
readonly ASSAY_JOB="$PWD"
if ! [ -f spec.json ]; then
    echo "assay: $(hostname) does not see the job's directory" >&2
    exit {EXIT_NOT_VISIBLE}
fi
echo "${number}" > "taken.${number}"
if ! ln "taken.${number}" taken; then
    echo "assay: the job was abandoned, or was started before" >&2
    exit {EXIT_NOT_OURS}
fi
"""


def before(system: BatchSystem) -> Iterator[str]:
    """The user's own commands; the first one that fails ends the job."""
    if system.before:
        yield "set -e\n"
        yield from (f"{line}\n" for line in system.before)
        yield "set +e\n"


def keeper(python: str) -> str:
    """The command that starts a node's keeper."""
    path = payload_files.path_of(job_spec.KEEPER)
    return f'{shlex.quote(python)} -I -S "$ASSAY_JOB/{path}" "$ASSAY_JOB"'


def meeting_port(number: str) -> str:
    """Port where ranks of several nodes meet; on one node, the keeper finds a free port itself."""
    return f'MASTER_PORT="$(({FIRST_PORT} + {number} % {PORTS}))"\n'
