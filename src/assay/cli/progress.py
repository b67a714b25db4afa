"""Progress of a running suite: one line per trial, and a live line on a terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

from assay.plan import metrics_of
from assay.records import JobState, Output, Plan, Result, Run, RunState, Trial
from assay.run.progress import LastFigure, Silence, Tell, figure_of, last_lines
from assay.rundir.pace import Pace
from assay.rundir.session import Attempt, Session
from assay.units import human_seconds

if TYPE_CHECKING:
    from rich.text import Text


def teller(quiet: bool) -> Tell:
    """The progress display, on standard error."""
    if quiet:
        return Silence
    return partial(ProgressScreen if sys.stderr.isatty() else ProgressLines, stream=sys.stderr)


FIRST_BEAT_S = 10.0  # from the start to the first line that says how far the session is
BEAT_S = 60.0  # between these lines


class ProgressLines:
    """One line per trial, for logs and pipes; failures with the last lines of their log.

    Every minute, one more says what runs, its latest value, elapsed and remaining time.
    """

    def __init__(self, session: Session, plan: Plan, done: Sequence[Run], *, stream: TextIO) -> None:
        self._stream, self._plan, self._pace = stream, plan, Pace(plan, done)
        self._told: set[str] = set()  # the reasons for waiting that were reported for the running trial
        self._running: dict[str, tuple[Trial, float]] = {}  # by id: start time; the last one is shown
        self._figure, self._waits_for = LastFigure("", ""), ""
        self._begun = False  # the running trial's job has sent something, if only what its probe found
        self._session_at = time.monotonic()
        self._beat_at = self._session_at + FIRST_BEAT_S
        going_on = f", {len(done)} done: resuming" if done else ""
        most = f" at most, checked after {', '.join(map(str, plan.looks))} blocks" if plan.looks else ""
        self.say(f"{session.id}: {_count(len(plan.trials), 'trial')}{most}{going_on}")

    def trial_began(self, trial: Trial, attempt: int, *, adopted: bool) -> None:
        """Report only what is unusual about the attempt: it is adopted, or not the first."""
        self._told.clear()
        metric = self._plan.primary_metric.get(trial.benchmark, "")
        units = {m.name: m.unit for m in metrics_of()(trial.workload, trial.params)}
        self._running[trial.id] = trial, time.monotonic()
        self._figure, self._waits_for = LastFigure(metric, units.get(metric, "")), ""
        self._begun = False
        if adopted:
            self.say(f"{self._place()} {trial.id}: taken over from a stopped Assay process")
        elif attempt > 1:
            self.say(f"{self._place()} {trial.id}: attempt {attempt}")

    def printed(self, output: Output) -> None:
        """Keep its latest value."""
        self._waits_for, self._begun = "", True
        self._figure.feed(output)
        self._beat()

    def waited(self, why: str) -> None:
        """Report what it waits for, once."""
        self._waits_for = why
        if why and why not in self._told:
            self._told.add(why)
            self.say(f"{self._place()} waiting: {why}")
        self._beat()

    def trial_ended(self, result: Result, attempt: Attempt, *, settled: bool) -> None:
        """Report the trial's result and duration, or why it failed."""
        run, place = result.run, self._place()
        self._running.pop(run.trial.id, None)
        if settled:
            self._pace.settled(run)
        else:
            self._pace.ran(run)
        if run.state is RunState.FINISHED:
            figure = figure_of(result, self._plan.primary_metric.get(run.trial.benchmark, ""))
            self.say(f"{place} {run.trial.id}  {figure}  {_duration(run)}".rstrip())
        else:
            self.say(f"{place} {run.trial.id}  FAILED: {run.cause}{'' if settled else _again(run)}")
            for line in last_lines(attempt, run.exits):
                self.say(f"        | {line}")

    def noted(self, message: str) -> None:
        """Print the text unchanged."""
        self.say(message)

    def close(self) -> None:
        """Do nothing: there is nothing to clean up."""

    def say(self, line: str) -> None:
        """Print one line immediately."""
        print(line, file=self._stream, flush=True)

    def _beat(self) -> None:
        """Say how far the session is, if nothing did for a while."""
        now = time.monotonic()
        if self._running and now >= self._beat_at:
            self._beat_at = now + BEAT_S
            self.say(self._running_line().plain)

    def _running_line(self) -> Text:
        from rich.text import Text

        text = Text(no_wrap=True, overflow="ellipsis")
        running = [*self._running.values()]
        if not running:
            return text
        (trial, began), now = running[-1], time.monotonic()
        running_s = now - began
        text.append(f"{self._place()} block {trial.block} ", style="dim")
        text.append(trial.id, style="bold")
        text.append(f" and {len(running) - 1} more" if len(running) > 1 else "", style="dim")
        silent = "running, no figure yet" if self._begun else "starting"
        silent = "running" if len(running) > 1 else silent
        doing = f"waiting: {self._waits_for}" if self._waits_for else self._figure.text or silent
        text.append(f"  {doing}", style="yellow" if self._waits_for else "cyan")
        text.append(f"  {_clock(running_s)}, {_clock(now - self._session_at)} in all", style="dim")
        text.append(self._left(trial, running_s), style="dim")
        return text

    def _left(self, trial: Trial, running_s: float) -> str:
        """The remaining time; for a run until decided, at most that, and the time to the next look."""
        left_s = self._pace.left_s(running_s)
        if left_s is None:
            return ""
        look = next((blocks for blocks in self._plan.looks if blocks >= trial.block), None)
        if look is None:
            return f", about {_clock(left_s)} left"
        next_s = self._pace.left_s(running_s, through=look) or 0.0
        return f", about {_clock(next_s)} to the look after block {look}, at most about {_clock(left_s)} left"

    def _place(self) -> str:
        number = min(self._pace.done + 1, self._pace.total)
        most = "≤" if self._plan.looks else ""
        return f"[{number:>{len(str(self._pace.total))}}/{most}{self._pace.total}]"


