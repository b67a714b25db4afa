"""Monte Carlo tree search in many games of Go at once.

One simulation descends the tree of every game by the upper confidence bound of Silver et al., "Mastering
the game of Go without human knowledge" (2017), adds one node to each, and evaluates all of them with the
network in one batch. A tree is a few tensors with room for every simulation.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from assay_payloads.games.go import Boards, Go

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
