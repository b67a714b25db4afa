"""Log lines of every round, wherever and in whatever state they stand in a file."""

from __future__ import annotations

import gzip
import json
import lzma
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.formats import mllog
from assay.formats.mllog import EventReader, events
from conftest import long_but

V05 = b':::MLPv0.5.0 ssd 1541711903.588428736 (train.py:333) eval_accuracy: {"epoch": 32, "value": 0.15}'
V06 = b':::MLL 1558570838.588 run_start: {"value": null, "metadata": {"file": "train.py", "lineno": 610}}'
V07 = (
    b':::MLLOG {"namespace": "", "time_ms": 1696579312820, "event_type": "INTERVAL_END", "key": "run_stop", '
    b'"value": null, "metadata": {"file": "fit.py", "lineno": 1050, "status": "success", "epoch": 34}}'
)
LINES = (V05, V06, V07)


def read(tmp_path: Path, data: bytes) -> tuple[list[mllog.Event], EventReader]:
    path = tmp_path / "log.txt"
    path.write_bytes(data)
    reader = EventReader(path)
    return list(reader), reader


def test_a_line_of_v05_has_its_benchmark_and_place_in_the_metadata(tmp_path: Path) -> None:
    (event,), _ = read(tmp_path, V05 + b"\n")
    assert (event.form, event.key, event.kind, event.line) == ("v0.5", "eval_accuracy", "point", 1)
    assert event.value == {"epoch": 32, "value": 0.15}
    assert event.metadata == {"benchmark": "ssd", "file": "train.py", "lineno": 333}
    assert event.time_ms == pytest.approx(1541711903588.43)


def test_a_value_of_v05_may_be_missing_json_or_a_bare_word(tmp_path: Path) -> None:
    head = b":::MLPv0.5.0 resnet 1541711903.5 (<string>:1) "
    found, reader = read(tmp_path, head + b"run_final\n" + head + b"opt_name: sgd\n" + head + b"seed: 7\n")
    assert [event.value for event in found] == [None, "sgd", 7]
    assert reader.skipped == 0


def test_a_line_of_v06_counts_seconds_and_takes_the_kind_from_the_keys_ending(tmp_path: Path) -> None:
    (event,), _ = read(tmp_path, V06)
    assert (event.form, event.kind, event.value) == ("v0.6", "start", None)
    assert event.time_ms == pytest.approx(1558570838588.0)
    assert event.metadata == {"file": "train.py", "lineno": 610}


def test_a_line_of_v07_is_decoded_as_it_stands(tmp_path: Path) -> None:
    (event,), _ = read(tmp_path, V07)
    assert (event.form, event.kind, event.key, event.time_ms) == ("v0.7", "end", "run_stop", 1696579312820.0)
    assert event.metadata["status"] == "success"


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("prefix", [b"", b"0: ", b"[1,0]<stdout>:", b"\xff\xe9 garbled ", b"100%|###| 5/5\r"])
def test_tokens_are_found_behind_any_prefix(tmp_path: Path, line: bytes, prefix: bytes) -> None:
    found, reader = read(tmp_path, b"noise\n" + prefix + line + b"\nnoise\n" + prefix + line + b"\n")
    assert [event.line for event in found] == [2, 4]
    assert reader.skipped == 0


@pytest.mark.parametrize("line", [V06, V07])
def test_text_behind_the_json_does_no_harm(tmp_path: Path, line: bytes) -> None:
    (event,), reader = read(tmp_path, b"+ echo '" + line + b"' # and more {\n")
    (plain,), _ = read(tmp_path, line)
    assert (event.key, event.value, event.metadata) == (plain.key, plain.value, plain.metadata)
    assert reader.skipped == 0


def test_two_ranks_that_wrote_into_one_line_are_two_events(tmp_path: Path) -> None:
    found, reader = read(tmp_path, V07 + V07 + V06 + b" " + V05 + V05 + b"\n" + V07)
    assert [event.form for event in found] == ["v0.7", "v0.7", "v0.6", "v0.5", "v0.5", "v0.7"]
    assert [event.line for event in found] == [1, 1, 1, 1, 1, 2]
    assert reader.skipped == 0


def test_a_token_quoted_inside_an_entry_is_no_event_of_its_own(tmp_path: Path) -> None:
    quoting = b':::MLLOG {"time_ms": 1, "key": "cmd", "value": "grep \':::MLLOG \' x"} tail\n'
    (event,), reader = read(tmp_path, quoting)
    assert event.key == "cmd"
    assert reader.skipped == 0


