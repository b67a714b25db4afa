"""Workload minigo: the training contract with games on small boards; its search, its games, its files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.records import Reading
from assay.workloads.minigo import MiniGoParams, training_flops
from training_contract import TrainingContract, findings

SMALL = {"board_size": 3, "komi": 0.5, "blocks": 1, "filters": 16, "hidden": 16}
POINTS = 9


def made_games(positions: int = 40, points: int = POINTS, **other: Any) -> dict[str, Any]:
    """What a file of games holds, of positions by chance."""
    import torch

    return {
        "training": "made",
        "ranks": 1,
        "stones": torch.randint(-1, 2, (positions, 8, points), dtype=torch.int8),
        "turn": torch.ones(positions, dtype=torch.int8),
        "visits": torch.rand(positions, points + 1).softmax(1),
        "outcome": torch.ones(positions),
        "black": torch.ones(1),
    } | other


class TestMiniGoTraining(TrainingContract):
    workload = "minigo"
    real: ClassVar = {
        **SMALL,
        "simulations": 8,
        "games": 32,
        "positions": 2048,
        "eval_games": 32,
        "batch_size": 32,
        "window": 64,
        "learning_rate": 0.05,
        "max_epochs": 6,
        "target": 0.7,
    }

    @staticmethod
    def make_data(directory: Path) -> None:
        """Games that an earlier training left; a new one replaces them."""
        import torch

        torch.save(made_games(), directory / "generation-0000-rank-0000.pt")

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = directory / "opponent.pt"
        victim.write_bytes(b"no checkpoint")
        return str(victim)

    def of_data(self, data: Path, **params: Any) -> dict[str, Any]:
        opponent = data / "opponent.pt"
        named = {"opponent": str(opponent)} if opponent.exists() else {}
        return super().of_data(data, **params) | named

    def run(self, directory: Path, params: Mapping[str, Any], ranks: int = 1) -> Reading:
        reading = super().run(directory, params, ranks)
        if params.get("division") == "closed":  # the rules want 8,192 games, and that is all they find
            said = findings(directory / "rank-0.log", "2.1.0")
            checks = [
                line.partition("CHECK for ")[2].partition("'")[2] for line in said if "CHECK for" in line
            ]
            assert {check.partition("'")[0].split("_", 1)[1] for check in checks} == {
                "selfplay_games_per_generation"
            }
            assert [line for line in said if line.startswith(("ERROR", "FAILED", "Required"))] == []
        return reading


def undecided(boards: Any) -> Any:
    """Knows nothing: every move alike, no result expected."""
    import torch

    n, points = len(boards), boards.chains.shape[1]
    return torch.zeros(n, points + 1), torch.zeros(n)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_flops_are_those_that_torch_counts_and_mlperfs() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    for params in (MiniGoParams(), MiniGoParams(board_size=5, blocks=2, filters=8, hidden=16)):
        size = params.board_size
        network = import_module("assay_payloads.games.minigo").Network(
            size, params.blocks, params.filters, params.hidden
        )
        with FlopCounterMode(display=False) as counter:
            network.eval()(torch.zeros(1, 17, size, size))
        assert training_flops(params) == pytest.approx(3 * counter.get_total_flops(), rel=1e-9)
    assert training_flops(MiniGoParams()) == pytest.approx(0.091e9, rel=0.02)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize(("komi", "wins"), [(0.5, True), (10.5, False)])
def test_after_the_others_pass_the_search_ends_a_game_that_is_won_and_plays_on_otherwise(
    komi: float, wins: bool
) -> None:
    """Black's stone in the middle is alone on the board, so that all nine points are black's."""
    import torch

    go = import_module("assay_payloads.games.go").Go(3, komi)
    boards = import_module("assay_payloads.games.go").Boards.empty(1, 3)
    for move in (4, 9):
        boards = go.play(boards, torch.tensor([move]))
    [visits] = (
        import_module("assay_payloads.games.selfplay").TreeSearch(go, undecided, 60).visits(boards).tolist()
    )
    assert sum(visits) == 60
    assert visits[4] == 0  # not legal
    assert visits[9] == max(visits) if wins else visits[9] < min(visits[:4])


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_games_are_the_same_however_many_ranks_share_them() -> None:
    import torch

    selfplay = import_module("assay_payloads.games.selfplay")
    search = import_module("assay_payloads.games.selfplay").TreeSearch(
        import_module("assay_payloads.games.go").Go(3, 0.5), undecided, 4
    )

    def play(games: range) -> Any:
        return selfplay.play([search], games, 6, (1, 2), explore=True)

    whole, parts = play(range(6)), selfplay.Games.joined([play(range(4)), play(range(4, 6))])
    for name in ("stones", "turn", "visits", "outcome", "black"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))
    assert whole.turn[0] == 1
    assert whole.outcome[0] == whole.black[0]
    torch.testing.assert_close(whole.visits.sum(1), torch.ones(len(whole.turn)))


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_of_two_players_the_first_has_black_in_even_games() -> None:
    import torch

    go = import_module("assay_payloads.games.go").Go(3, 0.5)

    class Fills:
        """Plays the first legal point: takes all of the board."""

        def visits(self, boards: Any, noise: Any = None) -> Any:
            legal = go.legal(boards)
            return torch.nn.functional.one_hot(legal.to(torch.int8).argmax(1), 10).float()

    class Passes(Fills):
        def visits(self, boards: Any, noise: Any = None) -> Any:
            return torch.nn.functional.one_hot(torch.full((len(boards),), 9), 10).float()

    fills, passes = Fills(), Passes()
    fills.go = passes.go = go
    match = import_module("assay_payloads.games.selfplay").play(
        [fills, passes], range(4), 4, (1,), explore=False
    )
    assert match.black.tolist() == [1, -1, 1, -1]


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_a_position_and_its_visits_are_turned_alike_in_eight_ways() -> None:
    import torch

    minigo, selfplay = (
        import_module("assay_payloads.games.minigo"),
        import_module("assay_payloads.games.selfplay"),
    )
    found = made_games(1)
    del found["training"], found["ranks"]
    found["visits"] = torch.arange(POINTS + 1.0).unsqueeze(0)
    found["stones"][:] = 0
    found["stones"][0, 0, 2] = 1  # one stone, where the visits are 2
    positions = minigo.Positions(3, selfplay.Games(**found), 64, seed=1)
    planes, visits, _ = positions.batch(torch.arange(64))
    where = planes[:, 0].flatten(1).argmax(1)
    assert visits.gather(1, where.unsqueeze(1)).flatten().tolist() == [2.0] * 64
    assert visits[:, -1].tolist() == [POINTS] * 64
    assert len({tuple(row) for row in visits.tolist()}) == 8


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_what_is_wrong_with_a_file_of_games_is_said_with_its_name(tmp_path: Path) -> None:
    import torch

    selfplay, wrong = (
        import_module("assay_payloads.games.selfplay"),
        import_module("assay_payloads.datasets.feed").UnreadableSampleError,
    )
    files = selfplay.GameFiles(tmp_path)
    first, second = files.path(0, 0), files.path(1, 0)
    torch.save(made_games(ranks=2), first)
    with pytest.raises(wrong, match=r"generation-0000-rank-0001.pt can't be read: FileNotFoundError"):
        files.read(0, POINTS)
    torch.save(made_games(), first)
    assert len(files.read(0, POINTS).turn) == 40
    torch.save(made_games(training="other"), second)
    with pytest.raises(wrong, match=r"generation-0001-rank-0000.pt is from another training"):
        files.read(1, POINTS)
    with pytest.raises(wrong, match=r"boards with 9 points, but --board-size requires 81"):
        files.read(0, 81)
    first.write_bytes(first.read_bytes()[:500])
    with pytest.raises(wrong, match=r"generation-0000-rank-0000.pt can't be read"):
        files.read(0, POINTS)
