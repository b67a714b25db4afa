"""Workload ncf: the training contract on made ratings, and what is the ratings' reader's own."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.workloads.ncf import NCFParams, training_flops
from made_ratings import make_ratings
from training_contract import TrainingContract


def spoil_ratings(directory: Path) -> str:
    path = directory / "ratings.csv"
    lines = path.read_text().splitlines()
    lines[40] = lines[40].replace(",", ";", 1)
    path.write_text("\n".join(lines))
    return f"{path}:41: found {lines[40]!r}"


SMALL = {"factors": 8, "layers": (16, 8)}


@pytest.mark.long
class TestNCFTraining(TrainingContract):
    workload = "ncf"
    real: ClassVar = {
        **SMALL,
        "min_ratings": 10,
        "eval_negatives": 40,
        "batch_size": 60,
        "learning_rate": 0.01,
        "max_epochs": 3,
        "target": 0.7,
    }
    make_data = staticmethod(lambda directory: make_ratings(directory))
    spoil = staticmethod(spoil_ratings)


def ratings_of(tmp_path: Path, lines: list[str], least: int = 1) -> Any:
    import torch

    (path := tmp_path / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *lines]))
    return import_module("assay_payloads.training.ncf").Ratings(path, least, torch.device("cpu"))


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_flops_are_those_that_torch_counts() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    for params in (NCFParams(), NCFParams(**SMALL)):
        model = import_module("assay_payloads.training.ncf").NeuMF(5, 6, params.factors, list(params.layers))
        pairs = torch.arange(4), torch.arange(4)
        with FlopCounterMode(display=False) as counter:
            model(*pairs)
        assert training_flops(params) == pytest.approx(3 * counter.get_total_flops() / 4, rel=1e-9)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_each_users_last_rating_is_kept_and_of_one_second_the_later_line(tmp_path: Path) -> None:
    lines = ["9,30,5,200", "9,10,1,100", "4,10,2.5,50", "4,20,3,50", "4,40,3,10"]
    ratings = ratings_of(tmp_path, lines)
    assert (ratings.users, ratings.items) == (2, 4)  # users 4, 9; items 10, 20, 30, 40
    assert ratings.kept.tolist() == [1, 2]
    assert sorted(zip(*(each.tolist() for each in ratings.pairs), strict=True)) == [(0, 0), (0, 3), (1, 0)]


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_negatives_are_unrated_evenly_drawn_and_the_same_wherever_they_are_drawn(tmp_path: Path) -> None:
    import torch

    ratings = ratings_of(tmp_path, ["1,1,5,1", "1,2,5,2", "2,3,5,1", "2,4,5,2", "2,5,5,3"])
    users = torch.tensor([0, 1] * 3000)
    drawn = ratings.unrated(users, torch.arange(6000), seed=3, epoch=1)
    assert drawn.max() < 5
    counts = [torch.bincount(drawn[users == user], minlength=5).tolist() for user in (0, 1)]
    assert counts[0][:2] == [0, 0]
    assert counts[1][2:] == [0, 0, 0]
    assert min(counts[0][2:]) > 900  # of 1,000 expected; standard deviation 26
    assert min(counts[1][:2]) > 1400
    half = ratings.unrated(users[3000:], torch.arange(3000, 6000), seed=3, epoch=1)
    assert torch.equal(half, drawn[3000:])
    other = ratings.unrated(users, torch.arange(6000), seed=3, epoch=2)
    assert (other != drawn).float().mean() > 0.4


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_a_model_that_finds_all_items_alike_hits_nothing(tmp_path: Path) -> None:
    """A tie counts against the kept item: else a broken model would have all hits."""
    import torch

    make_ratings(tmp_path)
    ncf = import_module("assay_payloads.training.ncf")
    benchmark = object.__new__(ncf.NCF)
    benchmark.ratings = ncf.Ratings(tmp_path / "ratings.csv", 10, torch.device("cpu"))
    benchmark.options = Namespace(eval_negatives=40, seed=1)
    users, kept = torch.arange(120), benchmark.ratings.kept
    assert benchmark._hits(lambda users, items: torch.zeros(len(users)), users) == 0
    assert benchmark._hits(lambda users, items: (items == kept[users]).float(), users) == 120
    assert benchmark._hits(lambda users, items: (items != kept[users]).float(), users) == 0


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"ratings.csv can't be read: No such file"),
        (
            "userId,movieId,rating\n1,1,1\n",
            r"ratings.csv:1: found 'userId,movieId,rating', expected 'userId,",
        ),
        ("{}\n", r"ratings.csv has no ratings"),
        ("{}\n1,1,5,1\n1,x,5,1\n", r"ratings.csv:3: found '1,x,5,1', expected four numbers"),
        ("{}\n1,1,5,1\n1,2,5\n", r"ratings.csv:3: found '1,2,5', expected four numbers"),
        ("{}\n1,1,nan,1\n", r"ratings.csv:2: found '1,1,nan,1', expected four numbers"),
        ("{}\n1,1,5\n", r"ratings.csv:2: found '1,1,5', expected four numbers"),
        ("{}\n1,1,5,1\n", r"no user has 2 ratings, as --min-ratings requires"),
        ("{}\n1,1,5,1\n1,2,5,2\n", r"user 1 rated all 2 items"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt. input contained no data")
def test_what_is_wrong_with_ratings_is_said_with_file_and_line(
    tmp_path: Path, content: str | None, said: str
) -> None:
    import torch

    path = tmp_path / "ratings.csv"
    if content is not None:
        path.write_text(content.format("userId,movieId,rating,timestamp"))
    wrong = import_module("assay_payloads.datasets.feed").UnreadableSampleError
    with pytest.raises(wrong, match=said):
        import_module("assay_payloads.training.ncf").Ratings(path, 2, torch.device("cpu"))
