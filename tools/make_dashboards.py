"""Write Grafana's dashboards into the package: `python tools/make_dashboards.py [--check]`.

They are made with grafana-foundation-sdk, which only this program needs, and are shipped as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

FOLDER = Path(__file__).parents[1] / "src/assay/monitor/dashboards"
RUN = 'suite=~"$suite",session=~"$session",trial=~"$trial"'
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH, HEIGHT = 12, 8  # of a panel, in Grafana's units; a row has 24
RATE = "$__rate_interval"


class Query(NamedTuple):
    """One expression of a panel, and the legend of its lines."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """One graph; the unit is Grafana's name for it."""

    title: str
    unit: str
    queries: Sequence[Query]


class Variable(NamedTuple):
    """A drop-down list: values of a label of a metric."""

    name: str
    metric: str
    label: str


class Annotation(NamedTuple):
    """Marks in every graph, at the times for which an expression has a value."""

    name: str
    color: str
    expression: str


def gpu(name: str, title: str, unit: str) -> Panel:
    """A gauge of each GPU of the chosen runs."""
    return Panel(title, unit, [Query(f"assay_gpu_{name}{{{RUN}}}", "{{node}}/{{gpu}}")])


def gpu_rate(name: str, title: str, unit: str) -> Panel:
    """A counter of each GPU as change per second."""
    return Panel(title, unit, [Query(f"rate(assay_gpu_{name}{{{RUN}}}[{RATE}])", "{{node}}/{{gpu}}")])


def node_rates(title: str, unit: str, *names: str) -> Panel:
    """Counters of each node as change per second."""
    return Panel(
        title,
        unit,
        [
            Query(
                f"rate(assay_node_{name}{{{RUN}}}[{RATE}])",
                f"{{{{node}}}} {name.removesuffix('_total').replace('_', ' ')}",
            )
            for name in names
        ],
    )


def rank(name: str, title: str, unit: str, session: str = "$session") -> Panel:
    """A figure that each rank printed."""
    chosen = f'suite=~"$suite",session=~"{session}",trial=~"$trial"'
    return Panel(title, unit, [Query(f"assay_rank_{name}{{{chosen}}}", "{{trial}} rank {{rank}}")])


