"""Workload bert: the training contract on made text, its FLOPs, LAMB, its files, given weights."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.workloads import WORKLOADS
from assay.workloads.language import BertParams, bert_forward_flops
from made_wikipedia import LENGTH, MASKED, ROWS, make_wikipedia, write
from training_contract import TrainingContract

SMALL = {
    "width": 32,
    "heads": 2,
    "feedforward": 64,
    "layers": 1,
    "vocabulary_size": ROWS,
    "length": LENGTH,
    "masked": MASKED,
}


def spoil_wikipedia(directory: Path) -> str:
    """A word that no table of words has, in one sample."""
    import h5py

    path = directory / "training" / "deeper" / "part_00001.hdf5"
    with h5py.File(path, "r+") as file:
        file["input_ids"][17, 5] = ROWS
    return f"{path}: input_ids of sample 17 are "


class TestBertTraining(TrainingContract):
    workload = "bert"
    real: ClassVar = {
        **SMALL,
        "batch_size": 32,
        "learning_rate": 0.05,
        "lr_warmup_steps": 10,
        "beta_2": 0.98,
        "dropout": 0.0,
        "max_steps": 192,
        "eval_every": 6,
        "target": 0.9,
    }
    learnt_nothing: ClassVar = {"learning_rate": 1e-12, "max_steps": 2}  # more would teach it no more
    ruleset = "4.0.0"
    make_data = staticmethod(make_wikipedia)
    spoil = staticmethod(spoil_wikipedia)


pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def bert() -> Any:
    """The program as a module."""
    pytest.importorskip("transformers")
    return import_module("assay_payloads.training.bert")


@pytest.fixture
def masked_text(bert: Any) -> Any:
    """The module that reads its files."""
    return import_module("assay_payloads.datasets.masked_text")


def benchmark(bert: Any, **options: Any) -> Any:
    """The benchmark, without a job around it."""
    made = object.__new__(bert.BertTraining)
    made.options = Namespace(**{**SMALL, "dropout": 0.0, "weights": None, "batch_size": 2} | options)
    made.rank = Namespace(device="cpu", fail=pytest.fail)
    return made


@pytest.mark.long
def test_its_flops_are_those_that_torch_counts(bert: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    training = benchmark(bert, feedforward=96, layers=2)
    model, batch = training.model(), training.synthetic()
    with FlopCounterMode(display=False) as counter:
        model(batch)
    assert counter.get_total_flops() == 2 * bert_forward_flops(32, 96, 2, ROWS, LENGTH, MASKED)


def test_bert_large_takes_what_mlperfs_takes() -> None:
    every_word = bert_forward_flops(1024, 4096, 24, 30_522, 512, 512)
    assert every_word == pytest.approx(368e9, rel=0.01)
    assert 3 * every_word == pytest.approx(1104e9, rel=0.01)
    a_token = 3 * bert_forward_flops(1024, 4096, 24, 30_528, 512, 76) / 512
    assert WORKLOADS["bert"].reader.flops(BertParams()) == a_token
    assert a_token * 512 == pytest.approx(3 * 340e9, rel=0.01), "76 of 512 words are predicted"


def test_padding_changes_nothing_of_what_is_predicted(bert: Any) -> None:
    import torch

    training = benchmark(bert)
    model, batch = training.model().eval(), training.synthetic()
    shorter = {**batch, "masked_lm_positions": batch["masked_lm_positions"] % 9}
    plain = {**shorter, "input_ids": batch["input_ids"][:, :9], "segment_ids": batch["segment_ids"][:, :9]}
    mask = (torch.arange(LENGTH) < 9).long().expand(2, -1)
    for found, expected in zip(model(shorter | {"input_mask": mask}), model(plain), strict=True):
        torch.testing.assert_close(found, expected)


def lamb_by_hand(weight: Any, gradients: list[Any], rate: float, decay: float) -> Any:
    """Algorithm 2 of the paper, one tensor."""
    mean = square = 0.0
    for step, gradient in enumerate(gradients, 1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        ratio = (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-6) + decay * weight
        trust = weight.norm() / ratio.norm() if decay and weight.norm() > 0 else 1.0
        weight = weight - rate * trust * ratio
    return weight


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_lamb_steps_as_the_paper_says(bert: Any, decay: float) -> None:
    import torch

    torch.manual_seed(1)
    starts = [torch.randn(3, 4), torch.randn(5), torch.zeros(2)]
    weights = [torch.nn.Parameter(start.clone()) for start in starts]
    gradients = [[torch.randn_like(start) for _ in range(3)] for start in starts]
    optimiser = bert.LAMB([{"params": weights, "weight_decay": decay}], (0.9, 0.999))
    optimiser.param_groups[0]["lr"] = 0.1
    for step in range(3):
        for weight, own in zip(weights, gradients, strict=True):
            weight.grad = own[step].clone()
        optimiser.step()
    for weight, start, own in zip(weights, starts, gradients, strict=True):
        torch.testing.assert_close(weight.detach(), lamb_by_hand(start, own, 0.1, decay))


def test_lamb_goes_on_from_its_state_as_if_it_had_not_stopped(bert: Any) -> None:
    import torch

    def steps(optimiser: Any, weight: Any, gradients: list[Any]) -> None:
        optimiser.param_groups[0]["lr"] = 0.1
        for gradient in gradients:
            weight.grad = gradient.clone()
            optimiser.step()

    def made(weight: Any) -> Any:
        return bert.LAMB([{"params": [weight], "weight_decay": 0.01}], (0.9, 0.999))

    gradients = [torch.randn(4) for _ in range(4)]
    straight, stopped = (torch.nn.Parameter(torch.arange(1.0, 5)) for _ in range(2))
    steps(made(straight), straight, gradients)
    first, second = made(stopped), made(stopped)
    steps(first, stopped, gradients[:2])
    second.load_state_dict(first.state_dict())
    steps(second, stopped, gradients[2:])
    torch.testing.assert_close(stopped, straight, rtol=0, atol=0)


def test_biases_and_normalisations_do_not_decay(bert: Any) -> None:
    training = benchmark(bert, weight_decay=0.01, beta_1=0.9, beta_2=0.999)
    model = training.model()
    decayed, others = training.optimizer(model).param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
    assert all(weight.dim() == 2 for weight in decayed["params"])
    assert all(weight.dim() == 1 for weight in others["params"])
    assert len(decayed["params"]) + len(others["params"]) == len(list(model.parameters()))


def test_its_learning_rate_falls_linearly_to_nothing_at_the_last_step(bert: Any) -> None:
    training = benchmark(bert, mode="real", learning_rate=1.0, lr_warmup_steps=4, max_steps=100)
    rates = [training.learning_rate(step) for step in (0, 3, 4, 50, 100)]
    assert rates == pytest.approx([0.25, 1.0, 0.96, 0.5, 0.0])


def test_samples_of_all_files_below_a_directory_are_found_in_order(masked_text: Any, tmp_path: Path) -> None:
    make_wikipedia(tmp_path, train=40)
    data = masked_text.MaskedTextShards(tmp_path / "training", LENGTH, MASKED, ROWS)
    assert (len(data), data.ends.tolist()) == (40, [30, 40]), "deeper/part_00001 comes first"
    assert data.location(30).endswith("part_00000.hdf5: sample 0")
    sizes = [path.stat().st_size for path in data.paths]
    assert sum(map(data.stored_bytes, range(40))) == pytest.approx(sum(sizes), abs=40)
    batch = masked_text.collate([data[index] for index in range(40)])
    assert batch["tokens"] == int(batch["input_mask"].sum()) < 40 * LENGTH
    labels = masked_text.masked_words(batch)
    assert ((labels == -100) == (batch["masked_lm_positions"] == 0)).all()
    assert 80 < int((labels != -100).sum()) < 120


def test_an_epoch_mixes_few_files_at_a_time(
    masked_text: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        write(tmp_path / f"part_{number}.hdf5", 10 + number, seed=number)
    monkeypatch.setattr(masked_text, "TOGETHER", 2)
    data = masked_text.MaskedTextShards(tmp_path, LENGTH, MASKED, ROWS)
    order = [7 * index % 75 for index in range(75)]
    arranged = data.arranged(order, 5)
    assert sorted(arranged) == list(range(75))
    files = [data.location(index).split("part_")[1][0] for index in arranged]
    changes = [first for first in range(1, 75) if files[first] not in files[:first]]
    assert len({*files[: changes[1]]}) == 2
    assert not {*files[: changes[1]]} & {*files[changes[1] :]}
    assert files[: changes[1]] != sorted(files[: changes[1]]), "the two are mixed"


def damage(path: Path, change: Callable[[Any], None]) -> None:
    import h5py

    with h5py.File(path, "r+") as file:
        change(file)


def lack(file: Any) -> None:
    del file["segment_ids"]


def shorten(file: Any) -> None:
    rows = file["masked_lm_ids"][:, :2]
    del file["masked_lm_ids"]
    file["masked_lm_ids"] = rows


def misplace(file: Any) -> None:
    file["masked_lm_positions"][1, 0] = LENGTH


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lack, "lacks a table: .*segment_ids"),
        (shorten, r"masked_lm_ids is \(8, 2\), expected \(8, 3\)"),
        (misplace, "masked_lm_positions of sample 1 are .* to 16, expected 0 to 15"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_named(
    masked_text: Any, tmp_path: Path, change: Callable[[Any], None], said: str
) -> None:
    path = tmp_path / "part.hdf5"
    write(path, 8, seed=1)
    damage(path, change)

    def read() -> None:
        data = masked_text.MaskedTextShards(tmp_path, LENGTH, MASKED, ROWS)
        assert all(data[index] for index in range(8))

    with pytest.raises(
        import_module("assay_payloads.datasets.feed").UnreadableSampleError, match=f"part.hdf5.*{said}"
    ):
        read()


def test_a_file_that_was_cut_short_and_a_directory_without_files_are_named(
    masked_text: Any, tmp_path: Path
) -> None:
    unreadable = import_module("assay_payloads.datasets.feed").UnreadableSampleError
    with pytest.raises(unreadable, match=r"has no \*\.hdf5 files"):
        masked_text.MaskedTextShards(tmp_path, LENGTH, MASKED, ROWS)
    path = tmp_path / "part.hdf5"
    write(path, 8, seed=1)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(unreadable, match=r"part\.hdf5 can't be read as HDF5: .*truncated"):
        masked_text.MaskedTextShards(tmp_path, LENGTH, MASKED, ROWS)


def test_it_begins_with_given_weights_and_fills_up_a_smaller_vocabulary(bert: Any, tmp_path: Path) -> None:
    import torch

    given = benchmark(bert, vocabulary_size=ROWS - 2).model()
    path = tmp_path / "weights.pt"
    torch.save({"model": given.model.state_dict()}, path)
    model = benchmark(bert, weights=path).model()
    embeddings = model.model.bert.embeddings.word_embeddings.weight
    torch.testing.assert_close(embeddings[:-2], given.model.bert.embeddings.word_embeddings.weight)
    assert not embeddings[-2:].any()
    batch = benchmark(bert, vocabulary_size=ROWS - 2).synthetic()
    torch.testing.assert_close(model.eval()(batch)[0][..., :-2], given.eval()(batch)[0])


def test_weights_of_another_model_are_refused(bert: Any, tmp_path: Path) -> None:
    import torch

    path = tmp_path / "weights.pt"
    torch.save(benchmark(bert, layers=2).model().model.state_dict(), path)
    with pytest.raises(
        pytest.fail.Exception,
        match=r"not weights of this model: it lacks .* and has unknown ones: .*layer\.1",
    ):
        benchmark(bert, weights=path).model()
    path.write_bytes(b"no weights at all")
    with pytest.raises(pytest.fail.Exception, match="not weights of this model"):
        benchmark(bert, weights=path).model()
