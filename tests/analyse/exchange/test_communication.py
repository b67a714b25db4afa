"""What the exchange of gradients takes of a step, from an all-reduce that the same session measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assay.analyse.exchange.communication import Communication, exchange_s
from assay.analyse.scaling.curve import curves
from assay.analyse.scaling.study import study
from assay.records import Measurement, Metric, Result, Run, Scalar, to_plain
from assay.view import report
from assay.view.contents import gather
from assay.view.sentences import scaling as scaling_words
from stated_runs import result

MIB = 2**20
PER_RANK = 24  # images a step: 0.24 s at 100 images/s
TABLES = {
    "train": {"throughput": Metric("throughput", "images/s", "higher", "speed")},
    "exchange": {"latency": Metric("latency", "s", "lower", "time", scales=False)},
}
BLOCKS = (0.98, 1.0, 1 / 0.98)  # the luck of each


def metrics(run: Run) -> Mapping[str, Metric]:
    return TABLES[run.trial.benchmark]


def stating(made: Result, workload: str, **facts: Scalar) -> Result:
    trial = replace(made.run.trial, workload=workload)
    facts = {"backend": "gloo", "device": "cpu"} | facts
    return replace(made, run=replace(made.run, trial=trial), reading=replace(made.reading, facts=facts))


def training(
    shape: str, images_per_s: float, gradient_bytes: int | None, lucks: Sequence[float] = BLOCKS
) -> list[Result]:
    """Runs of one size; the second block is that which the mean gives."""
    ranks = int(shape[0]) * int(shape[2])
    stated = {} if gradient_bytes is None else {"gradient_bytes": gradient_bytes}
    found = []
    for block, luck in enumerate(lucks, start=1):
        rate = images_per_s * luck
        step = Measurement("step_time", PER_RANK * ranks / rate, "s", {}, "rank-0.log", 8)
        made = result(rate, shape=shape, block=block, more=[step])
        backend = "none" if ranks == 1 else "gloo"
        found.append(stating(made, "resnet50", global_batch_size=PER_RANK * ranks, backend=backend, **stated))
    return found


def allreduce(
    shape: str, latency_s: Mapping[int, float], facts: Mapping[str, Scalar] | None = None, **same: Any
) -> list[Result]:
    return [
        stating(
            result(
                None,
                shape=shape,
                block=block,
                benchmark="exchange",
                more=[
                    Measurement("latency", value / luck**2, "s", {"payload_bytes": size}, "rank-0.log", 9)
                    for size, value in latency_s.items()
                ],
                **same,
            ),
            "allreduce",
            **(facts or {}),
        )
        for block, luck in enumerate(BLOCKS, start=1)
    ]


def trained(gradient_bytes: int | None = 64 * MIB) -> list[Result]:
    """0.24 s a step on one rank; on two 0.32 s at 150 images/s, a quarter more than ideal would take."""
    return training("1x1", 100.0, gradient_bytes) + training("2x1", 150.0, gradient_bytes)


def found_in(results: Sequence[Result]) -> tuple[Communication, ...]:
    [curve] = curves(results, metrics=metrics)
    return study(curve, beside=results).communication


def test_an_exchange_lies_between_measured_payloads_on_log_axes() -> None:
    measured = {MIB: 0.001, 4 * MIB: 0.002, 16 * MIB: 0.02}
    assert exchange_s(measured, MIB) == 0.001
    assert exchange_s(measured, 16 * MIB) == 0.02
    assert exchange_s(measured, 2 * MIB) == pytest.approx(0.001 * 2**0.5)
    assert exchange_s(measured, 8 * MIB) == pytest.approx(0.002 * 10**0.5)
    assert exchange_s(measured, 48 * MIB) == pytest.approx(0.06), "at the largest payload's bandwidth"
    assert exchange_s(measured, MIB - 4) is None
    assert exchange_s({}, MIB) is None


def test_what_the_step_lost_is_held_against_one_exchange() -> None:
    """0.04 s of 0.32 s are 12.5 %; 0.08 s were lost, 25 %: half of it at most."""
    [found] = found_in(trained() + allreduce("2x1", {16 * MIB: 0.02, 256 * MIB: 0.08}))
    assert (found.shape, found.base, found.gradient_bytes) == ("2x1", "1x1", 64 * MIB)
    assert not found.extrapolated
    assert found.exchange.value == pytest.approx(0.04)
    assert found.step.value == pytest.approx(0.32)
    assert found.share.value == pytest.approx(0.125)
    assert found.share.low is not None
    assert found.share.low < 0.125 < (found.share.high or 0)
    assert found.lost is not None
    assert found.lost.value == pytest.approx(0.25)
    assert found.explained == pytest.approx(0.5)


def test_the_share_is_of_exchange_and_step_in_the_same_block() -> None:
    """A block slower by 2 % in its step and by 4 % in its exchange has a share that is 2 % larger."""
    [found] = found_in(trained() + allreduce("2x1", {64 * MIB: 0.04}))
    half = 4.302653 * 0.0202027 / 3**0.5  # t quantile of 2 degrees, spread of ±log 0.98
    assert (found.share.high or 0) / found.share.value == pytest.approx(2.718281828**half, rel=1e-4)


def test_gradients_beyond_every_payload_are_extrapolated_and_said_to_be() -> None:
    results = trained() + allreduce("2x1", {MIB: 0.001, 16 * MIB: 0.015})
    [found] = found_in(results)
    assert found.extrapolated
    assert found.exchange.value == pytest.approx(0.06)
    [curve] = curves(results, metrics=metrics)
    [words] = [
        text
        for name, text in scaling_words.list_conclusions(study(curve, beside=results))
        if name[:4] == "comm"
    ]
    assert words.startswith(
        "2 workers: one exchange of 67.11 MB takes 60 ms on its own, extrapolated from 16 MiB,"
    )
    assert (
        "of a step (at most: overlap hides part of it); the step lost 80 ms compared with 1 worker, 25.000"
        in words
    )
    assert words.endswith("communication explains at most 75 % of that, unless computation slows it down")


def test_of_several_all_reduces_the_one_that_reaches_the_gradients_counts() -> None:
    small = allreduce("2x1", {MIB: 0.001, 2 * MIB: 0.001})
    large = allreduce("2x1", {MIB: 0.001, 64 * MIB: 0.04}, params={"to": "64 MiB"})
    for results in (small + large, large + small):
        [found] = found_in(trained() + results)
        assert (found.extrapolated, found.exchange.value) == (False, pytest.approx(0.04))


def test_an_exchange_longer_than_the_loss_explains_all_of_it_and_no_more() -> None:
    [found] = found_in(trained() + allreduce("2x1", {64 * MIB: 0.16}))
    assert found.explained == 1.0
    assert scaling_words.communication(found).endswith("up to all of that, unless computation slows it down")


def test_where_nothing_is_lost_nothing_is_explained() -> None:
    two = training("2x1", 199.0, 64 * MIB, lucks=BLOCKS[::-1])
    [found] = found_in(training("1x1", 100.0, 64 * MIB) + two + allreduce("2x1", {64 * MIB: 0.01}))
    assert found.explained is None
    assert scaling_words.communication(found).endswith(
        "what the step lost compared with 1 worker can't be distinguished from zero"
    )


def test_the_smallest_size_has_a_share_and_no_loss() -> None:
    results = training("2x1", 100.0, 64 * MIB) + training("4x1", 150.0, 64 * MIB)
    [found] = found_in(results + allreduce("2x1", {64 * MIB: 0.048}))
    assert found.share.value == pytest.approx(0.1)
    assert (found.lost, found.explained) == (None, None)
    assert scaling_words.communication(found).endswith("of a step (at most: overlap hides part of it)")


def test_single_runs_give_figures_without_interval_and_explain_nothing() -> None:
    results = [r for r in trained() + allreduce("2x1", {64 * MIB: 0.04}) if r.run.trial.block == 2]
    [found] = found_in(results)
    assert found.explained is None
    words = scaling_words.communication(found)
    assert "12.5 % (no interval) of a step" in words
    assert words.endswith("the step lost 80 ms compared with 1 worker, 25 % (no interval) of it")


LATENCY = {64 * MIB: 0.04}


@pytest.mark.parametrize(
    "beside",
    [
        [],
        allreduce("1x2", LATENCY),
        allreduce("2x1x2", LATENCY),
        allreduce("2x1", LATENCY, session="2026-03-02T100000Z"),
        allreduce("2x1", LATENCY, suite="other"),
        allreduce("2x1", LATENCY, system="b"),
        allreduce("2x1", LATENCY, {"backend": "nccl"}),
        allreduce("2x1", LATENCY, {"device": "cuda"}),
        allreduce("2x1", LATENCY, problems=["3 of 8 elements are not the sum"]),
        allreduce("2x1", {128 * MIB: 0.04}),
    ],
    ids=[
        "no all-reduce",
        "another shape",
        "other nodes",
        "another session",
        "another suite",
        "another system",
        "another backend",
        "another device",
        "no result",
        "larger payloads only",
    ],
)
def test_nothing_is_said_where_the_exchange_was_not_measured(beside: list[Result]) -> None:
    assert found_in(trained() + allreduce("2x1", LATENCY)) != ()
    assert found_in(trained() + beside) == ()


def test_nothing_is_said_of_a_program_that_does_not_state_its_gradients() -> None:
    beside = allreduce("2x1", LATENCY)
    assert found_in(trained(gradient_bytes=None) + beside) == ()
    mixed = training("1x1", 100.0, 64 * MIB) + training("2x1", 150.0, 64 * MIB)[:2]
    assert found_in([*mixed, training("2x1", 150.0, 32 * MIB)[2], *beside]) == ()


def test_the_page_markdown_and_json_say_it() -> None:
    results = trained() + allreduce("2x1", LATENCY)
    contents = gather({"a": results}, metrics)
    for text in (report.html_page(contents), report.markdown_text(contents)):
        assert "one exchange of 67.11 MB takes 40 ms on its own" in text
    [plain] = to_plain(contents.studies)
    assert plain["communication"][0]["explained"] == pytest.approx(0.5)
    without = gather({"a": trained()}, metrics)
    assert "exchange" not in report.markdown_text(without)