class ProgressScreen(ProgressLines):
    """The same lines, with a live one below: what runs, its latest value, elapsed and remaining time."""

    def __init__(self, session: Session, plan: Plan, done: Sequence[Run], *, stream: TextIO) -> None:
        from rich.live import Live

        from assay.cli.console import Console

        self._console = Console(file=stream, highlight=False)
        self._drawn = 0  # cells of the live line when last drawn
        super().__init__(session, plan, done, stream=stream)
        self._beat_at = math.inf  # the live line says it
        self._live = Live(
            get_renderable=self._line, console=self._console, refresh_per_second=4, transient=True
        )
        self._live.start()

    def close(self) -> None:
        """Remove the live line."""
        self._live.stop()

    def say(self, line: str) -> None:
        """One line above the live one."""
        self._erase_broken_line()
        self._console.print(line, markup=False, soft_wrap=True, style="red" if " FAILED: " in line else None)

    def _line(self) -> Text:
        """What to draw now; the last column stays free, so that the cursor stays in the line's row."""
        self._erase_broken_line()
        text = self._running_line()
        text.truncate(self._console.width - 1, overflow="ellipsis")
        self._drawn = text.cell_len
        return text

    def _erase_broken_line(self) -> None:
        """Erase all but the first row of a live line that a narrower terminal has wrapped."""
        from rich.control import Control
        from rich.segment import ControlType

        rows = -(-self._drawn // self._console.width)
        self._drawn = 0
        for _ in range(rows - 1):
            self._console.control(Control((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)))


def _again(run: Run) -> str:
    if run.job is not JobState.LOST or run.adopted:  # it was interrupted, or unobserved
        return "; it will be retried"
    most = "once" if run.trial.retries == 1 else f"{run.trial.retries} times"
    return f"; the platform lost it, the program did not fail: it will be retried, at most {most}"


def _duration(run: Run) -> str:
    """`(took 1.5 s)`; empty if unknown."""
    if run.started_at is None or run.ended_at is None:
        return ""
    return f"(took {human_seconds(max(run.ended_at - run.started_at, 0.0))})"


def _clock(seconds: float) -> str:
    """`0:42`, `12:03`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
