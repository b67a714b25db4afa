"""What all training benchmarks share: training on a synthetic batch, training on real data, reading the data.

A benchmark is a program that derives from `TrainingBenchmark` and ends with

    if __name__ == "__main__":
        train(ResNet50, arguments(__doc__).parse_args())

synthetic  one batch, created once on the device and reused: throughput by windows of steps
real       the data set in its usual layout, evaluation, quality target; logged by its MLPerf round's rules
data-only  reads and decodes the batches of `real` without training: the rate of storage and decoders
check      reads every sample once and names those that are unreadable
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from assay_payloads.datasets.feed import SeededDataset, UnreadableSampleError
from assay_payloads.measuring.rank import START, Rank
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.loops import DivergedError, data_only, synthetic
from assay_payloads.training.real_training import real
from assay_payloads.training.step import PRECISIONS

MODES = ("synthetic", "real", "data-only", "check")
# Facts that every log states, in addition to the benchmark's own.
STATED = (
    *("batch_size", "precision", "channels_last", "deterministic", "learning_rate", "warmup"),
    *("compile", "cuda_graphs", "keep_memory", "profile"),
)
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # glibc's malloc.h
NEVER = 2**31 - 1
AT_ONCE = 16  # samples that a process reads before it answers
TOLD_EVERY_S = 1.0


def arguments(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """The options that all benchmarks have; `defaults` are for this benchmark."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    switch = argparse.BooleanOptionalAction
    add = parser.add_argument
    add("--mode", choices=MODES, default="synthetic")
    add("--data", type=Path, help="directory of the data set, for all modes but synthetic")
    add("--batch-size", type=int, default=32, help="samples in each rank's micro-batch")
    add("--global-batch-size", type=int, help="samples per step; default: one micro-batch on each rank")
    add(
        "--precision", choices=PRECISIONS, default="fp32", help="bf16, fp16: with autocast; tf32: NVIDIA GPUs"
    )
    add("--learning-rate", type=float, default=0.01)
    add("--steps", type=int, default=100, help="measured steps, in synthetic and data-only mode")
    add("--warmup", type=int, default=10, help="warm-up steps before them, not counted")
    add("--window", type=int, default=10, help="steps between readings of the clock and the loss")
    add("--max-epochs", type=float, default=1.0, help="epochs of a real training")
    add("--max-steps", type=int, help="steps of a real training, instead of epochs")
    add("--target", type=float, help="quality at which a real training ends; default: none")
    add("--eval-every", type=float, default=1.0, help="epochs between evaluations")
    add("--first-eval", type=float, default=0.0, help="epochs before the first evaluation")
    add(
        "--division", choices=["closed", "open"], default="open", help="MLPerf division, as stated in the log"
    )
    add("--deterministic", action=switch, default=False, help="use kernels that always add in the same order")
    add("--profile", type=int, default=0, metavar="STEPS", help="steps to profile with torch.profiler")
    add("--checkpoint", type=Path, help="directory where a real training saves and resumes checkpoints")
    add("--checkpoint-every", type=int, default=1000, help="steps between checkpoints")
    add(
        "--clear-caches", action=switch, default=False, help="drop the kernel's file caches first; needs root"
    )
    add("--workers", type=int, default=4, help="decoding processes per rank; 0: the rank itself decodes")
    add("--prefetch", type=int, default=2, help="batches that each of them decodes ahead")
    add("--compile", action=switch, default=False, help="by torch.compile")
    add(
        "--cuda-graphs",
        action=switch,
        default=False,
        help="record a step once and replay it, in synthetic mode",
    )
    add(
        "--keep-memory",
        action=switch,
        default=True,
        help="CPU: keep the memory that tensors free, in huge pages",
    )
    add("--channels-last", action=switch, default=True, help="NHWC, which most devices prefer")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--seed", type=int, default=1)
    parser.set_defaults(**defaults)
    return parser


def train(kind: type[TrainingBenchmark], options: argparse.Namespace) -> None:
    """Carry out the options, as one rank of the job."""
    rank = Rank()
    _check(rank, options)
    if options.mode == "real" and rank.rank == 0:
        rank.log("init_start", event=START)
    if options.keep_memory:
        keep()  # before the first tensor; torch itself keeps freed GPU memory
    rank.join(options.device)
    with failures(rank, options):
        benchmark = kind(rank, options)
        _state(benchmark)
        modes = {"synthetic": synthetic, "real": real, "data-only": data_only, "check": check}
        modes[options.mode](benchmark)
    rank.leave()
    if rank.size > 1:  # everything is printed; torch's communication threads can abort a normal exit
        sys.stderr.flush()
        os._exit(0)


