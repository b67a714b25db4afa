"""Workload gnmt: the training contract on a made language pair, its FLOPs, and its reading from the end."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

import pytest

from assay.workloads.language import GnmtParams, gnmt_forward_flops
from made_translations import ROWS
from translation_contract import TranslationContract


@pytest.mark.long
class TestGnmtTraining(TranslationContract):
    workload = "gnmt"
    real: ClassVar = {
        "width": 48,
        "vocabulary_size": ROWS,
        "batch_size": 32,
        "learning_rate": 0.015,
        "lr_warmup_steps": 20,
        "remain_steps": 160,
        "decay_interval": 40,
        "max_epochs": 32,
        "eval_every": 8,
        "target": 0.9,
    }


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN")
def test_its_flops_are_those_that_torch_counts_where_lstms_are_products() -> None:
    """Fused LSTMs aren't counted; without oneDNN they are products. Products by a vector never are."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    width, rows, length = 32, 64, 24
    model = import_module("assay_payloads.training.gnmt").GNMT(rows, width, 0.0)
    source = torch.randint(4, rows, (2, length))
    target = torch.randint(4, rows, (2, length + 1))
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        model(source, target)
    by_vector = 2 * width * length  # the attention's numbers of one piece
    stated = gnmt_forward_flops(width, rows, length) - by_vector
    assert counter.get_total_flops() == pytest.approx(2 * length * stated, rel=1e-9)


def test_a_token_of_mlperfs_gnmt_takes_half_of_what_a_pair_takes() -> None:
    assert gnmt_forward_flops(1024, 32_320, 32) == pytest.approx(0.255e9, rel=0.01)
    assert 3 * gnmt_forward_flops(1024, 32_320, 32) == pytest.approx(0.765e9, rel=0.01)
    flops = import_module("assay.workloads").WORKLOADS["gnmt"].reader.flops
    assert flops(GnmtParams()) == pytest.approx(0.765e9 / 2, rel=0.01)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_padding_changes_nothing_of_what_a_sentence_means() -> None:
    import torch

    model = import_module("assay_payloads.training.gnmt").GNMT(ROWS, 16, 0.0)
    short = torch.tensor([[2, 7, 8, 9, 3]])
    states, padding = model.encode(short)
    longer, more = model.encode(torch.cat([short, torch.zeros(1, 3, dtype=torch.int64)], 1))
    torch.testing.assert_close(longer[:, :5], states)
    assert not padding.any()
    assert more.tolist() == [[False] * 5 + [True] * 3]
    target = torch.tensor([[2, 5, 6, 3]])
    torch.testing.assert_close(
        model.decode(target, longer, more)[0], model.decode(target, states, padding)[0]
    )


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_encoder_reads_a_sentence_from_its_end_as_a_packed_bidirectional_lstm_does() -> None:
    import torch

    gnmt = import_module("assay_payloads.training.gnmt")
    both = torch.nn.LSTM(6, 6, batch_first=True, bidirectional=True)
    back = gnmt.lstm(6, 6)
    back.load_state_dict({name: getattr(both, f"{name}_reverse") for name, _ in back.named_parameters()})
    inputs, lengths = torch.randn(2, 5, 6), torch.tensor([5, 3])
    packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(both(packed)[0], batch_first=True)
    found = gnmt.backwards(back(gnmt.backwards(inputs, lengths))[0], lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row, :length], expected[row, :length, 6:])


@pytest.mark.torch
@pytest.mark.usefixtures("torch_here")
def test_its_learning_rate_rises_exponentially_stays_and_is_halved_four_times() -> None:
    from argparse import Namespace

    options = Namespace(learning_rate=1.0, lr_warmup_steps=200, remain_steps=6453, decay_interval=809)
    options.decay_steps = 4
    benchmark = object.__new__(import_module("assay_payloads.training.gnmt").GnmtTraining)
    benchmark.options = options
    steps = (0, 100, 200, 6452, 6453, 7261, 7262, 8880, 100_000)
    rates = [benchmark.learning_rate(step) for step in steps]
    assert rates == pytest.approx([0.01, 0.1, 1, 1, 0.5, 0.5, 0.25, 0.0625, 0.0625])
