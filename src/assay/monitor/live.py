"""What runs now, from the files that a running session grows: nodes, GPUs, ranks, and what is off."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from assay.durable import is_left
from assay.errors import InputError, Problem
from assay.formats.mllog import EventScanner
from assay.inputs import open_plain
from assay.monitor.stragglers import Steps, judge_ranks, stop
from assay.records import Run, RunState
from assay.rundir import session as rundir
from assay.rundir.pace import Pace
from assay.rundir.session import Attempt, Session
from assay.telemetry.samples import STREAM, Telemetry, TelemetryEvent, TelemetrySample, rates
from assay.telemetry.stalls import THROTTLED
from assay.units import rough_seconds

TAIL_BYTES = 1 << 18  # of each log: the newest samples and figures
LATE_PERIODS = 5.0  # without a sample, from which on a node counts as silent
FAR_SHARE = 0.25  # from the median of all GPUs: one of them is off
IDLE_PERCENT = 5.0  # of a GPU's use while others work
STUCK_POWER_SHARE = 0.5  # of the highest power seen at full use: busy without work, like a stuck collective


_UNFOLLOWED = "its Assay process was killed; the same command resumes it"


@dataclass(frozen=True)
class LiveGpu:
    """The newest sample of a GPU.

    uuid, name  the driver's, "" if unknown; xids: code → events
    off         why it needs a look, "" if it does not
    """

    index: int
    values: Mapping[str, float]
    speeds: Mapping[str, float]
    uuid: str = ""
    name: str = ""
    xids: Mapping[int, int] = field(default_factory=dict)
    off: str = ""


@dataclass(frozen=True)
class LiveNode:
    """The newest sample of a node, taken at `sampled_at` (seconds since 1970); None if there is none yet."""

    node: int
    sampled_at: float | None
    values: Mapping[str, float]
    speeds: Mapping[str, float]
    gpus: tuple[LiveGpu, ...]
    events: tuple[str, ...]
    off: str = ""


@dataclass(frozen=True)
class LiveRank:
    """A rank: seconds since its last output, its newest figures; off as above."""

    rank: int
    silent_s: float
    figures: Mapping[str, float]
    off: str = ""


@dataclass(frozen=True)
class LiveRun:
    """A running trial; what is off comes first everywhere.

    done, trials  settled trials of the session, and all of them
    left_s        that the rest of the session will take; None while unknown
    is_most       it is decided on the way how many trials there are: `trials` and `left_s` are the most
    stopped       why the job may have stopped, or that nobody follows it; "" if it takes steps
    """

    run: Run
    session: str
    done: int
    trials: int
    running_s: float
    nodes: tuple[LiveNode, ...]
    ranks: tuple[LiveRank, ...]
    stopped: str = ""
    left_s: float | None = None
    is_most: bool = False

    @property
    def left(self) -> str:
        """`about 9 min left`; "" while unknown."""
        if self.left_s is None:
            return ""
        return f"{'at most ' if self.is_most else ''}about {rough_seconds(self.left_s)} left"

    def document(self) -> dict[str, Any]:
        """A running trial."""
        trial = self.run.trial
        return {
            "run": self.run.id,
            "suite": trial.suite,
            "session": self.session,
            "trial": trial.id,
            "system": trial.system,
            "running_s": self.running_s,
            "left_s": self.left_s,
            "left_is_most": self.is_most,
            "done": self.done,
            "trials": self.trials,
            "stopped": self.stopped,
            "nodes": [asdict(node) for node in self.nodes],
            "ranks": [asdict(rank) for rank in self.ranks],
        }


@dataclass(frozen=True)
class LiveRuns:
    """The running trials, the newest first, and which sessions can't be read, and why."""

    running: tuple[LiveRun, ...]
    problems: tuple[Problem, ...]

    def document(self) -> dict[str, Any]:
        """Every running trial, and the sessions that can't be read."""
        return {
            "running": [live.document() for live in self.running],
            "unreadable": [str(problem) for problem in self.problems],
        }


def live_runs(runs_dir: Path, reference: str = "", now: float | None = None) -> LiveRuns:
    """Every running trial, or those of one session or suite; a damaged session hides no other.

    reference  `SUITE` or `SUITE/SESSION`; "" for all
    now        time of day, seconds since 1970; None: the clock's

    Raises InputError if the reference matches no session.
    """
    moment = time.time() if now is None else now
    sessions = [
        session for session in rundir.sessions(runs_dir) if not reference or _matches(session, reference)
    ]
    if reference and not sessions:
        raise InputError(f"{reference}: no session below {runs_dir}; run `assay show` to see what there is")
    running, problems = list[LiveRun](), list[Problem]()
    for session in sessions:
        try:
            if not session.lost_files and session.header.finished_at is None:
                running += _of_session(session, moment)
        except InputError as error:
            problems += error.problems
    return LiveRuns(tuple(sorted(running, key=lambda live: live.running_s)), tuple(problems))


