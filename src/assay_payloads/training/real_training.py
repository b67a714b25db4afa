"""A training on real data, logged by MLPerf's rules, and its checkpoints, from which it resumes."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from assay_payloads.datasets.feed import MicroBatch, clear_caches
from assay_payloads.measuring.rank import END, START, Rank
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.loops import DivergedError, Profile, check_data, log_size, mean_losses
from assay_payloads.training.step import Stepper


def real(benchmark: TrainingBenchmark) -> None:
    """Train and evaluate, block by block, to the target or to the last step allowed; print the figures."""
    rank = benchmark.rank
    check_data(benchmark)
    training = RealTraining(benchmark)
    if rank.rank == 0:
        state_by_mlperfs_rules(benchmark)
    if training.resumed:
        training.log("resumed_from_step", training.resumed)
    log_size(training.stepper)
    if training.options.clear_caches:
        clear_caches(rank)
    rank.over_ranks([0.0], "MAX")
    training.log("init_stop", event=END)
    training.run()


def state_by_mlperfs_rules(benchmark: TrainingBenchmark) -> None:
    """What the rules require to be stated before a training starts."""
    rank, options = benchmark.rank, benchmark.options
    stated = {
        "mlperf_round": benchmark.round,
        "submission_benchmark": benchmark.name,
        "submission_division": options.division,
        "submission_status": "research",
        "submission_org": "not stated",
        "submission_platform": "not stated",
        "cache_clear": options.clear_caches,  # otherwise data read before may come from memory
        "seed": options.seed,
        "global_batch_size": benchmark.global_batch_size,
        "gradient_accumulation_steps": benchmark.accumulation,
        "train_samples": benchmark.train_samples(),
        "eval_samples": benchmark.eval_samples(),
        "target_quality": options.target,
    }
    for key, value in (stated | benchmark.stated()).items():
        plain, about = value if isinstance(value, tuple) else (value, {})
        rank.log(key, plain, **about)


class RealTraining:
    """A running training: its progress and the time that each part took.

    step       optimizer steps done; resumed: those done by an earlier run
    trained_s  seconds in them; waited_s: those spent waiting for data
    samples    trained on, as counted for throughput
    """

    def __init__(self, benchmark: TrainingBenchmark) -> None:
        self.benchmark, self.rank, self.options = benchmark, benchmark.rank, benchmark.options
        self.log = self.rank.log if self.rank.rank == 0 else _unprinted  # one rank logs for all
        self.stepper, self.feed = Stepper(benchmark), benchmark.feed
        self.profile = Profile(self.rank, self.options.profile)
        self.checkpoint = Checkpoint(self.rank, self.options, self.stepper)
        self.step = self.resumed = self.checkpoint.resume()
        self.trained_s, self.waited_s, self.samples = 0.0, 0.0, 0
        self.per_epoch, self.unit = benchmark.steps_per_epoch, f"{benchmark.sample}/s"
        self.steps = self._all_steps()
        self.block = max(1, round(self.options.eval_every * self.per_epoch))
        self.first = round(self.options.first_eval * self.per_epoch)
        # epochs are marked if evaluations fall between them
        between = self.block % self.per_epoch == self.first % self.per_epoch == 0
        self.marks_epochs = benchmark.progress == "epochs" and between

    def run(self) -> None:
        """From run_start to run_stop."""
        options, last, begin = self.options, self.benchmark.most_steps, self.rank.clock()
        if self.step >= last:
            self.rank.fail(
                f"{self.checkpoint.path} is at step {self.step} of {last}: nothing is left to train"
            )
        self.log("run_start", event=START)
        try:
            reached = self.train(last)
        except DivergedError:
            self.log("run_stop", event=END, status="aborted", **self.place())
            raise
        success = reached or options.target is None
        self.profile.end()
        elapsed = self.rank.clock() - begin
        self.log("run_stop", event=END, status="success" if success else "aborted", **self.place())
        self.log_figures(elapsed, success=success)
        self.checkpoint.save_trained(self.step)

    def train(self, last: int) -> bool:
        """Alternate training and evaluation to the target or last step; returns whether it was reached."""
        target, reached = self.options.target, False
        while self.step < last and not reached:
            following = self.step + self.block - self.step % self.block
            self.train_block(min(max(following, self.first), last))
            quality = self.evaluate()
            reached = target is not None and self.benchmark.reached(quality, target)
        return reached

    def train_block(self, until: int) -> None:
        """Train to a step, window by window."""
        first = self.step // self.per_epoch + 1
        epochs = max(1, -(-(until - self.step) // self.per_epoch))
        block: dict[str, Any] = {"first_epoch_num": first, "epoch_count": epochs}
        if self.benchmark.progress == "samples":
            block = {"first_epoch_num": self.place()["epoch_num"], "epoch_count": 1} | self.place()
        self.log("block_start", event=START, **block)
        try:
            while self.step < until:
                keeping = self.checkpoint.next_due(self.step)
                self.train_window(min(until, keeping, self.step + self.options.window))
                if self.step == keeping:
                    self.checkpoint.save(self.step)
        finally:  # a training that diverges in it also ends it
            self.log("block_stop", event=END, **block)

    def train_window(self, until: float) -> None:
        """Train to a step and read the clock and the losses there."""
        start, before, losses = self.rank.clock(), self.samples, []
        while self.step < until:
            if self.marks_epochs and self.step % self.per_epoch == 0:
                self.log("epoch_start", event=START, epoch_num=self.step // self.per_epoch + 1)
            micros, samples = next(self.steps)
            losses.append(self.stepper.take(self.step, micros, samples))
            self.samples += sum(self.benchmark.samples(m.batch) for m in micros if m.samples)
            self.step += 1
            self.profile.step()
            if self.marks_epochs and self.step % self.per_epoch == 0:
                self.log("epoch_stop", event=END, epoch_num=self.step // self.per_epoch)
        elapsed = self.rank.clock() - start
        self.waited_s = self.feed.waiting.seconds()
        self.trained_s += elapsed
        means = mean_losses(self.rank, losses)
        trained = self.rank.over_ranks([float(self.samples - before)], "SUM")[0]
        figures, units = {"loss": means[-1], "throughput": trained / elapsed}, {"throughput": self.unit}
        self.log("tracked_stats", figures, step=self.step, units=units)

    def evaluate(self) -> Any:
        """Evaluate and log the result. Raises DivergedError if it is not finite."""
        self.log("eval_start", event=START, **self.place())
        quality = self.stepper.evaluate()
        figures = quality if isinstance(quality, dict) else {self.benchmark.quality: quality}
        for name, value in figures.items():
            if not math.isfinite(value):
                raise DivergedError(f"{name} is {value}, not finite: training has diverged")
        self.log("eval_accuracy", quality, **self.place())
        self.log("eval_stop", event=END, **self.place())
        self.log("tracked_stats", figures, epoch=self.step / self.per_epoch)
        return quality

    def place(self) -> dict[str, Any]:
        """The training's progress, with the terms and unit of the round's logs."""
        if self.benchmark.progress == "samples":
            seen = self.step // self.per_epoch * self.benchmark.train_samples()
            seen += self.step % self.per_epoch * self.benchmark.global_batch_size
            return {"epoch_num": seen, "samples_count": seen}
        epochs = self.step / self.per_epoch
        return {"epoch_num": int(epochs) if epochs.is_integer() else epochs}

    def log_figures(self, elapsed: float, *, success: bool) -> None:
        """Times: total, per epoch, and waiting for data."""
        trained_s, elapsed, waiting = self.rank.over_ranks(
            [self.trained_s, elapsed, self.waited_s / self.trained_s], "MAX"
        )
        samples = self.rank.over_ranks([float(self.samples)], "SUM")[0]
        epochs = (self.step - self.resumed) / self.per_epoch
        figures = {
            "time_per_epoch": (elapsed / epochs, "s"),
            "throughput": (samples / trained_s, self.unit),
            "data_wait": (waiting, ""),
        }
        if success and not self.resumed:  # otherwise the earlier time is not in this log
            figures["time_to_train"] = (elapsed, "s")
        if success and not self.resumed and self.options.target is not None:
            figures["epochs_to_target"] = (epochs, "epochs")
        for key, (value, unit) in figures.items():
            self.log(key, value, unit=unit, labels={})

    def _all_steps(self) -> Iterator[tuple[list[MicroBatch], float]]:
        """Each step's micro-batches on this rank and its samples on all ranks, epoch after epoch."""
        skip = self.step % self.per_epoch
        for epoch in count(self.step // self.per_epoch):
            data = self.benchmark.training_data(epoch)
            yield from self.feed.training(data, epoch, self.benchmark.accumulation, skip)
            skip = 0


def _unprinted(*_line: object, **_metadata: object) -> None:
    """Replaces `Rank.log` on ranks that do not log."""


NAME = "checkpoint.pt"
TRAINED = "trained.pt"  # beside it: the network that a training ended with
# Options that may differ, because they change no weight.
FREE = {
    *("checkpoint", "checkpoint_every", "clear_caches", "data", "device", "division"),
    *("keep_memory", "prefetch", "profile", "window", "workers"),
}


class Checkpoint:
    """The newest state in the directory that `--checkpoint` names; without the option, nothing is kept.

    Rank 0 writes it atomically; every rank reads it.
    """

    def __init__(self, rank: Rank, options: argparse.Namespace, stepper: Stepper) -> None:
        self.rank, self.options, self.stepper = rank, options, stepper
        self.path: Path | None = options.checkpoint / NAME if options.checkpoint is not None else None

    def next_due(self, step: int) -> float:
        """The step after which the state is next saved; infinite if it is never saved."""
        every: int = self.options.checkpoint_every
        return math.inf if self.path is None else step - step % every + every

    def save(self, step: int) -> None:
        """Save model, optimizer, scaler, and every rank's random state; all ranks take part."""
        random = {"cpu": torch.get_rng_state()}
        if self.rank.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.rank.device)
        everyones: list[Any] = [random] * self.rank.size
        if self.rank.size > 1:
            dist.all_gather_object(everyones, random)
        if self.path is None or self.rank.rank != 0:
            return
        state = {
            "parameters": self._parameters(),
            "step": step,
            "model": self.stepper.module.state_dict(),
            "optimiser": self.stepper.optimizer.state_dict(),
            "scaler": self.stepper.scaler.state_dict(),
            "random": everyones,
        }
        _write(self.path, state)

    def save_trained(self, step: int) -> None:
        """Save the network alone, to be used: a training of which this is left is not resumed from it."""
        if self.path is None or self.rank.rank != 0:
            return
        state = {"parameters": self._parameters(), "step": step, "model": self.stepper.module.state_dict()}
        _write(self.path.with_name(TRAINED), state)

    def resume(self) -> int:
        """Load the saved state, if any; returns the steps done."""
        if self.path is None:
            return 0
        kept = torch.load(self.path, map_location="cpu", weights_only=True) if self.path.exists() else None
        step = int(kept["step"]) if kept else 0
        least, most = self.rank.over_ranks([-float(step), float(step)], "MAX")
        if -least != most:
            self.rank.fail(
                f"{self.path} is at step {step} here, but at {-least:.0f} to {most:.0f} over the ranks: "
                "all ranks need the same directory"
            )
        if kept is None:
            return 0
        self._compare(kept["parameters"])
        self.stepper.module.load_state_dict(kept["model"])
        self.stepper.optimizer.load_state_dict(kept["optimiser"])
        self.stepper.scaler.load_state_dict(kept["scaler"])
        random = kept["random"][self.rank.rank]
        torch.set_rng_state(random["cpu"])
        if self.rank.device.type == "cuda":
            torch.cuda.set_rng_state(random["cuda"], self.rank.device)
        return step

    def _parameters(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self.options).items() if name not in FREE}
        return {name: str(value) for name, value in own.items()} | {"ranks": str(self.rank.size)}

    def _compare(self, kept: dict[str, Any]) -> None:
        own = self._parameters()
        different = [
            f"{name} {kept.get(name, '(missing)')} there, {own.get(name, '(unknown)')} here"
            for name in sorted(own.keys() | kept.keys())
            if own.get(name) != kept.get(name)
        ]
        if different:
            self.rank.fail(
                f"{self.path} is from another training: {', '.join(different)}; set another --checkpoint "
                "directory, or use the same parameters"
            )


def _write(path: Path, state: dict[str, Any]) -> None:
    """A file that is there whole, or as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
