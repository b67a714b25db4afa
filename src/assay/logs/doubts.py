"""What a training log says against itself: order, length, throughput."""

from __future__ import annotations

from typing import Final

from assay.records import Doubt, DoubtKind, TrainingPhases

CONTRADICTION: Final = 2.0  # a log's own throughput may cover other stretches: less than this is no news

EVENTS_OUT_OF_ORDER = DoubtKind(
    code="events-out-of-order",
    subject="training",
    severity="biased",
    means=(
        "Epochs or blocks of the log step back in time; only evaluations are printed later than they happen."
    ),
    effect=(
        "Either the log joins those of several ranks, which does no harm, or the clock was set during the "
        "run, and its minutes are wrong by as much."
    ),
    remedy=(
        "Look at the lines that the doubt names: either the log joins those of several ranks, which does no "
        "harm, or the clock was set during the run, and its minutes are wrong by as much."
    ),
)


def events_out_of_order(backwards: str) -> Doubt | None:
    """Evaluations may be printed late; a training's own events are printed as they happen.

    backwards  where they step back in time; "" if they don't
    """
    return EVENTS_OUT_OF_ORDER.doubt(backwards) if backwards else None


THROUGHPUT_CONTRADICTS = DoubtKind(
    code="throughput-contradicts",
    subject="training",
    severity="invalid",
    means=(
        "Samples over training time and the log's own throughput are far apart, and the table of what "
        "`train_samples` counts by benchmark, round and submitter does not resolve it."
    ),
    effect=(
        "One of them counts something else, as batches for samples, or one rank's for all. Samples that rest "
        "on `train_samples` are not given then; the log's own count of samples is, and may be wrong."
    ),
    remedy="Check what `train_samples` counts here, samples or batches, before using samples per second.",
)


def throughput_contradicts(phases: TrainingPhases | None, own: float | None) -> Doubt | None:
    """The log's own throughput against samples over training time: far apart, one is counted otherwise."""
    if phases is None or not phases.samples or not phases.training_minutes or own is None:
        return None
    rate = phases.samples / (phases.training_minutes * 60)
    if 1 / CONTRADICTION < rate / own < CONTRADICTION:
        return None
    return THROUGHPUT_CONTRADICTS.doubt(
        f"samples over training time is {rate:.4g} samples/s, the log's own throughput {own:.4g}"
    )


LENGTH_CONTRADICTS = DoubtKind(
    code="length-contradicts",
    subject="training",
    severity="invalid",
    means=(
        "`epoch_num` counts epochs, samples or tokens by benchmark and round, and the log's numbers can't be "
        "that: more than 10,000 epochs, whole multiples of the training set, or fewer than 1,000 samples."
    ),
    effect=(
        "Time per epoch and per sample would be wrong by the size of the training set, so neither is given."
    ),
    remedy=(
        "Find out what the log counts: it may be of another benchmark or round than believed, or its "
        "program counts otherwise. Until then it has no epochs and no samples; time to train does not "
        "depend on them."
    ),
)


def length_contradicts(known: str, against: str) -> Doubt | None:
    """What `epoch_num` is known to count against what the log's numbers look like.

    known    `samples in resnet v3.0 by …`
    against  why the numbers can't be that; "" if they can
    """
    return LENGTH_CONTRADICTS.doubt(f"epoch_num counts {known}, but here {against}") if against else None
