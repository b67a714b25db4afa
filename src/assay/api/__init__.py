"""The library: one function per question, used by the command line and every other interface.

Each function takes the same arguments as the command of its name, under the same names, and returns a frozen
record instead of printing. Mistakes raise `assay.errors.AssayError`, with the text that the command prints.
Progress and warnings go to the logger `assay`, which is silent unless the application configures it.

A module is imported when one of its functions is first used.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api.checkups import doctor
    from assay.api.comparisons import compare, rank
    from assay.api.container_files import advised_containerfile, containerfile, locked_containerfile
    from assay.api.curves import scale
    from assay.api.data_choice import frames_like, most_uncertain_frames
    from assay.api.data_jobs import data_job, job_template, submit_data
    from assay.api.data_pages import query_page
    from assay.api.data_staging import stage_data, staged_sets, staging_job
    from assay.api.data_validation import validate_data
    from assay.api.datasets import (
        check_data,
        class_shares,
        classes_together,
        frames_without_scene,
        query_data,
        query_data_sql,
        scan_data,
        scene_drift,
        split_data,
    )
    from assay.api.details import show
    from assay.api.differences import diff
    from assay.api.explanations import explain
    from assay.api.exports import export
    from assay.api.feedings import feeds
    from assay.api.fetching import fetch_telemetry
    from assay.api.gates import gate
    from assay.api.goodputs import goodput
    from assay.api.grants import rbac, smoke
    from assay.api.histories import history
    from assay.api.imports import import_
    from assay.api.indexes import index
    from assay.api.leftovers import clean
    from assay.api.listings import list_
    from assay.api.machines import openstack
    from assay.api.monitoring import monitor_metrics, monitor_server
    from assay.api.monitoring_stacks import monitoring_stack
    from assay.api.notebooks import notebook
    from assay.api.plans import plan
    from assay.api.preparations import prepare
    from assay.api.pushes import push
    from assay.api.queues import enqueue, queue, start_worker, stop_queued, work_queue
    from assay.api.reports import report
    from assay.api.running import top
    from assay.api.runs import run
    from assay.api.schedules import idleness, schedule
    from assay.api.schemas import schema
    from assay.api.scores import score
    from assay.api.stack_advice import advise_stack
    from assay.api.stack_builds import build_stack, render_build
    from assay.api.stack_differences import diff_stacks
    from assay.api.stack_indicators import stack_indicators
    from assay.api.stack_knowledge import list_stacks, show_stack
    from assay.api.stack_sharing import export_stacks, import_stacks, trust_key
    from assay.api.starters import init
    from assay.api.submissions import submit
    from assay.api.sweeps import sweep
    from assay.api.systems import every_system, system_named
    from assay.api.watching import flight_record, watch, watch_job, watch_logs, watch_nccl
    from assay.run.request import make_suite, read_suite

_MODULES = {
    "advise_stack": "assay.api.stack_advice",
    "advised_containerfile": "assay.api.container_files",
    "build_stack": "assay.api.stack_builds",
    "check_data": "assay.api.datasets",
    "class_shares": "assay.api.datasets",
    "classes_together": "assay.api.datasets",
    "clean": "assay.api.leftovers",
    "compare": "assay.api.comparisons",
    "containerfile": "assay.api.container_files",
    "data_job": "assay.api.data_jobs",
    "diff": "assay.api.differences",
    "diff_stacks": "assay.api.stack_differences",
    "doctor": "assay.api.checkups",
    "enqueue": "assay.api.queues",
    "every_system": "assay.api.systems",
    "explain": "assay.api.explanations",
    "export": "assay.api.exports",
    "export_stacks": "assay.api.stack_sharing",
    "feeds": "assay.api.feedings",
    "fetch_telemetry": "assay.api.fetching",
    "flight_record": "assay.api.watching",
    "frames_like": "assay.api.data_choice",
    "gate": "assay.api.gates",
    "goodput": "assay.api.goodputs",
    "history": "assay.api.histories",
    "idleness": "assay.api.schedules",
    "import_": "assay.api.imports",
    "import_stacks": "assay.api.stack_sharing",
    "index": "assay.api.indexes",
    "init": "assay.api.starters",
    "job_template": "assay.api.data_jobs",
    "list_": "assay.api.listings",
    "list_stacks": "assay.api.stack_knowledge",
    "locked_containerfile": "assay.api.container_files",
    "make_suite": "assay.run.request",
    "monitor_metrics": "assay.api.monitoring",
    "monitor_server": "assay.api.monitoring",
    "monitoring_stack": "assay.api.monitoring_stacks",
    "most_uncertain_frames": "assay.api.data_choice",
    "notebook": "assay.api.notebooks",
    "openstack": "assay.api.machines",
    "plan": "assay.api.plans",
    "prepare": "assay.api.preparations",
    "push": "assay.api.pushes",
    "query_data": "assay.api.datasets",
    "query_data_sql": "assay.api.datasets",
    "query_page": "assay.api.data_pages",
    "queue": "assay.api.queues",
    "rank": "assay.api.comparisons",
    "rbac": "assay.api.grants",
    "read_suite": "assay.run.request",
    "render_build": "assay.api.stack_builds",
    "report": "assay.api.reports",
    "run": "assay.api.runs",
    "scale": "assay.api.curves",
    "scan_data": "assay.api.datasets",
    "scene_drift": "assay.api.datasets",
    "schedule": "assay.api.schedules",
    "schema": "assay.api.schemas",
    "score": "assay.api.scores",
    "show": "assay.api.details",
    "show_stack": "assay.api.stack_knowledge",
    "smoke": "assay.api.grants",
    "frames_without_scene": "assay.api.datasets",
    "split_data": "assay.api.datasets",
    "stage_data": "assay.api.data_staging",
    "stack_indicators": "assay.api.stack_indicators",
    "staged_sets": "assay.api.data_staging",
    "staging_job": "assay.api.data_staging",
    "start_worker": "assay.api.queues",
    "stop_queued": "assay.api.queues",
    "submit": "assay.api.submissions",
    "submit_data": "assay.api.data_jobs",
    "sweep": "assay.api.sweeps",
    "system_named": "assay.api.systems",
    "top": "assay.api.running",
    "trust_key": "assay.api.stack_sharing",
    "validate_data": "assay.api.data_validation",
    "watch": "assay.api.watching",
    "watch_job": "assay.api.watching",
    "watch_logs": "assay.api.watching",
    "watch_nccl": "assay.api.watching",
    "work_queue": "assay.api.queues",
}
__all__ = [
    "advise_stack",
    "advised_containerfile",
    "build_stack",
    "check_data",
    "class_shares",
    "classes_together",
    "clean",
    "compare",
    "containerfile",
    "data_job",
    "diff",
    "diff_stacks",
    "doctor",
    "enqueue",
    "every_system",
    "explain",
    "export",
    "export_stacks",
    "feeds",
    "fetch_telemetry",
    "flight_record",
    "frames_like",
    "frames_without_scene",
    "gate",
    "goodput",
    "history",
    "idleness",
    "import_",
    "import_stacks",
    "index",
    "init",
    "job_template",
    "list_",
    "list_stacks",
    "locked_containerfile",
    "make_suite",
    "monitor_metrics",
    "monitor_server",
    "monitoring_stack",
    "most_uncertain_frames",
    "notebook",
    "openstack",
    "plan",
    "prepare",
    "push",
    "query_data",
    "query_data_sql",
    "query_page",
    "queue",
    "rank",
    "rbac",
    "read_suite",
    "render_build",
    "report",
    "run",
    "scale",
    "scan_data",
    "scene_drift",
    "schedule",
    "schema",
    "score",
    "show",
    "show_stack",
    "smoke",
    "split_data",
    "stack_indicators",
    "stage_data",
    "staged_sets",
    "staging_job",
    "start_worker",
    "stop_queued",
    "submit",
    "submit_data",
    "sweep",
    "system_named",
    "top",
    "trust_key",
    "validate_data",
    "watch",
    "watch_job",
    "watch_logs",
    "watch_nccl",
    "work_queue",
]

logging.getLogger("assay").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
