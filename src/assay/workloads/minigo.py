"""Training of a network on Go by self-play: throughput on synthetic positions, or a full training."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example

PLANES = 17  # input planes of a position: Silver et al. 2017


class MiniGoParams(TrainingParams):
    """Self-play with tree search, training on the games, and a match per generation, as in AlphaGo Zero.

    About 3 s on one CPU core: `{board_size: 5, blocks: 2, filters: 16, batch_size: 32, steps: 10}`. In `real`
    mode, `data` is a directory for the games that all nodes share; games of earlier trainings there are
    replaced. The target is the share of games won against `opponent`.
    """

    model_config = example(board_size=5, blocks=2, filters=16, batch_size=32, steps=10)

    batch_size: int = Field(4096, ge=1, description="Positions in each rank's micro-batch.")
    window: int = Field(
        100, ge=1, description="Steps between clock readings; default: the steps of a generation."
    )
    board_size: int = Field(9, ge=2, le=19, description="Points along each edge of the board.")
    komi: float = Field(7.5, description="Points that White gets for moving second.")
    blocks: int = Field(10, ge=0, description="Residual blocks in the network.")
    filters: int = Field(32, ge=1, description="Filters in each convolution.")
    hidden: int = Field(64, ge=1, description="Width of the value head's hidden layer.")
    simulations: int = Field(240, ge=1, description="Tree-search simulations for each move.")
    games: int = Field(8192, ge=1, description="Self-play games in a generation, over all ranks.")
    generations: int = Field(5, ge=1, description="Number of latest generations whose games are trained on.")
    positions: int = Field(
        409_600, ge=1, description="Positions trained on in a generation, which is an epoch."
    )
    eval_games: int = Field(
        100, ge=1, description="Games in a match; the network plays Black in every other game."
    )
    opponent: str | None = Field(
        None, description="Checkpoint on the nodes from an earlier training; default: the untrained network."
    )

    @field_validator("opponent")
    @classmethod
    def _is_absolute_too(cls, path: str | None, info: ValidationInfo) -> str | None:
        return cls._is_absolute(path, info)


def training_flops(params: MiniGoParams) -> float:
    """FLOPs to train on one position: convolutions and linear layers, 2 per multiply-add, 3 × forward.

    .031 GFLOP forward and .092 in training for 10 blocks of 32 filters on 9 × 9 points. Self-play adds
    `simulations` + 1 forward passes for each move.
    """
    points, width = params.board_size**2, params.filters
    trunk = points * 9 * (PLANES * width + 2 * params.blocks * width * width)
    policy = points * width * 2 + 2 * points * (points + 1)
    value = points * width + points * params.hidden + params.hidden
    return 3.0 * 2 * (trunk + policy + value)


def _flops(params: MiniGoParams) -> float | None:
    # Most of a real run's time goes into self-play, which its throughput includes.
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
