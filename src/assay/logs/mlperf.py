"""One MLPerf training log → one `TrainingRun`, for every round from v0.5 on.

Time to train is run_stop − run_start. What a file lacks or contradicts is said in words in `problem`,
`notes` and `doubts`; there is never a number for a run that did not succeed.

    from assay.logs.mlperf import training_runs
    from assay.logs.result_sets import find_sets

    for result_set in find_sets([Path("logs")]):
        for run in training_runs(result_set):
            print(result_set.name, run.file, run.status, run.problem or run.minutes)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from assay.errors import InputError
from assay.logs.benchmark_names import benchmark_name
from assay.logs.cache_clearing import cache_doubt
from assay.logs.mllog import Event, EventReader
from assay.logs.result_sets import ResultSet, round_of
from assay.logs.rounds import number
from assay.logs.training_length import TrainingLength, is_number, training_length
from assay.logs.training_phases import PHASE_KEYS, training_phases
from assay.records import Doubt, Scalar, TrainingPhases, TrainingRun, TrainingStatus

CLOCK_TOLERANCE_MS: Final = 1000.0  # lines of several ranks and of asynchronous evaluation interleave
MOST_VALUES: Final = 4096  # distinct values kept of one key: the seeds of that many ranks
CONTRADICTION: Final = 2.0  # a log's own throughput excludes evaluation: less than this apart is no news

# what lies on one clock between run_start and run_stop; submission_* lines of v0.6 carry time 0
_TIMELINE: Final = frozenset(
    f"{what}_{edge}" for what in ("run", "block", "epoch", "eval") for edge in ("start", "stop")
) | {"eval_accuracy"}
_NOT_HYPERPARAMETERS: Final = frozenset(
    {"eval_iteration_accuracy", "status", "submission_poc_name", "submission_poc_email"}
)
_LOADGEN_KEYS: Final = frozenset(
    {"loadgen_version", "result_validity", "effective_scenario", "requested_scenario"}
)


def training_runs(result_set: ResultSet, *, round_: str | None = None) -> Iterator[TrainingRun]:
    """The runs of a set, read as they are asked for; `round_` where neither log nor folder tells it."""
    for file in result_set.files:
        yield training_run(file, round_=result_set.round or round_, benchmark=result_set.benchmark)


def training_run(
    path: Path, *, name: str | None = None, round_: str | None = None, benchmark: str | None = None
) -> TrainingRun:
    """What a training log says, whatever is wrong with it; never raises on what the file holds.

    name       for messages and the record's `file`; the file's own name unless given
    round_     where the log's own form doesn't tell and no folder of the path does
    benchmark  where the log doesn't say
    """
    log = _Log(EventReader(path))
    try:
        for event in log.reader:
            log.add(event)
    except InputError as error:
        log.unreadable = error.problems[0].what
    status, problem = _status(log)
    succeeded = status == "success"
    minutes = log.minutes if succeeded else None
    named = benchmark_name(log.benchmark) if log.benchmark else benchmark
    of_round = log.round or round_of(path.absolute()) or round_
    length = training_length(log.before_stop(), log.data_set_samples, named, of_round)
    notes = _notes(log) + list(length.notes)
    if log.benchmark is None and benchmark is not None:
        notes.append(f"the log names no benchmark; {benchmark} is taken from the folder")
    not_cleared = cache_doubt(log.reader.head) if log.claims_cache_cleared else None
    contradicted = _throughput_doubt(minutes, length.samples, log.throughputs)
    if contradicted is not None and length.multiplied:
        length = replace(length, samples=None)
    doubts = (not_cleared, length.doubt, contradicted)
    return TrainingRun(
        file=name or path.name,
        status=status,
        problem=problem,
        benchmark=named,
        round=of_round,
        minutes=minutes,
        init_minutes=log.init_minutes,
        epochs=length.epochs if succeeded else None,
        samples=length.samples if succeeded else None,
        global_batch_size=log.number("global_batch_size"),
        train_samples=log.number("train_samples"),
        evaluations=length.evaluations,
        hyperparameters=log.hyperparameters(),
        notes=tuple(notes),
        doubts=tuple(doubt for doubt in doubts if doubt),
        phases=_phases(log, length) if status in ("success", "aborted") else None,
        caches_dropped=not_cleared is None if log.claims_cache_cleared else None,
    )


@dataclass
class _Log:
    """What matters of a log's events, gathered while they stream by."""

    reader: EventReader
    unreadable: str = ""
    first: Event | None = None
    last: Event | None = None
    starts: list[Event] = field(default_factory=list)
    stops: list[Event] = field(default_factory=list)
    evaluations: list[Event] = field(default_factory=list)
    timeline: list[Event] = field(default_factory=list)
    throughputs: list[float] = field(default_factory=list)
    points: dict[str, dict[Scalar, None]] = field(default_factory=dict)  # distinct values of a key, in order
    train_samples_told_last: bool = False  # after the run: then it counts what was seen, not the data set
    init_start_ms: float | None = None
    loadgen: bool = False
    claims_cache_cleared: bool = False
    backwards: str = ""
    _latest: Event | None = None  # on the timeline between run_start and run_stop

    def add(self, event: Event) -> None:
        """Take in the next event."""
        key = event.key
        self.first = self.first or event
        self.last = event
        if key == "weights_initialization":  # half of all lines
            return
        if key in PHASE_KEYS:
            self.timeline.append(event)
        if key in _TIMELINE:
            self._add_timeline(event)
        elif key == "init_start":
            self.init_start_ms = event.time_ms if self.init_start_ms is None else self.init_start_ms
        elif key == "tracked_stats":
            self._add_tracked(event.value, event.metadata.get("units"))
        elif key == "cache_clear":
            self.claims_cache_cleared = self.claims_cache_cleared or event.value is True
        elif key in _LOADGEN_KEYS:
            self.loadgen = True
        elif event.kind == "point" and key not in _NOT_HYPERPARAMETERS:
            self._add_point(key, event.value)

    def _add_timeline(self, event: Event) -> None:
        if event.key == "run_start":
            self.starts.append(event)
        elif event.key == "run_stop":
            self.stops.append(event)
        elif event.key == "eval_accuracy":
            self.evaluations.append(event)
        if not self.starts or event.time_ms is None:
            return
        latest = self._latest
        if latest is None or latest.time_ms is None or event.time_ms >= latest.time_ms:
            self._latest = event
        elif latest.time_ms - event.time_ms > CLOCK_TOLERANCE_MS and not self.backwards:
            back_s = (latest.time_ms - event.time_ms) / 1000
            self.backwards = (
                f"the clock goes backwards by {back_s:.1f} s: from {latest.key} (line {latest.line}) "
                f"to {event.key} (line {event.line})"
            )

    def _add_tracked(self, value: Any, units: Any) -> None:
        of_samples = not (isinstance(units, dict) and units.get("throughput") == "tokens/s")
        if of_samples and isinstance(value, dict) and is_number(rate := value.get("throughput")):
            self.throughputs.append(float(rate))

    def _add_point(self, key: str, value: Any) -> None:
        if value is None or not isinstance(value, str | int | float | bool):
            return
        if key == "train_samples" and self.stops and key not in self.points:
            self.train_samples_told_last = True
        values = self.points.setdefault(key, {})
        if len(values) < MOST_VALUES:
            values[value] = None

    @property
    def window_ms(self) -> tuple[float, float] | None:
        """First run_start and last run_stop: what every rank had to wait for."""
        began = [e.time_ms for e in self.starts if e.time_ms is not None]
        ended = [e.time_ms for e in self.stops if e.time_ms is not None]
        return (min(began), max(ended)) if began and ended else None

    @property
    def minutes(self) -> float | None:
        """From run_start to run_stop."""
        return None if self.window_ms is None else (self.window_ms[1] - self.window_ms[0]) / 60_000

    @property
    def init_minutes(self) -> float | None:
        if self.init_start_ms is None or not self.starts or self.starts[0].time_ms is None:
            return None
        minutes = (self.starts[0].time_ms - self.init_start_ms) / 60_000
        return minutes if minutes >= 0 else None

    @property
    def round(self) -> str | None:
        """The round where the form of the lines tells it; from v0.7 on all look alike.

        Our own programs state it.
        """
        if self.first and self.first.form != "v0.7":
            return self.first.form
        stated = [value for value in self.points.get("mlperf_round", ()) if isinstance(value, str)]
        return stated[0] if len(stated) == 1 and number(stated[0]) is not None else None

    @property
    def benchmark(self) -> str | None:
        if self.first and self.first.form == "v0.5":
            return str(self.first.metadata["benchmark"])
        for value in self.points.get("submission_benchmark", ()):
            if isinstance(value, str) and value:
                return value
        return None

    def before_stop(self) -> list[Event]:
        """Evaluations that the run could stop on."""
        if not self.stops:
            return self.evaluations
        return [event for event in self.evaluations if event.line < self.stops[-1].line]

    @property
    def data_set_samples(self) -> int | None:
        """Samples in the training set; None where train_samples is told after the run, of what was seen."""
        return None if self.train_samples_told_last else self.number("train_samples")

    def number(self, key: str) -> int | None:
        """A key's positive whole number where the log states exactly one."""
        values = tuple(self.points.get(key, ()))
        if len(values) != 1 or not is_number(value := values[0]) or value <= 0 or value != int(value):
            return None
        return int(value)

    def hyperparameters(self) -> dict[str, Scalar]:
        """Every scalar stated once, or alike by all ranks; of the ranks' seeds the smallest."""
        stated = {key: next(iter(values)) for key, values in self.points.items() if len(values) == 1}
        seeds = [seed for seed in self.points.get("seed", ()) if is_number(seed)]
        if len(seeds) > 1:
            stated["seed"] = min(seeds)
        return stated


