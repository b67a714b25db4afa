"""Pre-training of BERT: throughput on synthetic text, or on Wikipedia to MLPerf's target accuracy."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example


class BertParams(TrainingParams):
    """Pre-train transformers' BERT with LAMB. Token counts exclude padding.

    The defaults are BERT-large and MLPerf's settings for a batch of 256. About 6 s on one CPU core:
    `{width: 32, heads: 2, feedforward: 64, layers: 2, vocabulary_size: 64, length: 16, masked: 3,
    batch_size: 8, steps: 4, warmup: 1, window: 2}`. To MLPerf's target on 8 GPUs: `{mode: real,
    data: bert, weights: /data/ckpt-28252.pt, precision: bf16, target: 0.72}`.
    """

    model_config = example(
        width=32,
        heads=2,
        feedforward=64,
        layers=2,
        vocabulary_size=64,
        length=16,
        masked=3,
        batch_size=8,
        steps=4,
        warmup=1,
        window=2,
    )

    batch_size: int = Field(32, ge=1, description="Samples in each rank's micro-batch.")
    learning_rate: float = Field(3.5e-4, gt=0, description="Peak learning rate of LAMB, for a batch of 256.")
    max_steps: int | None = Field(
        13_700, ge=1, description="Steps after which training ends; the learning rate decays to 0 by then."
    )
    eval_every: float = Field(
        0.001, gt=0, description="Epochs between evaluations; Wikipedia has 157 million samples."
    )
    target: float | None = Field(
        None, gt=0, le=1, description="Share of masked words predicted correctly at which training ends."
    )
    vocabulary_size: int = Field(30_528, ge=2, description="Rows of the word embedding table.")
    length: int = Field(512, ge=2, description="Positions in a sample.")
    masked: int = Field(76, ge=1, description="Maximum number of masked words in a sample.")
    width: int = Field(1024, ge=1, description="Width of every layer; must be divisible by heads.")
    layers: int = Field(24, ge=1, description="Encoder layers.")
    heads: int = Field(16, ge=1, description="Attention heads.")
    feedforward: int = Field(4096, ge=1, description="Inner width of the feed-forward layers.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout rate during training.")
    weights: str | None = Field(
        None,
        pattern="^/",
        description="File on the nodes with the initial weights: MLPerf's checkpoint.",
    )
    lr_warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate ramps up.")
    weight_decay: float = Field(
        0.01, ge=0, description="Applied to weights, not to biases and normalization layers."
    )
    beta_1: float = Field(0.9, ge=0, lt=1, description="LAMB's decay rate for the mean of gradients.")
    beta_2: float = Field(
        0.999, ge=0, lt=1, description="LAMB's decay rate for the mean of squared gradients."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by {self.heads} heads")
        if self.masked >= self.length:
            raise ValueError(
                f"masked: {self.masked} of {self.length} positions; the first position is never masked"
            )
        return self


def forward_flops(width: int, feedforward: int, layers: int, rows: int, length: int, masked: int) -> float:
    """FLOPs of one sample: all positions through the encoder, masked words and the first through the heads.

    BERT-large takes 368 GFLOP if all 512 words are predicted; with 76 predicted, as here, it takes 340.
    """
    layer = 2 * 4 * width**2 + 4 * width * length + 2 * 2 * width * feedforward
    word, first = 2 * width**2 + 2 * width * rows, 2 * width**2 + 2 * 2 * width
    return length * layers * layer + masked * word + first


def _flops(params: BertParams) -> float | None:
    """FLOPs per token of a sample without padding. Padding is computed too, but not counted."""
    sizes = (params.width, params.feedforward, params.layers, params.vocabulary_size)
    return 3 * forward_flops(*sizes, params.length, params.masked) / params.length


BERT = training_workload(
    "bert",
    "pre-train BERT: throughput on synthetic text, or training on Wikipedia to MLPerf's target",
    "assay_payloads.training.bert",
    BertParams,
    sample="token",
    samples="tokens",
    flops=_flops,
    round_="v4.0",
)
