"""A suite that a machine runs again and again: when, by what, and only while the machine is idle.

Cron and systemd write the times in their own ways. The service runs the suite while nothing else needs the
machine; Slurm's scrontab runs it as the last job in the queue.
"""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from assay.errors import EXIT_OK, EXIT_WORSE, HostError
from assay.monitor.watching import watch
from assay.questions.question import Answer
from assay.units import counted
from assay.view.blocks import Block, Paragraph

MINUTE, HOUR, DAY, WEEK = 60, 3600, 86400, 604800
NIGHT_HOUR: Final = 3  # at which a daily or weekly suite runs
_MINUTES: Final = tuple(n for n in range(5, 31) if 60 % n == 0)
_HOURS: Final = tuple(n for n in range(1, 13) if 24 % n == 0)
CHOICES: Final = f"{', '.join(f'{n}min' for n in _MINUTES)}, {', '.join(f'{n}h' for n in _HOURS)}, 1d, 7d"


@dataclass(frozen=True)
class SchedulePeriod:
    """A period that divides an hour, a day or a week, so that every clock shows the same times.

    minute  of the hour, from the suite's name: not every suite starts at the full hour
    """

    seconds: int
    minute: int

    def cron(self) -> str:
        """The five fields of cron."""
        if self.seconds < HOUR:
            step = self.seconds // MINUTE
            return f"{self.minute % step}-59/{step} * * * *"
        if self.seconds < DAY:
            step = self.seconds // HOUR
            return f"{self.minute} {'*' if step == 1 else f'*/{step}'} * * *"
        return f"{self.minute} {NIGHT_HOUR} * * {'*' if self.seconds == DAY else '0'}"

    def calendar(self) -> str:
        """As in systemd's OnCalendar=."""
        if self.seconds < HOUR:
            step = self.seconds // MINUTE
            return f"*:{self.minute % step}/{step}"
        if self.seconds < DAY:
            step = self.seconds // HOUR
            return f"{'*' if step == 1 else f'0/{step}'}:{self.minute}"
        day = "" if self.seconds == DAY else "Sun "
        return f"{day}*-*-* {NIGHT_HOUR:02}:{self.minute:02}:00"


def schedule_period(seconds: float, name: str) -> SchedulePeriod:
    """The period; `name` chooses its minute. Raises ValueError for one that cron can't express."""
    allowed = {*(n * MINUTE for n in _MINUTES), *(n * HOUR for n in _HOURS), DAY, WEEK}
    if seconds not in allowed:
        raise ValueError(f"it must be one of {CHOICES}, so that it divides an hour, a day or a week")
    return SchedulePeriod(int(seconds), crc32(name.encode()) % 60)


_SERVICE = """\
[Unit]
Description=Assay: {suite} on {system}
Documentation=man:systemd.timer(5)
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
WorkingDirectory={directory}
{condition}ExecStart={command}
SuccessExitStatus=3
{after}Nice=19
CPUSchedulingPolicy=idle
IOSchedulingClass=idle
TimeoutStartSec={limit_s}
KillMode=mixed
NoNewPrivileges=yes
"""
_TIMER = """\
[Unit]
Description=Assay: {suite} on {system}, again and again

[Timer]
OnCalendar={calendar}
RandomizedDelaySec={delay_s}
Persistent=true

[Install]
WantedBy=timers.target
"""


def unit_name(suite: str, system: str) -> str:
    """The name of both units, without its ending."""
    return f"assay-{suite}-{system}"


def service_unit(
    *,
    suite: str,
    system: str,
    directory: Path,
    command: Sequence[str],
    idle: Sequence[str],
    export: Sequence[str],
    period: SchedulePeriod,
) -> str:
    """The service.

    command  runs the suite
    idle     succeeds if nothing else runs here; empty: other machines run the suite
    export   writes the metrics after every run, good or bad; empty: nothing does
    """
    return _SERVICE.format(
        suite=_unit_value(suite),
        system=_unit_value(system),
        directory=_unit_value(str(directory)),
        command=_command_line(command),
        condition=f"ExecCondition={_command_line(idle)}\n" if idle else "",
        after=f"ExecStopPost={_command_line(export)}\n" if export else "",
        limit_s=period.seconds,
    )


