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
        told = document(whole(path))
        rows = [_json_row(one, line) for line, one in enumerate(told["results"], 1)]
        devices = {
            int(one["rank"]): NcclDevice(int(one["rank"]), one["hostname"], one["device"], one["device_info"])
            for one in told.get("devices", ())
        }
        bounds = told.get("out_of_bounds")
        average = bandwidth(str(told.get("average_bus_bandwidth", {}).get("bandwidth")))
        operation = Path(told["args"][0]).name.removesuffix("_perf").removesuffix("_perf_mpi")
        facts = {"nccl_version": version(told["nccl_version"]), **_settings(told.get("config", {}))}
        out = None if bounds is None else (int(bounds["count"]), str(bounds["okay"]).lower() == "true")
        failures = [f"the test failed: {error}" for error in told.get("errors") or ()]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(
            [Problem(str(path), f"is not a complete report of nccl-tests -J: {error}; was the test cut off?")]
        ) from error
    return measured_test(rows, operation, devices, facts, average=average, bounds=out, failures=failures)


def _settings(config: Mapping[str, Any]) -> dict[str, Scalar]:
    """How the report's test was set."""
    found: dict[str, Scalar] = {
        fact: int(_number(config[key])) for fact, (_, key) in NCCL_SETTINGS.items() if key in config
    }
    if "blocking_collectives" in config:
        found[NCCL_BLOCKING] = int(str(config["blocking_collectives"]).lower() == "true")
    return found


def _json_row(one: Mapping[str, Any], line: int) -> PrintedRow:
    ways = tuple(_json_way(one.get(name)) for name in ("out_of_place", "in_place"))
    root = int(_number(one["root"])) if "root" in one else None
    return PrintedRow(int(_number(one["size"])), one["type"], one["redop"], ways, line, root)


def _json_way(told: Mapping[str, Any] | None) -> PrintedTiming | None:
    if told is None:
        return None
    time_us = told["time"] if "time" in told else told["cpu_time"]
    time, algbw, busbw = (
        PrintedNumber(_number(value), 5e-7).times(scale)  # printed with six decimals
        for value, scale in ((time_us, 1e-6), (told["alg_bw"], GB), (told["bus_bw"], GB))
    )
    wrong = None if told["nwrong"] is None else int(_number(told["nwrong"]))
    return PrintedTiming(time, algbw, busbw, wrong, wrong is not None)


def _number(value: object) -> float:
    """Raises ValueError where it is none."""
    found = number(value)
    if found is None:
        raise ValueError(f"{str(value)[:20]} is no figure")
    return found
