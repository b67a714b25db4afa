"""Summaries of IOR, whole and spoilt."""

from __future__ import annotations

import json
from typing import Any

from assay.testing.formats import Read, ReaderContract, values


def result(access: str = "write", **changed: Any) -> dict[str, Any]:
    told = {"access": access, "bwMiB": 1042.25, "blockKiB": 1048576.0, "xferKiB": 1024.0, "iops": 1042.3}
    return {
        **told,
        "latency": 0.003,
        "openTime": 0.0012,
        "wrRdTime": 3.93,
        "closeTime": 0.002,
        "totalTime": 3.94,
        **changed,
    }


def summary(*repetitions: list[dict[str, Any]], **changed: Any) -> str:
    test = {
        "TestID": 0,
        "Parameters": {"testID": 0, "api": "POSIX", "fsync": 0},
        "Options": {"api": "POSIX", "tasks": "64", "nodes": "4"},
        "Results": list(repetitions) or [[result(), result("read", bwMiB=2000.5)]],
    }
    told = {"Version": "4.0.0", "Began": "Mon Nov  2 10:00:00 2026", "Command line": "ior -w -r"}
    return json.dumps({**told, "tests": [test], "summary": [], **changed}, indent=1)


class TestIor(ReaderContract):
    tool = "ior"
    whole = (summary(), summary([result()], [result(bwMiB=900.0)]), f"a warning of MPI\n{summary()}")
    failed = (
        (
            summary([result("write", bwMiB=0.0, iops=0, openTime=0, closeTime=0, totalTime=0)]),
            "write at 0.0 MiB/s: this repetition moved no data",
        ),
        (
            summary([result()], [result(bwMiB=0)]),
            "write at 0 MiB/s: this repetition moved no data",
        ),
        (
            summary(
                [result()], [result()], summary=[{"operation": "write", "TestID": 0, "bwMeanMIB": 9000.0}]
            ),
            "test 0: write: bwMeanMIB is 9000, but its repetitions make 1042.25",
        ),
        (
            summary(
                [result()],
                [result(bwMiB=9e5)],
                summary=[{"operation": "write", "TestID": 0, "bwMaxMIB": 1e3}],
            ),
            "test 0: write: bwMaxMIB is 1000, but its repetitions make 900000",
        ),
        (
            summary(
                tests=[{"TestID": 0, "Parameters": {"repetitions": 3}, "Results": [[result()], [result()]]}]
            ),
            "test 0: it states 3 repetitions, but has 2 of write",
        ),
        (summary(tests=[]), "no test of IOR read or wrote anything"),
        (summary(tests=[{"Results": [[{"access": "write"}]]}]), "incomplete summary of IOR: 'bwMiB'"),
        ('{"access": "write", "bwMiB"', "not a complete JSON report"),
    )

    def test_each_repetition_has_its_bandwidth_rate_and_times(self, read: Read) -> None:
        found = read(summary([result()], [result(bwMiB=900.0)]))
        assert values(found, "write_bandwidth") == [1042.25, 900.0]
        assert values(found, "write_bandwidth", repetition=1) == [900.0]
        assert values(found, "run_time", direction="write", repetition=0) == [3.94]
        assert {figure.unit for figure in found.figures if figure.metric == "write_bandwidth"} == {"MiB/s"}
        assert found.facts["ior_tasks"] == "64"

    def test_results_in_one_list_are_those_of_the_repetitions(self, read: Read) -> None:
        flat = read(summary(tests=[{"Results": [result(), result("read"), result(bwMiB=900.0)]}]))
        assert values(flat, "write_bandwidth") == [1042.25, 900.0]
        assert values(flat, "read_bandwidth", repetition=0) == [1042.25]

    def test_reads_and_writes_are_told_apart(self, read: Read) -> None:
        assert values(read(summary()), "read_bandwidth") == [2000.5]
