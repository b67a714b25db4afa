"""Training of a network that learns Go by self-play: throughput on synthetic positions, or whole games."""

from __future__ import annotations

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from assay.workloads.training import TrainingParams, training_workload

PLANES = 17  # of a position: Silver et al. 2017


class MiniGoParams(TrainingParams):
    """Self-play by tree search, training on the games, a match after each generation; after AlphaGo Zero.

    On one CPU core, about 3 s: `{board_size: 5, blocks: 2, filters: 16, batch_size: 32, steps: 10}`. In real,
    `data` is a directory that all nodes share, for the games: those of an earlier training are replaced. The
    target is a share of games won against `opponent`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"board_size": 5, "blocks": 2, "filters": 16, "batch_size": 32, "steps": 10}]
        }
    )

    batch_size: int = Field(4096, ge=1, description="Positions of a micro batch on each rank.")
    window: int = Field(
        100, ge=1, description="Steps between two readings of the clock: those of a generation."
    )
    board_size: int = Field(9, ge=2, le=19, description="Points along an edge of the board.")
    komi: float = Field(7.5, description="Points that white gets for moving second.")
    blocks: int = Field(10, ge=0, description="Residual blocks of the network.")
    filters: int = Field(32, ge=1, description="Of each of its convolutions.")
    hidden: int = Field(64, ge=1, description="Width of the layer before the expected result.")
    simulations: int = Field(240, ge=1, description="Of the tree search, for each move.")
    games: int = Field(8192, ge=1, description="Of self-play in a generation, over all ranks.")
    generations: int = Field(5, ge=1, description="The last ones, whose games are trained on.")
    positions: int = Field(409_600, ge=1, description="Trained on in a generation, which is an epoch.")
    eval_games: int = Field(100, ge=1, description="Of a match; black in every other one.")
    opponent: str | None = Field(
        None, description="Checkpoint of an earlier training on the nodes; default: the untrained network."
    )

    @field_validator("opponent")
    @classmethod
    def _is_absolute_too(cls, path: str | None, info: ValidationInfo) -> str | None:
        return cls._is_absolute(path, info)


def training_flops(params: MiniGoParams) -> float:
    """FLOPs to train on one position: convolutions and linear layers, 2 a multiply-add, 3 × forward.

    .031 GFLOP forward and .092 in training for 10 blocks of 32 filters on 9 × 9 points. Self-play comes on
    top: `simulations` + 1 times forward for each move.
    """
    points, width = params.board_size**2, params.filters
    trunk = points * 9 * (PLANES * width + 2 * params.blocks * width * width)
    policy = points * width * 2 + 2 * points * (points + 1)
    value = points * width + points * params.hidden + params.hidden
    return 3.0 * 2 * (trunk + policy + value)


def _flops(params: MiniGoParams) -> float | None:
    # of a real run's time most goes into play, which its throughput holds too
    return training_flops(params) if params.mode == "synthetic" else None


MINIGO = training_workload(
    "minigo",
    "learn Go by self-play: throughput on synthetic positions, or games to a win rate",
    "assay_payloads.games.minigo",
    MiniGoParams,
    sample="position",
    samples="positions",
    flops=_flops,
    round_="v2.1",
    version=2,
)
