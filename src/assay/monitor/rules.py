"""Alert rules for Prometheus: on Assay's metrics, and on the DCGM exporter's where it has the same."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

PAGE: Final = "docs/how-to/alerts.md"
_TRIAL: Final = "{{ $labels.trial }} on node {{ $labels.node }}"
_DCGM: Final = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }}"
_GPU: Final = "GPU {{ $labels.gpu }} of {{ $labels.trial }}, node {{ $labels.node }},"


@dataclass(frozen=True)
class AlertRule:
    """One alert.

    expression  in PromQL; for_: how long it must hold, as Prometheus writes it
    severity    critical: the result or the hardware is in danger; warning: it costs speed
    summary     one line, with labels
    """

    name: str
    expression: str
    for_: str
    severity: str
    summary: str

    @property
    def anchor(self) -> str:
        """Where the page explains it."""
        return f"{PAGE}#{self.name.lower()}"


RULES: Final = (
    AlertRule(
        "AssayGpuThrottled",
        "max by (suite, session, system, trial, node, gpu, reason)"
        ' (assay_gpu_clocks_lowered{reason!="power_cap"}) == 1',
        "1m",
        "warning",
        f"{_GPU} runs slower: {{{{ $labels.reason }}}}",
    ),
    AlertRule(
        "AssayGpuXid",
        "assay_gpu_xid_events_total > 0",
        "0s",
        "critical",
        f"{_GPU} reported Xid {{{{ $labels.xid }}}}",
    ),
    AlertRule(
        "AssayGpuMemoryError",
        " or ".join(
            f"(assay_gpu_{count} - min_over_time(assay_gpu_{count}[1h]) > 0)"
            for count in ("ecc_uncorrected_errors_total", "remapped_rows_uncorrectable_total")
        ),
        "0s",
        "critical",
        f"{_GPU} had memory errors that it could not correct",
    ),
    AlertRule(
        "AssayGpuHot",
        "(assay_gpu_temperature_celsius > 87 unless"
        " assay_gpu_temperature_hotspot_celsius == assay_gpu_temperature_celsius)"
        " or assay_gpu_temperature_hotspot_celsius >= 100",
        "2m",
        "warning",
        f"{_GPU} has {{{{ $value }}}} °C",
    ),
    AlertRule(
        "AssayGpuIdle",
        "assay_gpu_utilization_ratio < 0.05 and on (suite, session, system, trial)"
        " max by (suite, session, system, trial) (assay_gpu_utilization_ratio) > 0.5",
        "5m",
        "warning",
        f"{_GPU} is idle while others of the trial work",
    ),
    AlertRule(
        "AssayGpuStuck",
        "assay_gpu_utilization_ratio > 0.95 and assay_gpu_power_watts <"
        " 0.5 * max_over_time(assay_gpu_power_watts[30m])",
        "3m",
        "warning",
        f"{_GPU} is busy at less than half of its power: it may be stuck in a collective",
    ),
    AlertRule(
        "AssayRankBehind",
        "assay_rank_off == 1",
        "3m",
        "warning",
        "rank {{ $labels.rank }} of {{ $labels.trial }} is slower than the others, or behind",
    ),
    AlertRule(
        "AssayTrialStopped",
        "assay_trial_stopped == 1",
        "1m",
        "critical",
        "{{ $labels.trial }} takes no steps any more",
    ),
    AlertRule(
        "AssayNoSample",
        "time() - assay_node_last_sample_timestamp_seconds > 60",
        "1m",
        "warning",
        f"{_TRIAL}: no sample for a minute",
    ),
    AlertRule(
        "AssaySlower",
        'assay_verdict{verdict="slower"} == 1',
        "0s",
        "warning",
        "{{ $labels.system }} is slower than {{ $labels.baseline }} in {{ $labels.suite }}, "
        "{{ $labels.benchmark }}, by more than the interval allows",
    ),
    AlertRule(
        "AssayStepped",
        'time() - assay_step_timestamp_seconds{way="worse"} < 7 * 86400',
        "0s",
        "warning",
        "{{ $labels.benchmark }} of {{ $labels.suite }} on {{ $labels.system }} has become worse: a "
        "{{ $labels.kind }} in {{ $labels.metric }}",
    ),
    AlertRule(
        "AssayUnreadable",
        "increase(assay_exporter_read_errors_total[15m]) > 0",
        "0s",
        "warning",
        "a part of the runs directory can't be read; `assay show` names it",
    ),
    AlertRule(
        "AssayExporterGone",
        'up{job="assay"} == 0 or absent(up{job="assay"})',
        "5m",
        "warning",
        "Assay's exporter has not answered for five minutes",
    ),
    AlertRule(
        "AssayDcgmXid",
        "increase(DCGM_EXP_XID_ERRORS_COUNT[5m]) > 0",
        "0s",
        "critical",
        f"{_DCGM} reported Xid {{{{ $labels.xid }}}}",
    ),
    AlertRule(
        "AssayDcgmStuck",
        "DCGM_FI_DEV_GPU_UTIL > 95 and DCGM_FI_DEV_POWER_USAGE <"
        " 0.5 * max_over_time(DCGM_FI_DEV_POWER_USAGE[30m])",
        "3m",
        "warning",
        f"{_DCGM} is busy at less than half of its power: it may be stuck in a collective",
    ),
)


def of_dcgm(rule: AlertRule) -> bool:
    """Whether the rule rests on metrics of the DCGM exporter, and not on Assay's."""
    return "DCGM_" in rule.expression


def groups(chosen: Iterable[AlertRule] = RULES) -> list[dict[str, Any]]:
    """The rules as Prometheus' groups."""
    rules = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            **({"for": rule.for_} if rule.for_ != "0s" else {}),
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary, "runbook": rule.anchor},
        }
        for rule in chosen
    ]
    return [{"name": "assay", "rules": rules}]


def rule_file() -> str:
    """A file for Prometheus' `rule_files`."""
    return _yaml({"groups": groups()})


def prometheus_rule(name: str) -> str:
    """The rules as an object of the Prometheus operator."""
    return _yaml(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "assay"}},
            "spec": {"groups": groups()},
        }
    )


def _yaml(value: object) -> str:
    from ruamel.yaml import YAML

    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 120
    yaml.representer.sort_base_mapping_type_on_output = False
    yaml.dump(value, text)
    return text.getvalue()
