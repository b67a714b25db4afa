"""Trainings on text: BERT, GNMT and the big Transformer; throughput, or to MLPerf's target."""

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


def bert_forward_flops(
    width: int, feedforward: int, layers: int, rows: int, length: int, masked: int
) -> float:
    """FLOPs of one sample: all positions through the encoder, masked words and the first through the heads.

    BERT-large takes 368 GFLOP if all 512 words are predicted; with 76 predicted, as here, it takes 340.
    """
    layer = 2 * 4 * width**2 + 4 * width * length + 2 * 2 * width * feedforward
    word, first = 2 * width**2 + 2 * width * rows, 2 * width**2 + 2 * 2 * width
    return length * layers * layer + masked * word + first


def _bert_flops(params: BertParams) -> float | None:
    """FLOPs per token of a sample without padding. Padding is computed too, but not counted."""
    sizes = (params.width, params.feedforward, params.layers, params.vocabulary_size)
    return 3 * bert_forward_flops(*sizes, params.length, params.masked) / params.length


BERT = training_workload(
    "bert",
    "pre-train BERT: throughput on synthetic text, or training on Wikipedia to MLPerf's target",
    "assay_payloads.training.bert",
    BertParams,
    sample="token",
    samples="tokens",
    flops=_bert_flops,
    round_="v4.0",
)


class GnmtParams(TrainingParams):
    """Train GNMT, 4 + 4 LSTM layers with attention, with Adam. Tokens are counted in both languages.

    About 4 s on one CPU core: `{width: 32, vocabulary_size: 64, length: 8, batch_size: 8, steps: 4,
    warmup: 1, window: 2}`. To MLPerf's target on 8 GPUs: `{mode: real, data: wmt,
    batch_size: 256, target: 0.24}`.
    """

    model_config = example(width=32, vocabulary_size=64, length=8, batch_size=8, steps=4, warmup=1, window=2)

    batch_size: int = Field(128, ge=1, description="Sentence pairs in each rank's micro-batch.")
    learning_rate: float = Field(2e-3, gt=0, description="Peak learning rate of Adam, for a batch of 2,048.")
    max_epochs: float = Field(8.0, gt=0, description="Epochs after which training ends in `real` mode.")
    target: float | None = Field(None, gt=0, le=1, description="BLEU (0 to 1) at which training ends.")
    vocabulary_size: int = Field(
        32_320,
        ge=5,
        description="Rows of the embedding tables: at least the pieces of the data set plus 4 special "
        "tokens.",
    )
    max_length: int = Field(
        75, ge=3, description="Longest training sentence, in pieces, including 2 special tokens."
    )
    length: int = Field(
        32, ge=3, description="Pieces in a synthetic sentence; FLOPs are computed for this length."
    )
    width: int = Field(1024, ge=1, description="Width of every layer; use less to try things out.")
    dropout: float = Field(0.2, ge=0, lt=1, description="Dropout rate during training.")
    lr_warmup_steps: int = Field(200, ge=1, description="Steps over which the learning rate ramps up.")
    remain_steps: int = Field(6453, ge=1, description="Steps before the learning rate's first decay.")
    decay_interval: int = Field(809, ge=1, description="Steps between decays.")
    decay_steps: int = Field(4, ge=0, description="Number of decays; each halves the learning rate.")


def gnmt_forward_flops(width: int, rows: int, length: int) -> float:
    """FLOPs of one piece of the source and one of the target, in sentences of `length` pieces each.

    An LSTM layer multiplies its inputs and its last state by four matrices. Attention adds two products, then
    for each source state one number and a share of the context.
    """
    encoder, decoder = (width, width, 2 * width, width, width), (width, *3 * (2 * width,))
    layers = sum(2 * 4 * width * (inputs + width) for inputs in (*encoder, *decoder))
    attention = 2 * 2 * width**2 + 4 * width * length
    return layers + attention + 2 * width * rows


def _gnmt_flops(params: GnmtParams) -> float | None:
    return 3 * gnmt_forward_flops(params.width, params.vocabulary_size, params.length) / 2


GNMT = training_workload(
    "gnmt",
    "train GNMT: throughput on synthetic sentences, or training on WMT to MLPerf's target BLEU",
    "assay_payloads.training.gnmt",
    GnmtParams,
    sample="token",
    samples="tokens",
    flops=_gnmt_flops,
    round_="v0.7",
)


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


def transformer_forward_flops(width: int, feedforward: int, layers: int, rows: int, length: int) -> float:
    """FLOPs of one piece of the target with one of the source, in sentences of `length` pieces each.

    Per layer, three attentions, of four products and two with each other piece, and two feed-forwards. The
    decoder's self-attention is counted in full, as the kernels compute it and as is usual.
    """
    attention = 2 * 4 * width**2 + 4 * width * length
    return layers * (3 * attention + 2 * 4 * width * feedforward) + 2 * width * rows


def _transformer_flops(params: TransformerParams) -> float | None:
    sizes = (params.width, params.feedforward, params.layers, params.vocabulary_size, params.length)
    return 3 * transformer_forward_flops(*sizes)


TRANSFORMER = training_workload(
    "transformer",
    "train the big Transformer: throughput on synthetic sentences, or training on WMT to MLPerf's target "
    "BLEU",
    "assay_payloads.training.transformer",
    TransformerParams,
    sample="token",
    samples="tokens",
    flops=_transformer_flops,
    round_="v0.7",
)