@pytest.mark.parametrize(
    "line",
    [
        V07[:-1],
        V07[:60],
        b":::MLLOG",
        b":::MLLOG not json",
        b":::MLLOG []",
        b':::MLLOG {"key": "no_time"}',
        b':::MLLOG {"time_ms": "1", "key": "text_time"}',
        b':::MLLOG {"time_ms": 1e300, "key": "late"}',
        b':::MLLOG {"time_ms": NaN, "key": "never"}',
        b':::MLLOG {"time_ms": true, "key": "bool"}',
        b':::MLLOG {"time_ms": 1, "key": 5}',
        b':::MLLOG {"time_ms": 1, "key": "k", "metadata": "text"}',
        b':::MLLOG {"time_ms": 1, "key": "k", "event_type": "SOMETHING"}',
        b':::MLLOG {"time_ms": 1, "key": "k", "value": "\\ud800"}',
        b':::MLLOG {"time_ms": 1, "key": "k", "value": ' + b"[" * 100_000,
        b":::MLL 1.2.3 run_start: {}",
        b":::MLL nan run_start: {\"value\": 1}",
        b":::MLL 1.2 run_start: 5",
        b":::MLPv0.5.0 ssd",
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_counted_and_reading_goes_on(tmp_path: Path, line: bytes) -> None:
    found, reader = read(tmp_path, b"x\n" + line + b"\n" + V07 + b"\n")
    assert [event.line for event in found] == [3]
    assert (reader.skipped, reader.skipped_at, reader.cut) == (1, [2], False)


def test_nan_and_null_metadata_and_latin_1_are_what_real_loggers_write(tmp_path: Path) -> None:
    lines = (
        b':::MLLOG {"time_ms": 1, "key": "loss", "value": NaN, "metadata": {"epoch_num": 1}}\n'
        b':::MLLOG {"time_ms": 1, "key": "k", "value": 1, "metadata": null}\n'
        b':::MLLOG {"time_ms": null, "key": "org", "value": "Soci\xe9t\xe9"}\n'
        b':::MLLOG {"time_ms": 1, "key": "org", "value": "Soci\xc3\xa9t\xc3\xa9"} tail\n'
    )
    (loss, null, latin, utf8), reader = read(tmp_path, lines)
    assert loss.value != loss.value
    assert null.metadata == {}
    assert latin.time_ms is None
    assert latin.value == utf8.value == "Société"
    assert reader.skipped == 0


def test_a_log_cannot_forge_what_the_reader_adds(tmp_path: Path) -> None:
    forged = b'{"time_ms": 1, "key": "k", "value": 5, "line": 99, "form": "v0.5"}'
    (event, old), _ = read(tmp_path, b":::MLLOG " + forged + b"\n:::MLL 9.0 run_stop: " + forged)
    assert (event.line, event.form) == (1, "v0.7")
    assert (old.line, old.form, old.key, old.kind, old.time_ms) == (2, "v0.6", "run_stop", "end", 9000.0)


def test_a_last_line_cut_in_the_middle_is_told(tmp_path: Path) -> None:
    found, reader = read(tmp_path, V07 + b"\n" + V07[:70])
    assert len(found) == 1
    assert (reader.skipped, reader.cut) == (1, True)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compressed_logs_are_told_by_their_content(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    found, reader = read(tmp_path, pack(b"a\n" + V07 + b"\n"))
    assert [event.line for event in found] == [2]
    assert reader.problem == ""


@pytest.mark.parametrize("pack", long_but(1, [gzip.compress, lzma.compress]))
def test_a_compressed_log_cut_short_gives_what_can_be_read_and_says_so(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    whole = b"".join(V07.replace(b"1050", b"%d" % n) + b"\n" for n in range(50_000))
    path = tmp_path / "log.txt"
    path.write_bytes(pack(whole)[:-2000])
    reader = EventReader(path)
    assert 0 < len(list(reader)) < 50_000
    assert "truncated" in reader.problem
    with pytest.raises(InputError, match="truncated"):
        list(events(path))


def test_a_file_that_cannot_be_opened_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.txt: can't be read: No such file"):
        list(events(tmp_path / "absent.txt"))


@given(
    pieces=st.lists(
        st.one_of(st.sampled_from([*LINES, b"\n", b"\r", b":::MLLOG ", b":::ML", b"{"]), st.binary())
    ),
    block=st.integers(1, 400),
)
def test_where_the_blocks_are_cut_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], block: int
) -> None:
    data = b"".join(pieces)
    path = tmp_path_factory.mktemp("fuzz") / "log.txt"
    path.write_bytes(data)
    whole = EventReader(path)
    expected = list(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mllog, "BLOCK_BYTES", block)
        cut = EventReader(path)
        assert [repr(event) for event in cut] == [repr(event) for event in expected]
    assert (cut.skipped, cut.cut, cut.problem) == (whole.skipped, whole.cut, whole.problem)


@given(
    line=st.sampled_from(LINES),
    changes=st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=3)), max_size=4),
)
def test_a_damaged_line_is_an_event_or_counted_and_never_an_exception(
    tmp_path_factory: pytest.TempPathFactory, line: bytes, changes: list[tuple[int, bytes]]
) -> None:
    for at, piece in changes:
        line = line[:at] + piece + line[at + 1 :]
    path = tmp_path_factory.mktemp("fuzz") / "log.txt"
    path.write_bytes(line)
    for event in EventReader(path):
        json.dumps(event.value).encode()
        assert event.time_ms is None or abs(event.time_ms) <= mllog.LATEST_MS


def test_an_endless_line_is_read_in_flat_memory_and_tokens_in_it_are_found(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with path.open("wb") as file:
        for _ in range(32):
            file.write(b"." * (1 << 20) + V07)
    tracemalloc.start()
    reader = EventReader(path)
    assert sum(1 for _ in reader) + reader.skipped == 32
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20


def test_a_hostile_line_full_of_tokens_costs_no_square_of_its_length(tmp_path: Path) -> None:
    found, reader = read(tmp_path, b':::MLLOG {"' * 20_000)
    assert (len(found), reader.skipped) == (0, 20_000)
