"""Training of the big Transformer: throughput on synthetic sentences, or WMT's pairs to MLPerf's target."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from assay.workloads.training import TrainingParams, training_workload


class TransformerParams(TrainingParams):
    """Training of the Transformer with Adam; its tokens are those of the target language.

    On one CPU core, about 4 s: `{width: 32, heads: 2, feedforward: 64, layers: 2, vocabulary_size: 64,
    length: 8, batch_size: 8, steps: 4, warmup: 1, window: 2}`. To MLPerf's target on 8 GPUs:
    `{mode: real, data: wmt, batch_size: 352, precision: bf16, target: 0.25}`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "width": 32,
                    "heads": 2,
                    "feedforward": 64,
                    "layers": 2,
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
    learning_rate: float = Field(
        1.976e-3, gt=0, description="Of Adam, at its highest; for a batch of about 2,800 pairs."
    )
    max_epochs: float = Field(12.0, gt=0, description="Epochs after which a real training ends.")
    target: float | None = Field(None, gt=0, le=1, description="BLEU, 0 to 1, at which a training ends.")
    vocabulary_size: int = Field(
        33_712, ge=5, description="Rows of the table: the pieces of a data set and 4 marks, or more."
    )
    max_length: int = Field(64, ge=3, description="Pieces, 2 marks included, of the longest to train on.")
    length: int = Field(32, ge=3, description="Pieces of a synthetic sentence; the FLOPs assume so many.")
    width: int = Field(1024, ge=4, multiple_of=2, description="Of every layer; heads divide it.")
    heads: int = Field(16, ge=1, description="Of attention.")
    feedforward: int = Field(4096, ge=1, description="Width between the two products after attention.")
    layers: int = Field(6, ge=1, description="Of the encoder, and of the decoder.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Share of a layer's inputs left out in training.")
    lr_warmup_steps: int = Field(1000, ge=1, description="Steps over which the learning rate rises.")

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} can't be divided among {self.heads} heads")
        return self


def forward_flops(width: int, feedforward: int, layers: int, rows: int, length: int) -> float:
    """Of one piece of the target, with one of the source, of sentences of `length` pieces each.

    Three attentions, of four products and two with each other piece, and two feed-forwards a layer; the
    decoder's own attention is counted whole, as the kernels compute it and as is usual.
    """
    attention = 2 * 4 * width**2 + 4 * width * length
    return layers * (3 * attention + 2 * 4 * width * feedforward) + 2 * width * rows


def _flops(params: TransformerParams) -> float | None:
    sizes = (params.width, params.feedforward, params.layers, params.vocabulary_size, params.length)
    return 3 * forward_flops(*sizes)


TRANSFORMER = training_workload(
    "transformer",
    "train the big Transformer: throughput on synthetic sentences, or WMT's pairs to MLPerf's BLEU",
    "assay_payloads.training.transformer",
    TransformerParams,
    sample="token",
    samples="tokens",
    flops=_flops,
    round_="v0.7",
)