def _phases(log: _Log, length: TrainingLength) -> TrainingPhases | None:
    return None if log.window_ms is None else training_phases(log.timeline, *log.window_ms, length)


def _status(log: _Log) -> tuple[TrainingStatus, str]:
    """How the run ended, and in words why that is no result."""
    if problem := _unusable(log):
        return "invalid", problem
    if not log.starts and not log.stops:
        return "unfinished", f"no run_start: the run never began; {_last_event(log)}"
    if not log.stops:
        return "unfinished", f"no run_stop: {_last_event(log)}"
    if problem := _contradiction(log):
        return "invalid", problem
    told = _stated_status(log.stops[0])
    if told == "success":
        return "success", ""
    return "aborted", f"run_stop says {told}: the target was not reached in {log.minutes:.2f} minutes"


def _unusable(log: _Log) -> str:
    """Why the file can't be a training log, or can't be read to its end; "" where it can."""
    reader = log.reader
    if log.unreadable:
        return log.unreadable
    if reader.problem:
        return f"{reader.problem}; {_last_event(log)}"
    if log.last is None:
        if not reader.head:
            return "the file is empty"
        if reader.skipped:
            first = reader.skipped_at[0]
            return f"none of its {reader.skipped} token lines can be understood (the first: line {first})"
        return "no MLPerf log line in it (:::MLLOG, :::MLL or :::MLPv0.5)"
    if log.loadgen and not log.starts:
        return "an inference log of LoadGen (mlperf_log_detail.txt), not a training log"
    return log.backwards