def _matches(session: Session, reference: str) -> bool:
    return session.id == reference or session.id.split("/")[0] == reference


def _of_session(session: Session, now: float) -> Iterator[LiveRun]:
    plan = session.plan()
    is_unfollowed = is_left(session.path / "lock")
    last = session.last_attempts()
    runs = {name: attempt.run() for name, attempt in last.items()}
    settled = [run for run in runs.values() if run.state.final]
    pace = Pace(plan, settled)
    for name, run in runs.items():
        if run.state is RunState.RUNNING:
            live = _of_attempt(last[name], run, session.id, len(settled), len(plan.trials), now)
            yield replace(
                live,
                stopped=live.stopped or (_UNFOLLOWED if is_unfollowed else ""),
                left_s=pace.left_s(live.running_s),
                is_most=bool(plan.looks),
            )


def _of_attempt(attempt: Attempt, run: Run, session: str, done: int, trials: int, now: float) -> LiveRun:
    logs = attempt.logs()
    nodes = [
        _node(int(path.stem.removeprefix(STREAM)), path, now)
        for name, path in logs.items()
        if name.startswith(STREAM) and path.stem.removeprefix(STREAM).isdecimal()
    ]
    ranks = [
        _rank(int(path.stem.removeprefix("rank-")), path, now)
        for name, path in logs.items()
        if name.startswith("rank-") and path.stem.removeprefix("rank-").isdecimal()
    ]
    judged, stopped = _judged_ranks(ranks, now)
    running_s = max(0.0, now - (run.started_at or run.created_at))  # clocks of machines differ
    return LiveRun(
        run,
        session,
        done,
        trials,
        running_s,
        tuple(sorted(_judged_nodes(nodes), key=lambda node: (not node.off, node.node))),
        tuple(sorted(judged, key=lambda rank: (not rank.off, rank.rank))),
        stopped,
    )


def _node(number: int, log: Path, now: float) -> LiveNode:
    telemetry = Telemetry()
    newest: dict[int | None, deque[TelemetrySample]] = {}
    events, happened = [], list[TelemetryEvent]()
    for entry in telemetry.read(_ends(log)):
        if isinstance(entry, TelemetryEvent):
            happened.append(entry)
            events.append(entry.words if entry.gpu is None else f"GPU {entry.gpu}: {entry.words}")
        else:
            newest.setdefault(entry.gpu, deque(maxlen=2)).append(entry)
    speeds = {gpu: rates(*samples) if len(samples) == 2 else {} for gpu, samples in newest.items()}
    xids = Counter((event.gpu, event.xid) for event in happened if event.xid is not None)
    gpus = tuple(
        LiveGpu(
            gpu,
            samples[-1].values,
            speeds[gpu],
            *_identity(telemetry, gpu),
            {xid: count for (owner, xid), count in xids.items() if owner == gpu},
        )
        for gpu, samples in sorted((g, s) for g, s in newest.items() if g is not None)
    )
    if telemetry.header is None or None not in newest:
        return LiveNode(
            number, None, {}, {}, gpus, tuple(events), "no sample yet" if not events else events[-1]
        )
    sample, header = newest[None][-1], telemetry.header
    sampled_at = header.started_at + sample.at_s
    age_s = now - sampled_at
    off = f"no sample for {age_s:.0f} s" if age_s > LATE_PERIODS * header.period_s + 1 else ""
    return LiveNode(number, sampled_at, sample.values, speeds[None], gpus, tuple(events), off)


def _identity(telemetry: Telemetry, gpu: int) -> tuple[str, str]:
    """The driver's identifier and name of a GPU; "" for what it did not say."""
    known = telemetry.header.gpus if telemetry.header else ()
    own: Mapping[str, Any] = next((entry for entry in known if entry.get("index") == gpu), {})
    return str(own.get("uuid", "")), str(own.get("name", ""))


