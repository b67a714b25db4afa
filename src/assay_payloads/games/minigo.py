"""MiniGo: a network learns Go from games against itself, as MLPerf trained it on 9 × 9 points (to v2.1).

    python -m assay_payloads.games.minigo --board-size 5 --blocks 2 --filters 16 --batch-size 32 --steps 5
    torchrun --nproc-per-node 8 -m assay_payloads.games.minigo --mode real --data games/ \\
        --opponent strong.pt --target 0.5

An epoch is one generation: the ranks play games by tree search with the current network, write them below
--data, which all nodes must share (an earlier training's games are replaced), and train on positions drawn
from the last generations' games. An evaluation is a match against a fixed opponent: the network from
--opponent, otherwise the untrained one. --mode data-only makes batches from the games of an earlier training.

Source: Silver et al., "Mastering the game of Go without human knowledge" (2017). Differences from MLPerf's
reference: the opponent (its checkpoint is TensorFlow's, so .50 there and here are different strengths), no
game is resigned, and a new network always replaces the old one.
"""

from __future__ import annotations

import argparse
import copy
import pickle
import uuid
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from assay_payloads.games.go import HISTORY, Boards, Go
from assay_payloads.games.selfplay import GameFiles, Games, TreeSearch, error_text, play
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.real_training import NAME
from assay_payloads.training.step import AUTOCAST
from assay_payloads.training.training import arguments, train

PLANES = 2 * HISTORY + 1
MATCHES = 1 << 20  # separates the seeds of matches from those of generations
SYMMETRIES = 8  # of the board: four turns, each mirrored or not
RATE_FALLS = (400_000, 600_000)  # steps at which the rate drops to a tenth
MOMENTUM, WEIGHT_DECAY = 0.9, 1e-4


class Block(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*convolution(filters, filters), nn.ReLU(), *convolution(filters, filters))

    def forward(self, x: Tensor) -> Tensor:
        """Of n × filters × size × size, in and out."""
        return functional.relu(x + self.body(x))


def convolution(before: int, after: int, kernel: int = 3) -> tuple[nn.Module, nn.Module]:
    """A convolution that keeps the size, followed by normalization."""
    return nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(after)


