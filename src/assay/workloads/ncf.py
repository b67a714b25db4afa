"""Training of NeuMF (neural collaborative filtering): throughput, or MovieLens to MLPerf v0.5's target."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field, field_validator

from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example


class NCFParams(TrainingParams):
    """Train NeuMF with Adam on user-item pairs.

    About 3 s on one CPU core: `{users: 1000, items: 500, batch_size: 1024, steps: 10, warmup: 1}`. To
    MLPerf's target: `{mode: real, data: ml-20m, target: 0.635, max_epochs: 20}`. MLPerf used it only in v0.5,
    before logs had their present format, so no rules exist to check its log.
    """

    model_config = example(users=1000, items=500, batch_size=1024, steps=10, warmup=1)

    batch_size: int = Field(65_536, ge=1, description="Samples in each rank's micro-batch.")
    learning_rate: float = Field(2e-4, gt=0, description="Learning rate of Adam.")
    factors: int = Field(64, ge=1, description="Width of the embeddings that are multiplied.")
    layers: tuple[int, ...] = Field(
        (256, 256, 128, 64),
        min_length=2,
        description="Widths of the perceptron; the first is the user and item embeddings together.",
    )
    negatives: int = Field(4, ge=1, description="Unrated items trained on per rating.")
    eval_negatives: int = Field(
        999, ge=10, description="Unrated items that the evaluation compares with a user's last item."
    )
    min_ratings: int = Field(20, ge=2, description="Users with fewer ratings are left out.")
    users: int = Field(138_493, ge=1, description="Users in synthetic batches; default: as in MovieLens-20M.")
    items: int = Field(26_744, ge=1, description="Items in synthetic batches; default: as in MovieLens-20M.")

    @field_validator("layers")
    @classmethod
    def _halves(cls, layers: tuple[int, ...]) -> tuple[int, ...]:
        if layers[0] % 2 or min(layers) < 1:
            raise ValueError(
                "widths must be at least 1, and the first must be even: it is split between user and item"
            )
        return layers


def training_flops(params: NCFParams) -> float:
    """FLOPs to train on one pair: the perceptron and the last layer, 2 per multiply-add, 3 × forward.

    Most of the time goes into lookups in the embedding tables, which take no FLOPs: a share of peak says
    little.
    """
    perceptron = sum(before * after for before, after in pairwise(params.layers))
    return 3 * 2 * (perceptron + params.factors + params.layers[-1])


NCF = training_workload(
    "ncf",
    "train NeuMF: throughput on synthetic pairs, or MovieLens to MLPerf v0.5's target",
    "assay_payloads.training.ncf",
    NCFParams,
    sample="sample",
    samples="samples",
    flops=training_flops,
    round_="v0.5",
)
