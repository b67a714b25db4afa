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
    from assay.cluster.questions.openstack import openstack as openstack
    from assay.cluster.questions.prepare import prepare as prepare
    from assay.cluster.questions.rbac import rbac as rbac
    from assay.cluster.questions.rbac import smoke as smoke
    from assay.data.pages import query_page as query_page
    from assay.data.questions.cache import staged_sets as staged_sets
    from assay.data.questions.check import check_data as check_data
    from assay.data.questions.classes import class_shares as class_shares
    from assay.data.questions.classes import classes_together as classes_together
    from assay.data.questions.classes import scene_drift as scene_drift
    from assay.data.questions.feeds import feeds as feeds
    from assay.data.questions.query import frames_like as frames_like
    from assay.data.questions.query import frames_without_scene as frames_without_scene
    from assay.data.questions.query import most_uncertain_frames as most_uncertain_frames
    from assay.data.questions.query import query_data as query_data
    from assay.data.questions.query import query_data_sql as query_data_sql
    from assay.data.questions.query import split_data as split_data
    from assay.data.questions.scan import scan_data as scan_data
    from assay.data.questions.stage import stage_data as stage_data
    from assay.data.questions.stage import staging_job as staging_job
    from assay.data.questions.submit import data_job as data_job
    from assay.data.questions.submit import job_template as job_template
    from assay.data.questions.submit import submit_data as submit_data
    from assay.data.questions.validate import validate_data as validate_data
    from assay.monitor.questions.export import monitor_metrics as monitor_metrics
    from assay.monitor.questions.export import monitor_server as monitor_server
    from assay.monitor.questions.fetch import fetch_telemetry as fetch_telemetry
    from assay.monitor.questions.idle import idleness as idleness
    from assay.monitor.questions.running import running_trials as running_trials
    from assay.monitor.questions.schedule import schedule as schedule
    from assay.monitor.questions.up import monitoring_stack as monitoring_stack
    from assay.monitor.questions.watch import flight_record as flight_record
    from assay.monitor.questions.watch import watch as watch
    from assay.monitor.questions.watch import watch_job as watch_job
    from assay.monitor.questions.watch import watch_logs as watch_logs
    from assay.monitor.questions.watch import watch_nccl as watch_nccl
    from assay.questions.clean import clean as clean
    from assay.questions.compare import compare as compare
    from assay.questions.compare import rank as rank
    from assay.questions.demo import demo as demo
    from assay.questions.diff import diff as diff
    from assay.questions.doctor import doctor as doctor
    from assay.questions.explain import explain as explain
    from assay.questions.export import export as export
    from assay.questions.gate import gate as gate
    from assay.questions.goodput import goodput as goodput
    from assay.questions.history import history as history
    from assay.questions.import_ import import_ as import_
    from assay.questions.index import index as index
    from assay.questions.init import init as init
    from assay.questions.init import schema as schema
    from assay.questions.list_runs import list_runs as list_runs
    from assay.questions.plan import plan as plan
    from assay.questions.push import push as push
    from assay.questions.queue import enqueue as enqueue
    from assay.questions.queue import queue as queue
    from assay.questions.queue import stop_queued as stop_queued
    from assay.questions.queue_work import start_worker as start_worker
    from assay.questions.queue_work import work_queue as work_queue
    from assay.questions.read import read_logs as read_logs
    from assay.questions.report import report as report
    from assay.questions.run import run as run
    from assay.questions.scale import scale as scale
    from assay.questions.score import score as score
    from assay.questions.show import show as show
    from assay.questions.submit import submit as submit
    from assay.questions.sweep import sweep as sweep
    from assay.questions.systems import every_system as every_system
    from assay.questions.systems import system_named as system_named
    from assay.questions.try_ import try_ as try_
    from assay.run.request import make_suite as make_suite
    from assay.run.request import read_suite as read_suite
    from assay.stacks.advise import advise_stack as advise_stack
    from assay.stacks.advise import advised_containerfile as advised_containerfile
    from assay.stacks.build import build_stack as build_stack
    from assay.stacks.build import render_build as render_build
    from assay.stacks.containerfile import containerfile as containerfile
    from assay.stacks.containerfile import locked_containerfile as locked_containerfile
    from assay.stacks.diff import diff_stacks as diff_stacks
    from assay.stacks.indicators import stack_indicators as stack_indicators
    from assay.stacks.known import list_stacks as list_stacks
    from assay.stacks.known import show_stack as show_stack
    from assay.stacks.sharing import export_stacks as export_stacks
    from assay.stacks.sharing import import_stacks as import_stacks
    from assay.stacks.sharing import trust_key as trust_key

_NAMES = {  # module → its functions that are the library's
    "assay.cluster.questions.openstack": "openstack",
    "assay.cluster.questions.prepare": "prepare",
    "assay.cluster.questions.rbac": "rbac smoke",
    "assay.data.pages": "query_page",
    "assay.data.questions.cache": "staged_sets",
    "assay.data.questions.check": "check_data",
    "assay.data.questions.classes": "class_shares classes_together scene_drift",
    "assay.data.questions.feeds": "feeds",
    "assay.data.questions.query": (
        "frames_like frames_without_scene most_uncertain_frames query_data query_data_sql split_data"
    ),
    "assay.data.questions.scan": "scan_data",
    "assay.data.questions.stage": "stage_data staging_job",
    "assay.data.questions.submit": "data_job job_template submit_data",
    "assay.data.questions.validate": "validate_data",
    "assay.monitor.questions.export": "monitor_metrics monitor_server",
    "assay.monitor.questions.fetch": "fetch_telemetry",
    "assay.monitor.questions.idle": "idleness",
    "assay.monitor.questions.running": "running_trials",
    "assay.monitor.questions.schedule": "schedule",
    "assay.monitor.questions.up": "monitoring_stack",
    "assay.monitor.questions.watch": "flight_record watch watch_job watch_logs watch_nccl",
    "assay.questions.clean": "clean",
    "assay.questions.compare": "compare rank",
    "assay.questions.demo": "demo",
    "assay.questions.diff": "diff",
    "assay.questions.doctor": "doctor",
    "assay.questions.explain": "explain",
    "assay.questions.export": "export",
    "assay.questions.gate": "gate",
    "assay.questions.goodput": "goodput",
    "assay.questions.history": "history",
    "assay.questions.import_": "import_",
    "assay.questions.index": "index",
    "assay.questions.init": "init schema",
    "assay.questions.list_runs": "list_runs",
    "assay.questions.plan": "plan",
    "assay.questions.push": "push",
    "assay.questions.queue": "enqueue queue stop_queued",
    "assay.questions.queue_work": "start_worker work_queue",
    "assay.questions.read": "read_logs",
    "assay.questions.report": "report",
    "assay.questions.run": "run",
    "assay.questions.scale": "scale",
    "assay.questions.score": "score",
    "assay.questions.show": "show",
    "assay.questions.submit": "submit",
    "assay.questions.sweep": "sweep",
    "assay.questions.systems": "every_system system_named",
    "assay.questions.try_": "try_",
    "assay.run.request": "make_suite read_suite",
    "assay.stacks.advise": "advise_stack advised_containerfile",
    "assay.stacks.build": "build_stack render_build",
    "assay.stacks.containerfile": "containerfile locked_containerfile",
    "assay.stacks.diff": "diff_stacks",
    "assay.stacks.indicators": "stack_indicators",
    "assay.stacks.known": "list_stacks show_stack",
    "assay.stacks.sharing": "export_stacks import_stacks trust_key",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

logging.getLogger("assay").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
