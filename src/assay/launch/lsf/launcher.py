"""Jobs of an LSF cluster: the batch script starts a keeper on the first host, or one on each with blaunch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from assay.errors import OptionsError, Problem
from assay.launch.batch.launcher import BatchLauncher
from assay.launch.batch.script import (
    before,
    claim,
    cpus_of,
    keeper,
    meeting_port,
    minutes_of,
    nodes_of,
    plain,
)
from assay.launch.lsf import LsfSystem
from assay.launch.lsf.commands import EXIT_OTHER_HOSTS, Lsf
from assay.records import Job

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.,:=+/@-]+")
NODE = "ASSAY_NODE"
# LSF would append its report to the script's output, so the script opens its own log
_LOG = 'exec > "$ASSAY_JOB/lsf-$LSB_JOBID.log" 2>&1\n'
# bkill first sends SIGINT to all processes; the keeper still gets it, and sends its ranks SIGTERM
_NO_INTERRUPT = "trap '' INT\n"


class LsfLauncher(BatchLauncher[LsfSystem]):
    """Runs jobs on an LSF cluster. `Launcher` documents what each method promises."""

    name = "lsf"
    node_variable = NODE

    def __init__(self, system: LsfSystem, directory: Path) -> None:
        super().__init__(system, directory, Lsf())

    def script(self, job: Job, name: str) -> str:
        """The input of bsub."""
        return batch_script(job, self.system, self.python, name)

    def check(self, job: Job) -> None:
        """Raise InputError for a job that can't be sent."""
        super().check(job)
        for option, path in (("directory", str(self.directory)), ("python", self.python)):
            if _PLAIN_PATH.fullmatch(path) is None:  # blaunch may pass words through another shell
                message = f"{path} can't be passed to LSF: use only letters, digits, and _ . , : = + / @ -"
                raise OptionsError([Problem(option, message)])


def batch_script(job: Job, system: LsfSystem, python: str, name: str) -> str:
    """The input of bsub; `name` is the job's name in LSF, by which it is found.

    Equal jobs give equal bytes, and all text from the user is quoted. bsub reads it from standard input and
    runs it in the job's own directory.
    """
    nodes = nodes_of(job, system)
    parts = [
        "#!/bin/bash\n",
        *(f"#BSUB {option}\n" for option in _options(job, system, name)),
        claim("LSB_JOBID"),
        _LOG,
        _NO_INTERRUPT,
        *before(system),
        f"exec {keeper(python)} < /dev/null\n" if nodes == 1 else _on_several(nodes, python),
    ]
    return "".join(parts)


def _options(job: Job, system: LsfSystem, name: str) -> Iterator[str]:
    nodes, cpus = nodes_of(job, system), cpus_of(job, system)
    yield f"-J {name}"
    yield f"-Jd {plain(job.trial_id)}"
    yield "-o /dev/null"
    yield f"-n {nodes * cpus}"
    yield f'-R "span[ptile={cpus}]"'
    yield f"-W {minutes_of(job, system)}"
    yield "-rn"
    if system.gpu is not None:
        more = "" if system.gpu == "-" else f":{system.gpu}"
        yield f'-gpu "num={job.shape.ranks // nodes}{more}"'
    yield from (f'-R "{expression}"' for expression in system.resources)
    if system.hosts:
        yield f'-m "{" ".join(system.hosts)}"'
    named = {
        "q": system.queue,
        "P": system.project,
        "G": system.user_group,
        "app": system.app,
        "U": system.reservation,
        "M": system.mem,
    }
    yield from (f"-{option} {value}" for option, value in named.items() if value is not None)
    if system.exclusive:
        yield "-x"
    yield from system.bsub


def _on_several(nodes: int, python: str) -> str:
    """A keeper on each host through blaunch, whose tasks LSF signals and accounts for.

    A keeper that fails ends the others. LSF also signals the script, which outlives the keepers anyway: if it
    ended, LSF would kill them in the middle of their grace time.
    """
    return f"""\
mapfile -t ASSAY_HOSTS < <(awk '!seen[$1]++ {{ print $1 }}' "$LSB_DJOB_HOSTFILE")
if [ "${{#ASSAY_HOSTS[@]}}" -ne {nodes} ]; then
    echo "assay: LSF did not give the job {nodes} hosts: ${{ASSAY_HOSTS[*]}}"
    exit {EXIT_OTHER_HOSTS}
fi
MASTER_ADDR="${{ASSAY_HOSTS[0]}}"
{meeting_port("LSB_JOBID")}\
start() {{
    trap : TERM USR2
    blaunch "${{ASSAY_HOSTS[$1]}}" env {NODE}="$1" MASTER_ADDR="$MASTER_ADDR" MASTER_PORT="$MASTER_PORT" \\
        {keeper(python)} --node-from {NODE} < /dev/null && return
    local code=$? node pid
    for node in "${{!ASSAY_HOSTS[@]}}"; do
        pid="$(sed -n 's/.*"pid": \\([0-9]*\\).*/\\1/p' "$ASSAY_JOB/node-$node/claim.json" 2> /dev/null)"
        if [ "$node" -ne "$1" ] && [ -n "$pid" ]; then
            blaunch "${{ASSAY_HOSTS[$node]}}" kill -TERM "$pid" < /dev/null 2> /dev/null
        fi
    done
    return "$code"
}}
trap : TERM USR2
tasks=()
for node in "${{!ASSAY_HOSTS[@]}}"; do
    start "$node" &
    tasks+=("$!")
done
worst=0
for task in "${{tasks[@]}}"; do
    while wait "$task"; code=$?; kill -0 "$task" 2> /dev/null; do :; done
    if [ "$code" -ne 0 ]; then worst="$code"; fi
done
exit "$worst"
"""
