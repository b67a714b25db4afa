"""Windows of steps on one synthetic batch, or of only reading the data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from itertools import count, islice
from typing import Any

import torch

from assay_payloads.datasets.feed import MicroBatch, clear_caches, samples_in, stored_bytes
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.step import Stepper

# Runs this many steps; returns seconds on the slowest rank, samples as counted for throughput, more figures.
Window = Callable[[int], tuple[float, float, dict[str, float]]]
TRACE = "trace.json.gz"  # Chrome's trace format: open it with chrome://tracing or ui.perfetto.dev
SKIPPED = 2  # steps before profiling: starting the profiler takes time in the first ones
LISTED = 10


class DivergedError(Exception):
    """A loss or the result of an evaluation is not finite."""


def synthetic(benchmark: TrainingBenchmark) -> None:
    """Warm up, train in windows, print each window's figures, then the overall figures."""
    rank, options = benchmark.rank, benchmark.options
    stepper = Stepper(benchmark)
    log_size(stepper)
    batch = benchmark.synthetic()
    micros = [MicroBatch(batch, samples_in(batch))] * benchmark.accumulation
    samples = rank.over_ranks([float(micros[0].samples * len(micros))], "SUM")[0]
    counted = rank.over_ranks([float(benchmark.samples(batch) * len(micros))], "SUM")[0]

    def window(steps: int) -> tuple[float, float, dict[str, float]]:
        rank.over_ranks([0.0], "MAX")
        start = rank.clock()
        for _ in range(steps):
            loss = stepper.take(0, micros, samples)
        elapsed = rank.over_ranks([rank.clock() - start], "MAX")[0]
        return elapsed, counted * steps, {"loss": mean_losses(rank, [loss])[0]}

    if options.warmup:
        window(options.warmup)
    profile = Profile(rank, options.profile)  # before the timed part
    for _ in range(options.profile and SKIPPED + options.profile):
        stepper.take(0, micros, samples)
        profile.step()
    profile.end()
    if options.cuda_graphs:  # last, because a replay shows no operators
        stepper.record(micros, samples)
    log_windows(benchmark, window)


def log_windows(benchmark: TrainingBenchmark, window: Window) -> float:
    """Run all windows, print each one's figures, then the overall figures; returns the total seconds."""
    rank, options = benchmark.rank, benchmark.options
    seconds, counted, rates, done = 0.0, 0.0, [], 0
    while done < options.steps:
        steps = min(options.window, options.steps - done)
        elapsed, samples, figures = window(steps)
        done += steps
        seconds += elapsed
        counted += samples
        rates.append(samples / elapsed)
        if rank.rank == 0:
            rank.log("tracked_stats", {"throughput": rates[-1]} | figures, step=done)
    if rank.rank == 0:
        if len(rates) > 1:
            rank.log("throughput_spread", (max(rates) - min(rates)) / statistics.median(rates))
        unit = f"{benchmark.sample}/s"
        rank.log("throughput", counted / seconds, unit=unit, labels={}, windows=len(rates))
        rank.log("step_time", seconds / done, unit="s", labels={})
    return seconds


def log_size(stepper: Stepper) -> None:
    """What the ranks exchange per step."""
    weights = [p for p in stepper.module.parameters() if p.requires_grad]
    stepper.rank.log("gradient_bytes", sum(p.numel() * p.element_size() for p in weights))


def mean_losses(rank: Rank, losses: list[torch.Tensor]) -> list[float]:
    """Losses of steps over all ranks. Raises DivergedError on all ranks if one is not finite."""
    means = [x / rank.size for x in rank.over_ranks(torch.stack(losses).double().tolist(), "SUM")]
    broken = next((mean for mean in means if not math.isfinite(mean)), None)
    if broken is not None:
        raise DivergedError(f"loss is {broken}, not finite on some rank: training has diverged")
    return means


def data_only(benchmark: TrainingBenchmark) -> None:
    """Read and decode batches as a training does, epoch after epoch: samples/s and bytes/s."""
    rank, data = benchmark.rank, benchmark.training_data(0)
    check_data(benchmark)
    rank.log("cache_clear", benchmark.options.clear_caches)
    if benchmark.options.clear_caches:
        clear_caches(rank)
    steps = (
        step for epoch in count() for step in benchmark.feed.training(data, epoch, benchmark.accumulation)
    )
    read = 0

    def window(length: int) -> tuple[float, float, dict[str, float]]:
        nonlocal read
        counted = 0
        rank.over_ranks([0.0], "MAX")
        start = rank.clock()
        for micros, _ in islice(steps, length):
            read += stored_bytes(data, micros)
            counted += sum(benchmark.samples(micro.batch) for micro in micros if micro.samples)
        elapsed = rank.over_ranks([rank.clock() - start], "MAX")[0]
        return elapsed, rank.over_ranks([float(counted)], "SUM")[0], {}

    window(benchmark.options.warmup)
    read = 0
    seconds = log_windows(benchmark, window)
    every = rank.over_ranks([float(read)], "SUM")[0]
    if rank.rank == 0:
        rank.log("read_rate", every / seconds, unit="B/s", labels={})


def check_data(benchmark: TrainingBenchmark) -> None:
    """End the rank before training starts if there are too few samples for the ranks and their workers."""
    rank, options = benchmark.rank, benchmark.options
    samples, step = benchmark.train_samples(), benchmark.global_batch_size
    if samples < step:
        rank.fail(
            f"{samples} samples in {options.data} are fewer than the {step} of one step "
            f"({options.batch_size} on each of {rank.size} ranks, {benchmark.accumulation} times); use a "
            "smaller --batch-size"
        )
    batches = samples // (options.batch_size * rank.size)
    if batches < options.workers:
        rank.fail(
            f"{samples} samples in {options.data} are {batches} batches for each rank, fewer than its "
            f"{options.workers} workers; use --workers {batches}"
        )


class Profile:
    """Profiles this many steps of rank 0, once; nothing on the other ranks or for 0 steps."""

    def __init__(self, rank: Rank, steps: int) -> None:
        self.rank, self.steps = rank, steps
        self._profiler: torch.profiler.profile | None = None
        if rank.rank == 0 and steps:
            kinds = [torch.profiler.ProfilerActivity.CPU]
            if rank.device.type == "cuda":
                kinds.append(torch.profiler.ProfilerActivity.CUDA)
            self._profiler = torch.profiler.profile(
                activities=kinds,
                schedule=torch.profiler.schedule(wait=0, warmup=SKIPPED, active=steps, repeat=1),
                on_trace_ready=self._write,
            )
            self._profiler.start()

    def step(self) -> None:
        """Count a step; after the last profiled one, write the figures."""
        if self._profiler is not None:
            self._profiler.step()

    def end(self) -> None:
        """Stop profiling, and write what is not written yet."""
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None

    def _write(self, profiler: Any) -> None:
        """The trace, and each operator's own seconds per step; on a GPU, those of its kernels."""
        profiler.export_chrome_trace(TRACE)
        self.rank.log("trace", TRACE)
        own = "self_device_time_total" if self.rank.device.type == "cuda" else "self_cpu_time_total"
        operators = [event for event in profiler.key_averages() if event.key.startswith("aten::")]
        operators.sort(key=lambda event: getattr(event, own), reverse=True)
        for event in operators[:LISTED]:
            seconds = getattr(event, own) / 1e6 / self.steps
            if seconds > 0:
                self.rank.log("operator_time", seconds, unit="s", labels={"operator": event.key})
