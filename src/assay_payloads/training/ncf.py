"""Training of NeuMF, neural collaborative filtering, on MovieLens ratings, as MLPerf v0.5 trained it.

    python -m assay_payloads.training.ncf --users 1000 --items 500 --batch-size 1024 --steps 10
    torchrun --nproc-per-node 8 -m assay_payloads.training.ncf --mode real --data ml-20m/ \\
        --batch-size 8192 --target 0.635

--data names a directory with MovieLens' ratings.csv (userId,movieId,rating,timestamp). A rating, high or low,
is an interaction. Each user's last one is held out for evaluation; the others are for training, each with
`--negatives` items that the user didn't rate, drawn anew in each epoch. The quality is HR@10: the share of
users whose held-out item is among the ten likeliest of it and `--eval-negatives` unrated items. These stay
the same and may include an item twice; a tie counts against the held-out item.

Source: He et al., "Neural Collaborative Filtering" (2017). MLPerf dropped the benchmark after v0.5, before
its logs got their current format: mlperf-logging has no rules to check such a log.
"""

from __future__ import annotations

import argparse
import math
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from assay_payloads.datasets.feed import UnreadableSampleError
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.benchmark import TrainingBenchmark
from assay_payloads.training.training import arguments, train

TOP = 10
BETAS, EPSILON = (0.9, 0.999), 1e-8
HEADER = "userId,movieId,rating,timestamp"
EVALUATION_EPOCH = -1  # selects the evaluation's negatives, as epochs select those of training
USERS_AT_ONCE = 1024  # in an evaluation


