"""Each alert fires for what it is about, and not in healthy runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML
from test_exporter import promtool

from assay.monitor import rules
from conftest import ROOT

GPU = 'suite="s",session="t",system="here",trial="b-r01",node="0",gpu="{}"'
OTHER = GPU.format(1)
MINE = GPU.format(0)
NODE = 'suite="s",session="t",system="here",trial="b-r01",node="0"'

# alert → series that make it fire within 40 minutes, and series that don't
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "AssayGpuThrottled": (
        {f'assay_gpu_clocks_lowered{{{MINE},reason="hardware_thermal"}}': "0x10 1x30"},
        {f'assay_gpu_clocks_lowered{{{MINE},reason="power_cap"}}': "1x40"},
    ),
    "AssayGpuXid": (
        {f'assay_gpu_xid_events_total{{{MINE},xid="79"}}': "1x40"},
        {"assay_build_info": "1x40"},
    ),
    "AssayGpuMemoryError": (
        {f"assay_gpu_ecc_uncorrected_errors_total{{{MINE}}}": "4x20 5x20"},
        {f"assay_gpu_ecc_uncorrected_errors_total{{{MINE}}}": "4x40"},
    ),
    "AssayGpuHot": (
        {f"assay_gpu_temperature_celsius{{{MINE}}}": "80x20 91x20"},
        {
            f"assay_gpu_temperature_celsius{{{MINE}}}": "80x20 91x1 82x18",
            f"assay_gpu_temperature_celsius{{{OTHER}}}": "95x40",  # an MI300 only has a hottest point
            f"assay_gpu_temperature_hotspot_celsius{{{OTHER}}}": "95x40",
        },
    ),
    "AssayGpuIdle": (
        {
            f"assay_gpu_utilization_ratio{{{MINE}}}": "0x40",
            f"assay_gpu_utilization_ratio{{{OTHER}}}": "0.9x40",
        },
        {f"assay_gpu_utilization_ratio{{{MINE}}}": "0x40", f"assay_gpu_utilization_ratio{{{OTHER}}}": "0x40"},
    ),
    "AssayGpuStuck": (
        {
            f"assay_gpu_utilization_ratio{{{MINE}}}": "1x40",
            f"assay_gpu_power_watts{{{MINE}}}": "600x20 120x20",
        },
        {
            f"assay_gpu_utilization_ratio{{{MINE}}}": "1x40",
            f"assay_gpu_power_watts{{{MINE}}}": "600x20 550x20",
        },
    ),
    "AssayRankBehind": (
        {f'assay_rank_off{{{NODE},rank="1"}}': "1x40"},
        {f'assay_rank_off{{{NODE},rank="1"}}': "0 1 1 0 0 1 0x34"},
    ),
    "AssayTrialStopped": (
        {f"assay_trial_stopped{{{MINE}}}": "1x40"},
        {f"assay_trial_stopped{{{MINE}}}": "0x40"},
    ),
    "AssayNoSample": (
        {f"assay_node_last_sample_timestamp_seconds{{{NODE}}}": "600x40"},
        {f"assay_node_last_sample_timestamp_seconds{{{NODE}}}": "0+60x40"},
    ),
    "AssaySlower": (
        {'assay_verdict{suite="s",system="b",baseline="a",benchmark="c",verdict="slower"}': "1x40"},
        {'assay_verdict{suite="s",system="b",baseline="a",benchmark="c",verdict="undecided"}': "1x40"},
    ),
    "AssayStepped": (
        {'assay_step_timestamp_seconds{suite="s",system="b",metric="m",way="worse"}': "0x40"},
        {
            'assay_step_timestamp_seconds{suite="s",system="b",metric="m",way="better"}': "0x40",
            'assay_step_timestamp_seconds{suite="s",system="a",metric="m",way="worse"}': "-700000x40",
        },
    ),
    "AssayUnreadable": (
        {"assay_exporter_read_errors_total": "0x30 1x10"},
        {"assay_exporter_read_errors_total": "3x40"},
    ),
    "AssayExporterGone": ({'up{job="assay"}': "1x20 0x20"}, {'up{job="assay"}': "1x40"}),
    "AssayDcgmXid": (
        {'DCGM_EXP_XID_ERRORS_COUNT{gpu="0",hostname="n1",xid="79"}': "0x38 1x2"},
        {'DCGM_EXP_XID_ERRORS_COUNT{gpu="0",hostname="n1",xid="79"}': "2x40"},
    ),
    "AssayDcgmStuck": (
        {
            'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"}': "100x40",
            'DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="n1"}': "600x20 120x20",
        },
        {
            'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"}': "100x40",
            'DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="n1"}': "600x40",
        },
    ),
}


def firing(folder: Path, series: dict[str, str], minutes: int, *alerts: str, interval: str = "1m") -> str:
    """What promtool says of a test in which none of these alerts fires at any of the minutes; "" if so."""
    (folder / "rules.yaml").write_text(rules.rule_file())
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": interval,
        "tests": [
            {
                "interval": interval,
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
                    for alert in alerts
                    for minute in range(5, minutes + 1, 5)
                ],
            }
        ],
    }
    (folder / "test.yaml").write_text(json.dumps(test))
    ran = promtool("test", "rules", str(folder / "test.yaml"))
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_for_its_cause_alone(tmp_path: Path, alert: str) -> None:
    fires, does_not = CASES[alert]
    said = firing(tmp_path, fires, 40, alert)
    assert "FAILED" in said
    assert f'alertname="{alert}"' in said.replace("\\", "")
    assert firing(tmp_path, does_not, 40, alert) == ""


def test_every_alert_has_a_case_and_a_section_in_the_page() -> None:
    assert set(CASES) == {rule.name for rule in rules.RULES}
    page = (ROOT / rules.PAGE).read_text()
    assert [rule.name for rule in rules.RULES if f"## {rule.name}\n" not in page] == []


def test_the_rules_are_valid_in_both_forms() -> None:
    checked = promtool("check", "rules", "/dev/stdin", text=rules.rule_file())
    assert checked.returncode == 0, checked.stderr
    made = YAML(typ="safe", pure=True).load(rules.prometheus_rule("assay"))
    assert made["kind"] == "PrometheusRule"
    assert made["spec"]["groups"] == rules.groups()


@pytest.mark.slow
def test_healthy_runs_of_an_hour_fire_nothing(tmp_path: Path) -> None:
    """40 runs with 8 GPUs each: work, an evaluation, and waits for data, all with noise."""
    rng = np.random.default_rng(3)
    series = {'up{job="assay"}': "1x60", "assay_exporter_read_errors_total": "0x60"}
    for run in range(40):
        used = np.clip(rng.normal(0.93, 0.05, 61), 0, 1)
        for _ in range(rng.integers(1, 4)):  # evaluations and waits, in which all GPUs do less
            begin = rng.integers(0, 58)
            used[begin : begin + rng.integers(1, 4)] = rng.uniform(0.02, 0.5)
        own = f'suite="s",session="t",system="here",trial="b-r{run:02d}",node="0"'
        series[f"assay_node_last_sample_timestamp_seconds{{{own}}}"] = "0+60x60"
        for gpu in range(8):
            use = np.clip(used + rng.normal(0, 0.02, 61), 0, 1)
            power = 90 + 560 * use + rng.normal(0, 25, 61)
            heat = 38 + 40 * use + rng.normal(0, 2, 61)
            labels = f'{own},gpu="{gpu}"'
            for name, values in (
                ("assay_gpu_utilization_ratio", use),
                ("assay_gpu_power_watts", power),
                ("assay_gpu_temperature_celsius", heat),
                ("assay_gpu_xid_events_total", None),
            ):
                if values is not None:
                    series[f"{name}{{{labels}}}"] = " ".join(f"{value:.3f}" for value in values)
            capped = f'assay_gpu_clocks_lowered{{{labels},reason="power_cap"}}'
            series[capped] = " ".join(str(int(value > 0.95)) for value in use)
    assert firing(tmp_path, series, 60, *(rule.name for rule in rules.RULES)) == ""
