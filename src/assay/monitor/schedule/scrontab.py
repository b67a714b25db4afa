"""Lines for Slurm's scrontab that run a suite as the last job in the queue. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from assay.monitor.schedule.period import SchedulePeriod

NICE = 100_000  # subtracted from the job's priority, which usually is at most some ten thousand


def scrontab_lines(
    *,
    name: str,
    directory: Path,
    commands: Sequence[Sequence[str]],
    options: Sequence[str],
    period: SchedulePeriod,
) -> str:
    """The options of the job that drives the suite, and its line.

    directory  of the suite and of the job's output
    commands   one after the other, each even if the one before fails
    options    of sbatch, like `--partition=batch`

    Raises ValueError for a word that cron can't have.
    """
    directives = [
        f"--job-name=assay-{name}",
        "--ntasks=1",
        f"--nice={NICE}",
        f"--time={max(1, period.seconds // 60)}",
        "--open-mode=append",
        f"--chdir={_checked_path(str(directory))}",
        f"--output={_checked_path(str(directory))}/assay-{name}.log",
        *options,
    ]
    line = "; ".join(shlex.join(command) for command in commands)
    head = "# Add these lines with `scrontab -e`: `scrontab -` alone would replace all lines that you have.\n"
    return head + "".join(f"#SCRON {option}\n" for option in directives) + f"{period.cron()} {_cron(line)}\n"


def _cron(line: str) -> str:
    if any(character in line for character in "\n\r\0%"):
        raise ValueError(f"{line!r}: a line of cron has no line ends and no %")
    return line


def _checked_path(path: str) -> str:
    if set(path) & set(" \t\n\r\0'\"\\%"):
        raise ValueError(f"{path!r}: Slurm reads no spaces, quotes or % here: move it elsewhere")
    return path
