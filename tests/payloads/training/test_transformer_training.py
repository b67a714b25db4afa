"""Workload transformer: the training contract on a made language pair, its FLOPs, what its model sees."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

import pytest

from assay.workloads.language import TransformerParams, transformer_forward_flops
from made_translations import ROWS
from translation_contract import TranslationContract


@pytest.mark.long
class TestTransformerTraining(TranslationContract):
    workload = "transformer"
    real: ClassVar = {
        "width": 32,
        "heads": 4,
        "feedforward": 64,
        "layers": 1,
        "vocabulary_size": ROWS,
        "batch_size": 16,
        "learning_rate": 0.015,
        "lr_warmup_steps": 20,
        "max_epochs": 48,
        "eval_every": 8,
        "target": 0.9,
    }


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_flops_are_those_that_torch_counts() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    width, feedforward, layers, rows, length = 32, 96, 2, 64, 24
    model = import_module("assay_payloads.training.transformer").Transformer(
        rows, width, 4, feedforward, layers, 0.0
    )
    source = torch.randint(4, rows, (2, length))
    target = torch.randint(4, rows, (2, length + 1))
    with FlopCounterMode(display=False) as counter:
        model(source, target)
    stated = transformer_forward_flops(width, feedforward, layers, rows, length)
    assert counter.get_total_flops() == pytest.approx(2 * length * stated, rel=1e-9)


def test_a_token_of_the_big_transformer_takes_what_mlperfs_takes() -> None:
    assert transformer_forward_flops(1024, 4096, 6, 33_708, 32) == pytest.approx(0.424e9, rel=0.01)
    flops = import_module("assay.workloads").WORKLOADS["transformer"].reader.flops
    assert flops(TransformerParams()) == pytest.approx(1.27e9, rel=0.01)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_no_piece_sees_a_later_one_nor_padding() -> None:
    import torch

    model = import_module("assay_payloads.training.transformer").Transformer(ROWS, 16, 2, 32, 2, 0.0)
    source, target = torch.tensor([[2, 7, 8, 3]]), torch.tensor([[2, 5, 6, 7, 3]])
    logits = model(source, target)
    other = target.clone()
    other[0, 3] = 9
    torch.testing.assert_close(model(source, other)[:, :3], logits[:, :3])
    assert not torch.allclose(model(source, other)[:, 3], logits[:, 3])
    padded = torch.cat([source, torch.zeros(1, 4, dtype=torch.int64)], 1)
    torch.testing.assert_close(model(padded, target), logits)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_learning_rate_rises_linearly_and_falls_by_the_root_of_the_step() -> None:
    from argparse import Namespace

    benchmark = object.__new__(import_module("assay_payloads.training.transformer").TransformerTraining)
    benchmark.options = Namespace(learning_rate=1.0, lr_warmup_steps=1000)
    rates = [benchmark.learning_rate(step) for step in (0, 499, 999, 3999)]
    assert rates == pytest.approx([0.001, 0.5, 1, 0.5])