def _check(rank: Rank, options: argparse.Namespace) -> None:
    """End the rank on options that can't work, before anything is computed."""
    least = {"batch_size": 1, "steps": 1, "window": 1, "warmup": 0, "workers": 0, "prefetch": 1}
    least |= {"checkpoint_every": 1, "profile": 0}
    if not (options.learning_rate > 0 and options.max_epochs > 0 and options.eval_every > 0):
        rank.fail("--learning-rate, --max-epochs, and --eval-every must be above 0")
    for name, smallest in least.items():
        if getattr(options, name) < smallest:
            rank.fail(f"--{name.replace('_', '-')} must be at least {smallest}")
    if options.mode != "synthetic" and options.data is None:
        rank.fail(f"--mode {options.mode} reads a data set: name its directory with --data")
    if options.mode == "data-only" and options.profile:
        rank.fail("--profile needs training steps, and --mode data-only has none")
    if options.cuda_graphs and (options.mode != "synthetic" or rank.size > 1):
        rank.fail("--cuda-graphs replays one batch of --mode synthetic, on one rank")
    if options.data is not None and not options.data.is_dir():
        rank.fail(f"--data {options.data} is not a directory that this rank can see")


def _state(benchmark: TrainingBenchmark) -> None:
    rank, options = benchmark.rank, benchmark.options
    for name in STATED:
        rank.log(name, getattr(options, name))
    rank.log("data", options.mode)
    if options.mode != "real":
        rank.log("seed", options.seed)
        rank.log("global_batch_size", benchmark.global_batch_size)
        for key, value in benchmark.stated().items():
            rank.log(key, value)


@contextmanager
def failures(rank: Rank, options: argparse.Namespace) -> Iterator[None]:
    """End the rank with a message if the training diverged, memory ran out, or a sample is unreadable."""
    try:
        yield
    except DivergedError as error:
        rank.fail(str(error))
    except UnreadableSampleError as error:
        # from a worker, it has that process's traceback, with the message last
        rank.fail(str(error).rstrip().rpartition("UnreadableSampleError: ")[2])
    except FileNotFoundError as error:
        rank.fail(f"{error.filename or error}: {error.strerror or 'not found'}")
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        rank.fail(_out_of_memory(rank, options, error))
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            rank.fail(_out_of_memory(rank, options, error))
        if "DataLoader worker" in str(error):
            rank.fail(f"a decoding process was killed: {error}. Use fewer --workers, or more (shared) memory")
        raise


def _out_of_memory(rank: Rank, options: argparse.Namespace, error: BaseException) -> str:
    remedy = (
        f"a smaller --batch-size with --global-batch-size {options.batch_size * rank.size} trains the same"
    )
    device = getattr(rank, "device", options.device)
    return f"out of memory on {device} with --batch-size {options.batch_size}: {remedy}. torch says: {error}"


def keep() -> bool:
    """Keep the memory of freed tensors for the next ones; returns whether this C library can do so.

    Otherwise glibc returns blocks of over 32 MB at once, and the kernel clears every page again at its next
    use: 375,000 page faults per step of ResNet-50 with 16 images of 224×224 in fp32. Uses huge pages if the
    kernel lets the program request them (`madvise`). Call it before the first tensor is created.

    Sources: mallopt(3); PyTorch, c10/core/impl/alloc_cpu.cpp for the variable.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(setting, value) for setting, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, NEVER)))


class ReadableDataset(Dataset):
    """Instead of each sample, why it can't be read; "" if it can."""

    def __init__(self, data: Any, seed: int) -> None:
        self.data = SeededDataset(data, seed)

    def __getitem__(self, index: int) -> str:
        try:
            self.data[index]
        except UnreadableSampleError as error:
            return str(error)
        return ""


def check(benchmark: TrainingBenchmark) -> None:
    """Read the training set and the evaluation set; print their sizes and every sample that is unreadable.

    The loaders are the training's own, so what passes here is what it will accept: the layout when they are
    made, each sample when it is read and decoded. Nothing is trained.
    """
    rank = benchmark.rank
    parts = {"training": benchmark.training_data(0), "evaluation": benchmark.evaluation_data()}
    sizes = {"training": benchmark.train_samples(), "evaluation": benchmark.eval_samples()}
    for part, data in parts.items():
        rank.log("checking", part, samples=sizes[part])
        if data is None or hasattr(data, "batch"):  # it was read whole to be made
            rank.log("checked", sizes[part], part=part)
        else:
            check_part(benchmark, part, data)


def check_part(benchmark: TrainingBenchmark, part: str, data: Any) -> None:
    """Every sample of one data set, in order."""
    rank, workers = benchmark.rank, benchmark.options.workers
    loader = DataLoader(
        ReadableDataset(data, benchmark.options.seed),
        batch_size=AT_ONCE,
        sampler=range(len(data)),
        num_workers=min(workers, -(-len(data) // AT_ONCE)),
        collate_fn=list,
    )
    done, reported_at = 0, time.monotonic()
    for reasons in loader:
        done += len(reasons)
        for reason in filter(None, reasons):
            rank.log("unreadable", reason, part=part)
        if time.monotonic() - reported_at >= TOLD_EVERY_S:
            rank.log("checked", done, part=part)
            reported_at = time.monotonic()
    rank.log("checked", done, part=part)
