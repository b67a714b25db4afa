"""Lines of telemetry become samples, or are counted as torn; never a number that nobody sampled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.telemetry.samples import Telemetry, TelemetryEvent, TelemetrySample, rates

HEADER = {
    "version": 1,
    "started_at": 5.0,
    "period_s": 1,
    "node": ["a_total", "b"],
    "gpu": ["c"],
    "gpus": [{"index": 3}],
}
FIRST = f":::ASSAY-TELEMETRY {json.dumps(HEADER)}\n"
LINES = ["n 0.5 10 - .\n", "g 0.5 3 97 .\n", "x 0.6 3 79 .\n", "! 0.7 GPU 3: it is lost\n"]


def test_each_kind_of_line_is_read() -> None:
    telemetry = Telemetry()
    assert list(telemetry.read([FIRST, *LINES])) == [
        TelemetrySample(0.5, {"a_total": 10.0}),
        TelemetrySample(0.5, {"c": 97.0}, gpu=3),
        TelemetryEvent(0.6, "Xid 79", gpu=3, xid=79),
        TelemetryEvent(0.7, "GPU 3: it is lost"),
    ]
    assert telemetry.torn == 0


@pytest.mark.parametrize(
    "line",
    ["n 0.5 10 .", "n 0.5 10 1 2 .", "n x 1 2 .", "n - 1 2 .", "n 0.5 nan 1 .", "n 0.5 1e999 1 .",
     "g 0.5 a 1 .", "g 0.5 .", "n 0.5 10 1", "g 0.5 3 9", "n", "g",
     "x 1 2 .", "x 1 2 b .", "x 0.6 3 79", "!", "! 3", "! x y", "hello",
     ":::ASSAY-TELEMETRY {", ":::ASSAY-TELEMETRY {}"],
)  # fmt: skip
def test_a_line_that_is_not_whole_is_counted_and_gives_nothing(line: str) -> None:
    telemetry = Telemetry()
    assert list(telemetry.read([FIRST, line])) == []
    assert telemetry.torn == 1


def test_samples_of_a_newer_assay_are_refused() -> None:
    with pytest.raises(InputError, match="version 2; this Assay reads version 1"):
        list(Telemetry().read([FIRST.replace('"version": 1', '"version": 2')]))


@given(st.integers(0, len("".join(LINES)) - 1), st.text(max_size=30))
def test_whatever_is_cut_or_falls_in_leaves_only_values_that_were_sampled(end: int, fallen: str) -> None:
    telemetry = Telemetry()
    cut = "".join(LINES)[:end].splitlines()
    whole = list(Telemetry().read([FIRST, *LINES]))
    for found in telemetry.read([FIRST, *cut[:-1], fallen.replace("\n", " "), *cut[-1:]]):
        is_note = isinstance(found, TelemetryEvent) and found.xid is None
        assert found in whole or is_note or fallen.startswith(("n ", "g ", "x "))


def test_a_counter_that_was_reset_has_no_rate() -> None:
    before, after = (
        TelemetrySample(1.0, {"up_total": 5.0, "down_total": 9.0}),
        TelemetrySample(3.0, {"up_total": 9.0, "down_total": 1.0}),
    )
    assert rates(before, after) == {"up": 2.0}
    assert rates(after, after) == {}