def timer_unit(*, suite: str, system: str, period: SchedulePeriod) -> str:
    """The timer: at the period's times, and once after a time at which the machine was off."""
    return _TIMER.format(
        suite=_unit_value(suite),
        system=_unit_value(system),
        calendar=period.calendar(),
        delay_s=max(30, min(period.seconds // 10, 1800)),
    )


def _command_line(arguments: Sequence[str]) -> str:
    return " ".join(map(_escaped_word, arguments))


def _escaped_word(word: str) -> str:
    """A word of a command line: systemd expands %, $ and backslashes, and splits at spaces."""
    escaped = _unit_value(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"' if not escaped or set(escaped) & set(" \t'\";") else escaped


def _unit_value(text: str) -> str:
    """A value in a unit file. Raises ValueError for one with a line end, which no quoting allows."""
    if any(character in text for character in "\n\r\0"):
        raise ValueError(f"{text!r}: systemd allows no line ends in a value")
    return text.replace("%", "%%")


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
    scron_lines = "".join(f"#SCRON {directive}\n" for directive in directives)
    return f"{head}{scron_lines}{period.cron()} {_cron_line(line)}\n"


def _cron_line(line: str) -> str:
    if any(character in line for character in "\n\r\0%"):
        raise ValueError(f"{line!r}: a line of cron has no line ends and no %")
    return line


def _checked_path(path: str) -> str:
    if set(path) & set(" \t\n\r\0'\"\\%"):
        raise ValueError(f"{path!r}: Slurm reads no spaces, quotes or % here: move it elsewhere")
    return path


BUSY_CPU_SHARE: Final = 0.1  # of all CPUs; a desktop or a node's daemons need a few percent
BUSY_GPU_PERCENT: Final = 5.0
HELD_GPU_BYTES: Final = 2 * 1024**3  # a driver and its daemons hold some hundred MiB, a job's tensors GiB
_PERIOD_S: Final = 0.5


@dataclass(frozen=True)
class NodeIdleness(Answer):
    """What this machine did for a time.

    busy_cores  mean over the time
    cores       of the machine
    gpus        GPUs that were asked
    reasons     why the machine is not idle; empty if it is
    """

    busy_cores: float
    cores: int
    gpus: int
    reasons: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 if something else uses the machine."""
        return EXIT_OK if self.is_idle else EXIT_WORSE

    def view(self) -> Iterator[Block]:
        """What it does, or why it is busy."""
        if self.is_idle:
            gpus = counted(self.gpus, "GPU")
            yield Paragraph(f"idle: {self.busy_cores:.1f} of {self.cores} CPUs busy, {gpus}")
        yield from (Paragraph(f"busy: {reason}") for reason in self.reasons)

    @property
    def is_idle(self) -> bool:
        """Whether nothing else needs the machine."""
        return not self.reasons

    def document(self) -> dict[str, Any]:
        """Whether the machine is idle, and why not."""
        return {
            "schema": "assay.idle/1",
            "idle": self.is_idle,
            "busy_cores": self.busy_cores,
            "cores": self.cores,
            "gpus": self.gpus,
            "reasons": [*self.reasons],
        }


def node_idleness(for_s: float) -> NodeIdleness:
    """What this machine does now. Raises HostError if it can't be found out."""
    newest = deque(watch(os.getpid(), min(_PERIOD_S, for_s / 2), for_s), maxlen=1)
    last, cores = next(iter(newest), None), os.cpu_count()
    busy_cores = None if last is None else last.mean_speeds(None).get("cpu_busy_seconds")
    if last is None or busy_cores is None or cores is None:
        raise HostError("can't tell whether this machine is idle: its kernel reports no CPU time")
    indices = [int(gpu["index"]) for gpu in last.header.gpus] if last.header else []
    reasons = []
    if busy_cores > BUSY_CPU_SHARE * cores:
        reasons.append(f"{busy_cores:.1f} of {cores} CPUs are busy; idle is at most {BUSY_CPU_SHARE:.0%}")
    for index in indices:
        sample = last.latest.get(index)
        reasons += [
            f"GPU {index} {reason}" for reason in _gpu_load(None if sample is None else sample.values)
        ]
    return NodeIdleness(busy_cores, cores, len(indices), tuple(reasons))


def _gpu_load(values: Mapping[str, float] | None) -> list[str]:
    if values is None:
        return ["gave no sample"]
    use, memory = values.get("utilization_percent"), values.get("memory_used_bytes")
    if use is None and memory is None:
        return ["reports neither use nor memory"]
    reasons = []
    if use is not None and use > BUSY_GPU_PERCENT:
        reasons.append(f"is used at {use:.0f} %; idle is at most {BUSY_GPU_PERCENT:.0f} %")
    if memory is not None and memory > HELD_GPU_BYTES:
        reasons.append(
            f"has {memory / 2**30:.1f} GiB in use; idle is at most {HELD_GPU_BYTES / 2**30:.0f} GiB"
        )
    return reasons
