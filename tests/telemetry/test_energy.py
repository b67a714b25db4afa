"""Energy of a run's GPUs: from counters, else from power; none where a part of it is unknown."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

import nvml_stand_in
from assay import api
from assay.telemetry import recorded
from assay.telemetry.gpu_use import gpu_energy
from assay.view.costs import costs
from command_line import assay as typed

DURATION_S = 60.0


def sampled(
    directory: Path,
    *rows: str,
    columns: tuple[str, ...],
    gpus: int = 1,
    about: list[dict[str, object]] | None = None,
) -> Path:
    header = {
        "version": 1, "started_at": 1000.0, "period_s": 1.0, "node": ["memory_available_bytes"],
        "gpu": columns, "gpus": about or [{"index": number} for number in range(gpus)],
    }  # fmt: skip
    (directory / "logs").mkdir(parents=True)
    text = "\n".join([f":::ASSAY-TELEMETRY {json.dumps(header)}", *(f"n {t} 5 ." for t in range(60)), *rows])
    (directory / "logs/telemetry-0.log").write_text(text + "\n")
    recorded.store(directory)
    return directory


BOTH = ("power_watts", "energy_joules_total")


def test_a_counter_is_more_exact_than_power_and_a_reset_costs_only_its_own_second(tmp_path: Path) -> None:
    rows = [f"g {t} 0 999 {300 * t if t < 30 else 300 * (t - 30)} ." for t in range(60)]
    found = gpu_energy(sampled(tmp_path, *rows, columns=BOTH), DURATION_S)
    assert found is not None
    assert found.watts == pytest.approx(300)
    assert found.joules == pytest.approx(300 * DURATION_S)
    assert (found.gpus, found.nodes, found.source) == (1, 1, "energy counters")


def test_a_counter_bridges_a_gap_between_samples(tmp_path: Path) -> None:
    rows = [f"g {t} 0 999 {300 * t} ." for t in range(60) if not 20 < t < 40]
    found = gpu_energy(sampled(tmp_path, *rows, columns=BOTH), DURATION_S)
    assert found is not None
    assert (found.watts, found.source) == (pytest.approx(300), "energy counters")


def test_a_die_whose_power_another_one_measures_is_not_missed(tmp_path: Path) -> None:
    rows = [f"g {t} 0 - {300 * t} .\ng {t} 1 - - ." for t in range(60)]
    assert gpu_energy(sampled(tmp_path / "a", *rows, columns=BOTH, gpus=2), DURATION_S) is None
    dies = [{"index": 0}, {"index": 1, "measures_power": False}]
    found = gpu_energy(sampled(tmp_path / "b", *rows, columns=BOTH, about=dies), DURATION_S)
    assert found is not None
    assert (found.watts, found.gpus, found.source) == (pytest.approx(300), 1, "energy counters")


def test_power_serves_where_no_counter_is(tmp_path: Path) -> None:
    rows = [f"g {t} {gpu} {100 * (gpu + 1)} - ." for t in range(60) for gpu in range(2)]
    found = gpu_energy(sampled(tmp_path, *rows, columns=BOTH, gpus=2), DURATION_S)
    assert found is not None
    assert found.joules == pytest.approx(300 * DURATION_S)
    assert (found.gpus, found.source) == (2, "power readings")


@pytest.mark.parametrize(
    "rows",
    [
        [f"g {t} 0 300 {300 * t} ." for t in range(40)],  # lost after two thirds
        [f"g {t} 0 300 - ." for t in range(60) if not 20 < t < 30],  # a gap, and no counter to bridge it
        [f"g {t} 1 300 {300 * t} ." for t in range(60)],  # another GPU's
        [f"g {t} 0 - - ." for t in range(60)],
        [],
    ],
)
def test_what_is_not_covered_has_no_energy(tmp_path: Path, rows: list[str]) -> None:
    assert gpu_energy(sampled(tmp_path, *rows, columns=BOTH), DURATION_S) is None


def test_a_run_without_gpus_or_telemetry_has_none(tmp_path: Path) -> None:
    assert gpu_energy(sampled(tmp_path / "a", columns=(), gpus=0), DURATION_S) is None
    (tmp_path / "b").mkdir()
    assert gpu_energy(tmp_path / "b", DURATION_S) is None
    rows = [f"g {t} 0 300 {300 * t} ." for t in range(3)]
    assert gpu_energy(sampled(tmp_path / "c", *rows, columns=BOTH), 1.5) is None


@pytest.mark.long
def test_energy_is_a_metric_of_a_real_run_with_its_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs that draw 300 W and 200 W, through the driver's interface."""
    nvml_stand_in.library(tmp_path)
    lines = [
        f"{step / 10} {gpu} field83 {1000 * watts * step // 10}"
        for step in range(600)
        for gpu, watts in enumerate((300, 200))
    ]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("NVML_STAND_IN", nvml_stand_in.table(tmp_path, *lines))
    program = "import time; time.sleep(6); print('throughput: 50')"
    suite = {
        "suite": "joules",
        "workload": "command",
        "params": {
            "argv": [sys.executable, "-c", program],
            "metrics": {"throughput": {"pattern": "throughput: (?P<value>[0-9]+)", "unit": "images/s"}},
        },
        "repeats": 2,
        "systems": ["here"],
    }
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    (tmp_path / "systems.yaml").write_text("here: {launcher: local, price: 0.25 EUR/kWh}\n")
    ran = typed(tmp_path, "run", "suite.json", "--quiet")
    assert ran.returncode == 0, ran.stderr
    found = {row["metric"]: row for row in _summaries(tmp_path)}
    assert found["gpu_power"]["value"] == pytest.approx(500, rel=0.05)
    assert found["gpu_energy_per_work"]["value"] == pytest.approx(10, rel=0.05)
    assert found["gpu_energy_per_work"]["unit"] == "J/images"
    assert found["gpu_energy"]["value"] == pytest.approx(500 * 6.2, rel=0.25)
    (cost,) = costs(api.report("joules", runs=tmp_path / "runs").about)
    assert cost.per_result is not None
    assert cost.per_result[1] == "million images"
    assert cost.per_result[0].value == pytest.approx(10e6 / 3.6e6 * 0.25, rel=0.05)
    assert cost.paid_for.endswith(" kWh (GPUs)")
    assert all(
        math.isfinite(row["low"]) and row["low"] <= row["value"] <= row["high"] for row in found.values()
    )


def _summaries(folder: Path) -> list[dict[str, object]]:
    contents = api.report("joules", runs=folder / "runs").about
    return [
        {
            "metric": one.point.metric,
            "unit": one.point.unit,
            "value": one.estimate.value,
            "low": one.estimate.low if one.estimate.low is not None else one.estimate.value,
            "high": one.estimate.high if one.estimate.high is not None else one.estimate.value,
        }
        for one in contents.summaries
    ]
