"""Pre-training of BERT: throughput on synthetic text, or Wikipedia's to MLPerf's target accuracy."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from assay.workloads.training import TrainingParams, training_workload


class BertParams(TrainingParams):
    """Pre-training of transformers' BERT with LAMB; its tokens are those that are no padding.

    The defaults are BERT-large and MLPerf's settings for a batch of 256. On one CPU core, about 6 s:
    `{width: 32, heads: 2, feedforward: 64, layers: 2, vocabulary_size: 64, length: 16, masked: 3,
    batch_size: 8, steps: 4, warmup: 1, window: 2}`. To MLPerf's target on 8 GPUs: `{mode: real,
    data: bert, weights: /data/ckpt-28252.pt, precision: bf16, target: 0.72}`.
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
                    "length": 16,
                    "masked": 3,
                    "batch_size": 8,
                    "steps": 4,
                    "warmup": 1,
                    "window": 2,
                }
            ]
        }
    )

    batch_size: int = Field(32, ge=1, description="Samples of a micro batch on each rank.")
    learning_rate: float = Field(3.5e-4, gt=0, description="Of LAMB, at its highest; for a batch of 256.")
    max_steps: int | None = Field(
        13_700, ge=1, description="Steps after which a training ends; the learning rate falls to 0 by then."
    )
    eval_every: float = Field(
        0.001, gt=0, description="Epochs between two evaluations; Wikipedia has 157 million samples."
    )
    target: float | None = Field(
        None, gt=0, le=1, description="Share of masked words predicted right at which a training ends."
    )
    vocabulary_size: int = Field(30_528, ge=2, description="Rows of the table of words.")
    length: int = Field(512, ge=2, description="Positions of a sample.")
    masked: int = Field(76, ge=1, description="Words of a sample that are masked, at most.")
    width: int = Field(1024, ge=1, description="Of every layer; heads divide it.")
    layers: int = Field(24, ge=1, description="Of the encoder.")
    heads: int = Field(16, ge=1, description="Of attention.")
    feedforward: int = Field(4096, ge=1, description="Width between the two products after attention.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Share of a layer's inputs left out in training.")
    weights: str | None = Field(
        None,
        pattern="^/",
        description="File on the nodes with the weights to begin with: MLPerf's checkpoint.",
    )
    lr_warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate rises.")
    weight_decay: float = Field(0.01, ge=0, description="Of weights; biases and normalisations have none.")
    beta_1: float = Field(0.9, ge=0, lt=1, description="Of LAMB's mean of gradients.")
    beta_2: float = Field(0.999, ge=0, lt=1, description="Of LAMB's mean of their squares.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} can't be divided among {self.heads} heads")
        if self.masked >= self.length:
            raise ValueError(f"{self.masked} masked of {self.length} positions: the first is never masked")
        return self


def forward_flops(width: int, feedforward: int, layers: int, rows: int, length: int, masked: int) -> float:
    """Of one sample: its positions through the encoder, its masked words and its first through the heads.

    BERT-large takes 368 GFLOP where all 512 words are predicted; of 76 alone, as here, it takes 340.
    """
    layer = 2 * 4 * width**2 + 4 * width * length + 2 * 2 * width * feedforward
    word, first = 2 * width**2 + 2 * width * rows, 2 * width**2 + 2 * 2 * width
    return length * layers * layer + masked * word + first


def _flops(params: BertParams) -> float | None:
    """Of a token of a sample without padding; padding is computed too, and counts as nothing."""
    sizes = (params.width, params.feedforward, params.layers, params.vocabulary_size)
    return 3 * forward_flops(*sizes, params.length, params.masked) / params.length


BERT = training_workload(
    "bert",
    "pre-train BERT: throughput on synthetic text, or Wikipedia's to MLPerf's target",
    "assay_payloads.training.bert",
    BertParams,
    sample="token",
    samples="tokens",
    flops=_flops,
    round_="v4.0",
)