def _ends(log: Path) -> Iterator[str]:
    """The first line, which describes the others, and the whole lines at the end."""
    with open_plain(log) as file:
        first = file.readline(1 << 16)
        yield first.decode(errors="replace")
        size = file.seek(0, 2)
        begin = max(len(first), size - TAIL_BYTES)
        file.seek(begin)
        if begin > len(first):
            file.readline()
        for line in file:
            if line.endswith(b"\n"):
                yield line.decode(errors="replace")


def _judged_nodes(nodes: Sequence[LiveNode]) -> Iterator[LiveNode]:
    gpus = [gpu for node in nodes for gpu in node.gpus]
    usual = {
        name: median(values)
        for name in ("power_watts", "sm_clock_hertz", "utilization_percent")
        if (values := [gpu.values[name] for gpu in gpus if name in gpu.values])
    }
    for node in nodes:
        judged = tuple(_judged_gpu(gpu, usual, len(gpus)) for gpu in node.gpus)
        off = node.off or _node_off(node) or next((f"GPU {g.index}: {g.off}" for g in judged if g.off), "")
        ordered = tuple(sorted(judged, key=lambda gpu: (not gpu.off, gpu.index)))
        yield replace(node, gpus=ordered, off=off)


def _judged_gpu(gpu: LiveGpu, usual: Mapping[str, float], count: int) -> LiveGpu:
    return replace(gpu, off="; ".join(_gpu_off(gpu.values, usual, count)))


def _gpu_off(values: Mapping[str, float], usual: Mapping[str, float], count: int) -> Iterator[str]:
    if int(values.get("clock_reasons", 0)) & THROTTLED:
        yield "throttled"
    used, power = values.get("utilization_percent", math.nan), values.get("power_watts", math.nan)
    if count < 2:
        return
    if used < IDLE_PERCENT and usual.get("utilization_percent", math.nan) > 2 * IDLE_PERCENT:
        yield f"idle while others work ({usual['utilization_percent']:.0f} %)"
    elif used > 100 - IDLE_PERCENT and power < STUCK_POWER_SHARE * usual.get("power_watts", math.nan):
        yield f"full use at {power:.0f} W, others {usual['power_watts']:.0f} W: it may be stuck"
    clock = values.get("sm_clock_hertz", math.nan)
    if clock < (1 - FAR_SHARE) * usual.get("sm_clock_hertz", math.nan):
        yield f"SM clock {clock / 1e6:.0f} MHz, others {usual['sm_clock_hertz'] / 1e6:.0f} MHz"


def _node_off(node: LiveNode) -> str:
    speeds = node.speeds
    for column, trouble in (
        ("cpu_throttled_seconds", "held back by its CPU quota"),
        ("memory_pressure_seconds", "processes wait for memory"),
        ("io_pressure_seconds", "processes wait for input and output"),
    ):
        if speeds.get(column, 0) > FAR_SHARE:
            return f"{trouble} {speeds[column] * 100:.0f} % of the time"
    others = speeds.get("cpu_busy_seconds", math.nan) - speeds.get("job_cpu_seconds", math.nan)
    if others > 1 and speeds.get("cpu_pressure_seconds", 0) > FAR_SHARE:
        return f"other processes use {others:.1f} CPUs, and some wait"
    return ""


def _rank(number: int, log: Path, now: float) -> tuple[LiveRank, Steps]:
    steps = Steps()
    lines = "".join(_ends(log)).encode()
    for event in EventScanner().scan(lines if lines.endswith(b"\n") else b""):
        steps.take_event(event)
    return LiveRank(number, max(0.0, now - log.stat().st_mtime), steps.figures), steps


def _judged_ranks(ranks: Sequence[tuple[LiveRank, Steps]], now: float) -> tuple[list[LiveRank], str]:
    """The ranks with what is off, and why the whole job may have stopped; "" if it has not."""
    off = {
        slow.rank: f"{slow.ratio:.2f} times the others' step time ({slow.low:.2f} to {slow.high:.2f}, "
        f"{slow.steps} steps)"
        for slow in judge_ranks({rank.rank: steps.seconds for rank, steps in ranks if steps.seconds}).slow
    }
    standstill = stop({rank.rank: sorted(steps.taken.items()) for rank, steps in ranks if steps.taken}, now)
    stopped = ""
    if standstill is not None:
        stopped = f"no step for {standstill.silent_s:.0f} s, before at most {standstill.longest_gap_s:.3g} s"
        off |= dict.fromkeys(standstill.behind, f"behind step {standstill.step}, where the others wait")
    return [replace(rank, off=off.get(rank.rank, "")) for rank, _ in ranks], stopped
