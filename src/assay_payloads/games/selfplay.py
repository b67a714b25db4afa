"""Games of Go that a tree search plays against itself or another, many at once, and their files.

One simulation descends the tree of every game by the upper confidence bound of Silver et al., "Mastering
the game of Go without human knowledge" (2017), adds one node to each, and evaluates all of them with the
network in one batch. A tree is a few tensors with room for every simulation. Nothing is resigned: every game
is played to its end.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from assay_payloads.datasets.feed import UnreadableSampleError
from assay_payloads.games.go import HISTORY, Boards, Go

NOISE_CONCENTRATION = 0.03 * 361  # over the points of a board: 0.03 on 19 × 19, as in AlphaGo Zero's paper


@dataclass
class Games:
    """Games that were played to their ends, on the CPU: their positions, game by game, and who won.

    stones   positions × HISTORY × points, int8
    turn     positions, int8: who was to move
    visits   positions × moves, float: the search's visits of each move, summing to 1
    outcome  positions, float: 1 if the mover won its game, -1 if it lost
    black    games, float: 1 if Black won, -1 if White did
    """

    stones: Tensor
    turn: Tensor
    visits: Tensor
    outcome: Tensor
    black: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Games]) -> Games:
        """Several as one."""
        return cls(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def play(
    players: Sequence[TreeSearch], games: range, total: int, seed: Sequence[int], *, explore: bool
) -> Games:
    """Play games to their ends, all at the same time.

    players  one, against itself; or two, of which the first is Black in games with even numbers
    games    the numbers of the games played here, of `total` games on all ranks. A game's random draws depend
             only on the seed and its number, so that more ranks play the same games
    explore  mix noise into the search; without it, games differ only in their openings
    """
    go, device = players[0].go, players[0].go.neighbors.device
    boards, numbers = Boards.empty(len(games), go.size, device), torch.tensor(games)
    positions = []
    for played in range(go.most_moves):
        live = (~go.over(boards)).nonzero().flatten()
        if not len(live):
            break
        now, here = boards[live], numbers[live.cpu()]
        chance = np.random.default_rng([*seed, played])
        drawn = torch.from_numpy(chance.random(total).astype(np.float32))[here]
        noise = _noise(chance, go.points, total)[here].to(device) if explore else None
        visits = torch.zeros(len(live), go.points + 1, device=device)
        for number, player in enumerate(players):
            turn = ((here + played) % len(players) == number).nonzero().flatten().to(device)
            if len(turn):
                visits[turn] = player.visits(now[turn], None if noise is None else noise[turn])
        visits /= visits.sum(1, keepdim=True)
        boards.put(live, go.play(now, _choose(visits, drawn, played)))
        positions.append((live, now.stones, now.turn, visits))
    black = go.score(boards).sign().cpu()
    live, *parts = (torch.cat(each).cpu() for each in zip(*positions, strict=True))
    by_game = live.argsort(stable=True)
    stones, turn, visits = (part[by_game] for part in parts)
    return Games(stones, turn, visits, black[live[by_game]] * turn, black)


def _noise(chance: np.random.Generator, points: int, games: int) -> Tensor:
    """What is mixed into each game's root, games × moves."""
    drawn = chance.dirichlet([NOISE_CONCENTRATION / points] * (points + 1), games)
    return torch.from_numpy(drawn.astype(np.float32))


