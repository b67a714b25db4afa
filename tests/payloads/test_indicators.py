"""Performance indicators: right results, right counts, and an error for a wrong result."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from assay.workloads import WORKLOADS
from assay_payloads.measuring.rank import Rank
from assay_payloads.micro import indicator_cases, indicators
from assay_payloads.micro.indicator_cases import framework

SMALL = {
    "matrix-size": 16,
    "batch": 2,
    "channels": 3,
    "filters": 4,
    "length": 32,
    "side": 8,
    "heads": 2,
    "tokens": 16,
    "head-size": 8,
    "vocabulary": 50,
    "lookups": 20,
    "parameters": 100,
}


def _options(**changes: int) -> argparse.Namespace:
    sizes = {name: size for name, (size, _) in indicators._SIZES.items()} | SMALL | changes
    named = {name.replace("-", "_"): size for name, size in sizes.items()}
    return argparse.Namespace(seed=1, indicators=indicators.INDICATORS, **named)


@pytest.mark.parametrize(("name", "dtype"), [("numpy", "fp64"), ("torch", "fp32"), ("torch", "bf16")])
def test_every_indicator_computes_what_numpy_does(name: str, dtype: str) -> None:
    pytest.importorskip(name)
    tool = framework(name, "cpu")
    for indicator, case in indicator_cases.cases(_options()).items():
        inputs = {key: tool.place(array, dtype) for key, array in case.inputs.items()}
        found = tool.array(tool.operations[indicator](inputs))
        assert indicator_cases.error_of(found, case.right(case.inputs)) <= indicator_cases.TOLERANCES[dtype]


def test_operations_and_elements_are_counted_as_for_the_usual_algorithm() -> None:
    found = indicator_cases.cases(_options(**{"matrix-size": 10, "kernel": 3, "side": 5, "length": 5}))
    assert found["matmul"].flop == 2 * 10**3
    assert found["matmul"].elements == 300
    assert found["conv2d"].flop == 2 * (2 * 4 * 3 * 3) * (3 * 3 * 3)
    assert found["conv1d"].flop == 2 * (2 * 4 * 3) * (3 * 3)
    assert found["attention"].flop == 4 * 2 * 2 * 16**2 * 8
    assert found["embedding"].flop == 0


def test_bytes_are_those_of_the_number_format_and_of_whole_numbers_in_their_own() -> None:
    found = indicator_cases.cases(_options())
    assert found["matmul"].bytes_of("bf16") * 2 == found["matmul"].bytes_of("fp32") == 3 * 16 * 16 * 4
    numbers = 8 * 2 * 8 * 8 * 3  # images become numbers
    assert found["data"].bytes_of("bf16") == 2 * numbers + numbers + 8 * 16
    assert found["embedding"].bytes_of("fp32") == 4 * 2 * 20 * 8 + 8 * 20
    assert found["optimizer"].bytes_of("fp32") == 4 * 5 * 100, "four are read, one is written"


@pytest.mark.parametrize(("name", "dtype"), [("numpy", "fp32"), ("torch", "bf16")])
def test_images_become_numbers_of_the_format_that_is_measured(name: str, dtype: str) -> None:
    pytest.importorskip(name)
    tool = framework(name, "cpu")
    case = indicator_cases.cases(_options())["data"]
    inputs = {key: tool.place(array, dtype) for key, array in case.inputs.items()}
    assert {"fp32": "float32", "bf16": "bfloat16"}[dtype] in str(tool.operations["data"](inputs).dtype)


def test_a_wrong_result_is_a_failure_and_not_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    tool = framework("numpy", "cpu")
    wrong = replace(tool, operations={"matmul": lambda x: x["a"] @ x["b"] * np.float32(1.1)})
    rank = Rank()
    capsys.readouterr()
    case = indicator_cases.cases(_options())["matmul"]
    with pytest.raises(SystemExit, match=r"wrong result: matmul fp32 is off by 0\.\d+ of its"):
        indicators.measure(rank, wrong, "matmul", case, "fp32", 0.01)
    assert "step_time" not in capsys.readouterr().out


def test_the_program_prints_each_indicator_with_its_rates() -> None:
    params = WORKLOADS["indicators"].params.model_validate(
        {"framework": "numpy", "indicators": ["matmul", "import"], "min_time_s": 0.01, "matrix_size": 16}
    )
    argv = WORKLOADS["indicators"].task(params, None, 1).argv[1:]  # type: ignore[arg-type]
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=True)
    lines = [json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines()]
    found = {
        (one["key"], one["metadata"]["labels"]["indicator"]) for one in lines if "unit" in one["metadata"]
    }
    assert found == {
        ("step_time", "import"),
        ("step_time", "matmul"),
        ("byte_rate", "matmul"),
        ("flop_rate", "matmul"),
    }
