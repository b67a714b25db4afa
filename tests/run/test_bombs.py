"""Files of a few kilobytes that claim gigabytes or hours: each is an error, in bounded memory and time."""

from __future__ import annotations

import gzip
import json
import pickle
import resource
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assay.errors import InputError
from assay.telemetry import recorded

ASSAY = Path(sys.executable).with_name("assay")
MOST_MEMORY_BYTES = 2 << 30
MOST_S = 60  # far less on an idle machine
ENTRY = {
    "collective_seq_id": 1,
    "profiling_name": "nccl:all_reduce",
    "process_group": ("0", "x"),
    "state": "scheduled",
    "time_created_ns": 1,
    "input_sizes": [[3]],
}


def doubled(times: int) -> Any:
    """A tuple of a few bytes whose text is as long as 2 to this power."""
    made: Any = ("a",)
    for _ in range(times):
        made = (made, made)
    return made


def dump(content: bytes) -> Callable[[Path], list[str]]:
    def make(directory: Path) -> list[str]:
        (directory / "trace_rank_0").write_bytes(content)
        return ["watch", "--flight-recorder", str(directory)]

    return make


def entry(**changes: Any) -> Callable[[Path], list[str]]:
    return dump(pickle.dumps({"entries": [ENTRY | changes]}))


def coco(width: int, height: int, count: int, **annotation: Any) -> Callable[[Path], list[str]]:
    def make(directory: Path) -> list[str]:
        def chunk(kind: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        (directory / "val").mkdir()
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        (directory / "val/a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IEND", b""))
        (directory / "annotations").mkdir()
        instances = {
            "images": [{"id": 1, "file_name": "a.png", "width": width, "height": height}],
            "categories": [{"id": 1, "name": "x"}],
            "annotations": [{"image_id": 1, "category_id": 1, **annotation}] * count,
        }
        (directory / "annotations/instances_val.json").write_text(json.dumps(instances))
        return ["data", "scan", str(directory), "--catalog", str(directory / "c.duckdb"), "--processes", "1"]

    return make


def compressed_log(directory: Path) -> list[str]:
    with gzip.open(directory / "result_0.txt", "wb", compresslevel=9) as log:
        log.write(b':::MLLOG {"time_ms": 1, "key": "submission_benchmark", "value": "resnet"}\n')
        for _ in range(1100):
            log.write(bytes(1 << 20))
    return ["score", str(directory)]


def advisories(directory: Path) -> list[str]:
    with zipfile.ZipFile(directory / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(150):
            archive.writestr(f"{number}.json", bytes(15 << 20))
    return ["stack", "advise", "numpy", "--goal", "security", "--advisories", str(directory / "all.zip")]


BOMBS: dict[str, tuple[Callable[[Path], list[str]], int, str]] = {
    "a place in a dump's memo": (dump(b"\x80\x02}r" + struct.pack("<I", 1 << 30) + b"."), 4, "plain data"),
    "a dump's array of bytes": (dump(b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"."), 4, "plain data"),
    "a dump nested": (dump(b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b"."), 4, "no dump"),
    "a dump's name": (entry(profiling_name=doubled(31)), 4, "tuple instead of a name"),
    "a dump's group": (entry(process_group=[doubled(31)]), 4, "tuple instead of a name"),
    "a dump's sizes": (entry(input_sizes=[doubled(31)]), 4, "not a whole number"),
    "a dump's number": (entry(time_created_ns=10**400), 4, "plain data"),
    "a dump's infinity": (entry(duration_ms=float("inf")), 4, "duration_ms is not a time"),
    "COCO's boxes": (coco(10_000, 10_000, 1000, bbox=[0, 0, 10_000, 10_000]), 1, "enclose more than"),
    "COCO's image": (coco(2 * 10**9, 2 * 10**9, 1, bbox=[1, 1, 5, 5]), 1, "claims 2000000000"),
    "COCO's outline": (
        coco(10_000, 10_000, 1, segmentation=[[0, 0, 9999, 9999] * 5000]), 1, "has an outline of"
    ),
    "COCO's number": (coco(100, 100, 1, bbox=[10**400, 1, 1, 5]), 1, "neither a mask nor a box"),
    "a compressed log": (compressed_log, 1, "unpacks to more than"),
    "advisories": (advisories, 4, "larger than any advisory database"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_error_in_bounded_memory_and_time(tmp_path: Path, name: str) -> None:
    make, code, words = BOMBS[name]
    command = make(tmp_path)
    begin = time.monotonic()
    done = subprocess.run(
        [ASSAY, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=MOST_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES)),
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
    assert time.monotonic() - begin < MOST_S


@pytest.mark.parametrize(
    ("columns", "rows", "words"),
    [
        ("0 AS node, 0 AS gpu, 1.7e9::DOUBLE AS unix_s, 0.0::DOUBLE AS power_watts", 60_000_000, "rows"),
        (f"0 AS node, 0 AS gpu, {', '.join(f'{n} AS c{n}' for n in range(600))}", 1, "columns"),
        ("0 AS node, 0 AS gpu, 1.7e9::DOUBLE AS unix_s, repeat('x', 1000) AS power_watts", 1000, "numbers"),
    ],
)
def test_a_table_of_telemetry_that_no_sampler_writes_is_damaged(
    tmp_path: Path, columns: str, rows: int, words: str
) -> None:
    (tmp_path / "telemetry-prometheus").mkdir()
    table = tmp_path / "telemetry-prometheus/gpu.parquet"
    duckdb.execute(f"COPY (SELECT {columns} FROM range({rows})) TO '{table}' (FORMAT parquet)")
    with pytest.raises(InputError, match=rf"damaged \(.*{words}"), recorded.tables(tmp_path):
        pass
