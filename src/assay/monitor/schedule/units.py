"""A service and a timer of systemd that run a suite while nothing else needs the machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.monitor.schedule.period import SchedulePeriod

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


def service(
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
        suite=_value(suite),
        system=_value(system),
        directory=_value(str(directory)),
        command=_line(command),
        condition=f"ExecCondition={_line(idle)}\n" if idle else "",
        after=f"ExecStopPost={_line(export)}\n" if export else "",
        limit_s=period.seconds,
    )


def timer(*, suite: str, system: str, period: SchedulePeriod) -> str:
    """The timer: at the period's times, and once after a time at which the machine was off."""
    return _TIMER.format(
        suite=_value(suite),
        system=_value(system),
        calendar=period.calendar(),
        delay_s=max(30, min(period.seconds // 10, 1800)),
    )


def _line(arguments: Sequence[str]) -> str:
    return " ".join(map(_word, arguments))


def _word(word: str) -> str:
    """A word of a command line: systemd expands %, $ and backslashes, and splits at spaces."""
    escaped = _value(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"' if not escaped or set(escaped) & set(" \t'\";") else escaped


def _value(text: str) -> str:
    """A value in a unit file. Raises ValueError for one with a line end, which no quoting allows."""
    if any(character in text for character in "\n\r\0"):
        raise ValueError(f"{text!r}: systemd allows no line ends in a value")
    return text.replace("%", "%%")
