"""The rules of Go in go.py: known positions, and random games against rules written the slow way."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytestmark = pytest.mark.torch

SIZE, BLACK, WHITE = 5, 1, -1


def empty(size: int = SIZE, komi: float = 0.5, games: int = 1) -> tuple[Any, Any]:
    """The rules and as many games before their first move."""
    pytest.importorskip("torch")
    from assay_payloads.games.go import Boards, Go

    return Go(size, komi), Boards.empty(games, size)


def played(text: str, turn: int = BLACK) -> tuple[Any, Any]:
    """A position from a drawing (X black, O white, . none), its stones played one by one."""
    go, boards = empty()
    for point, stone in enumerate("".join(text.split())):
        if stone != ".":
            boards.turn[:] = BLACK if stone == "X" else WHITE
            boards = play(go, boards, [point])
    boards.turn[:], boards.passes[:] = turn, 0
    return go, boards


def drawn(boards: Any, size: int = SIZE) -> str:
    signs = {BLACK: "X", WHITE: "O", 0: "."}
    points = [signs[stone] for stone in boards.stones[0, 0].tolist()]
    return "\n".join("".join(points[row : row + size]) for row in range(0, size * size, size))


def at(row: int, column: int, size: int = SIZE) -> int:
    return row * size + column


def play(go: Any, boards: Any, moves: list[int]) -> Any:
    import torch

    return go.play(boards, torch.tensor(moves))


def move(go: Any, boards: Any, point: int) -> Any:
    assert go.legal(boards)[0, point]
    return play(go, boards, [point])


def test_a_chain_without_liberties_is_taken():
    go, boards = played(
        """.XX..
           XOO..
           .XX..
           .....
           ....."""
    )
    boards = move(go, boards, at(1, 3))
    assert (
        drawn(boards)
        == """\
