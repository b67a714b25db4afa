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
    from assay.cluster.questions.openstack import openstack
    from assay.cluster.questions.prepare import prepare
    from assay.cluster.questions.rbac import rbac, smoke
    from assay.data.pages import query_page
    from assay.data.questions.cache import staged_sets
    from assay.data.questions.check import check_data
    from assay.data.questions.classes import class_shares, classes_together, scene_drift
    from assay.data.questions.feeds import feeds
    from assay.data.questions.query import (
        frames_like,
        frames_without_scene,
        most_uncertain_frames,
        query_data,
        query_data_sql,
        split_data,
    )
    from assay.data.questions.scan import scan_data
    from assay.data.questions.stage import stage_data, staging_job
    from assay.data.questions.submit import data_job, job_template, submit_data
    from assay.data.questions.validate import validate_data
    from assay.monitor.questions.export import monitor_metrics, monitor_server
    from assay.monitor.questions.fetch import fetch_telemetry
    from assay.monitor.questions.idle import idleness
    from assay.monitor.questions.schedule import schedule
    from assay.monitor.questions.top import top
    from assay.monitor.questions.up import monitoring_stack
    from assay.monitor.questions.watch import flight_record, watch, watch_job, watch_logs, watch_nccl
    from assay.questions.clean import clean
    from assay.questions.compare import compare, rank
    from assay.questions.demo import demo
    from assay.questions.diff import diff
    from assay.questions.doctor import doctor
    from assay.questions.explain import explain
    from assay.questions.export import export
    from assay.questions.gate import gate
    from assay.questions.goodput import goodput
    from assay.questions.history import history
    from assay.questions.import_ import import_
    from assay.questions.index import index
    from assay.questions.init import init
    from assay.questions.list_ import list_
    from assay.questions.plan import plan
    from assay.questions.push import push
    from assay.questions.queue import enqueue, queue, start_worker, stop_queued, work_queue
    from assay.questions.read import read_logs
    from assay.questions.report import report
    from assay.questions.run import run
    from assay.questions.scale import scale
    from assay.questions.schema import schema
    from assay.questions.score import score
    from assay.questions.show import show
    from assay.questions.submit import submit
    from assay.questions.sweep import sweep
    from assay.questions.systems import every_system, system_named
    from assay.questions.try_ import try_
    from assay.run.request import make_suite, read_suite
    from assay.stacks.advise import advise_stack, advised_containerfile
    from assay.stacks.build import build_stack, render_build
    from assay.stacks.containerfile import containerfile, locked_containerfile
    from assay.stacks.diff import diff_stacks
    from assay.stacks.indicators import stack_indicators
    from assay.stacks.known import list_stacks, show_stack
    from assay.stacks.sharing import export_stacks, import_stacks, trust_key

_MODULES = {
    "advise_stack": "assay.stacks.advise",
    "advised_containerfile": "assay.stacks.advise",
    "build_stack": "assay.stacks.build",
    "check_data": "assay.data.questions.check",
    "class_shares": "assay.data.questions.classes",
    "classes_together": "assay.data.questions.classes",
    "clean": "assay.questions.clean",
    "compare": "assay.questions.compare",
    "containerfile": "assay.stacks.containerfile",
    "data_job": "assay.data.questions.submit",
    "demo": "assay.questions.demo",
    "diff": "assay.questions.diff",
    "diff_stacks": "assay.stacks.diff",
    "doctor": "assay.questions.doctor",
    "enqueue": "assay.questions.queue",
    "every_system": "assay.questions.systems",
    "explain": "assay.questions.explain",
    "export": "assay.questions.export",
    "export_stacks": "assay.stacks.sharing",
    "feeds": "assay.data.questions.feeds",
    "fetch_telemetry": "assay.monitor.questions.fetch",
    "flight_record": "assay.monitor.questions.watch",
    "frames_like": "assay.data.questions.query",
    "gate": "assay.questions.gate",
    "goodput": "assay.questions.goodput",
    "history": "assay.questions.history",
    "idleness": "assay.monitor.questions.idle",
    "import_": "assay.questions.import_",
    "import_stacks": "assay.stacks.sharing",
    "index": "assay.questions.index",
    "init": "assay.questions.init",
    "job_template": "assay.data.questions.submit",
    "list_": "assay.questions.list_",
    "list_stacks": "assay.stacks.known",
    "locked_containerfile": "assay.stacks.containerfile",
    "make_suite": "assay.run.request",
    "monitor_metrics": "assay.monitor.questions.export",
    "monitor_server": "assay.monitor.questions.export",
    "monitoring_stack": "assay.monitor.questions.up",
    "most_uncertain_frames": "assay.data.questions.query",
    "openstack": "assay.cluster.questions.openstack",
    "plan": "assay.questions.plan",
    "prepare": "assay.cluster.questions.prepare",
    "push": "assay.questions.push",
    "query_data": "assay.data.questions.query",
    "query_data_sql": "assay.data.questions.query",
    "query_page": "assay.data.pages",
    "queue": "assay.questions.queue",
    "rank": "assay.questions.compare",
    "rbac": "assay.cluster.questions.rbac",
    "read_logs": "assay.questions.read",
    "read_suite": "assay.run.request",
    "render_build": "assay.stacks.build",
    "report": "assay.questions.report",
    "run": "assay.questions.run",
    "scale": "assay.questions.scale",
    "scan_data": "assay.data.questions.scan",
    "scene_drift": "assay.data.questions.classes",
    "schedule": "assay.monitor.questions.schedule",
    "schema": "assay.questions.schema",
    "score": "assay.questions.score",
    "show": "assay.questions.show",
    "show_stack": "assay.stacks.known",
    "smoke": "assay.cluster.questions.rbac",
    "frames_without_scene": "assay.data.questions.query",
    "split_data": "assay.data.questions.query",
    "stage_data": "assay.data.questions.stage",
    "stack_indicators": "assay.stacks.indicators",
    "staged_sets": "assay.data.questions.cache",
    "staging_job": "assay.data.questions.stage",
    "start_worker": "assay.questions.queue",
    "stop_queued": "assay.questions.queue",
    "submit": "assay.questions.submit",
    "submit_data": "assay.data.questions.submit",
    "sweep": "assay.questions.sweep",
    "system_named": "assay.questions.systems",
    "top": "assay.monitor.questions.top",
    "trust_key": "assay.stacks.sharing",
    "try_": "assay.questions.try_",
    "validate_data": "assay.data.questions.validate",
    "watch": "assay.monitor.questions.watch",
    "watch_job": "assay.monitor.questions.watch",
    "watch_logs": "assay.monitor.questions.watch",
    "watch_nccl": "assay.monitor.questions.watch",
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
    "demo",
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
    "read_logs",
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
    "try_",
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
