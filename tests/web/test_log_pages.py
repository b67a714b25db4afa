"""Logs in pages: every line has its number wherever the page begins, and a search can be continued."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.inputs import Log
from assay.rundir import log_pages
from assay.rundir.log_pages import read_page, search


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 bytes, so that a small log has many."""
    monkeypatch.setattr(log_pages, "BLOCK_BYTES", 16)


@given(
    lines=st.lists(st.text("ab\n", max_size=40), max_size=40), first=st.integers(1, 60), ended=st.booleans()
)
def test_a_page_has_the_lines_that_readers_number_the_same(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], first: int, ended: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "rank-0.log"
    path.write_text("\n".join(lines) + "\n" * ended)
    known = [(number, text.decode()) for number, text in Log(path).lines()]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_pages, "BLOCK_BYTES", 16)
        page = read_page(path, first, most=5)
    begin = min(first, max(1, len(known)))
    assert [(line.number, line.text) for line in page.lines] == known[begin - 1 : begin + 4]
    assert page.total == len(known)


@pytest.mark.usefixtures("small_blocks")
def test_a_log_that_grows_or_is_replaced_is_counted_again(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("one\n" * 20)
    assert read_page(path).total == 20
    with path.open("a") as log:
        log.write("two\n" * 20)
    assert [line.text for line in read_page(path, 20, most=2).lines] == ["one", "two"]
    path.unlink()
    path.write_text("three\n")
    assert [line.text for line in read_page(path, 1).lines] == ["three"]


@pytest.mark.usefixtures("small_blocks")
def test_a_line_as_long_as_a_disk_is_cut_and_the_next_one_is_found(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("x" * 10_000 + "\nnext\n")
    first, second = read_page(path).lines
    assert (len(first.text), first.cut, second.text, second.number) == (2000, True, "next", 2)


@pytest.mark.usefixtures("small_blocks")
def test_a_search_that_ends_early_continues_where_it_stopped_and_finds_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "SEARCHED_BYTES", 64)
    monkeypatch.setattr(log_pages, "MOST_MATCHES", 3)
    path = tmp_path / "rank-0.log"
    path.write_text("".join(f"{'Step' if at % 3 == 0 else 'no'} {at}\n" for at in range(1, 61)))
    found, first = [], 1
    for _ in range(100):
        part = search(path, "step", first)
        found += [line.number for line in part.lines]
        if part.next_line is None:
            break
        assert part.next_line >= first
        first = part.next_line
    assert found == [number for number in range(1, 61) if number % 3 == 0]


@pytest.mark.usefixtures("small_blocks")
def test_a_search_gets_past_a_line_that_is_longer_than_what_is_searched_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "SEARCHED_BYTES", 64)
    path = tmp_path / "rank-0.log"
    path.write_text("x" * 10_000 + "\nthe words\n")
    part = search(path, "words", 1)
    assert (part.lines, part.next_line) == ((), 2)
    assert [line.number for line in search(path, "words", 2).lines] == [2]


@pytest.mark.parametrize("before", [1_000, 2_500, 20_000, 70_000, 5_000_000])
@pytest.mark.parametrize("end", [" ", "\r"], ids=["one line", "a progress bar"])
def test_a_search_finds_words_wherever_they_are_in_a_long_line(tmp_path: Path, before: int, end: str) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text(f"first\n{'a b ' * (before // 4)}Needle of {end}{'c d ' * 3000}{end}last\n", newline="")
    found = search(path, "needle")
    [line] = found.lines
    assert (line.number, "Needle of " in line.text, line.cut, found.next_line) == (2, True, True, None)
    assert len(line.text) <= 2000
    assert line.cut_before == (before > 2000)


@given(before=st.integers(0, 400), between=st.integers(0, 400), block=st.sampled_from([16, 64, 1 << 22]))
@example(before=0, between=5, block=16)
def test_a_long_line_shows_words_and_never_a_part_of_what_is_hidden(
    tmp_path_factory: pytest.TempPathFactory, before: int, between: int, block: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "rank-0.log"
    secret = "<" + "words" * 6 + ">"
    hidden = "x" * before + secret + "y" * between
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_pages, "BLOCK_BYTES", block)
        patched.setattr(log_pages, "_MARGIN_BYTES", 40)
        path.write_text(hidden + "z" * 400)
        assert search(path, "words", clean=lambda text: text.replace(secret, "*")).lines == ()
        path.write_text(hidden + "words" + "z" * 400)
        [line] = search(path, "words", clean=lambda text: text.replace(secret, "*")).lines
        assert line.text.count("words") == 1


def test_a_search_finds_the_last_line_of_a_log_that_is_exactly_what_is_searched_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "SEARCHED_BYTES", 64)
    monkeypatch.setattr(log_pages, "BLOCK_BYTES", 16)
    path = tmp_path / "rank-0.log"
    path.write_text("no\n" * 20 + "last")
    assert path.stat().st_size == 64
    assert [line.number for line in search(path, "last").lines] == [21]
