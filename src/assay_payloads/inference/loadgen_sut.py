"""LoadGen's system under test: queries come in, batches of samples run, answers go back."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import mlperf_loadgen as lg
import numpy as np

from assay_payloads.inference.loadgen_samples import Arrays

Predict = Callable[[Arrays], Sequence[np.ndarray]]


class Library:
    """LoadGen's sample library: samples are read into memory on request, before timing starts.

    read  a sample's arrays by its index, without the batch's dimension
    """

    def __init__(self, count: int, read: Callable[[int], Arrays]) -> None:
        self.count, self._read, self._held = count, read, dict[int, Arrays]()

    def load(self, indices: Sequence[int]) -> None:
        """Read these samples."""
        with RunAbort("reading its samples"):
            self._held.update((index, self._read(index)) for index in indices)

    def unload(self, indices: Sequence[int]) -> None:
        """Drop these samples."""
        for index in indices:
            self._held.pop(index, None)

    def batch(self, indices: Sequence[int]) -> Arrays:
        """These samples as one batch: an array for each input."""
        samples = [self._held[index] for index in indices]
        return tuple(np.stack(column) for column in zip(*samples, strict=True))


class RunAbort:
    """A failure inside ends the process with its cause.

    LoadGen waits for every answer and can't be told to stop: an exception in one of its callbacks makes it
    hang (Server) or crash silently (SingleStream), and one in Assay's threads makes it hang.
    """

    def __init__(self, doing: str) -> None:
        self.doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        traceback.print_exception(error)
        advice = ""
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            advice = "; use a smaller batch_size, a 16-bit precision, or fewer instances"
        print(f"loadgen.py: failed at {self.doing}: {type(error).__name__}: {error}{advice}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


class SystemUnderTest:
    """Runs the samples of queries in batches and gives LoadGen their answers.

    predict     one function per instance: a batch's inputs → an answer for each sample
    kept        an answer and its sample's index → the array for LoadGen's accuracy log
    batch_size  maximum samples in a batch
    max_wait_s  how long the first sample of a batch waits for more
    queued      samples go through a queue to one thread per instance (Server, Offline); otherwise they run in
                LoadGen's own thread, which sends the next query once this one is answered

    `batches` and `samples` count what ran.
    """

    def __init__(
        self,
        predict: Sequence[Predict],
        kept: Callable[[np.ndarray, int], np.ndarray],
        library: Library,
        *,
        batch_size: int,
        max_wait_s: float,
        queued: bool,
    ) -> None:
        self._predict, self._kept, self._library = predict, kept, library
        self._batch_size, self._max_wait_s, self._queued = batch_size, max_wait_s, queued
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self.batches = self.samples = 0
        for predictor in predict if queued else ():
            threading.Thread(target=self._serve, args=(predictor,), daemon=True).start()

    def issue(self, samples: Sequence[Any]) -> None:
        """LoadGen's callback: a query of one sample, of several, or (Offline) of all, in whole batches."""
        for start in range(0, len(samples), self._batch_size):
            some = samples[start : start + self._batch_size]
            if self._queued:
                self._waiting.put(some)
            else:
                self._run(self._predict[0], some)

    def flush(self) -> None:
        """LoadGen's callback: no more queries will come. A batch waits no longer than `max_wait_s` anyway."""

    def _serve(self, predict: Predict) -> None:
        while True:
            self._run(predict, self._next_batch())

    def _next_batch(self) -> list[Any]:
        """The sample that waited longest and those that arrive in time, up to a full batch."""
        batch = list(self._waiting.get())
        until = time.monotonic() + self._max_wait_s
        while len(batch) < self._batch_size:
            try:
                batch += self._waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
        return batch

    def _run(self, predict: Predict, samples: Sequence[Any]) -> None:
        with self._counting:  # before LoadGen gets the last answer and the run is over
            self.batches += 1
            self.samples += len(samples)
        with RunAbort(f"a batch of {len(samples)} samples"):
            indices = [sample.index for sample in samples]
            answered = zip(predict(self._library.batch(indices)), indices, strict=True)
            answers = [np.ascontiguousarray(self._kept(answer, index)) for answer, index in answered]
            lg.QuerySamplesComplete(  # copies the answers while `answers` keeps them alive
                [
                    lg.QuerySampleResponse(sample.id, answer.ctypes.data, answer.nbytes)
                    for sample, answer in zip(samples, answers, strict=True)
                ]
            )
