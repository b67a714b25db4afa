"""The input of a training: every sample once an epoch over all ranks, decoded ahead, waiting for it timed.

A data set is map-style: `len(data)` and `data[index]`. It may have three methods more: `where(index)`, the
file that a sample stands in, for messages; `stored_bytes(index)`, what is read for it, which data-only asks;
`arranged(order, step)`, an epoch's random order made to suit the data: samples of a step of like length, say.
Where no chance takes part in a sample, `draws = False` saves its seeding, which takes longer than a sentence.

One that lies in memory may have `batch(indices)` in place of `data[index]`: the rank itself makes all of a
batch at once, of a tensor of indices on its device. Its samples are alike: `stored_bytes` is asked of one.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import sys
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from assay_payloads.measuring.rank import Rank

# What decoders raise on files that are missing, cut short or of another kind.
UNREADABLE = (
    *(OSError, ValueError, LookupError, EOFError, TypeError, SyntaxError, RuntimeError),
    *(struct.error, zlib.error, tarfile.TarError),
)
SEED_RANGE = 2**32
DROP_CACHES = Path("/proc/sys/vm/drop_caches")  # Linux, Documentation/admin-guide/sysctl/vm.rst


def clear_caches(rank: Rank) -> None:
    """Have the kernel of each node forget the files that it holds in memory; all ranks wait for it."""
    refused = 0.0
    if rank.local_rank == 0:
        try:
            os.sync()  # what is not written yet can't be dropped
            DROP_CACHES.write_text("3")
        except OSError:
            refused = 1.0
    if rank.over_ranks([refused], "MAX")[0]:
        rank.fail(f"--clear-caches writes to {DROP_CACHES}, which some node refuses: it takes root there")


class UnreadableSampleError(Exception):
    """A sample that can't be read or decoded; the message names its file."""


class MicroBatch(NamedTuple):
    """What one rank trains on at once.

    samples  of the batch that count; 0 where this rank only takes part because the others do
    indices  where they stand in the data set
    """

    batch: Any
    samples: int
    indices: Sequence[int] = ()


@dataclass(frozen=True)
class StepSamples:
    """What one rank takes of one optimiser step.

    indices  of the samples of each micro batch
    counted  how many of them count: all, or none
    samples  of the step on all ranks
    """

    indices: tuple[Sequence[int], ...]
    counted: tuple[int, ...]
    samples: int


