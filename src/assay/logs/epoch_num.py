"""What `epoch_num` counts, by benchmark and round: the same key is epochs in most logs, not in all.

Sources: the compliance rules of v0.5 to v0.7 make it rise by one an epoch. From v1.0 on mlperf-logging holds
the logged number against its reference convergence points as it is, so it counts what those count.
MiniGo's iterations are no epochs, and BERT and DLRM of v0.7 have no reference: those are not in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from assay.logs.rounds import Round, number

What = Literal["epochs", "samples", "tokens"]

_RULES: Final = "the round's compliance rules"
_REFERENCES: Final = "mlperf-logging's reference convergence points"
GPT3_TOKENS_PER_SAMPLE: Final = 2048  # of the reference model: each sample is one whole sequence


@dataclass(frozen=True)
class Counted:
    """What the key counts in the rounds from `first` to `last`.

    per_sample  counts that make one sample; 1 where epochs or samples are counted
    """

    benchmark: str
    what: What
    first: Round
    last: Round
    source: str
    per_sample: int = 1


def _epochs(first: Round, last: Round, *benchmarks: str, source: str = _REFERENCES) -> list[Counted]:
    return [Counted(name, "epochs", first, last, source) for name in benchmarks]


_TABLE: Final = (
    *_epochs((0, 5), (0, 7), "resnet", "ssd", "maskrcnn", "gnmt", "transformer", source=_RULES),
    *_epochs((0, 5), (0, 5), "ncf", source=_RULES),
    *_epochs((1, 0), (4, 0), "resnet"),
    *_epochs((1, 0), (4, 1), "ssd"),
    *_epochs((2, 0), (5, 1), "retinanet"),
    *_epochs((1, 0), (3, 1), "maskrcnn", "rnnt"),
    *_epochs((1, 0), (2, 1), "dlrm"),
    *_epochs((3, 0), (5, 1), "dlrm_dcnv2"),
    *_epochs((4, 0), (5, 1), "gnn", "rgat"),
    *_epochs((1, 0), (3, 0), "unet3d"),
    Counted("unet3d", "samples", (3, 1), (4, 0), _REFERENCES),
    Counted("bert", "samples", (1, 0), (5, 1), _REFERENCES),
    Counted("llama31_405b", "samples", (5, 0), (5, 1), _REFERENCES),
    Counted("llama31_8b", "samples", (5, 1), (5, 1), _REFERENCES),
    Counted("gpt3", "tokens", (3, 0), (4, 1), _REFERENCES, GPT3_TOKENS_PER_SAMPLE),
)


def counted(benchmark: str | None, round_: str | None) -> Counted | None:
    """What the key counts; None where the table doesn't know the benchmark in that round.

    An unknown round is no matter where the benchmark's logs count alike in all of theirs.

    >>> counted("unet3d", "v3.0").what, counted("unet3d", "v3.1").what
    ('epochs', 'samples')
    >>> counted("resnet", None).what, counted("unet3d", None), counted("minigo", "v0.7")
    ('epochs', None, None)
    """
    known = [entry for entry in _TABLE if entry.benchmark == benchmark]
    if round_ is None:
        return known[-1] if len({entry.what for entry in known}) == 1 else None
    at = number(round_)
    return next((e for e in known if at is not None and e.first <= at <= e.last), None)
