"""How numbers are written: digits follow the interval, rows share a unit, and what is shown agrees."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assay.records import Comparison, Estimate, Point
from assay.units import factor, human, significant
from assay.view import figures
from assay.view.figures import MOST_DIGITS

MAGNITUDES = st.floats(-9, 12).map(lambda power: 10.0**power)
WIDTHS = st.floats(-8, 0.5).map(lambda power: 10.0**power)  # half of the interval over the figure
UNITS = st.sampled_from(["", "images/s", "B/s", "GB/s", "s", "ms", "FLOP/s", "J"])


def number(text: str) -> float:
    return float(text.replace(",", ""))


def estimate(value: float, width: float, unit: str = "") -> Estimate:
    """An interval of this half-width; on the log scale where it would reach below 0."""
    low = value * (1 - width) if width < 0.5 else value / (1 + width)
    return Estimate(value, low, value * (1 + width), 5, unit)


def shows_two_digits(texts: list[str], half: float) -> bool:
    """Whether a step of the last decimal is at most a tenth of half the interval, itself rounded."""
    decimals = [len(text.partition(".")[2]) for text in texts]
    return 10.0 ** -min(decimals) <= half * 0.1006 or half >= 9.9


@given(MAGNITUDES, WIDTHS)
def test_a_ratio_shows_two_digits_of_half_its_interval_and_no_exponent(value: float, width: float) -> None:
    found = estimate(value, width)
    assert found.low is not None
    assert found.high is not None
    texts = re.findall(r"[^ ()]+", figures.ratio(found).replace(" to ", " "))
    assert len(texts) == 3
    assert not any("e" in text for text in texts)
    assert shows_two_digits(texts, (found.high - found.low) / 2)
    assert texts[1] != texts[2], "an interval is not a point"
    for text, exact in zip(texts, (found.value, found.low, found.high), strict=True):
        assert number(text) > 0
        assert abs(number(text) - exact) <= max((found.high - found.low) / 2 / 20, 0.05 * exact)


@given(MAGNITUDES, WIDTHS, UNITS)
def test_a_measured_figure_shows_two_digits_of_half_its_interval(
    value: float, width: float, unit: str
) -> None:
    found = estimate(value, width, unit)
    assert found.low is not None
    assert found.high is not None
    text, interval, n = figures.measured(found)
    mean, _, shown_unit = text.partition(" ")
    low, _, high = interval.partition(" to ")
    scale = factor(unit)[0] / factor(shown_unit)[0] if shown_unit else 1.0
    assert n == "5"
    assert "e" not in mean + low + high
    assert shows_two_digits([mean, low, high], (found.high - found.low) / 2 * scale)
    assert math.isclose(number(mean), value * scale, rel_tol=0.005)
    assert number(low) < number(high)


@given(st.lists(MAGNITUDES, min_size=1, max_size=8), UNITS)
def test_a_column_has_one_unit_and_every_figure_three_digits(values: list[float], unit: str) -> None:
    shown, texts = figures.column(values, unit)
    scale = factor(unit)[0] / factor(shown)[0] if unit else 1.0
    assert (shown == "") == (unit == "")
    for value, text in zip(values, texts, strict=True):
        assert math.isclose(number(text), value * scale, rel_tol=0.006)


@given(MAGNITUDES, st.floats(0.2, 5), st.floats(-6, -0.5).map(lambda power: 10.0**power))
def test_the_quotient_of_the_shown_means_is_the_shown_ratio(mean: float, ratio: float, width: float) -> None:
    found = Estimate(ratio, ratio * (1 - width), ratio * (1 + width), 5, "")
    point = Point("b", "1x1", "throughput", "images/s", "higher", {})
    c = Comparison(point, "a", "b", mean, mean * ratio, found, (5, 5), "welch", 0.02, "undecided", "", width)
    _, (a, b) = figures.means([c])
    assert abs(number(b) / number(a) - number(figures.ratio_value(found))) <= 0.2 * ratio * width


@given(st.floats(1e-9, 1e12) | MAGNITUDES, st.integers(1, MOST_DIGITS))
def test_a_number_alone_has_its_digits_and_no_exponent(value: float, digits: int) -> None:
    text = significant(value, digits)
    assert "e" not in text
    assert math.isclose(number(text), value, rel_tol=0.5000001 * 10.0 ** (1 - digits))
    assert "e" not in human(value, "x")


def test_what_stood_as_one_number_or_with_an_exponent_is_told_apart() -> None:
    assert figures.ratio(Estimate(11.02, 10.87, 11.17, 10, "")) == "11.02 (10.87 to 11.17)"
    assert figures.ratio(Estimate(120.1, 118.2, 122.0, 10, "")) == "120.1 (118.2 to 122.0)"
    assert figures.measured(Estimate(7112.3, 7111.9, 7112.7, 5, "images/s"))[1] == "7,111.90 to 7,112.70"
    assert figures.share(Estimate(0.9963, 0.9961, 0.9965, 5, "")) == "99.630 % (99.610 to 99.650 %)"
    assert figures.percent(0.996) == "100 %"
    assert human(9999.7, "images/s") == "10,000 images/s"


def test_an_interval_that_is_what_is_left_of_rounding_has_no_endless_digits() -> None:
    almost = Estimate(1.0, 1 - 2e-16, 1 + 2e-16, 5, "")
    assert len(figures.ratio_value(almost)) <= MOST_DIGITS + 1
    assert figures.ratio(replace(almost, low=1.0, high=1.0)) == "1.000 (1.000 to 1.000)"


def test_a_ratio_of_many_digits_is_said_to_be_beyond_what_anybody_reads() -> None:
    beyond = Estimate(3.2, 1e-21, 5e13, 4, "")
    assert figures.interval(beyond) == "<0.01 to >100"


EXTREME = st.floats(-320, -13).map(lambda power: 10.0**power) | st.floats(16, 300).map(lambda p: 10.0**p)


@given(EXTREME, WIDTHS, UNITS)
def test_a_figure_beyond_what_anybody_counts_has_an_exponent(value: float, width: float, unit: str) -> None:
    found = estimate(value, width, unit)
    for text in (
        figures.ratio_value(found),
        figures.measured(found)[0].partition(" ")[0],
        figures.column([value], "")[1][0],
        significant(value, 4),
        human(value, "x").partition(" ")[0],
    ):
        assert len(text) <= MOST_DIGITS + 12, text
        assert number(text) > 0
    assert math.isclose(number(significant(value, 4)), value, rel_tol=0.002) or value < 1e-305
    assert "nan" not in figures.interval(found)
    assert len(figures.interval(found)) <= 2 * MOST_DIGITS + 30


def test_an_exponent_is_written_short() -> None:
    assert figures.column([1e-320], "")[1] == ["1.000e-320"]
    assert figures.column([1e300, 1.234e300], "x/s") == ("x/s", ["1.000e300", "1.234e300"])
    assert significant(1e-320, 4) == "1e-320"
    assert significant(-1.5e16, 4) == "-1.5e16"
    assert human(1e300, "images/s") == "1e300 images/s"
    text, interval, _ = figures.measured(Estimate(1e300, 0.9e300, 1.1e300, 5, "x"))
    assert (text, interval) == ("1.0000e300 x", "9.000e299 to 1.1000e300")
    assert significant(999_999_999_999_999, 4) == "999,999,999,999,999"
    assert significant(1e-12, 4) == "0.000000000001"
