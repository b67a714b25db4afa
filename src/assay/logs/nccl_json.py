"""A report of nccl-tests' `-J` → one `NcclTest`. Its list of environment variables is ignored.

Source: NVIDIA/nccl-tests, src/util.cu, 2.17 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import InputError, Problem
from assay.logs.facts import NCCL_BLOCKING, NCCL_SETTINGS
from assay.logs.figures import document, number, whole
from assay.logs.nccl_agreement import measured_test
from assay.logs.nccl_rows import (
    GB,
    NcclDevice,
    NcclTest,
    PrintedNumber,
    PrintedRow,
    PrintedTiming,
    bandwidth,
    version,
)
from assay.records import Scalar


def of_json(path: Path) -> NcclTest:
    """A report of `-J`. Its list of environment variables is ignored."""
    try:
        report = document(whole(path))
        rows = [_json_row(row, line) for line, row in enumerate(report["results"], 1)]
        devices = {
            int(device["rank"]): NcclDevice(
                int(device["rank"]), device["hostname"], device["device"], device["device_info"]
            )
            for device in report.get("devices", ())
        }
        bounds = report.get("out_of_bounds")
        average = bandwidth(str(report.get("average_bus_bandwidth", {}).get("bandwidth")))
        operation = Path(report["args"][0]).name.removesuffix("_perf").removesuffix("_perf_mpi")
        facts = {"nccl_version": version(report["nccl_version"]), **_settings(report.get("config", {}))}
        out = None if bounds is None else (int(bounds["count"]), str(bounds["okay"]).lower() == "true")
        failures = [f"the test failed: {error}" for error in report.get("errors") or ()]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(
            [Problem(str(path), f"is not a complete report of nccl-tests -J: {error}; was the test cut off?")]
        ) from error
    return measured_test(rows, operation, devices, facts, average=average, bounds=out, failures=failures)


def _settings(config: Mapping[str, Any]) -> dict[str, Scalar]:
    """How the report's test was set."""
    settings: dict[str, Scalar] = {
        fact: int(_number(config[key])) for fact, (_, key) in NCCL_SETTINGS.items() if key in config
    }
    if "blocking_collectives" in config:
        settings[NCCL_BLOCKING] = int(str(config["blocking_collectives"]).lower() == "true")
    return settings


def _json_row(row: Mapping[str, Any], line: int) -> PrintedRow:
    ways = tuple(_json_way(row.get(name)) for name in ("out_of_place", "in_place"))
    root = int(_number(row["root"])) if "root" in row else None
    return PrintedRow(int(_number(row["size"])), row["type"], row["redop"], ways, line, root)


def _json_way(timing: Mapping[str, Any] | None) -> PrintedTiming | None:
    if timing is None:
        return None
    time_us = timing["time"] if "time" in timing else timing["cpu_time"]
    time, algbw, busbw = (
        PrintedNumber(_number(value), 5e-7).times(scale)  # printed with six decimals
        for value, scale in ((time_us, 1e-6), (timing["alg_bw"], GB), (timing["bus_bw"], GB))
    )
    wrong = None if timing["nwrong"] is None else int(_number(timing["nwrong"]))
    return PrintedTiming(time, algbw, busbw, wrong, wrong is not None)


def _number(value: object) -> float:
    """Raises ValueError where it is none."""
    figure = number(value)
    if figure is None:
        raise ValueError(f"{str(value)[:20]} is no figure")
    return figure