def _contradiction(log: _Log) -> str:
    """What is wrong between run_start and run_stop; "" where nothing is."""
    if not log.starts:
        return "run_stop without run_start: the beginning of the log is missing"
    if log.minutes is None:
        return "run_start or run_stop carries no time"
    if log.minutes <= 0:
        return f"run_stop lies {-log.minutes * 60:.1f} s before run_start"
    if (step := log.number("resumed_from_step")) is not None:
        return f"resumed from a checkpoint at step {step}: the time before it is in another log"
    if log.starts[-1].line > log.stops[0].line:
        return f"holds more than one run: run_start again at line {log.starts[-1].line}, after run_stop"
    told = {_stated_status(stop): stop.line for stop in reversed(log.stops)}
    if len(told) > 1:
        lines = ", ".join(f"{status or 'nothing'} (line {line})" for status, line in told.items())
        return f"run_stop lines disagree: {lines}"
    return "" if log.stops and any(told) else "run_stop states no status"


def _stated_status(stop: Event) -> str:
    """`success`, `aborted` or what else run_stop says; "" where it says nothing."""
    status = stop.metadata.get("status")
    if status is None and isinstance(stop.value, dict):  # v0.5
        succeeded = stop.value.get("success")
        return "success" if succeeded is True else "aborted" if succeeded is False else ""
    return status if isinstance(status, str) else ""


def _last_event(log: _Log) -> str:
    last = log.last
    if last is None:
        return "no event was read"
    text = f"the last event is {last.key} at line {last.line}"
    if log.starts and log.starts[0].time_ms is not None and last.time_ms is not None:
        text += f", {(last.time_ms - log.starts[0].time_ms) / 60_000:.2f} minutes after run_start"
    return text + ("; the last line is cut in the middle" if log.reader.cut else "")


def _notes(log: _Log) -> list[str]:
    notes = []
    reader = log.reader
    if reader.skipped:
        lines = ", ".join(map(str, reader.skipped_at)) + (
            " …" if reader.skipped > len(reader.skipped_at) else ""
        )
        notes.append(f"{reader.skipped} token lines could not be understood (line {lines})")
    if len(log.starts) > 1 or len(log.stops) > 1:
        notes.append(
            f"{len(log.starts)} run_start and {len(log.stops)} run_stop lines: the first and the last count"
        )
    if len(log.points.get("seed", ())) > 1:
        notes.append(f"{len(log.points['seed'])} seeds, one a rank; the smallest stands for the run")
    return notes


def _throughput_doubt(minutes: float | None, samples: float | None, tracked: list[float]) -> Doubt | None:
    """The log's own throughput against samples over time: far apart means that one is counted otherwise."""
    if not minutes or not samples or not tracked:
        return None
    overall, own = samples / (minutes * 60), median(tracked)
    if own <= 0 or 1 / CONTRADICTION < overall / own < CONTRADICTION:
        return None
    return Doubt(
        code="throughput-contradicts",
        evidence=f"samples over time is {overall:.4g} samples/s, the log's own tracked throughput {own:.4g}",
        remedy="check what train_samples counts here, samples or batches, before using samples per second",
    )
