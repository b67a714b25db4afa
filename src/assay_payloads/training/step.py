"""One optimizer step: number format, micro-batches, exchange between the ranks, update.

The gradient of a step is that of the mean over all terms of its loss, no matter how they are distributed over
ranks and micro-batches. So the split of a global batch changes nothing but rounding and the statistics of
batch normalization, which each micro-batch computes for itself.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from assay_payloads.datasets.feed import MicroBatch
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.benchmark import TrainingBenchmark

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = ("fp32", "tf32", *AUTOCAST)


class Stepper:
    """The model of a benchmark on this rank's device, its optimizer, and how they take a step."""

    def __init__(self, benchmark: TrainingBenchmark) -> None:
        self.benchmark, self.rank, self.options = benchmark, benchmark.rank, benchmark.options
        kind, options = self.rank.device.type, self.options
        choose_arithmetic(self.rank, options)
        torch.manual_seed(options.seed)  # the same start on every rank
        model = benchmark.model().to(self.rank.device)
        self.module = laid_out(model, channels_last=options.channels_last)
        self.optimizer = benchmark.optimizer(self.module)
        if options.compile:
            self.module.compile()
        self.model = self.module
        if self.rank.size > 1:  # evaluations and checkpoints use rank 0's buffers
            self.model = DistributedDataParallel(
                self.module, gradient_as_bucket_view=True, broadcast_buffers=False
            )
        self.scaler = torch.amp.GradScaler(kind, enabled=options.precision == "fp16")
        self.recorded: tuple[torch.cuda.CUDAGraph, torch.Tensor] | None = None
        torch.manual_seed(options.seed + self.rank.rank)  # from here on, each rank draws its own

    def autocast(self) -> torch.autocast:
        """The number format of the arithmetic; weights stay in fp32."""
        kind, precision = self.rank.device.type, self.options.precision
        return torch.autocast(kind, AUTOCAST.get(precision), enabled=precision in AUTOCAST)

    def take(self, step: int, micros: Sequence[MicroBatch], samples: float) -> torch.Tensor:
        """One step; returns this rank's loss, on the device. The mean over ranks is the mean over all terms.

        step     from 0; determines the learning rate
        samples  in the step on all ranks
        """
        rate = self.benchmark.learning_rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
        if self.recorded is None:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.gradients(micros, samples)
        else:
            graph, loss = self.recorded
            graph.replay()
        if self.benchmark.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.benchmark.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def record(self, micros: Sequence[MicroBatch], samples: float) -> None:
        """Record forward and backward of these micro-batches; from then on, `take` replays them.

        The host then starts one graph per step instead of thousands of kernels. Gradients and loss are in the
        graph's own memory, and each replay overwrites them. The optimizer is not part of the graph, because
        its step may query the host (fp16) or count there.
        Source: PyTorch's notes on CUDA graphs: warm-up on a side stream, gradients None before recording.
        """
        if self.rank.device.type != "cuda":
            self.rank.fail("--cuda-graphs needs an NVIDIA GPU; the device is cpu")
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self.gradients(micros, samples)
        torch.cuda.current_stream().wait_stream(aside)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self.gradients(micros, samples)
        self.recorded = graph, loss

    def gradients(self, micros: Sequence[MicroBatch], samples: float) -> torch.Tensor:
        """Forward and backward of all micro-batches; returns what `take` returns."""
        total: torch.Tensor | None = None
        for number, (micro, share) in enumerate(zip(micros, self._shares(micros, samples), strict=True), 1):
            more = self.rank.size > 1 and number < len(micros)
            with self.model.no_sync() if more else nullcontext():
                with self.autocast():
                    loss = self.benchmark.loss(self.model, micro.batch)
                factor = share * self.rank.size  # the exchange averages over the ranks
                part = loss if isinstance(factor, float) and factor == 1.0 else loss * factor
                self.scaler.scale(part).backward()
            total = part.detach() if total is None else total + part.detach()
        assert total is not None
        return total

    def _shares(self, micros: Sequence[MicroBatch], samples: float) -> Sequence[float | torch.Tensor]:
        """Each micro-batch's share of the step's terms on all ranks."""
        weights = [w for micro in micros if (w := self.benchmark.weight(micro.batch)) is not None]
        if not weights:
            return [micro.samples / samples for micro in micros]
        counting = [w if micro.samples else 0.0 for w, micro in zip(weights, micros, strict=True)]
        if self.rank.size == 1 and not any(isinstance(weight, torch.Tensor) for weight in counting):
            return [weight / sum(counting) for weight in counting]
        device = self.rank.device
        own = torch.stack(
            [
                w.float() if isinstance(w, torch.Tensor) else torch.full((), float(w), device=device)
                for w in counting
            ]
        )
        everyones = own.sum()
        if self.rank.size > 1:
            dist.all_reduce(everyones)
        return list(own / everyones)

    def evaluate(self) -> Any:
        """The benchmark's evaluation of rank 0's model; all ranks take part."""
        if self.rank.size > 1:
            for buffer in self.module.buffers():  # statistics that each rank collected from its own batches
                dist.broadcast(buffer, 0)
        self.module.eval()
        with torch.no_grad(), self.autocast():
            quality = self.benchmark.evaluate(self.module)
        self.module.train()
        return quality


def choose_arithmetic(rank: Rank, options: argparse.Namespace) -> None:
    """Set torch's numeric options before anything is computed."""
    if options.precision == "tf32" and rank.device.type == "cpu":
        rank.fail("tf32 is a format of NVIDIA GPUs; choose another --precision on a CPU")
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    torch.backends.cudnn.benchmark = not options.deterministic  # tries kernels; which is fastest varies
    if options.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS adds in any order
        torch.use_deterministic_algorithms(True)


def laid_out(model: torch.nn.Module, *, channels_last: bool) -> torch.nn.Module:
    """The model with the weights of its convolutions in the data's memory layout."""
    if not channels_last:
        return model
    dimensions = {parameter.dim() for parameter in model.parameters()}
    if 5 in dimensions:
        return model.to(memory_format=torch.channels_last_3d)
    return model.to(memory_format=torch.channels_last) if 4 in dimensions else model
