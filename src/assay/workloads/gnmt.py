"""Training of GNMT: throughput on synthetic sentences, or WMT's English-German pairs to MLPerf's target."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from assay.workloads.training import TrainingParams, training_workload


class GnmtParams(TrainingParams):
    """Training of GNMT, 4 + 4 LSTM layers with attention, with Adam; its tokens are those of both languages.

    On one CPU core, about 4 s: `{width: 32, vocabulary_size: 64, length: 8, batch_size: 8, steps: 4,
    warmup: 1, window: 2}`. To MLPerf's target on 8 GPUs: `{mode: real, data: wmt,
    batch_size: 256, target: 0.24}`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "width": 32,
                    "vocabulary_size": 64,
                    "length": 8,
                    "batch_size": 8,
                    "steps": 4,
                    "warmup": 1,
                    "window": 2,
                }
            ]
        }
    )

    batch_size: int = Field(128, ge=1, description="Sentence pairs of a micro batch on each rank.")
    learning_rate: float = Field(2e-3, gt=0, description="Of Adam, at its highest; for a batch of 2,048.")
    max_epochs: float = Field(8.0, gt=0, description="Epochs after which a real training ends.")
    target: float | None = Field(None, gt=0, le=1, description="BLEU, 0 to 1, at which a training ends.")
    vocabulary_size: int = Field(
        32_320, ge=5, description="Rows of the tables: the pieces of a data set and 4 marks, or more."
    )
    max_length: int = Field(75, ge=3, description="Pieces, 2 marks included, of the longest to train on.")
    length: int = Field(32, ge=3, description="Pieces of a synthetic sentence; the FLOPs assume so many.")
    width: int = Field(1024, ge=1, description="Of every layer; less is for trying out.")
    dropout: float = Field(0.2, ge=0, lt=1, description="Share of a layer's inputs left out in training.")
    lr_warmup_steps: int = Field(200, ge=1, description="Steps over which the learning rate rises.")
    remain_steps: int = Field(6453, ge=1, description="Steps before it falls for the first time.")
    decay_interval: int = Field(809, ge=1, description="Steps between two of its falls.")
    decay_steps: int = Field(4, ge=0, description="Falls, by half each.")


def forward_flops(width: int, rows: int, length: int) -> float:
    """Of one piece of the source and one of the target, of sentences of `length` pieces each.

    An LSTM layer multiplies its inputs and its last state by four matrices. The attention has two products of
    its own, then for each state of the source one number and a share of the context.
    """
    encoder, decoder = (width, width, 2 * width, width, width), (width, *3 * (2 * width,))
    layers = sum(2 * 4 * width * (inputs + width) for inputs in (*encoder, *decoder))
    attention = 2 * 2 * width**2 + 4 * width * length
    return layers + attention + 2 * width * rows


def _flops(params: GnmtParams) -> float | None:
    return 3 * forward_flops(params.width, params.vocabulary_size, params.length) / 2


GNMT = training_workload(
    "gnmt",
    "train GNMT: throughput on synthetic sentences, or WMT's pairs to MLPerf's BLEU",
    "assay_payloads.training.gnmt",
    GnmtParams,
    sample="token",
    samples="tokens",
    flops=_flops,
    round_="v0.7",
)