GPUS = (
    gpu("utilization_ratio", "Use", "percentunit"),
    gpu("memory_used_bytes", "Memory used", "bytes"),
    gpu("power_watts", "Power", "watt"),
    Panel(
        "Total power", "watt", [Query(f"sum by (suite, trial) (assay_gpu_power_watts{{{RUN}}})", "{{trial}}")]
    ),
    gpu("temperature_celsius", "Temperature", "celsius"),
    Panel(
        "Mean temperature",
        "celsius",
        [Query(f"avg by (suite, trial) (assay_gpu_temperature_celsius{{{RUN}}})", "{{trial}}")],
    ),
    gpu("sm_clock_hertz", "SM clock", "hertz"),
    Panel(
        "Clocks lowered",
        "none",
        [Query(f"assay_gpu_clocks_lowered{{{RUN}}} > 0", "{{node}}/{{gpu}} {{reason}}")],
    ),
    gpu_rate("energy_joules_total", "Power, from the energy counter", "watt"),
    Panel(
        "Xid events", "none", [Query(f"assay_gpu_xid_events_total{{{RUN}}}", "{{node}}/{{gpu}} Xid {{xid}}")]
    ),
)
ONE_RUN = (
    rank("throughput", "Throughput", "none"),
    rank("step_seconds", "Time of a step", "s"),
    rank("loss", "Loss", "none"),
    rank("step", "Step", "none"),
    Panel("Ranks behind the others", "none", [Query(f"assay_rank_off{{{RUN}}}", "rank {{rank}}")]),
    node_rates(
        "CPU", "none", "job_cpu_seconds_total", "cpu_busy_seconds_total", "cpu_throttled_seconds_total"
    ),
    Panel("Memory of the job", "bytes", [Query(f"assay_node_job_memory_bytes{{{RUN}}}", "{{node}}")]),
    node_rates("Disk of the job", "Bps", "job_read_bytes_total", "job_written_bytes_total"),
    node_rates(
        "Waiting for CPU, memory, input and output",
        "percentunit",
        "cpu_pressure_seconds_total",
        "memory_pressure_seconds_total",
        "io_pressure_seconds_total",
    ),
    GPUS[0],
    GPUS[2],
)
FABRIC = (
    node_rates("InfiniBand", "Bps", "infiniband_received_bytes_total", "infiniband_sent_bytes_total"),
    node_rates("InfiniBand errors", "none", "infiniband_errors_total"),
    node_rates("Network", "Bps", "network_received_bytes_total", "network_sent_bytes_total"),
    gpu_rate("nvlink_sent_bytes_total", "NVLink sent", "Bps"),
    gpu_rate("nvlink_received_bytes_total", "NVLink received", "Bps"),
    gpu_rate("pcie_sent_bytes_total", "PCIe sent", "Bps"),
    gpu_rate("pcie_received_bytes_total", "PCIe received", "Bps"),
)
FLEET = (
    Panel(
        "Results, mean and ends of the interval",
        "none",
        [Query('assay_result{suite=~"$suite"}', "{{system}} {{benchmark}} {{metric}} {{bound}}")],
    ),
    Panel(
        "Speed relative to the baseline",
        "percentunit",
        [Query('assay_verdict_ratio{suite=~"$suite"}', "{{system}} / {{baseline}} {{benchmark}}")],
    ),
    Panel(
        "Verdicts",
        "none",
        [Query('sum by (verdict) (assay_verdict{suite=~"$suite"})', "{{verdict}}")],
    ),
    Panel("Doubts", "none", [Query('assay_doubts{suite=~"$suite"}', "{{suite}}")]),
    Panel(
        "Trials of running sessions",
        "none",
        [Query('assay_session_trials{suite=~"$suite"}', "{{suite}} {{state}}")],
    ),
    Panel(
        "Age of the newest sample of each node",
        "s",
        [Query('time() - assay_node_last_sample_timestamp_seconds{suite=~"$suite"}', "{{trial}} {{node}}")],
    ),
    Panel("Parts that can't be read", "none", [Query("assay_exporter_read_errors_total", "errors")]),
)
TWO_RUNS = tuple(
    panel
    for name, title, unit in (
        ("throughput", "Throughput", "none"),
        ("step_seconds", "Time of a step", "s"),
        ("loss", "Loss", "none"),
    )
    for panel in (rank(name, f"{title}, A", unit, "$a"), rank(name, f"{title}, B", unit, "$b"))
)
DCGM = (
    Panel("Use", "percent", [Query("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}}{{hostname}}/{{gpu}}")]),
    Panel(
        "Memory used",
        "mbytes",
        [Query("max by (UUID, gpu) (DCGM_FI_DEV_FB_USED)", "{{gpu}} {{UUID}}")],
    ),
    Panel("Power", "watt", [Query("max by (UUID, gpu) (DCGM_FI_DEV_POWER_USAGE)", "{{gpu}} {{UUID}}")]),
    Panel("Total power", "watt", [Query("sum(max by (UUID) (DCGM_FI_DEV_POWER_USAGE))", "all GPUs")]),
    Panel("Temperature", "celsius", [Query("DCGM_FI_DEV_GPU_TEMP", "{{Hostname}}{{hostname}}/{{gpu}}")]),
    Panel("SM clock", "rotmhz", [Query("DCGM_FI_DEV_SM_CLOCK", "{{Hostname}}{{hostname}}/{{gpu}}")]),
    Panel(
        "Tensor cores in use",
        "percentunit",
        [Query("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "{{Hostname}}{{hostname}}/{{gpu}}")],
    ),
)
RUN_VARIABLES = (
    Variable("suite", "assay_trial_running", "suite"),
    Variable("session", 'assay_trial_running{suite=~"$suite"}', "session"),
    Variable("trial", 'assay_trial_running{suite=~"$suite",session=~"$session"}', "trial"),
)
SUITE = (Variable("suite", "assay_result", "suite"),)
TWO_VARIABLES = (
    RUN_VARIABLES[0],
    Variable("a", 'assay_trial_running{suite=~"$suite"}', "session"),
    Variable("b", 'assay_trial_running{suite=~"$suite"}', "session"),
    Variable("trial", 'assay_trial_running{suite=~"$suite"}', "trial"),
)
ANNOTATIONS = {
    "run": (
        Annotation("Trial starts", "green", f"assay_trial_running_seconds{{{RUN}}} < 15"),
        Annotation("Epoch begins", "blue", f'changes(assay_rank_epoch{{{RUN},rank="0"}}[{RATE}]) > 0'),
    )
}
DASHBOARDS: dict[str, tuple[str, Sequence[Panel], Sequence[Variable]]] = {
    "gpus": ("Assay: GPUs", GPUS, RUN_VARIABLES),
    "run": ("Assay: one run", ONE_RUN, RUN_VARIABLES),
    "fabric": ("Assay: fabric", FABRIC, RUN_VARIABLES),
    "fleet": ("Assay: results and verdicts", FLEET, SUITE),
    "two-runs": ("Assay: two runs side by side", TWO_RUNS, TWO_VARIABLES),
    "gpus-dcgm": ("Assay: GPUs, from the DCGM exporter", DCGM, ()),
}


def text_of(name: str) -> str:
    """A dashboard as Grafana's JSON."""
    title, panels, variables = DASHBOARDS[name]
    made = (
        dashboard.Dashboard(title).uid(f"assay-{name}").tags(["assay"]).refresh("10s").time("now-30m", "now")
    )
    made = made.with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
    for variable in variables:
        made = made.with_variable(
            dashboard.QueryVariable(variable.name)
            .datasource(SOURCE)
            .query(f"label_values({variable.metric}, {variable.label})")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(include_all=True)
            .all_value(".*")
            .multi(multi=True)
        )
    for mark in ANNOTATIONS.get(name, ()):
        made = made.annotation(
            dashboard.AnnotationQuery()
            .name(mark.name)
            .datasource(SOURCE)
            .enable(enable=True)
            .icon_color(mark.color)
            .expr(mark.expression)
        )
    for panel in built(panels):
        made = made.with_panel(panel)
    return json.dumps(json.loads(json.dumps(made.build(), cls=JSONEncoder)), indent=1, sort_keys=True) + "\n"


def built(panels: Sequence[Panel]) -> Iterator[Any]:
    """The panels as builders, two in a row."""
    for panel in panels:
        one = (
            timeseries.Panel()
            .title(panel.title)
            .unit(panel.unit)
            .datasource(SOURCE)
            .span(WIDTH)
            .height(HEIGHT)
        )
        for number, query in enumerate(panel.queries):
            target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend)
            one = one.with_target(target.ref_id(chr(ord("A") + number)))
        yield one


def main() -> int:
    """Write all, or with --check: report those that differ."""
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name in DASHBOARDS:
        path, text = FOLDER / f"{name}.json", text_of(name)
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        print(f"stale: {', '.join(stale)}; run python tools/make_dashboards.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
