"""Logs of a running job that Assay did not start: its newest figures, and whether it still takes steps."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, Problem
from assay.formats.figures import number
from assay.formats.mllog import TOKEN, EventScanner
from assay.formats.patterns import Pattern, compiled
from assay.formats.tools import TOOLS, tools_of
from assay.inputs import LONGEST_LINE, reading
from assay.monitor.stragglers import RankVerdict, Steps, Stop, judge_ranks, stop
from assay.monitor.watching import LONGEST_S, SHORTEST_S

MLPERF, BY_PATTERN = "mlperf", "the given pattern"
_BLOCK_BYTES: Final = 1 << 20
_REST: Final = 19.0  # times as long as a look took: reading whole logs again uses 5 % of a core at most


class StepPattern:
    """What a step looks like in a log of an unknown program: named groups of a pattern.

    `step` is needed; `seconds` or `milliseconds` state how long it took this rank by itself; any other group
    is a figure. Raises InputError for another pattern.
    """

    def __init__(self, text: str) -> None:
        try:
            self._pattern: Pattern = compiled(text)
        except ValueError as error:
            raise InputError(f"the pattern of a step: {error}") from None
        if "step" not in self._pattern.names:
            raise InputError(
                f"the pattern of a step: found {text!r} without a group `step`; write (?P<step>[0-9]+) where "
                "the number of the step stands"
            )

    def add(self, line: str, steps: Steps, arrived_at: float | None) -> None:
        """Add the steps of a line that came at a time of day, None if it was there before."""
        for match in self._pattern.matches(line):
            known = {name: number(text) for name, text in match.groups.items() if text is not None}
            figures = {name: value for name, value in known.items() if value is not None}
            step = figures.get("step")
            if step is None or step < 0 or not step.is_integer():
                continue
            seconds = figures.pop("seconds", None)
            if (milliseconds := figures.pop("milliseconds", None)) is not None and seconds is None:
                seconds = milliseconds / 1e3
            if seconds is not None:
                figures["step_time"] = seconds
            steps.figures |= figures
            steps.take(int(step), arrived_at, seconds if seconds is None or seconds > 0 else None)


@dataclass
class WatchedLog:
    """A log that grows.

    format   that it was recognized as, "" if none yet
    units    of the figures
    grown_s  seconds since it last grew
    off      why its rank needs a look, "" if it does not
    """

    path: Path
    pattern: StepPattern | None = None
    format: str = ""
    steps: Steps = field(default_factory=Steps)
    units: dict[str, str] = field(default_factory=dict)
    grown_s: float = 0.0
    off: str = ""
    _read: int = 0
    _file: tuple[int, int] | None = None
    _events: EventScanner = field(default_factory=EventScanner)

    def look(self, now: float) -> None:
        """Read what has been added. Raises InputError if the file can't be read."""
        if self._file is not None and not self.path.exists():
            return  # rotated away: its successor appears in a moment, and until then nothing is added
        with reading(self.path) as file:
            about = os.fstat(file.fileno())
            first, file_now = self._file is None, (about.st_dev, about.st_ino)
            if not first and (file_now != self._file or about.st_size < self._read):
                # another file, or begun again: so may the numbers of its steps
                self._read, self.steps, self._events = 0, Steps(), EventScanner()
            self._file = file_now
            self.grown_s = max(0.0, now - about.st_mtime)
            if about.st_size == self._read:
                return
            file.seek(self._read)
            while block := file.read(_BLOCK_BYTES):
                end = block.rfind(b"\n") + 1
                if not end and len(block) < _BLOCK_BYTES:
                    break  # the rest of this line is still to come
                end = end or len(block)  # a line too long to be a step
                self._read += end
                self._take(block[:end], None if first else now)
                file.seek(self._read)
        if not self.pattern and self.format != MLPERF:
            self._reread(None if first else now)

    def _take(self, lines: bytes, arrived_at: float | None) -> None:
        if self.pattern is not None:
            self.format = BY_PATTERN
            for line in lines.decode(errors="replace").splitlines():
                self.pattern.add(line[:LONGEST_LINE], self.steps, arrived_at)
        elif self.format == MLPERF or TOKEN in lines:
            self.format = MLPERF
            for event in self._events.scan(lines):
                self.steps.take_event(event)

    def _reread(self, arrived_at: float | None) -> None:
        """The figures of a recognized program, whose readers read a log from its beginning."""
        if not self.format:
            tools = tools_of(self.path)
            if len(tools) != 1:
                return
            self.format = tools[0].name
        for figure in TOOLS[self.format].read(self.path).figures:
            self.steps.figures[figure.metric] = figure.value
            self.units[figure.metric] = figure.unit
            if (step := figure.at.get("step")) is not None and step > (self.steps.newest or -1):
                self.steps.figures["step"] = step
                self.steps.take(int(step), arrived_at)


