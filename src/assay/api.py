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
    from assay.questions.clean import clean
    from assay.questions.compare import compare, rank
    from assay.questions.data_choice import frames_like, most_uncertain_frames
    from assay.questions.data_job import data_job, job_template, submit_data
    from assay.questions.data_pages import query_page
    from assay.questions.datasets import (
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
    from assay.questions.diff import diff
    from assay.questions.doctor import doctor
    from assay.questions.explain import explain
    from assay.questions.export import export
    from assay.questions.feeds import feeds
    from assay.questions.fetch_telemetry import fetch_telemetry
    from assay.questions.gate import gate
    from assay.questions.goodput import goodput
    from assay.questions.history import history
    from assay.questions.import_ import import_
    from assay.questions.index import index
    from assay.questions.init import init
    from assay.questions.list_ import list_
    from assay.questions.monitor import monitor_metrics, monitor_server
    from assay.questions.monitoring_stack import monitoring_stack
    from assay.questions.notebook import notebook
    from assay.questions.openstack import openstack
    from assay.questions.plan import plan
    from assay.questions.prepare import prepare
    from assay.questions.push import push
    from assay.questions.queue import enqueue, queue, start_worker, stop_queued, work_queue
    from assay.questions.rbac import rbac, smoke
    from assay.questions.report import report
    from assay.questions.run import run
    from assay.questions.scale import scale
    from assay.questions.schedule import idleness, schedule
    from assay.questions.schema import schema
    from assay.questions.score import score
    from assay.questions.show import show
    from assay.questions.stage_data import stage_data, staged_sets, staging_job
    from assay.questions.submit import submit
    from assay.questions.sweep import sweep
    from assay.questions.systems import every_system, system_named
    from assay.questions.top import top
    from assay.questions.validate_data import validate_data
    from assay.questions.watch import flight_record, watch, watch_job, watch_logs, watch_nccl
    from assay.run.request import make_suite, read_suite
    from assay.stacks.advise import advise_stack
    from assay.stacks.build import build_stack, render_build
    from assay.stacks.containerfile import advised_containerfile, containerfile, locked_containerfile
    from assay.stacks.diff import diff_stacks
    from assay.stacks.indicators import stack_indicators
    from assay.stacks.known import list_stacks, show_stack
    from assay.stacks.sharing import export_stacks, import_stacks, trust_key

_MODULES = {
    "advise_stack": "assay.stacks.advise",
    "advised_containerfile": "assay.stacks.containerfile",
    "build_stack": "assay.stacks.build",
    "check_data": "assay.questions.datasets",
    "class_shares": "assay.questions.datasets",
    "classes_together": "assay.questions.datasets",
    "clean": "assay.questions.clean",
    "compare": "assay.questions.compare",
    "containerfile": "assay.stacks.containerfile",
    "data_job": "assay.questions.data_job",
    "diff": "assay.questions.diff",
    "diff_stacks": "assay.stacks.diff",
    "doctor": "assay.questions.doctor",
    "enqueue": "assay.questions.queue",
    "every_system": "assay.questions.systems",
    "explain": "assay.questions.explain",
    "export": "assay.questions.export",
    "export_stacks": "assay.stacks.sharing",
    "feeds": "assay.questions.feeds",
    "fetch_telemetry": "assay.questions.fetch_telemetry",
    "flight_record": "assay.questions.watch",
    "frames_like": "assay.questions.data_choice",
    "gate": "assay.questions.gate",
    "goodput": "assay.questions.goodput",
    "history": "assay.questions.history",
    "idleness": "assay.questions.schedule",
    "import_": "assay.questions.import_",
    "import_stacks": "assay.stacks.sharing",
    "index": "assay.questions.index",
    "init": "assay.questions.init",
    "job_template": "assay.questions.data_job",
    "list_": "assay.questions.list_",
    "list_stacks": "assay.stacks.known",
    "locked_containerfile": "assay.stacks.containerfile",
    "make_suite": "assay.run.request",
    "monitor_metrics": "assay.questions.monitor",
    "monitor_server": "assay.questions.monitor",
    "monitoring_stack": "assay.questions.monitoring_stack",
    "most_uncertain_frames": "assay.questions.data_choice",
    "notebook": "assay.questions.notebook",
    "openstack": "assay.questions.openstack",
    "plan": "assay.questions.plan",
    "prepare": "assay.questions.prepare",
    "push": "assay.questions.push",
    "query_data": "assay.questions.datasets",
    "query_data_sql": "assay.questions.datasets",
    "query_page": "assay.questions.data_pages",
    "queue": "assay.questions.queue",
    "rank": "assay.questions.compare",
    "rbac": "assay.questions.rbac",
    "read_suite": "assay.run.request",
    "render_build": "assay.stacks.build",
    "report": "assay.questions.report",
    "run": "assay.questions.run",
    "scale": "assay.questions.scale",
    "scan_data": "assay.questions.datasets",
    "scene_drift": "assay.questions.datasets",
    "schedule": "assay.questions.schedule",
    "schema": "assay.questions.schema",
    "score": "assay.questions.score",
    "show": "assay.questions.show",
    "show_stack": "assay.stacks.known",
    "smoke": "assay.questions.rbac",
    "frames_without_scene": "assay.questions.datasets",
    "split_data": "assay.questions.datasets",
    "stage_data": "assay.questions.stage_data",
    "stack_indicators": "assay.stacks.indicators",
    "staged_sets": "assay.questions.stage_data",
    "staging_job": "assay.questions.stage_data",
    "start_worker": "assay.questions.queue",
    "stop_queued": "assay.questions.queue",
    "submit": "assay.questions.submit",
    "submit_data": "assay.questions.data_job",
    "sweep": "assay.questions.sweep",
    "system_named": "assay.questions.systems",
    "top": "assay.questions.top",
    "trust_key": "assay.stacks.sharing",
    "validate_data": "assay.questions.validate_data",
    "watch": "assay.questions.watch",
    "watch_job": "assay.questions.watch",
    "watch_logs": "assay.questions.watch",
    "watch_nccl": "assay.questions.watch",
    "work_queue": "assay.questions.queue",
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