def _choose(visits: Tensor, drawn: Tensor, played: int) -> Tensor:
    """A move for each game: in the opening drawn in proportion to visits; then the most visited.

    The opening is one move per twelve points, as in AlphaGo Zero's paper (30 on 361), but at least four: with
    fewer, games on small boards would repeat each other.
    """
    points = visits.shape[1] - 1
    if played >= max(4, points // 12):
        return visits.argmax(1)
    shares = visits.cpu().cumsum(1)  # sums on a GPU have no fixed order
    return (shares < drawn.unsqueeze(1)).sum(1).clamp(max=points).to(visits.device)


class GameFiles:
    """A directory with the games of each generation, one file per rank: `generation-0003-rank-0001.pt`.

    training  distinguishes the files of one training from others in the same directory
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.training = directory, ""

    def path(self, generation: int, rank: int) -> Path:
        """The file of a rank's games of a generation."""
        return self.directory / f"generation-{generation:04d}-rank-{rank:04d}.pt"

    def generations(self) -> list[int]:
        """Those that the first rank has written, in order."""
        return sorted(
            int(path.name.split("-")[1]) for path in self.directory.glob("generation-*-rank-0000.pt")
        )

    def write(self, generation: int, rank: int, ranks: int, games: Games) -> None:
        """Write the file atomically; a file of an earlier training is replaced."""
        path = self.path(generation, rank)
        part = path.with_suffix(".part")
        torch.save({"training": self.training, "ranks": ranks, **asdict(games)}, part)
        part.replace(path)

    def read(self, generation: int, points: int) -> Games:
        """All ranks' games of a generation, on boards with `points`; the first one read sets the training.

        Raises UnreadableSampleError, which names the file.
        """
        parts, rank, ranks = [], 0, 1
        while rank < ranks:
            path = self.path(generation, rank)
            training, ranks, games = self._read(path)
            self.training = self.training or training
            if training != self.training:
                raise UnreadableSampleError(
                    f"{path} is from another training, which writes to the same directory"
                )
            if games.stones.shape[1:] != (HISTORY, points):
                points_there = games.stones.shape[-1]
                raise UnreadableSampleError(
                    f"{path} is for boards with {points_there} points, but --board-size requires {points}"
                )
            parts.append(games)
            rank += 1
        return Games.joined(parts)

    @staticmethod
    def _read(path: Path) -> tuple[str, int, Games]:
        try:
            stored = torch.load(path, weights_only=True)
            return stored.pop("training"), stored.pop("ranks"), Games(**stored)
        except (OSError, RuntimeError, EOFError, LookupError, TypeError, pickle.UnpicklingError) as error:
            raise UnreadableSampleError(f"{path} can't be read: {error_text(error)}") from error


def error_text(error: Exception) -> str:
    """Type and first line: torch's file errors continue with advice on how to trust them."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


# Boards → logits of the moves (n × moves) and the mover's expected result (n, -1 to 1).
Evaluate = Callable[[Boards], tuple[Tensor, Tensor]]
EXPLORATION = 1.0  # weight of the prior against the search results; not given in the paper, MiniGo has 0.96
NOISE_SHARE = 0.25  # of the root's prior; as in the paper


class TreeSearch:
    """Looks ahead `simulations` times from each of many positions."""

    def __init__(self, go: Go, evaluate: Evaluate, simulations: int) -> None:
        self.go, self.evaluate, self.simulations = go, evaluate, simulations

    @torch.no_grad()
    def visits(self, boards: Boards, noise: Tensor | None = None) -> Tensor:
        """How often each move was tried from each position, n × moves, float: the more, the better.

        noise  n × moves, summing to 1: mixed into the roots' priors, to increase exploration
        """
        tree = SearchTree(self.go, boards, self.simulations)
        tree.add(0, boards, *self.evaluate(boards))
        if noise is not None:
            tree.mix(noise)
        for node in range(1, self.simulations + 1):
            parent, move = tree.descend()
            after = self.go.play(tree.boards_at(parent), move)
            tree.link(parent, move, node)
            tree.back_up(node, tree.add(node, after, *self.evaluate(after)))
        return tree.count[:, 0]


class SearchTree:
    """The trees of n games; node 0 is the position to search from.

    For each move from each node, n × nodes × moves:
    count   how often it was tried; total: the sum of results for the player who moves
    prior   from the network; 0 if illegal
    child   the node that it leads to; 0 if never tried
    For each node, n × nodes:
    parent, move  how it was reached; over: whether its game has ended
    """

    def __init__(self, go: Go, boards: Boards, simulations: int) -> None:
        n, nodes, device = len(boards), simulations + 1, boards.turn.device
        self.go, self.nodes, self.row = go, nodes, torch.arange(n, device=device)
        self.count, self.total, self.prior = torch.zeros(3, n, nodes, go.points + 1, device=device)
        self.child = torch.zeros(n, nodes, go.points + 1, dtype=torch.long, device=device)
        self.parent, self.move = torch.zeros(2, n, nodes, dtype=torch.long, device=device)
        self.over = torch.zeros(n, nodes, dtype=torch.bool, device=device)
        self.boards = Boards.empty(n * nodes, go.size, device)

    def boards_at(self, node: Tensor) -> Boards:
        """The position of one node of each game."""
        return self.boards[self.row * self.nodes + node]

    def add(self, node: int, boards: Boards, logits: Tensor, value: Tensor) -> Tensor:
        """Fill a new node of each game; returns its result for its mover: the game's result if it is over."""
        legal = self.go.legal(boards)
        self.boards.put(self.row * self.nodes + node, boards)
        self.prior[:, node] = logits.float().masked_fill(~legal, -torch.inf).softmax(1)
        self.over[:, node] = self.go.over(boards)
        result = self.go.score(boards).sign() * boards.turn
        return torch.where(self.over[:, node], result, value.float())

    def mix(self, noise: Tensor) -> None:
        """Mix noise into the priors of the roots' legal moves."""
        allowed = noise * (self.prior[:, 0] > 0)
        allowed /= allowed.sum(1, keepdim=True)
        self.prior[:, 0] = (1 - NOISE_SHARE) * self.prior[:, 0] + NOISE_SHARE * allowed

    def descend(self) -> tuple[Tensor, Tensor]:
        """From each root, follow the best bounds to an untried move, or to a game's end: node and move."""
        node = torch.zeros_like(self.row)
        while True:
            move = self._best(node)
            further = self.child[self.row, node, move]
            going = (further > 0) & ~self.over[self.row, node]
            if not going.any():
                return node, move
            node = torch.where(going, further, node)

    def _best(self, node: Tensor) -> Tensor:
        """The move with the highest bound from one node of each game; n."""
        count, prior = self.count[self.row, node], self.prior[self.row, node]
        mean = self.total[self.row, node] / count.clamp(min=1)
        wide = EXPLORATION * prior * count.sum(1, keepdim=True).clamp(min=1).sqrt() / (1 + count)
        return (mean + wide).masked_fill(prior == 0, -torch.inf).argmax(1)

    def link(self, parent: Tensor, move: Tensor, node: int) -> None:
        """Hang the new node of each game under its parent."""
        self.child[self.row, parent, move] = node
        self.parent[:, node], self.move[:, node] = parent, move

    def back_up(self, node: int, result: Tensor) -> None:
        """Count a result, from the view of the mover at `node`, at every move on the path to the roots."""
        position = torch.full_like(self.row, node)
        while (position > 0).any():
            result = -result
            counted = position > 0
            parent, move = self.parent[self.row, position], self.move[self.row, position]
            self.count[self.row, parent, move] += counted
            self.total[self.row, parent, move] += result * counted
            position = torch.where(counted, parent, position)
