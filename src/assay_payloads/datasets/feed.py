"""The input of a training: every sample once per epoch over all ranks, decoded ahead, with timed waits.

A data set is map-style: `len(data)` and `data[index]`. It may have three more methods: `location(index)`, the
file of a sample, for messages; `stored_bytes(index)`, the bytes read for it, used by data-only;
`arranged(order, step)`, an epoch's random order adapted to the data, such as samples of similar length in a
step. If a sample involves no randomness, `draws = False` skips seeding, which takes longer than a sentence.

A data set in memory may have `batch(indices)` instead of `data[index]`: the rank itself makes a whole batch
at once, from a tensor of indices on its device. All its samples have the same `stored_bytes`.
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

# What decoders raise on files that are missing, truncated, or of another kind.
UNREADABLE = (
    *(OSError, ValueError, LookupError, EOFError, TypeError, SyntaxError, RuntimeError),
    *(struct.error, zlib.error, tarfile.TarError),
)
SEED_RANGE = 2**32
DROP_CACHES = Path("/proc/sys/vm/drop_caches")  # Linux, Documentation/admin-guide/sysctl/vm.rst


def clear_caches(rank: Rank) -> None:
    """Make the kernel of each node drop its file caches; all ranks wait for it."""
    refused = 0.0
    if rank.local_rank == 0:
        try:
            os.sync()  # unwritten data can't be dropped
            DROP_CACHES.write_text("3")
        except OSError:
            refused = 1.0
    if rank.over_ranks([refused], "MAX")[0]:
        rank.fail(f"--clear-caches writes to {DROP_CACHES}, which failed on some node: it needs root there")


class UnreadableSampleError(Exception):
    """A sample that can't be read or decoded; the message names its file."""


class MicroBatch(NamedTuple):
    """What one rank trains on at once.

    samples  of the batch that count; 0 if this rank only takes part because the others do
    indices  their positions in the data set
    """

    batch: Any
    samples: int
    indices: Sequence[int] = ()


@dataclass(frozen=True)
class StepSamples:
    """One rank's part of one optimizer step.

    indices  of the samples in each micro-batch
    counted  how many of them count: all, or none
    samples  in the step on all ranks
    """

    indices: tuple[Sequence[int], ...]
    counted: tuple[int, ...]
    samples: int


def steps_of(
    order: Sequence[int], rank: int, size: int, batch: int, accumulation: int
) -> Iterator[StepSamples]:
    """The steps of an epoch, as rank `rank` of `size` sees them.

    order  of the samples of the epoch, the same on every rank

    The micro-batches of a step follow each other in `order`, with a rank's own next to each other, so that
    two ranks with one micro-batch each train on the same as one rank with two. The last step takes the rest,
    evenly.
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
    """A data set whose random choices depend only on seed, epoch, and sample, not on the reader."""

    def __init__(self, data: Any, seed: int) -> None:
        self.data, self.seed = data, seed

    def __getitem__(self, index: int) -> Any:
        if not getattr(self.data, "draws", True):
            return self._read(index)
        seed = hash((self.seed, index)) % SEED_RANGE
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # the CPU's: torch.manual_seed would also set a GPU's
            random.seed(seed)
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed(seed)
            return self._read(index)

    def _read(self, index: int) -> Any:
        try:
            return self.data[index]
        except UNREADABLE as error:
            where = self.data.location(index) if hasattr(self.data, "location") else f"sample {index}"
            raise UnreadableSampleError(f"{where} can't be read: {type(error).__name__}: {error}") from error


class InputWait:
    """Seconds that a device was idle because its next batch was missing.

    On a GPU, they are measured between two marks in its own queue, so that timing does not wait.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._seconds, self._since = 0.0, 0.0
        self._marks: list[tuple[Any, Any]] = []

    def begin(self) -> None:
        """All available work was queued on the device."""
        self._since = self._mark() if self._cuda else time.perf_counter()

    def end(self) -> None:
        """The next batch is on the device."""
        if self._cuda:
            self._marks.append((self._since, self._mark()))
        else:
            self._seconds += time.perf_counter() - self._since

    def seconds(self) -> float:
        """The total so far; the device must have finished its queue."""
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
        """Each step of an epoch, from 0, except the first `skip`: micro-batches, and samples on all ranks."""
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
            micros = [
                MicroBatch(next(batches), *indices)
                for indices in zip(step.counted, step.indices, strict=True)
            ]
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
            generator=torch.Generator(),  # otherwise it draws from the generator that a checkpoint saves
        )
        for batch in loader:
            yield moved(batch, self.rank.device, channels_last=self.options.channels_last)


def moved(batch: Any, device: torch.device, *, channels_last: bool) -> Any:
    """A batch on a device, in any container of tensors; images and volumes with channels last."""
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
    """Bytes to read for these micro-batches."""
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
