"""Contradictions within a training log: order, length, throughput, caches that were not cleared."""

from __future__ import annotations

import re
from typing import Final

from assay.records import Doubt, DoubtKind, TrainingPhases

_FAILURE = re.compile(rb"read-only|denied|not permitted|ignoring|failed|no such file", re.IGNORECASE)


CACHE_NOT_CLEARED = DoubtKind(
    code="cache-not-cleared",
    subject="training",
    severity="biased",
    means="The log claims that caches were cleared, but shows that clearing them failed.",
    effect="Data came from memory: the start and the first epoch are faster than the rules allow.",
    remedy="Clear the page cache on the host (a container can't), or state that caches were warm.",
)


def failed_drop(head: bytes) -> tuple[int, str] | None:
    """The line in a log's head, counted from 1, that shows a failed `drop_caches`, and its text."""
    for number, line in enumerate(head.splitlines(), start=1):
        if b"drop_caches" in line and _FAILURE.search(line):
            return number, line.decode("latin-1").strip()[:200]
    return None


def cache_doubt(head: bytes) -> Doubt | None:
    """A doubt if the head of a log shows a failed `drop_caches`, with that line; otherwise None."""
    failure = failed_drop(head)
    if failure is None:
        return None
    number, message = failure
    return CACHE_NOT_CLEARED.doubt(f"cache_clear is logged as true, but line {number} says: {message}")


CONTRADICTION: Final = (
    2.0  # a log's own throughput may cover different stretches, so smaller differences are normal
)

EVENTS_OUT_OF_ORDER = DoubtKind(
    code="events-out-of-order",
    subject="training",
    severity="biased",
    means=(
        "Epochs or blocks in the log go back in time, or end after run_stop; only evaluations are printed "
        "later than they happen."
    ),
    effect=(
        "Either the log merges the logs of several ranks, which is harmless, or the clock was set during the "
        "run, and its minutes are wrong by the same amount."
    ),
    remedy=(
        "Check the lines that the doubt names: either the log merges the logs of several ranks, which is "
        "harmless, or the clock was set during the run, and its minutes are wrong by the same amount."
    ),
)


THROUGHPUT_CONTRADICTS = DoubtKind(
    code="throughput-contradicts",
    subject="training",
    severity="invalid",
    means=(
        "Samples over training time and the log's own throughput differ widely, and the table of what "
        "`train_samples` counts by benchmark, round, and submitter does not explain it."
    ),
    effect=(
        "One of them counts something else, such as batches instead of samples, or one rank instead of all. "
        "Then samples derived from `train_samples` are not reported; the log's own count is, and may be "
        "wrong."
    ),
    remedy="Check what `train_samples` counts here, samples or batches, before using samples per second.",
)


def throughput_contradicts(phases: TrainingPhases | None, own: float | None) -> Doubt | None:
    """Compare the log's own throughput with samples over training time: if far apart, units differ."""
    if phases is None or not phases.samples or not phases.training_minutes or own is None:
        return None
    rate = phases.samples / (phases.training_minutes * 60)
    if 1 / CONTRADICTION < rate / own < CONTRADICTION:
        return None
    return THROUGHPUT_CONTRADICTS.doubt(
        f"samples over training time gives {rate:.4g} samples/s, but the log's own throughput is {own:.4g}"
    )


LENGTH_CONTRADICTS = DoubtKind(
    code="length-contradicts",
    subject="training",
    severity="invalid",
    means=(
        "`epoch_num` counts epochs, samples, or tokens, depending on benchmark and round, but the log's "
        "numbers can't be that: more than 10,000 epochs, whole multiples of the training set, or fewer than "
        "1,000 samples."
    ),
    effect=(
        "Time per epoch and per sample would be wrong by the size of the training set, so neither is "
        "reported."
    ),
    remedy=(
        "Find out what the log counts: it may be from another benchmark or round than assumed, or its "
        "program counts differently. Until then it has no epochs and no samples; time to train does not "
        "depend on them."
    ),
)