class Network(nn.Module):
    """Planes of positions → logits of the moves and the expected result for the mover, -1 to 1."""

    def __init__(self, size: int, blocks: int, filters: int, hidden: int) -> None:
        super().__init__()
        points = size * size
        trunk = (Block(filters) for _ in range(blocks))
        self.trunk = nn.Sequential(*convolution(PLANES, filters), nn.ReLU(), *trunk)
        moves = (nn.ReLU(), nn.Flatten(), nn.Linear(2 * points, points + 1))
        self.policy = nn.Sequential(*convolution(filters, 2, kernel=1), *moves)
        result = (nn.ReLU(), nn.Flatten(), nn.Linear(points, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.value = nn.Sequential(*convolution(filters, 1, kernel=1), *result, nn.Tanh(), nn.Flatten(0))

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """From n × PLANES × size × size to n × (size² + 1) and n."""
        x = self.trunk(planes)
        return self.policy(x), self.value(x)


class Positions:
    """`count` positions drawn from games, each randomly rotated and mirrored: a batch is made at once."""

    def __init__(self, size: int, games: Games, count: int, seed: int) -> None:
        self.go, self.games = Go(size), games
        chance = torch.Generator().manual_seed(seed)
        self.drawn = torch.randint(len(games.turn), (count,), generator=chance)
        self.symmetry = torch.randint(SYMMETRIES, (count,), generator=chance)

    def __len__(self) -> int:
        return len(self.drawn)

    def stored_bytes(self, index: int) -> int:
        """Bytes of a position in the game files."""
        per_position = (self.games.stones, self.games.turn, self.games.visits, self.games.outcome)
        return sum(tensor[0].nbytes for tensor in per_position)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Planes, shares of visits, and outcomes of some of them."""
        index = index.cpu()
        drawn, go = self.drawn[index], self.go
        planes = go.planes(self.games.stones[drawn], self.games.turn[drawn])
        visits = self.games.visits[drawn]
        for symmetry in range(1, SYMMETRIES):
            same = self.symmetry[index] == symmetry
            planes[same] = turned(planes[same], symmetry)
            board = visits[same, : go.points].view(-1, go.size, go.size)
            visits[same, : go.points] = turned(board, symmetry).flatten(1)
        return planes, visits, self.games.outcome[drawn]


def turned(boards: Tensor, symmetry: int) -> Tensor:
    """Boards, … × size × size, under one of the symmetries."""
    boards = torch.rot90(boards, symmetry % 4, (-2, -1))
    return boards.flip(-1) if symmetry >= 4 else boards


class MiniGo(TrainingBenchmark):
    """Self-play, training and matches."""

    name = "minigo"
    round = "v2.1"
    sample = "positions"
    quality = "win_rate"

    def __init__(self, rank: Rank, options: argparse.Namespace) -> None:
        super().__init__(rank, options)
        if not 2 <= options.board_size <= 19:
            rank.fail(f"--board-size {options.board_size}: a board must have 2 × 2 to 19 × 19 points")
        if min(options.games, options.eval_games) < rank.size:
            rank.fail(f"--games and --eval-games must be at least {rank.size}, so that each rank plays one")
        self.go = Go(options.board_size, options.komi, rank.device)
        resumes = options.checkpoint is not None and (options.checkpoint / NAME).exists()
        # so that the generation in progress when a training was ended is not played again
        self.left = self.files.generations() if resumes else []

    @cached_property
    def files(self) -> GameFiles:
        """The games of this training; every rank has its own files and reads all ranks' files."""
        return GameFiles(self.options.data)

    def model(self) -> nn.Module:
        """The network, kept because it also plays, and its opponent."""
        options = self.options
        self.network = Network(options.board_size, options.blocks, options.filters, options.hidden)
        self.opponent = copy.deepcopy(self.network)
        if options.opponent is not None:
            self._load_opponent()
        self.opponent.to(self.rank.device).eval()
        return self.network

    def _load_opponent(self) -> None:
        path = self.options.opponent
        try:
            checkpoint = torch.load(path, weights_only=True, map_location="cpu")
            self.opponent.load_state_dict(checkpoint["model"])
        except (OSError, RuntimeError, EOFError, LookupError, TypeError, pickle.UnpicklingError) as error:
            self.rank.fail(
                f"--opponent {path} is not a checkpoint of a network with this --board-size, --blocks, "
                f"--filters, and --hidden: {error_text(error)}"
            )

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """SGD with momentum; the decay is the paper's c."""
        return torch.optim.SGD(model.parameters(), lr=1.0, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)

    def learning_rate(self, step: int) -> float:
        """A tenth after each of RATE_FALLS."""
        rate: float = self.options.learning_rate
        return rate * 0.1 ** sum(step >= fall for fall in RATE_FALLS)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Cross entropy with the search's visits, and squared error of the result."""
        planes, visits, outcome = batch
        logits, value = model(planes)
        return functional.cross_entropy(logits, visits) + functional.mse_loss(value, outcome)

    def synthetic(self) -> tuple[Tensor, Tensor, Tensor]:
        """Random stones."""
        n, size, device = self.options.batch_size, self.go.size, self.rank.device
        planes = torch.randint(2, (n, PLANES, size, size), device=device).float()
        visits = torch.rand(n, self.go.points + 1, device=device).softmax(1)
        return planes, visits, torch.randint(2, (n,), device=device) * 2.0 - 1.0

    def training_data(self, epoch: int) -> Positions:
        """Positions of the last generations; in a real training, the newest is played first."""
        options, known = self.options, list(range(epoch + 1))
        if options.mode in ("data-only", "check") and not (known := self.files.generations()):
            self.rank.fail(
                f"--data {options.data} has no games: a training with --mode real writes them there"
            )
        *earlier, newest = known[-options.generations :]
        games = [self.files.read(generation, self.go.points) for generation in earlier]
        if options.mode == "real" and newest not in self.left:
            self._play_generation(newest)
        self.left = []
        games.append(self.files.read(newest, self.go.points))
        return Positions(self.go.size, Games.joined(games), options.positions, options.seed + epoch)

    def _play_generation(self, generation: int) -> None:
        rank, options = self.rank, self.options
        start = rank.clock()
        if rank.size > 1:
            for buffer in self.network.buffers():  # each rank's statistics are of its own batches
                dist.broadcast(buffer, 0)
        self.network.eval()
        seed = (options.seed, generation)
        games = play(
            [self._search(self.network)], self._mine(options.games), options.games, seed, explore=True
        )
        self.network.train()
        self.files.training = self.files.training or self._name()
        self.files.write(generation, rank.rank, rank.size, games)
        seconds = rank.over_ranks([rank.clock() - start], "MAX")[0]  # all files are there
        moves = rank.over_ranks([float(len(games.turn))], "SUM")[0]
        if rank.rank == 0:
            rank.log("actual_selfplay_games_per_generation", options.games, epoch_num=generation + 1)
            figures = {"self_play_time": seconds, "self_play_moves": moves}
            units = {"self_play_time": "s"}
            rank.log("tracked_stats", figures, epoch=generation + 1, units=units)

    def _name(self) -> str:
        """A new name of this training, the first rank's on all."""
        names = [uuid.uuid4().hex]
        if self.rank.size > 1:
            dist.broadcast_object_list(names, device=self.rank.device)
        return names[0]

    def _mine(self, games: int) -> range:
        """The numbers of the games that this rank plays."""
        return range(games * self.rank.rank // self.rank.size, games * (self.rank.rank + 1) // self.rank.size)

    def _search(self, network: nn.Module) -> TreeSearch:
        kind, precision = self.rank.device.type, self.options.precision

        def evaluate(boards: Boards) -> tuple[Tensor, Tensor]:
            with torch.autocast(kind, AUTOCAST.get(precision), enabled=precision in AUTOCAST):
                logits, value = network(self.go.planes(boards.stones, boards.turn))
            return logits, value

        return TreeSearch(self.go, evaluate, self.options.simulations)

    def train_samples(self) -> int:
        """Positions of a generation."""
        positions: int = self.options.positions
        return positions

    def eval_samples(self) -> int:
        """Games of a match."""
        games: int = self.options.eval_games
        return games

    def evaluate(self, model: nn.Module) -> float:
        """Share of the match's games that the network wins; it has black in every other one."""
        total, mine = self.options.eval_games, self._mine(self.options.eval_games)
        players = [self._search(model), self._search(self.opponent)]
        match = play(players, mine, total, (self.options.seed, MATCHES), explore=False)
        sides = torch.tensor([1 - 2 * (game % 2) for game in mine])
        won = float((match.black * sides > 0).sum())
        return self.rank.over_ranks([won], "SUM")[0] / total

    def stated(self) -> dict[str, Any]:
        """What the round's rules ask for, and the game."""
        options = self.options
        rates = [options.learning_rate * 0.1**falls for falls in range(len(RATE_FALLS) + 1)]
        return {
            "train_batch_size": self.global_batch_size,
            "lr_boundaries": ",".join(map(str, RATE_FALLS)),
            "lr_rates": ",".join(f"{rate:g}" for rate in rates),
            "opt_weight_decay": WEIGHT_DECAY,
            "min_selfplay_games_per_generation": options.games,
            "num_readouts": options.simulations,
            "window_size": options.generations,
            "board_size": options.board_size,
            "komi": options.komi,
            "opponent": "untrained" if options.opponent is None else options.opponent.name,
        }


def main() -> None:
    """Read the command line and play and train."""
    # a window holds a generation's play: else some windows had all of it and most none
    parser = arguments(__doc__, batch_size=4096, window=100, workers=0)
    add = parser.add_argument
    add("--board-size", type=int, default=9, help="points along an edge")
    add("--komi", type=float, default=7.5, help="points that White gets for moving second")
    add("--blocks", type=int, default=10, help="residual blocks")
    add("--filters", type=int, default=32, help="filters in each convolution")
    add("--hidden", type=int, default=64, help="width of the value head's hidden layer")
    add("--simulations", type=int, default=240, help="tree-search simulations for a move")
    add("--games", type=int, default=8192, help="self-play games in a generation, over all ranks")
    add("--generations", type=int, default=5, help="latest generations whose games are trained on")
    add(
        "--positions",
        type=int,
        default=409_600,
        help="positions trained on in a generation, which is an epoch",
    )
    add("--eval-games", type=int, default=100, help="games in an evaluation")
    add("--opponent", type=Path, help="checkpoint of an earlier training; default: the untrained network")
    train(MiniGo, parser.parse_args())


if __name__ == "__main__":
    main()