def steps_of(
    order: Sequence[int], rank: int, size: int, batch: int, accumulation: int
) -> Iterator[StepSamples]:
    """The steps of an epoch, as rank `rank` of `size` sees them.

    order  of the samples of the epoch, the same on every rank

    The micro batches of a step follow each other in `order`, a rank's own side by side, so that two ranks
    with one micro batch each train on what one rank with two does. The last step takes what is left, evenly.
    """
    whole = batch * size * accumulation
    for first in range(0, len(order), whole):
        chunk = order[first : first + whole]
        first_slot, slots = rank * accumulation, size * accumulation
        edges = [len(chunk) * (first_slot + slot) // slots for slot in range(accumulation + 1)]
        own = [chunk[begin:end] for begin, end in pairwise(edges)]
        yield StepSamples(
            indices=tuple(micro if len(micro) else chunk[:1] for micro in own),
            counted=tuple(len(micro) for micro in own),
            samples=len(chunk),
        )


class SeededDataset(Dataset):
    """A data set whose random choices depend on seed, epoch and sample alone, not on who reads it."""

    def __init__(self, data: Any, seed: int) -> None:
        self.data, self.seed = data, seed

    def __getitem__(self, index: int) -> Any:
        if not getattr(self.data, "draws", True):
            return self._read(index)
        seed = hash((self.seed, index)) % SEED_RANGE
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # the CPU's: torch.manual_seed takes a GPU's along
            random.seed(seed)
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed(seed)
            return self._read(index)

    def _read(self, index: int) -> Any:
        try:
            return self.data[index]
        except UNREADABLE as error:
            where = self.data.where(index) if hasattr(self.data, "where") else f"sample {index}"
            raise UnreadableSampleError(f"{where} can't be read: {type(error).__name__}: {error}") from error


class InputWait:
    """Seconds that a device had nothing to do because its next batch was not there.

    On a GPU they lie between two marks in its own queue, so that nothing is waited for to time them.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._seconds, self._since = 0.0, 0.0
        self._marks: list[tuple[Any, Any]] = []

    def begin(self) -> None:
        """All that there is to do was given to the device."""
        self._since = self._mark() if self._cuda else time.perf_counter()

    def end(self) -> None:
        """The next batch is on the device."""
        if self._cuda:
            self._marks.append((self._since, self._mark()))
        else:
            self._seconds += time.perf_counter() - self._since

    def seconds(self) -> float:
        """All of it so far; the device has to have done all that it was given."""
        self._seconds += sum(begin.elapsed_time(end) for begin, end in self._marks) / 1000
        self._marks.clear()
        return self._seconds

    @staticmethod
    def _mark() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


class Feed:
    """Batches on the rank's device, out of worker processes that decode ahead."""

    def __init__(self, rank: Rank, options: argparse.Namespace, collate: Callable[..., Any] | None) -> None:
        self.rank, self.options, self.collate = rank, options, collate
        self.waiting = InputWait(rank.device)

    def training(
        self, data: Any, epoch: int, accumulation: int, skip: int = 0
    ) -> Iterator[tuple[list[MicroBatch], int]]:
        """Each step of an epoch, from 0, but its first `skip`: micro batches, and samples on all ranks."""
        batch, ranks = self.options.batch_size, self.rank.size
        where = self.rank.device if hasattr(data, "batch") else torch.device("cpu")
        shuffled = torch.Generator(where).manual_seed(self.options.seed + epoch)
        order = torch.randperm(len(data), generator=shuffled, device=where)
        if not hasattr(data, "batch"):
            order = order.tolist()
        if hasattr(data, "arranged"):
            order = data.arranged(order, batch * ranks * accumulation)
        steps = list(steps_of(order, self.rank.rank, ranks, batch, accumulation))[skip:]
        batches = self._batches(
            SeededDataset(data, hash((self.options.seed, epoch))),
            [micro for step in steps for micro in step.indices],
        )
        for step in steps:
            self.waiting.begin()
            micros = [MicroBatch(next(batches), *of) for of in zip(step.counted, step.indices, strict=True)]
            self.waiting.end()
            yield micros, step.samples

    def evaluation(self, data: Any) -> Iterator[Any]:
        """The rank's share of a data set, in order: every sample on exactly one rank."""
        own, size = range(self.rank.rank, len(data), self.rank.size), self.options.batch_size
        batches = [tuple(own[first : first + size]) for first in range(0, len(own), size)]
        return self._batches(SeededDataset(data, self.options.seed), batches)

    def _batches(self, data: SeededDataset, batches: Sequence[Sequence[int]]) -> Iterator[Any]:
        if hasattr(data.data, "batch"):
            for indices in batches:
                batch = data.data.batch(torch.as_tensor(indices))
                yield moved(batch, self.rank.device, channels_last=self.options.channels_last)
            return
        workers = min(self.options.workers, len(batches))
        loader = DataLoader(
            data,
            batch_sampler=batches,
            collate_fn=self.collate,
            num_workers=workers,
            prefetch_factor=self.options.prefetch if workers else None,
            pin_memory=self.rank.device.type == "cuda",
            generator=torch.Generator(),  # else it draws from the numbers that a checkpoint keeps
        )
        for batch in loader:
            yield moved(batch, self.rank.device, channels_last=self.options.channels_last)


def moved(batch: Any, device: torch.device, *, channels_last: bool) -> Any:
    """A batch on a device, whatever holds its tensors; images and volumes with the channels last."""
    if isinstance(batch, torch.Tensor):
        moved_tensor = batch.to(device, non_blocking=True)
        layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(batch.dim())
        if channels_last and layout is not None:
            return moved_tensor.contiguous(memory_format=layout)
        return moved_tensor
    if isinstance(batch, dict):
        return {key: moved(value, device, channels_last=channels_last) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        values = [moved(value, device, channels_last=channels_last) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return batch


def stored_bytes(data: Any, micros: Sequence[MicroBatch]) -> int:
    """What has to be read for some micro batches."""
    if hasattr(data, "batch"):
        return int(data.stored_bytes(0)) * sum(len(micro.indices) for micro in micros)
    return sum(data.stored_bytes(index) for micro in micros for index in micro.indices)


def samples_in(batch: Any) -> int:
    """Length of the first tensor, or of the first list of a batch."""
    if isinstance(batch, torch.Tensor):
        return len(batch)
    values = list(batch.values()) if isinstance(batch, dict) else batch
    nested = len(values) and isinstance(values[0], torch.Tensor | dict | list | tuple)
    return samples_in(values[0]) if nested else len(values)
