"""The game of Go on many small boards at once, as tensors: one move on every board is one call.

Rules: captures, no suicide, simple ko (a stone that captured exactly one stone may not be recaptured at once;
the limit of moves ends longer repetitions), two passes end a game, area scoring (Tromp and Taylor).

A board's points are numbered row by row; the number after the last point is the pass. Stones are 1 for Black,
-1 for White, 0 for none. Each point has the number of the chain of its stone, so that moves need no search
for chains: a stone takes over the numbers of the chains that it joins.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

BLACK, WHITE = 1, -1
HISTORY = 8  # positions that the network sees


@dataclass
class Boards:
    """`n` games in progress on boards of `size` × `size` points, all tensors on one device.

    stones  n × HISTORY × points, int8: newest position first
    chains  n × points, int16: the chain of the stone on each point; meaningless if there is none
    ko      n, int16: the point that may not be played now; `points` (the pass) if there is none
    turn    n, int8: who is to move
    passes  n, int8: passes since the last stone
    moves   n, int16: moves played, including passes
    """

    stones: Tensor
    chains: Tensor
    ko: Tensor
    turn: Tensor
    passes: Tensor
    moves: Tensor

    @classmethod
    def empty(cls, n: int, size: int, device: torch.device | str = "cpu") -> Boards:
        """`n` games before their first move, which is Black's."""
        points = size * size
        return cls(
            stones=torch.zeros(n, HISTORY, points, dtype=torch.int8, device=device),
            chains=torch.zeros(n, points, dtype=torch.int16, device=device),
            ko=torch.full((n,), points, dtype=torch.int16, device=device),
            turn=torch.full((n,), BLACK, dtype=torch.int8, device=device),
            passes=torch.zeros(n, dtype=torch.int8, device=device),
            moves=torch.zeros(n, dtype=torch.int16, device=device),
        )

    def __getitem__(self, index: Tensor | slice) -> Boards:
        """Some of the games: a copy if `index` is a tensor, otherwise a view."""
        return Boards(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    def __len__(self) -> int:
        return len(self.turn)

    def put(self, index: Tensor, other: Boards) -> None:
        """Overwrite the games at `index` with the same number of games in `other`."""
        for field in fields(self):
            getattr(self, field.name)[index] = getattr(other, field.name)


class Go:
    """The rules on boards of one size: what may be played, what follows, who has won.

    komi        points that White gets for moving second
    most_moves  a game that is not over by then is scored in its current state; Silver et al.: 2 × points
    """

    def __init__(self, size: int, komi: float = 7.5, device: torch.device | str = "cpu") -> None:
        self.size, self.komi, self.points, self.most_moves = size, komi, size * size, 2 * size * size
        grid = torch.full((size + 2, size + 2), self.points, device=device)
        grid[1:-1, 1:-1] = torch.arange(self.points, device=device).view(size, size)
        sides = (grid[:-2, 1:-1], grid[2:, 1:-1], grid[1:-1, :-2], grid[1:-1, 2:])
        # points × 4: the neighbors of each point; `points` means beyond the edge
        self.neighbors = torch.stack([side.flatten() for side in sides], 1)

    def _around(self, values: Tensor, beyond: int) -> Tensor:
        """The values of each point's neighbors: n × points → n × points × 4."""
        edge = values.new_full((len(values), 1), beyond)
        return torch.cat([values, edge], 1)[:, self.neighbors]

    def liberties(self, boards: Boards) -> Tensor:
        """Liberties of the chain on each point, n × points, int16; 0 if there is no stone."""
        stones = boards.stones[:, 0]
        chains = torch.where(stones != 0, boards.chains, self.points).long()
        beside = self._around(chains, self.points)  # of each point, the chains that touch it
        seen = torch.zeros_like(beside, dtype=torch.bool)
        for side in range(1, 4):  # a chain that touches a point from two sides counts it once
            seen[..., side] = (beside[..., :side] == beside[..., side : side + 1]).any(-1)
        gives = (stones == 0).unsqueeze(-1) & ~seen
        counts = torch.zeros(len(stones), self.points + 1, dtype=torch.int16, device=stones.device)
        counts.scatter_add_(1, beside.flatten(1), gives.flatten(1).to(torch.int16))
        return counts.gather(1, chains) * (stones != 0)

    def legal(self, boards: Boards) -> Tensor:
        """Legal moves, n × (points + 1), bool: passing always; nothing else once a game is over."""
        stones, turn = boards.stones[:, 0], boards.turn.view(-1, 1, 1)
        liberties = self._around(self.liberties(boards), 0)
        beside = self._around(stones, 2)
        lives = (beside == 0) | ((beside == turn) & (liberties > 1)) | ((beside == -turn) & (liberties == 1))
        allowed = (stones == 0) & lives.any(-1) & ~self.over(boards).unsqueeze(1)
        passing = torch.ones(len(stones), 1, dtype=torch.bool, device=stones.device)
        moves = torch.cat([allowed, passing], 1).scatter_(1, boards.ko.long().unsqueeze(1), False)
        moves[:, self.points] = True  # without a ko, the line above forbade the pass
        return moves

    def play(self, boards: Boards, moves: Tensor) -> Boards:
        """The games after one legal move each (n, int64); the given games are unchanged."""
        passed = moves == self.points
        point = torch.where(passed, 0, moves)
        row = torch.arange(len(moves), device=moves.device)
        turn = boards.turn
        stones, chains = boards.stones[:, 0].clone(), boards.chains.clone()
        stones[row, point] = torch.where(passed, stones[row, point], turn)
        beside, side_chains, exists = self._beside(stones, chains, point)
        own = exists & (beside == turn.unsqueeze(1)) & ~passed.unsqueeze(1)
        same = (chains.unsqueeze(1) == side_chains.unsqueeze(2)) & (stones == turn.unsqueeze(1)).unsqueeze(1)
        joined = (same & own.unsqueeze(2)).any(1)
        chains = torch.where(joined, point.to(chains.dtype).unsqueeze(1), chains)
        chains[row, point] = torch.where(passed, chains[row, point], point.to(chains.dtype))
        after = Boards(boards.stones, chains, boards.ko, turn, boards.passes, boards.moves)
        after.stones = torch.cat([stones.unsqueeze(1), boards.stones[:, :-1]], 1)
        taken = (stones == -turn.unsqueeze(1)) & (self.liberties(after) == 0) & ~passed.unsqueeze(1)
        after.stones[:, 0] = torch.where(taken, 0, stones)
        after.ko = self._ko(after, point, taken, ~joined.any(1))
        after.turn, after.moves = -turn, boards.moves + 1
        after.passes = torch.where(passed, boards.passes + 1, 0).to(torch.int8)
        return after

    def _beside(self, stones: Tensor, chains: Tensor, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Stones and chains on the neighbors of one point per board, n × 4, and which neighbors exist."""
        neighbors = self.neighbors[point]
        exists = neighbors < self.points
        inside = torch.where(exists, neighbors, 0)
        return stones.gather(1, inside), chains.gather(1, inside), exists

    def _ko(self, after: Boards, point: Tensor, taken: Tensor, alone: Tensor) -> Tensor:
        """Where the opponent may not recapture: a stone captured one stone and has only that liberty."""
        row = torch.arange(len(point), device=point.device)
        is_ko = (taken.sum(1) == 1) & alone & (self.liberties(after)[row, point] == 1)
        return torch.where(is_ko, taken.to(torch.int8).argmax(1), self.points).to(torch.int16)

    def over(self, boards: Boards) -> Tensor:
        """Whether each game is over, n, bool."""
        return (boards.passes >= 2) | (boards.moves >= self.most_moves)

    def score(self, boards: Boards) -> Tensor:
        """Black's points minus White's and komi, n, float: stones and points that reach only one color."""
        stones = boards.stones[:, 0]
        reach = [stones == BLACK, stones == WHITE]
        for color, start in enumerate(reach):
            reached = start
            while True:
                more = reached | (self._around(reached, 0).any(-1) & (stones == 0))
                if torch.equal(more, reached):
                    break
                reached = more
            reach[color] = reached
        black, white = reach
        return (black & ~white).sum(1).float() - (white & ~black).sum(1).float() - self.komi

    def planes(self, stones: Tensor, turn: Tensor) -> Tensor:
        """What the network sees of `Boards.stones` and `Boards.turn`, n × 17 × size × size, float.

        Eight positions of the player's stones, eight of the other's, and ones if Black is to move.
        Source: Silver et al., Mastering the game of Go without human knowledge (2017), "Methods".
        """
        mover = turn.view(-1, 1, 1)
        black = (mover == BLACK).expand(-1, 1, self.points)
        seen = torch.cat([stones == mover, stones == -mover, black], 1)
        return seen.view(-1, 2 * HISTORY + 1, self.size, self.size).float()
