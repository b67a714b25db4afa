"""Names in narrow tables break at their dashes and dots, never in mid-word, and nothing is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from assay.view import blocks
from assay.view.blocks import listed
from assay.view.folding import FoldedText, folded, shortened


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("bare-metal", 20, ["bare-metal"]),
        ("kubernetes-on-rack-7", 12, ["kubernetes-", "on-rack-7"]),
        ("training-batch_size32 on 2 workers", 14, ["training-", "batch_size32", "on 2 workers"]),
        ("  demo/2026.bench", 10, ["  demo/", "  2026.", "  bench"]),
        ("incomprehensibilities", 10, ["incom…ties"]),
        ("", 5, [""]),
    ],
)
def test_lines_end_at_spaces_and_after_dashes(text: str, width: int, lines: list[str]) -> None:
    assert folded(text, width) == lines


@given(st.text(st.sampled_from("ab-_. ")), st.integers(1, 12))
def test_no_line_is_too_wide_and_without_a_long_part_nothing_is_lost(text: str, width: int) -> None:
    lines = folded(text.strip(), width)
    assert all(len(line) <= width for line in lines)
    if all(len(part) <= width for part in re.findall(r"[^-_. ]*[-_.]*", text)):
        assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_part_that_is_too_wide_keeps_its_ends() -> None:
    assert [shortened("throughput", width) for width in (10, 5, 1)] == ["throughput", "th…ut", "…"]


def test_a_column_of_a_table_breaks_its_names_and_not_its_words() -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("")
    table.add_column(FoldedText("openshift-cluster"), width=10, justify="right")
    table.add_row(FoldedText("training-of-a-network throughput"), "1.0")
    console = Console(width=30, no_color=True)
    with console.capture() as captured:
        console.print(table)
    words = {word for word in re.split(r"[\s-]+", captured.get()) if word}
    assert words == {"openshift", "cluster", "training", "of", "a", "network", "throughput", "1.0"}


def test_a_list_folds_its_last_cell_and_leaves_what_is_typed_whole() -> None:
    row = blocks.TableRow(("demo/2026-03-01T100000Z:bare-metal", "12", "one two three four five six"))
    columns = ("reference", "ok", "benchmarks")
    block = blocks.Table("", columns, (blocks.TableBody("", (row,)),), frozenset(range(3)), listing=True)
    assert list(listed(block, None))[1].endswith("12  one two three four five six")
    assert list(listed(block, 66))[2:] == [" " * 40 + "six"]
    narrow = list(listed(block, 44))
    assert narrow[2:] == [f"{row.cells[0]}  12", "    one two three four five six"]
    assert max(map(len, narrow)) <= 44
