"""Training of GNMT: throughput on synthetic sentences, or WMT English-German to MLPerf's target."""

from __future__ import annotations

from pydantic import Field

from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example


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


def forward_flops(width: int, rows: int, length: int) -> float:
    """FLOPs of one piece of the source and one of the target, in sentences of `length` pieces each.

    An LSTM layer multiplies its inputs and its last state by four matrices. Attention adds two products, then
    for each source state one number and a share of the context.
    """
    encoder, decoder = (width, width, 2 * width, width, width), (width, *3 * (2 * width,))
    layers = sum(2 * 4 * width * (inputs + width) for inputs in (*encoder, *decoder))
    attention = 2 * 2 * width**2 + 4 * width * length
    return layers + attention + 2 * width * rows


def _flops(params: GnmtParams) -> float | None:
    return 3 * forward_flops(params.width, params.vocabulary_size, params.length) / 2


GNMT = training_workload(
    "gnmt",
    "train GNMT: throughput on synthetic sentences, or training on WMT to MLPerf's target BLEU",
    "assay_payloads.training.gnmt",
    GnmtParams,
    sample="token",
    samples="tokens",
    flops=_flops,
    round_="v0.7",
)
