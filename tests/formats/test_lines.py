"""Formats that are a table of lines: what their words become, and what is torn or unfinished."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from assay.formats.figures import LogFigures
from assay.formats.lines import Line, line_tool
from assay.inputs import LONGEST_LINE
from assay.records import Metric

METRICS = (
    Metric("rate", "B/s", "higher", "bytes per second"),
    Metric("latency", "s", "lower", "time of one"),
)
LOG = """oven 2.1 on node-a
threads: 4
copy at 12.5 GB/s, 80.5 us in step 3
scale at 11.0 GB/s, 0 us in step 3
done 9.9 of 2
"""


def read(tmp_path: Path, text: str) -> LogFigures:
    oven = line_tool(
        "oven",
        mark="oven",
        metrics=METRICS,
        lines=(
            r"^{kernel} at {rate:GB/s} GB/s, {latency:us} us in step {step}$",
            Line("^done {} of {rounds}$", final="end", agrees=lambda line, _before: line["rounds"] != "0"),
            r"^oven {version} on {host}$",
            "^threads: {threads}$",
        ),
        torn=" GB/s",
        failed="ERROR:? .*",
    )
    log = tmp_path / "log"
    log.write_text(text)
    return oven.read(log)


def test_a_words_name_says_what_it_is(tmp_path: Path) -> None:
    log = read(tmp_path, LOG)
    assert [(f.metric, f.value, f.unit, f.labels, f.at, f.line) for f in log.figures] == [
        ("rate", 12.5, "GB/s", {"kernel": "copy"}, {"step": 3.0}, 3),
        ("latency", 80.5, "us", {"kernel": "copy"}, {"step": 3.0}, 3),
        ("rate", 11.0, "GB/s", {"kernel": "scale"}, {"step": 3.0}, 4),
        ("latency", 0.0, "us", {"kernel": "scale"}, {"step": 3.0}, 4),
    ]
    assert log.facts == {"version": "2.1", "host": "node-a", "threads": 4, "rounds": 2}
    assert (log.problems, log.skipped) == ([], 0)


@pytest.mark.parametrize(
    ("whole", "torn"), [("12.5", "0"), ("12.5", "nan"), ("80.5", "x"), ("step 3", "step x")]
)
def test_a_line_without_its_numbers_is_torn(tmp_path: Path, whole: str, torn: str) -> None:
    log = read(tmp_path, LOG.replace(whole, torn, 1))
    assert ([f.line for f in log.figures], log.skipped) == ([4, 4], 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LOG.replace("done", "dune"), "its last line is missing"),
        (LOG.replace("9.9", "9.9s"), "its last line is missing"),
        (LOG.replace("of 2", "of 0"), "its last line is missing"),
        (LOG + "done 1 of 2\n", "line 6: a second end: the file holds several runs"),
        (LOG + "[0] ERROR: too hot\n", "line 6: ERROR: too hot"),
        (LOG + "Traceback (most recent call last):\n", "line 6: the program crashed"),
        ("done 1 of 2\n", "no line has a figure"),
    ],
)
def test_what_is_no_result_says_why(tmp_path: Path, text: str, problem: str) -> None:
    assert read(tmp_path, text).problems[0].startswith(problem)


def test_a_figure_at_the_end_of_a_line_that_has_none_may_have_lost_digits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for lines in (["rate: {rate:B/s}"], [Line(r"rate: {rate:B/s}\s*$", final="rate")]):
        oven = line_tool("oven", mark="oven", metrics=METRICS[:1], lines=lines)
        log.write_text("rate: 100\nrate: 12")
        assert (oven.read(log).skipped, len(oven.read(log).figures)) == (1, 1)
        assert oven.read(log).figures[0].unit == "B/s"


@pytest.mark.parametrize(
    ("pattern", "mistake"),
    [
        ("rate {rate}", r"{rate}: its unit as printed is missing, as in {rate:B/s}"),
        ("rate {rate:GBps}", "{rate:GBps}: GBps can't be converted to B/s"),
        ("rate {rate:ms}", "{rate:ms}: ms can't be converted to B/s"),
        (
            "{rate:B/s} of {bandwith:GB/s}",
            "{bandwith:GB/s}: a label has no unit, and the metrics are rate, latency",
        ),
        ("(rate {rate:B/s}", "the pattern '(rate {rate:B/s}' is no regular expression: missing )"),
        ("{latency:us}", "rate: no line has {rate}"),
    ],
)
def test_a_table_that_would_be_read_as_something_else_is_refused(pattern: str, mistake: str) -> None:
    with pytest.raises(ValueError, match=f"oven: .*{re.escape(mistake)}"):
        line_tool("oven", mark="oven", metrics=METRICS, lines=[pattern])


def test_a_direction_that_is_none_is_refused() -> None:
    rate = replace(METRICS[0], better=cast(Any, "up"))
    with pytest.raises(ValueError, match="rate: better is 'up'"):
        line_tool("oven", mark="oven", metrics=[rate], lines=["{rate:B/s}"])


@pytest.mark.parametrize("piece", ["/", "a/", "a", "1/", "1", "x"])
def test_a_pattern_that_begins_with_a_word_takes_time_by_the_length_of_a_line(
    tmp_path: Path, piece: str
) -> None:
    lines = (
        *("{kernel}/{rate:B/s}/{latency:s} in", "{rate:B/s}x{latency:s} in"),
        r"{kernel}\({rate:B/s}\)",
    )
    oven = line_tool("oven", mark="oven", metrics=METRICS, lines=lines)
    log = tmp_path / "log"
    log.write_text((piece * LONGEST_LINE)[:LONGEST_LINE] + "\n")
    began = time.monotonic()
    assert oven.read(log).figures == []
    assert time.monotonic() - began < 10
