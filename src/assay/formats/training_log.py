"""The relevant events of a training log, gathered while streaming."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from assay.formats.benchmarks import round_order
from assay.formats.mllog import Event, EventReader, is_number
from assay.formats.training_length import Evaluation, LoggedSize, evaluation
from assay.formats.training_phases import CLOCK_TOLERANCE_MS, TIMELINE_KEYS, RunBounds, Timeline
from assay.records import LATEST_TIME, Scalar

FIRST_OF_2000_MS: Final = 946_684_800_000  # earlier "times" count from the start of a program
MOST_VALUES: Final = 4096  # distinct values kept per key: the seeds of this many ranks

# Printed as they happen; evaluations, and with them run_stop, may be printed long after they happen.
_PRINTED_AT_ONCE: Final = frozenset({"epoch_start", "epoch_stop", "block_start", "block_stop"})
_NOT_HYPERPARAMETERS: Final = frozenset(
    {"eval_iteration_accuracy", "status", "submission_poc_name", "submission_poc_email"}
)
_LOADGEN_KEYS: Final = frozenset(
    {"loadgen_version", "result_validity", "effective_scenario", "requested_scenario"}
)


@dataclass
class TrainingLog:
    """What has been read so far.

    backwards  where epochs and blocks go back in time; "" if they don't
    """

    reader: EventReader
    unreadable: str = ""
    first: Event | None = None
    last: Event | None = None
    starts: list[Event] = field(default_factory=list)
    stops: list[Event] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    bounds: RunBounds = field(default_factory=RunBounds)
    timeline: Timeline = field(default_factory=Timeline)
    tracked: list[float] = field(default_factory=list)  # the log's own throughput
    throughputs: list[float] = field(default_factory=list)  # the same under its own key
    points: dict[str, dict[Scalar, None]] = field(default_factory=dict)  # distinct values of a key, in order
    size_line: int = 0  # of the first train_samples
    init_start_ms: float | None = None
    loadgen: bool = False
    claims_cache_cleared: bool = False
    backwards: str = ""
    _latest: Event | None = None  # epoch or block

    def add(self, event: Event) -> None:
        """Process the next event."""
        key = event.key
        self.first = self.first or event
        self.last = event
        if key == "weights_initialization":  # half of all lines
            return
        self.bounds.add(event)
        if key in TIMELINE_KEYS:
            self.timeline.add(event)
        if key in _PRINTED_AT_ONCE:
            self._follow(event)
        elif key == "run_start":
            self.starts.append(event)
        elif key == "run_stop":
            self.stops.append(event)
        elif key == "eval_accuracy":
            self.evaluations.append(evaluation(event))
        elif key in ("tracked_stats", "throughput"):
            self._add_throughput(event)
        elif key == "init_start":
            self.init_start_ms = event.time_ms if self.init_start_ms is None else self.init_start_ms
        elif key == "cache_clear":
            self.claims_cache_cleared = self.claims_cache_cleared or event.value is True
        elif key in _LOADGEN_KEYS:
            self.loadgen = True
        elif event.kind == "point" and key not in _NOT_HYPERPARAMETERS:
            self._add_point(key, event.value, event.line)

    def _follow(self, event: Event) -> None:
        if event.time_ms is None:
            return
        latest = self._latest
        if latest is None or latest.time_ms is None or event.time_ms >= latest.time_ms:
            self._latest = event
        elif latest.time_ms - event.time_ms > CLOCK_TOLERANCE_MS and not self.backwards:
            back_s = (latest.time_ms - event.time_ms) / 1000
            self.backwards = (
                f"the clock goes backward by {back_s:.1f} s: from {latest.key} (line {latest.line}) "
                f"to {event.key} (line {event.line})"
            )

    def _add_throughput(self, event: Event) -> None:
        units, rate, rates = event.metadata.get("units"), event.value, self.throughputs
        if isinstance(units, dict) and units.get("throughput") == "tokens/s":
            return
        if isinstance(rate, dict):
            rate, rates = rate.get("throughput", rate.get("imgs_sec")), self.tracked
        if is_number(rate) and rate > 0:
            rates.append(float(rate))

    def _add_point(self, key: str, value: Any, line: int) -> None:
        if value is None or not isinstance(value, str | int | float | bool):
            return
        if key == "train_samples" and not self.size_line:
            self.size_line = line
        values = self.points.setdefault(key, {})
        if len(values) < MOST_VALUES:
            values[value] = None

    @property
    def window_ms(self) -> tuple[float, float] | None:
        """First run_start and last run_stop: the time that every rank had to wait."""
        began = [e.time_ms for e in self.starts if e.time_ms is not None]
        ended = [e.time_ms for e in self.stops if e.time_ms is not None]
        return (min(began), max(ended)) if began and ended else None

    @property
    def started_at(self) -> float | None:
        """First run_start, seconds since the epoch; None if the log's times are not calendar times."""
        began = [e.time_ms for e in self.starts if e.time_ms is not None]
        is_calendar_time = began and FIRST_OF_2000_MS < min(began) <= LATEST_TIME * 1000
        return min(began) / 1000 if is_calendar_time else None

    @property
    def minutes(self) -> float | None:
        """From run_start to run_stop."""
        return None if self.window_ms is None else (self.window_ms[1] - self.window_ms[0]) / 60_000

    @property
    def init_minutes(self) -> float | None:
        """From init_start to run_start."""
        if self.init_start_ms is None or not self.starts or self.starts[0].time_ms is None:
            return None
        minutes = (self.starts[0].time_ms - self.init_start_ms) / 60_000
        return minutes if minutes >= 0 else None

    @property
    def round(self) -> str | None:
        """The round, if the form of the lines shows it; since v0.7 all look alike.

        Assay's own programs state it.
        """
        if self.first and self.first.form != "v0.7":
            return self.first.form
        stated = self.word("mlperf_round")
        return stated if round_order(stated) is not None else None

    @property
    def benchmark(self) -> str | None:
        """The benchmark, as named by the log."""
        if self.first and self.first.form == "v0.5":
            return str(self.first.metadata["benchmark"])
        for value in self.points.get("submission_benchmark", ()):
            if isinstance(value, str) and value:
                return value
        return None

    @property
    def size(self) -> LoggedSize:
        """What train_samples says, and whether only after the last evaluation."""
        ended = self.evaluations[-1].line if self.evaluations else self.stops[0].line if self.stops else None
        return LoggedSize(
            self.number("train_samples"),
            at_end=ended is not None and self.size_line > ended,
            of_data_set=self.is_our_own,
        )

    @property
    def is_our_own(self) -> bool:
        """Whether an Assay program printed it: then it states its round, and train_samples is literal."""
        return "mlperf_round" in self.points

    @property
    def throughput(self) -> float | None:
        """The log's own throughput, in its own unit: over equal sample counts, so the mean is harmonic."""
        rates = self.tracked or self.throughputs
        return len(rates) / sum(1 / rate for rate in rates) if rates else None

    def before_stop(self, benchmark: str | None) -> list[Evaluation]:
        """Evaluations at which the run could stop."""
        if not self.stops:
            return self.evaluations
        return [
            e
            for e in self.evaluations
            if e.line < self.stops[-1].line and not self.bounds.is_after_stop(e.time_ms, benchmark)
        ]

    def number(self, key: str) -> int | None:
        """A key's positive integer, if the log states exactly one."""
        values = tuple(self.points.get(key, ()))
        if len(values) != 1 or not is_number(value := values[0]) or value <= 0 or value != int(value):
            return None
        return int(value)

    def word(self, key: str) -> str | None:
        """A key's text, if the log states exactly one."""
        values = tuple(self.points.get(key, ()))
        return values[0] if len(values) == 1 and isinstance(values[0], str) else None

    def hyperparameters(self) -> dict[str, Scalar]:
        """Every scalar stated once, or identically by all ranks; the smallest of the ranks' seeds."""
        stated = {key: next(iter(values)) for key, values in self.points.items() if len(values) == 1}
        seeds = [seed for seed in self.points.get("seed", ()) if is_number(seed)]
        if len(seeds) > 1:
            stated["seed"] = min(seeds)
        return stated
