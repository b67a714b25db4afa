"""Training of the big Transformer: throughput on synthetic text, or WMT English-German to MLPerf's target."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example


class TransformerParams(TrainingParams):
    """Train the Transformer with Adam. Tokens are counted in the target language.

    About 4 s on one CPU core: `{width: 32, heads: 2, feedforward: 64, layers: 2, vocabulary_size: 64,
    length: 8, batch_size: 8, steps: 4, warmup: 1, window: 2}`. To MLPerf's target on 8 GPUs:
    `{mode: real, data: wmt, batch_size: 352, precision: bf16, target: 0.25}`.
    """

    model_config = example(
        width=32,
        heads=2,
        feedforward=64,
        layers=2,
        vocabulary_size=64,
        length=8,
        batch_size=8,
        steps=4,
        warmup=1,
        window=2,
    )

    batch_size: int = Field(128, ge=1, description="Sentence pairs in each rank's micro-batch.")
    learning_rate: float = Field(
        1.976e-3, gt=0, description="Peak learning rate of Adam, for a batch of about 2,800 pairs."
    )
    max_epochs: float = Field(12.0, gt=0, description="Epochs after which training ends in `real` mode.")
    target: float | None = Field(None, gt=0, le=1, description="BLEU (0 to 1) at which training ends.")
    vocabulary_size: int = Field(
        33_712,
        ge=5,
        description="Rows of the embedding table: at least the pieces of the data set plus 4 special tokens.",
    )
    max_length: int = Field(
        64, ge=3, description="Longest training sentence, in pieces, including 2 special tokens."
    )
    length: int = Field(
        32, ge=3, description="Pieces in a synthetic sentence; FLOPs are computed for this length."
    )
    width: int = Field(
        1024, ge=4, multiple_of=2, description="Width of every layer; must be divisible by heads."
    )
    heads: int = Field(16, ge=1, description="Attention heads.")
    feedforward: int = Field(4096, ge=1, description="Inner width of the feed-forward layers.")
    layers: int = Field(6, ge=1, description="Layers in the encoder, and in the decoder.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout rate during training.")
    lr_warmup_steps: int = Field(1000, ge=1, description="Steps over which the learning rate ramps up.")

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by {self.heads} heads")
        return self


def forward_flops(width: int, feedforward: int, layers: int, rows: int, length: int) -> float:
    """FLOPs of one piece of the target with one of the source, in sentences of `length` pieces each.

    Per layer, three attentions, of four products and two with each other piece, and two feed-forwards. The
    decoder's self-attention is counted in full, as the kernels compute it and as is usual.
    """
    attention = 2 * 4 * width**2 + 4 * width * length
    return layers * (3 * attention + 2 * 4 * width * feedforward) + 2 * width * rows


def _flops(params: TransformerParams) -> float | None:
    sizes = (params.width, params.feedforward, params.layers, params.vocabulary_size, params.length)
    return 3 * forward_flops(*sizes)


TRANSFORMER = training_workload(
    "transformer",
    "train the big Transformer: throughput on synthetic sentences, or training on WMT to MLPerf's target "
    "BLEU",
    "assay_payloads.training.transformer",
    TransformerParams,
    sample="token",
    samples="tokens",
    flops=_flops,
    round_="v0.7",
)