.XX..
X..X.
.XX..
.....
....."""
    )


def test_four_chains_can_be_taken_by_one_stone():
    go, boards = played(
        """.OXO.
           OX.XO
           .OXO.
           ..O..
           .....""",
        turn=WHITE,
    )
    boards = move(go, boards, at(1, 2))
    assert drawn(boards).splitlines()[:3] == [".O.O.", "O.O.O", ".O.O."]


def test_suicide_is_not_allowed_even_of_several_stones():
    go, boards = played(
        """.XO..
           XXO..
           OOO..
           .....
           .....""",
        turn=BLACK,
    )
    assert not go.legal(boards)[0, at(0, 0)]
    boards.turn[:] = WHITE  # for white it takes three stones
    boards = move(go, boards, at(0, 0))
    assert drawn(boards).splitlines()[:3] == ["O.O..", "..O..", "OOO.."]


def test_a_ko_may_not_be_taken_back_at_once_but_after_another_move():
    go, boards = played(
        """.XO..
           X.XO.
           .XO..
           .....
           .....""",
        turn=WHITE,
    )
    boards = move(go, boards, at(1, 1))
    assert drawn(boards).splitlines()[1] == "XO.O."
    assert not go.legal(boards)[0, at(1, 2)]
    boards = move(go, boards, at(4, 4))
    boards = move(go, boards, at(4, 0))
    boards = move(go, boards, at(1, 2))
    assert drawn(boards).splitlines()[1] == "X.XO."


def test_taking_two_stones_back_with_one_is_no_ko():
    go, boards = played(
        """.XXO.
           XOO.X
           .XXO.
           .....
           .....""",
        turn=BLACK,
    )
    boards = move(go, boards, at(1, 3))
    assert drawn(boards).splitlines()[1] == "X..XX"
    assert go.legal(boards)[0, at(1, 2)]


def test_area_counts_stones_and_what_reaches_one_colour_alone():
    go, boards = played(
        """.X.O.
           XX.OO
           .X.O.
           XX.OO
           .X.O."""
    )
    assert go.score(boards).tolist() == [10 - 10 - 0.5]
    go, boards = played("....." * 2 + "XXXXX" + "OOOOO" + ".....")
    assert go.score(boards).tolist() == [15 - 10 - 0.5]


def test_an_empty_board_is_nobodys_and_white_wins_by_komi():
    go, boards = empty(komi=7.5)
    assert go.score(boards).tolist() == [-7.5]


def test_two_passes_end_a_game_and_then_nothing_but_a_pass_is_allowed():
    go, boards = empty()
    for _ in range(2):
        assert not go.over(boards).item()
        boards = move(go, boards, go.points)
    assert go.over(boards).item()
    assert go.legal(boards)[0].nonzero().flatten().tolist() == [go.points]


def test_a_game_ends_after_twice_as_many_moves_as_points():
    go, boards = empty(size=2)
    boards.moves[:] = 8
    assert go.over(boards).item()


def test_the_network_sees_the_mover_first_and_eight_positions():
    go, boards = played(
        """X....
           .O...
           .....
           .....
           .....""",
        turn=WHITE,
    )
    planes = go.planes(boards.stones, boards.turn)
    assert planes.shape == (1, 17, SIZE, SIZE)
    assert planes[0, 0].nonzero().tolist() == [[1, 1]]
    assert planes[0, 8].nonzero().tolist() == [[0, 0]]
    assert planes[0, 1].sum() == 0  # before white's stone there was black's alone
    assert planes[0, 16].sum() == 0
    boards.turn[:] = BLACK
    assert go.planes(boards.stones, boards.turn)[0, 16].sum() == SIZE * SIZE


class SlowGo:
    """One board, chains found anew by search for every move."""

    def __init__(self, size: int) -> None:
        self.size, self.stones, self.turn, self.ko = size, [0] * (size * size), BLACK, None

    def beside(self, point: int) -> list[int]:
        row, column = divmod(point, self.size)
        places = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
        return [r * self.size + c for r, c in places if 0 <= r < self.size and 0 <= c < self.size]

    def chain(self, stones: list[int], point: int) -> tuple[set[int], set[int]]:
        members, liberties, waiting = {point}, set(), [point]
        while waiting:
            for other in self.beside(waiting.pop()):
                if stones[other] == 0:
                    liberties.add(other)
                elif stones[other] == stones[point] and other not in members:
                    members.add(other)
                    waiting.append(other)
        return members, liberties

    def after(self, point: int) -> tuple[list[int], set[int]] | None:
        if self.stones[point] or point == self.ko:
            return None
        stones, taken = list(self.stones), set()
        stones[point] = self.turn
        for other in self.beside(point):
            if stones[other] == -self.turn:
                members, liberties = self.chain(stones, other)
                taken |= members if not liberties else set()
        for gone in taken:
            stones[gone] = 0
        return (stones, taken) if self.chain(stones, point)[1] else None

    def play(self, point: int) -> None:
        if point == self.size**2:
            self.ko = None
        else:
            stones, taken = self.after(point)
            members, liberties = self.chain(stones, point)
            is_ko = len(taken) == 1 and len(members) == 1 and len(liberties) == 1
            self.stones, self.ko = stones, next(iter(taken)) if is_ko else None
        self.turn = -self.turn


@pytest.mark.parametrize("size", [3, 5, 9])
def test_random_games_follow_the_rules_written_the_slow_way(size):
    games, chance = 12, random.Random(size)
    go, boards = empty(size, games=games)
    slow = [SlowGo(size) for _ in range(games)]
    captures = kos = 0
    for _ in range(min(60, go.most_moves)):
        legal = go.legal(boards)
        moves = []
        for game, allowed in zip(slow, legal.tolist(), strict=True):
            assert allowed[:-1] == [game.after(point) is not None for point in range(size * size)]
            choices = [point for point, fine in enumerate(allowed[:-1]) if fine] or [size * size]
            moves.append(chance.choice(choices))
            before = sum(map(abs, game.stones))
            game.play(moves[-1])
            captures += sum(map(abs, game.stones)) < before + (moves[-1] < size * size)
            kos += game.ko is not None
        boards = play(go, boards, moves)
        assert boards.stones[:, 0].tolist() == [game.stones for game in slow]
    assert captures > 10
    assert kos > 0