@dataclass
class WatchedLogs:
    """What the logs of a job's ranks, or the one log of all, have said so far.

    at          of the newest look, seconds since 1970
    stop        set if no log mentions a new step for much longer than ever before
    ranks       which state a longer step time of their own than the others; `rank` counts the logs
    """

    logs: tuple[WatchedLog, ...]
    at: float = 0.0
    stop: Stop | None = None
    ranks: RankVerdict = field(default_factory=RankVerdict)

    def look(self, now: float) -> None:
        """Read what has been added, and judge. Raises InputError with every log that can't be read."""
        problems: list[Problem] = []
        for log in self.logs:
            try:
                log.look(now)
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(problems)
        self.at = now
        taken: Mapping[int, Sequence[tuple[int, float]]] = {
            rank: sorted(log.steps.taken.items()) for rank, log in enumerate(self.logs) if log.steps.taken
        }
        self.stop = stop(taken, now)
        self.ranks = judge_ranks(
            {rank: log.steps.seconds for rank, log in enumerate(self.logs) if log.steps.seconds}
        )
        off = {
            slow.rank: f"{slow.ratio:.2f} times the others' step time ({slow.low:.2f} to {slow.high:.2f}, "
            f"{slow.steps} steps)"
            for slow in self.ranks.slow
        }
        if self.stop is not None:
            off |= dict.fromkeys(self.stop.behind, f"behind step {self.stop.step}, where the others wait")
        for rank, log in enumerate(self.logs):
            log.off = off.get(rank, "")

    @property
    def names_a_rank(self) -> bool:
        """Whether the job, or one of its ranks, needs a look."""
        return self.stop is not None or bool(self.ranks.slow)

    def document(self) -> dict[str, Any]:
        """What a job's logs have said so far, and which of them need a look."""
        return {
            "at": self.at,
            "logs": [
                {
                    "path": str(log.path),
                    "format": log.format or None,
                    "step": log.steps.newest,
                    "figures": {**log.steps.figures},
                    "units": {**log.units},
                    "silent_s": log.grown_s,
                    "off": log.off or None,
                }
                for log in self.logs
            ],
            "stop": None if self.stop is None else asdict(self.stop),
            "stragglers": [asdict(straggler) for straggler in self.ranks.slow],
            "judged": self.ranks.document(),
        }


def watched_logs(paths: Sequence[Path], pattern: str | None = None) -> WatchedLogs:
    """Logs to look at. Raises InputError for a file named twice, or a pattern that is not one of a step."""
    twice = sorted({str(path) for path in paths if list(paths).count(path) > 1})
    if twice:
        raise InputError(f"the log {', '.join(twice)} is named twice; name one log per rank")
    step = None if pattern is None else StepPattern(pattern)
    return WatchedLogs(tuple(WatchedLog(path, step) for path in paths))


def watch(logs: WatchedLogs, period_s: float, for_s: float | None = None) -> Iterator[WatchedLogs]:
    """Look again and again for a time, or until the caller stops; it yields the same object each time.

    Raises InputError if a log can't be read.
    """
    if not SHORTEST_S <= period_s <= LONGEST_S:
        raise InputError(f"every {period_s:g} s: choose between {SHORTEST_S:g} s and {LONGEST_S:g} s")
    end = None if for_s is None else time.monotonic() + for_s
    while True:
        begin = time.monotonic()
        logs.look(time.time())
        rest_s = max(period_s, _REST * (time.monotonic() - begin))
        yield logs
        left_s = rest_s if end is None else min(rest_s, end - time.monotonic())
        if left_s <= 0:
            return
        time.sleep(left_s)
