"""Result files of elbencho, whole and spoilt."""

from __future__ import annotations

import json
from typing import Any

from assay.testing.formats import Read, ReaderContract, values

CONFIG = {
    "path_type": "dir",
    "paths": "1",
    "hosts": "4",
    "threads": "16",
    "file_size": "1073741824",
    "block_size": "1048576",
    "direct_io": "true",
    "io_depth": "1",
    "version": "3.0-27",
    "command": '"elbencho" "-w" "-r" "/mnt/fs" ',
}
IO = {"min_us": "92", "avg_us": "1480", "max_us": "88211"}


def phase(kind: str = "WRITE", more: dict[str, Any] | None = None, **changed: Any) -> str:
    done = {"elapsed_time_ms": "6012", "iops": "10890", "bytes/s": "11419000832", "bytes": "68719476736"}
    done |= {"cpu%": "31", "latency": {"IO": IO}, **changed}
    first = {**done, "elapsed_time_ms": "5000", "iops": "13000", "bytes/s": "13631488000"}
    told = {"phase_type": kind, "phase_id": "c0ffee", "iso_start_date": "2026-11-02T10:00:00.000+0100"}
    told |= {"config": CONFIG, "first_done": first, "last_done": done, **(more or {})}
    return json.dumps(told, separators=(",", ":")) + "\n"


FILES = {"entries/s": "21877", "entries": "100000", "latency": {"entries": {"avg_us": "702"}}}
NOTHING = {"iops": "", "bytes/s": "", "latency": {}}


class TestElbencho(ReaderContract):
    tool = "elbencho"
    whole = (
        phase() + phase("READ"),
        phase("MKDIRS", **FILES, **{"iops": "", "bytes/s": ""}) + phase("RMFILES", **{**NOTHING, **FILES}),
        phase() + phase() + phase(more={"label": "again"}),
    )
    torn = ((phase() + phase("READ")[:200] + "\n" + phase("STAT"), phase() + phase("STAT")),)
    failed = (
        (phase(elapsed_time_ms="0"), "no phase of elbencho has a figure"),
        ('{"phase_type":"WRITE","phase_id":"x"}\n', "no phase of elbencho has a figure"),
    )

    def test_a_phase_has_the_figures_of_when_its_slowest_worker_had_ended(self, read: Read) -> None:
        found = read(phase() + phase("READ"))
        assert values(found, "write_bandwidth", phase="WRITE") == [11419000832]
        assert values(found, "read_rate", phase="READ") == [10890]
        assert values(found, "run_time") == [6012, 6012]
        assert values(found, "mean_read_latency") == [1480]
        assert found.facts["elbencho_threads"] == "16"
        assert "elbencho_command" not in found.facts  # it may hold a key

    def test_a_mixed_phase_has_its_reads_apart(self, read: Read) -> None:
        mixed = {"rwmix_read": {"bytes/s": "5000", "iops": "7"}}
        found = read(phase(more={}, **mixed))
        assert values(found, "read_bandwidth") == [5000]
        assert values(found, "write_bandwidth") == [11419000832]

    def test_a_phase_that_occurs_again_has_an_index(self, read: Read) -> None:
        found = read(phase() + phase(iops="5"))
        assert values(found, "write_rate") == [10890, 5]
        assert values(found, "write_rate", index=1) == [5]

    def test_files_and_directories_have_a_rate(self, read: Read) -> None:
        assert values(read(phase("STAT", **{**NOTHING, **FILES})), "entry_rate", phase="STAT") == [21877]
