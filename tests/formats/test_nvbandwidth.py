"""Matrices and reports of nvbandwidth, whole and spoilt."""

from __future__ import annotations

import json
from typing import Any

from assay.formats.figures import LogFigures
from assay.testing.formats import Read, ReaderContract

V0_2 = """nvbandwidth Version: v0.2
Built from Git version: 6cefdda

CUDA Runtime Version: 12030
CUDA Driver Version: 12030
Driver Version: 545.29.06

Device 0: NVIDIA GeForce RTX 4090

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
          0         1
0     25.50     24.26

SUM host_to_device_memcpy_ce 49.76

"""
ROW = " 1     26.35       N/A\n"
V0_8 = """nvbandwidth Version: v0.8
Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     26.34
 1     26.35       N/A

SUM device_to_device_memcpy_read_ce 52.69

Waived:
Running device_to_device_latency_sm.
Device to Device Latency SM GPU(row) <- GPU(column) (ns)
           0         1
 0       N/A    650.25
 1    651.00       N/A

SUM device_to_device_latency_sm 1301.25

"""


def report(**changed: Any) -> dict[str, Any]:
    test = {
        "name": "device_to_device_memcpy_read_ce",
        "status": "Passed",
        "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": [["N/A", "26.34"], ["26.35", "N/A"]],
        "sum": 52.69,
    }
    waived = {"name": "multinode_device_to_device_memcpy_read_ce", "status": "Waived"}
    return {"nvbandwidth": {"version": "v0.5", "testcases": [test | changed, waived]}}


def cells(found: LogFigures, metric: str = "bandwidth") -> dict[tuple[object, object], float]:
    return {(f.labels["row"], f.labels["column"]): f.value for f in found.figures if f.metric == metric}


V0_10 = V0_2.replace("CUDA Driver Version: 12030", "CUDA Driver Version (API): 13.2 (13020)").replace(
    "SUM host_to_device_memcpy_ce 49.76\n",
    "SUM host_to_device_memcpy_ce 49.76\nCOEFFICIENT_OF_VARIATION host_to_device_memcpy_ce 0.02\n",
)


class TestNvbandwidth(ReaderContract):
    tool = "nvbandwidth"
    whole = (V0_2, V0_8, V0_10, json.dumps(report()), json.dumps(report(), indent=2))
    torn = tuple(
        (V0_8.replace(ROW, row), V0_8.replace(ROW, ""))
        for row in (
            " 1     26.35\n",
            " 1     26.35       N/\n",
            " 1     26.35       N/A  3.1\n",
            " 1    -26.35       N/A\n",
        )
    )
    failed = (
        (json.dumps(report(status="Error", error="out of memory")), "out of memory"),
        (json.dumps({"nvbandwidth": {"error": "No CUDA devices", "testcases": []}}), "No CUDA devices"),
        (json.dumps(report())[:-20], "cut off"),
        (json.dumps({"nvbandwidth": {"testcases": [{}]}}), "not an nvbandwidth report"),
        (V0_2[:200], "no test measured"),
        (
            V0_2 + "Running all_to_one.\nERROR: CUDA_ERROR_LAUNCH_FAILED\n",
            "all_to_one: ERROR: CUDA_ERROR",
        ),
        (
            V0_2
            + "Running all_to_one.\n[CUDA_ERROR_NO_DEVICE] no device in expression cuInit(0) in main()\n",
            "all_to_one: [CUDA_ERROR_NO_DEVICE]",
        ),
        (V0_2 + "Running all_to_one.\n[Unknown Error] in expression nvmlInit() in main()\n", "all_to_one: ["),
    )

    def test_a_matrix_has_a_figure_for_each_pair_with_its_line_and_unit(self, read: Read) -> None:
        found = read(V0_2)
        assert cells(found) == {(0, 0): 25.50, (0, 1): 24.26}
        assert {(f.line, f.unit, f.labels["test"]) for f in found.figures if f.metric == "bandwidth"} == {
            (13, "GB/s", "host_to_device_memcpy_ce")
        }
        assert [f.value for f in found.figures if f.metric == "bandwidth_sum"] == [49.76]
        assert found.facts["driver_version"] == "545.29.06"
        assert (found.problems, found.skipped) == ([], 0)

    def test_a_cell_without_a_figure_is_none_and_latencies_are_no_bandwidth(self, read: Read) -> None:
        found = read(V0_8)
        assert cells(found) == {(0, 1): 26.34, (1, 0): 26.35}
        assert cells(found, "latency") == {(0, 1): 650.25, (1, 0): 651.0}
        assert {f.unit for f in found.figures if f.metric == "latency"} == {"ns"}
        assert [f.value for f in found.figures if f.metric == "bandwidth_sum"] == [52.69]
        assert found.facts["waived_tests"] == 1
        assert (found.problems, found.skipped) == ([], 0)

    def test_the_driver_s_api_version_in_the_head_is_no_error(self, read: Read) -> None:
        found = read(V0_10)
        assert cells(found) == cells(read(V0_2))
        assert (found.facts["cuda_driver_version"], found.facts["driver_version"]) == ("13.2", "545.29.06")

    def test_a_sum_after_the_matrix_of_another_test_is_not_that_tests(self, read: Read) -> None:
        log = V0_8.replace("device_to_device_memcpy_read_ce 52.69", "device_to_device_latency_sm 1301.25")
        for cut in (log, log[log.index("memcpy CE") :]):
            found = read(cut)
            assert "the sum of device_to_device_latency_sm after a matrix of " in found.problems[0]
            assert not [f for f in found.figures if f.metric == "bandwidth_sum"]

    def test_the_json_is_read_as_the_matrix_is(self, read: Read) -> None:
        found = read(json.dumps(report(), indent=2))
        assert cells(found) == {(0, 1): 26.34, (1, 0): 26.35}
        assert [f.value for f in found.figures if f.metric == "bandwidth_sum"] == [52.69]
        assert found.facts == {"nvbandwidth_version": "v0.5", "waived_tests": 1}

    def test_a_log_that_ends_in_a_test_is_unfinished_and_one_without_its_last_line_is_noted(
        self, read: Read
    ) -> None:
        [problem] = read(V0_8.partition("SUM device_to_device_latency")[0]).problems
        assert (
            problem == "the log ends in device_to_device_latency_sm, before its sum: the run did not finish"
        )
        assert "may be missing" in read(V0_8).notes[0]
        assert read(V0_8 + "NOTE: The reported results may not reflect …\n").notes == ()
