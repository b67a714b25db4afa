"""Times at which a suite runs again and again, as cron and as systemd write them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32

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