class NeuMF(nn.Module):
    """A product of embeddings and a perceptron over other embeddings, joined into one logit.

    factors  width of the embeddings that are multiplied
    layers   widths of the multilayer perceptron; the first holds a user's and an item's embedding
    """

    def __init__(self, users: int, items: int, factors: int, layers: list[int]) -> None:
        super().__init__()
        self.user_factors, self.item_factors = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user_layer = nn.Embedding(users, layers[0] // 2)
        self.item_layer = nn.Embedding(items, layers[0] // 2)
        deeper = (nn.Sequential(nn.Linear(*widths), nn.ReLU()) for widths in pairwise(layers))
        self.layers = nn.Sequential(*deeper)
        self.last = nn.Linear(factors + layers[-1], 1)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.01)
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """The logit that a user chooses an item: n, n → n."""
        product = self.user_factors(users) * self.item_factors(items)
        deep = self.layers(torch.cat([self.user_layer(users), self.item_layer(items)], 1))
        logits: Tensor = self.last(torch.cat([product, deep], 1)).squeeze(1)
        return logits


class Ratings:
    """Who rated what, on the device: users and items numbered from 0, each user's last rating held out.

    kept    users: the item of each user's last rating, the later line if two have the same timestamp
    pairs   users and items of all other ratings, each n
    rated   user × items + item of all ratings, sorted
    """

    def __init__(self, path: Path, least: int, device: torch.device) -> None:
        table = read_ratings(path)
        _, user, ratings = np.unique(table[:, 0], return_inverse=True, return_counts=True)
        table = table[ratings[user] >= least]
        if not len(table):
            raise UnreadableSampleError(f"{path}: no user has {least} ratings, as --min-ratings requires")
        names, user = np.unique(table[:, 0], return_inverse=True)
        films, item = np.unique(table[:, 1], return_inverse=True)
        self.path, self.users, self.items = path, len(names), len(films)
        order = np.lexsort((table[:, 3], user))  # stable: ratings with one timestamp keep the file's order
        user, item = user[order], item[order]
        last = np.append(user[1:] != user[:-1], True)
        self.kept = torch.from_numpy(item[last]).to(device)
        self.pairs = tuple(torch.from_numpy(each[~last]).to(device) for each in (user, item))
        self.rated = torch.from_numpy(np.unique(user * self.items + item)).to(device)
        most = int(np.bincount(user).max())
        if most >= self.items:
            raise UnreadableSampleError(
                f"{path}: user {names[np.bincount(user).argmax()]:.0f} rated all {self.items} items; "
                "none is left as a negative"
            )

    def unrated(self, users: Tensor, numbers: Tensor, seed: int, epoch: int) -> Tensor:
        """A random item for each user that the user didn't rate.

        numbers  indexes of the draws: the same index, seed, and epoch give the same item
        """
        stream = mixed(mixed(torch.full_like(numbers, seed)) + epoch)
        drawn = mixed(stream ^ numbers)
        items = drawn.remainder(self.items)
        again = torch.arange(len(items), device=items.device)
        while len(again := again[self._is_rated(users[again], items[again])]):
            drawn[again] = mixed(drawn[again])
            items[again] = drawn[again].remainder(self.items)
        return items

    def _is_rated(self, users: Tensor, items: Tensor) -> Tensor:
        ratings = users * self.items + items
        place = torch.searchsorted(self.rated, ratings).clamp(max=len(self.rated) - 1)
        return self.rated[place] == ratings


def mixed(numbers: Tensor) -> Tensor:
    """A random number from each 64-bit number, so a draw depends only on its index, on any rank.

    Source: Steele et al., "Fast splittable pseudorandom number generators" (2014): splitmix64.
    """
    x = numbers + -0x61C8864680B583EB
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * -0x6B2FB644ECCEEE15
    return x ^ (x >> 31 & (1 << 33) - 1)


def read_ratings(path: Path) -> np.ndarray[Any, Any]:
    """The lines of a ratings.csv, n × 4. Raises UnreadableSampleError with file and line."""
    try:
        with path.open(encoding="utf-8") as lines:
            header = lines.readline().strip()
            if header != HEADER:
                raise UnreadableSampleError(f"{path}:1: found {header[:80]!r}, expected {HEADER!r}")
            table = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
    except OSError as error:
        raise UnreadableSampleError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise UnreadableSampleError(wrong_line(path) or f"{path} can't be read: {error}") from error
    if not len(table):
        raise UnreadableSampleError(f"{path} has no ratings")
    if table.shape[1] != 4 or not np.isfinite(table).all():
        raise UnreadableSampleError(wrong_line(path) or f"{path} can't be read as ratings")
    return table


def wrong_line(path: Path) -> str | None:
    """The first line of a ratings.csv that isn't four numbers, described."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        next(lines)
        for number, line in enumerate(lines, start=2):
            try:
                fine = len(values := [float(field) for field in line.split(",")]) == 4
                fine = fine and all(map(math.isfinite, values))
            except ValueError:
                fine = False
            if not fine:
                return f"{path}:{number}: found {line.strip()[:80]!r}, expected four numbers: {HEADER}"
    return None


class Interactions:
    """Ratings, followed by `negatives` unrated items for each: a whole batch is created at once."""

    def __init__(self, ratings: Ratings, negatives: int, seed: int, epoch: int) -> None:
        self.ratings, self.negatives, self.seed, self.epoch = ratings, negatives, seed, epoch

    def __len__(self) -> int:
        return len(self.ratings.pairs[0]) * (1 + self.negatives)

    def stored_bytes(self, index: int) -> int:
        """Bytes per rating in memory, user and item: the file is read once, in advance."""
        return sum(each.element_size() for each in self.ratings.pairs)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Users, items, and whether each user rated the item."""
        users, items = self.ratings.pairs
        index = index.to(users.device)
        rated = index < len(users)
        row = index.remainder(len(users))
        user = users[row]
        unrated = self.ratings.unrated(user, index, self.seed, self.epoch)
        return user, torch.where(rated, items[row], unrated), rated.float()


class NCF(TrainingBenchmark):
    """Which movies a user chooses."""

    name, round = "ncf", "v0.5"
    sample = "samples"
    quality = "hit_rate"

    def __init__(self, rank: Rank, options: argparse.Namespace) -> None:
        super().__init__(rank, options)
        if options.layers[0] % 2 or len(options.layers) < 2:
            rank.fail(f"--layers {options.layers}: needs at least two widths, and the first must be even")

    @cached_property
    def ratings(self) -> Ratings:
        """The data set."""
        return Ratings(self.options.data / "ratings.csv", self.options.min_ratings, self.rank.device)

    def model(self) -> nn.Module:
        options = self.options
        real = options.mode == "real"
        users, items = (self.ratings.users, self.ratings.items) if real else (options.users, options.items)
        return NeuMF(users, items, options.factors, options.layers)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=1.0, betas=BETAS, eps=EPSILON)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Binary cross entropy of rated and unrated items."""
        users, items, rated = batch
        return functional.binary_cross_entropy_with_logits(model(users, items), rated)

    def synthetic(self) -> tuple[Tensor, Tensor, Tensor]:
        options, device = self.options, self.rank.device
        users, items = (
            torch.randint(most, (options.batch_size,), device=device)
            for most in (options.users, options.items)
        )
        return users, items, torch.randint(2, (options.batch_size,), device=device).float()

    def training_data(self, epoch: int) -> Interactions:
        return Interactions(self.ratings, self.options.negatives, self.options.seed, epoch)

    def train_samples(self) -> int:
        """Ratings and negatives of an epoch."""
        return len(self.training_data(0))

    def eval_samples(self) -> int:
        """Users."""
        return self.ratings.users

    def evaluate(self, model: nn.Module) -> float:
        """HR@10 over all users."""
        mine = torch.arange(self.rank.rank, self.ratings.users, self.rank.size, device=self.rank.device)
        hits = sum(self._hits(model, users) for users in mine.split(USERS_AT_ONCE))
        return self.rank.over_ranks([float(hits)], "SUM")[0] / self.ratings.users

    def _hits(self, model: nn.Module, users: Tensor) -> Tensor:
        ratings, count = self.ratings, self.options.eval_negatives
        row = users.repeat_interleave(count)
        numbers = row * count + torch.arange(count, device=row.device).repeat(len(users))
        negatives = ratings.unrated(row, numbers, self.options.seed, EVALUATION_EPOCH)
        others = model(row, negatives).view(-1, count)
        kept = model(users, ratings.kept[users])
        return ((others >= kept.unsqueeze(1)).sum(1) < TOP).sum()

    def stated(self) -> dict[str, Any]:
        """Keys as MLPerf v0.5 named them."""
        options = self.options
        return {
            "opt_name": "adam",
            "opt_base_learning_rate": options.learning_rate,
            "opt_adam_beta_1": BETAS[0],
            "opt_adam_beta_2": BETAS[1],
            "opt_adam_epsilon": EPSILON,
            "model_hp_mf_dim": options.factors,
            "model_hp_mlp_layer_sizes": options.layers,
            "negatives": options.negatives,
            "eval_negatives": options.eval_negatives,
        }


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(__doc__, batch_size=65_536, learning_rate=2e-4, max_epochs=20)
    add = parser.add_argument
    add("--factors", type=int, default=64, help="width of the embeddings that are multiplied")
    add(
        "--layers",
        type=int,
        nargs="+",
        default=[256, 256, 128, 64],
        help="widths; the first is the embeddings'",
    )
    add("--negatives", type=int, default=4, help="unrated items trained on per rating")
    add("--eval-negatives", type=int, default=999, help="unrated items compared with a user's held-out item")
    add("--min-ratings", type=int, default=20, help="users with fewer are left out")
    add("--users", type=int, default=138_493, help="users in synthetic batches; default: MovieLens-20M's")
    add("--items", type=int, default=26_744, help="items in synthetic batches; default: MovieLens-20M's")
    train(NCF, parser.parse_args())


if __name__ == "__main__":
    main()
