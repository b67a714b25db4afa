"""Samplers' lines become tables when a run is settled; before and after, they are read as the same values."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InputError
from assay.telemetry import recorded
from assay.telemetry.gpu_use import gpu_uses
from assay.telemetry.samples import TABLES, Telemetry, TelemetryEvent, TelemetrySample

HEADER = {
    "version": 1,
    "started_at": 1000.0,
    "period_s": 1.0,
    "node": ["cpu_busy_seconds_total", "memory_available_bytes"],
    "gpu": ["power_watts"],
    "gpus": [{"index": 0, "uuid": "GPU-1"}, {"index": 1}],
}
FIRST = f":::ASSAY-TELEMETRY {json.dumps(HEADER)}\n"
BODY = "n 1 10 - .\ng 1.1 0 300 .\ng 1.1 1 - .\nx 1.5 1 79 .\nn 2 11 5 .\n! 2.2 GPU 1: lost\nn 9 18 6 .\n"


def attempt(directory: Path, *logs: str) -> Path:
    (directory / "logs").mkdir(parents=True)
    (directory / "logs/rank-0.log").write_text("value: 1\n")
    for node, text in enumerate(logs):
        (directory / f"logs/telemetry-{node}.log").write_text(text)
    return directory


def rows(directory: Path, name: str) -> list[tuple[object, ...]]:
    with recorded.tables(directory) as tables:
        return tables.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall()


def test_lines_and_tables_have_the_same_samples(tmp_path: Path) -> None:
    directory = attempt(tmp_path, FIRST + BODY, FIRST.replace("1000.0", "1000.5") + BODY)
    before = {name: rows(directory, name) for name in TABLES}
    about = recorded.nodes(directory)
    recorded.store(directory)
    assert not list((directory / "logs").glob("telemetry-*"))
    assert {name: rows(directory, name) for name in TABLES} == before
    assert recorded.nodes(directory) == about
    assert before["node"][0] == (0, 1001.0, 10.0, None)
    assert before["gpu"][0] == (0, 0, 1001.1, 300.0)
    assert len(before["node"]) == len(before["gpu"]) + 2 == 6
    assert [event.words for event in about[1].events] == ["Xid 79", "GPU 1: lost"]
    assert (about[0].samples, about[0].torn, about[0].node) == (3, 0, 0)


def test_a_gap_is_named(tmp_path: Path) -> None:
    directory = attempt(tmp_path, FIRST + BODY)
    recorded.store(directory)
    with recorded.tables(directory) as tables:
        found = recorded.gaps(tables, recorded.nodes(directory))
        to_its_end = recorded.gaps(tables, recorded.nodes(directory), until=1100.0)
        soon_noticed = recorded.gaps(tables, recorded.nodes(directory), until=1012.0)
    middle = recorded.TelemetryGap(0, None, 1002.0, 1009.0)
    assert found == [middle]
    assert middle in soon_noticed
    assert not any(gap.end_at == 1012.0 and gap.gpu is None for gap in soon_noticed)
    assert middle in to_its_end
    assert recorded.TelemetryGap(0, None, 1009.0, 1100.0) in to_its_end


def test_a_sampler_that_took_no_sample_leaves_nothing(tmp_path: Path) -> None:
    directory = attempt(tmp_path, "", FIRST, "no header\n")
    recorded.store(directory)
    assert [path.name for path in (directory / "logs").iterdir()] == ["rank-0.log"]
    assert not (directory / "telemetry").exists()
    assert recorded.nodes(directory) == ()
    assert rows(directory, "node") == rows(directory, "gpu") == []


@pytest.mark.parametrize("left", [".telemetry.new", "telemetry"])
def test_a_kill_while_storing_is_made_good_by_the_next_call(tmp_path: Path, left: str) -> None:
    directory = attempt(tmp_path, FIRST + BODY)
    (directory / left).mkdir()
    (directory / left / "node.parquet").write_bytes(b"PAR1 half a file")
    expected = rows(directory, "node")
    recorded.store(directory)
    assert rows(directory, "node") == expected
    assert not (directory / ".telemetry.new").exists()


def test_damaged_tables_are_a_clear_error(tmp_path: Path) -> None:
    directory = attempt(tmp_path, FIRST + BODY)
    recorded.store(directory)
    (directory / "telemetry/node.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="telemetry: damaged"):
        rows(directory, "node")
    (directory / "telemetry/about.json").write_text("{")
    with pytest.raises(InputError, match=r"about\.json: damaged"):
        recorded.nodes(directory)


@pytest.mark.parametrize("hostile", ['"index": "0"', '"number": 0', '"index": null'])
def test_a_description_that_names_gpus_in_another_way_is_a_clear_error(tmp_path: Path, hostile: str) -> None:
    directory = attempt(tmp_path, FIRST + BODY)
    recorded.store(directory)
    about = directory / "telemetry/about.json"
    about.write_text(about.read_text().replace('"index": 0', hostile))
    with pytest.raises(InputError, match="not the sampler's"):
        gpu_uses(directory)


def test_columns_of_another_kind_are_a_clear_error(tmp_path: Path) -> None:
    directory = attempt(tmp_path, FIRST + BODY)
    recorded.store(directory)
    words = "SELECT 'x' AS node, 'y' AS gpu, 'z' AS unix_s, 'w' AS power_watts"
    duckdb.execute(f"COPY ({words}) TO '{directory / 'telemetry/gpu.parquet'}' (FORMAT parquet)")
    with pytest.raises(InputError, match=r"gpu\.parquet: damaged \(column node is not of numbers"):
        gpu_uses(directory)


@pytest.mark.parametrize("name", ["a;drop", 'a"b', "", "node", "unix_s", "x" * 80])
def test_a_name_that_can_be_no_column_is_refused_with_its_log(tmp_path: Path, name: str) -> None:
    header = FIRST.replace("memory_available_bytes", json.dumps(name)[1:-1])
    assert recorded.nodes(attempt(tmp_path, header + BODY)) == ()


@pytest.mark.long
@settings(max_examples=25)
@given(st.integers(0, len(BODY)), st.text(max_size=30))
def test_sql_and_python_read_every_log_alike(cut: int, fallen: str) -> None:
    import tempfile

    text = FIRST + BODY[:cut] + fallen.replace("\r", "") + "\n" + BODY[cut:]
    with tempfile.TemporaryDirectory() as name:
        directory = attempt(Path(name), text)
        log = (directory / "logs/telemetry-0.log").read_text().split("\n")
        found = [one for one in Telemetry().read(log) if not isinstance(one, TelemetryEvent)]
        expected = sorted(map(_row, found), key=str)
        got = (
            [(r[1], *r[2:]) for r in rows(directory, "node")],
            [(r[2], r[1], r[3]) for r in rows(directory, "gpu")],
        )
    node = [row[1:] for row in expected if row[0] is None]
    gpu = [(row[1], row[0], row[2]) for row in expected if row[0] is not None]
    assert sorted(got[0], key=str) == sorted(node, key=str)
    assert sorted(got[1], key=str) == sorted(gpu, key=str)


def _row(one: TelemetrySample) -> tuple[object, ...]:
    names = ("power_watts",) if one.gpu is not None else ("cpu_busy_seconds_total", "memory_available_bytes")
    return (one.gpu, 1000.0 + one.at_s, *(one.values.get(name) for name in names))
