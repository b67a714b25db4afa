"""A user's patterns: one engine, equal to Python's where both understand them."""

from __future__ import annotations

import re

import pytest

from assay.formats.patterns import compiled
from conftest import ROOT

SHOWN = ("docs/how-to/suites.md", "src/assay/questions/init.py", "benchmarks/peers.py")
PATTERNS = (
    r"images/sec: (?P<value>[0-9.]+)",
    r"step (?P<step>\d+): (?P<value>\S+) images/s",
    r"(?P<op>copy|triad): (?P<value>\S+) MB/s",
    r"rate=(?P<value>\S*)",
    r"t=(?P<value>\d+)",
    r"(?P<value>[-+]?\d+(?:\.\d+)?)+",
    r"^(?:Epoch|epoch)\s+(?P<epoch>\d+).*?loss[:=]\s*(?P<value>[0-9.eE+-]+)\b",
    r"(?i)THROUGHPUT (?P<value>\d+)(?: (?P<unit>\w+/s))?$",
    r"µs: (?P<value>[^\s,]+)",
)
LINES = (
    "",
    "10	images/sec: 7101.3 +/- 4.2 (jitter = 12.9)	7.812",
    "step 1: 10 images/s step 2: 12.5 images/s",
    "copy: 10 MB/s triad: 12 MB/s",
    "x rate= rate=nan rate=5",
    "t=1 t=22",
    "-1.5+2.25 1e5",
    "Epoch  3 [12/40] – loss: 1.5e-3, lr=0.1",
    "throughput 12 images/s",
    "Throughput 12",
    "größe é µs: 4,5 µs: ∞\ufffd",
)


def shown() -> list[str]:
    """The patterns of the documents."""
    found = [p for name in SHOWN for p in re.findall(r"pattern: '(.+?)'", (ROOT / name).read_text())]
    assert len(found) >= len(SHOWN)
    return found


@pytest.mark.parametrize("pattern", [*PATTERNS, *shown()])
def test_a_pattern_finds_what_pythons_engine_finds(pattern: str) -> None:
    mine, pythons = compiled(pattern), re.compile(pattern, re.ASCII)
    assert mine.names == pythons.groupindex.keys()
    for line in LINES:
        found = [(match[0], match.groupdict()) for match in pythons.finditer(line)]
        assert [(m.text, m.groups) for m in mine.matches(line)] == found
    assert any(list(mine.matches(line)) for line in LINES) or pattern in shown()


@pytest.mark.parametrize("pattern", ["(" * 400, "\ud800", "a{99999999999999999999}", "[z-a]", "a**", "\\"])
def test_what_is_no_pattern_is_a_value_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is not a regular expression|surrogate pair"):
        compiled(pattern)
