"""The CronJob of a scheduled suite, from the user's files."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.monitor.schedule_request import ScheduleRequest, schedule_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from assay.cluster.components.scheduled_suite import QuickSuite
    from assay.launch.kubernetes.objects.order import Manifest

PAYLOADS = "assay_payloads/"  # where Assay's own programs are in a job
_LABEL = re.compile(r"[^a-z0-9]+")


def cron_job(request: ScheduleRequest, *, namespace: str | None, image: str | None, claim: str | None) -> str:
    """The objects as YAML: a CronJob with all that it needs, and the exporter of its results.

    namespace, image, claim  as in `schedule`

    Raises InputError for a system that is not on Kubernetes, and for what must not be in a ConfigMap.
    """
    from assay.launch.kubernetes.objects.manifests import as_yaml

    if image is None:
        raise InputError(
            "--image: name the image with Assay that the CronJob runs; the Containerfile of Assay's "
            "repository makes one. The system's image is that of the trials"
        )
    return as_yaml(_objects(request, namespace, image, claim))


def part_objects(part: QuickSuite, system: str, systems: Path, namespace: str) -> list[Manifest]:
    """The objects of the part `schedule` of a prepared cluster.

    systems  the file; the part's suite is relative to it

    Raises InputError as `assay.monitor.questions.schedule.schedule` does.
    """
    request, _ = schedule_request(
        systems.parent / part.suite,
        system,
        systems,
        every=part.every,
        baseline=part.baseline,
        max_trial=part.max_trial,
    )
    return _objects(request, namespace, part.image, part.claim)


def _objects(
    request: ScheduleRequest, namespace: str | None, image: str, claim: str | None
) -> list[Manifest]:
    from assay.cluster.components.scheduled_suite import (
        FILES_DIR,
        RUNS_DIR,
        SUITE_FILE,
        SYSTEMS_FILE,
        ScheduledSuite,
    )
    from assay.launch.kubernetes.client import connect
    from assay.launch.kubernetes.options import KubernetesSystem

    options = request.system.options
    if not isinstance(options, KubernetesSystem):
        raise InputError(
            f"{request.system.name} uses the launcher {request.system.launcher}, but a CronJob is for "
            "Kubernetes; choose --as systemd"
        )
    space = namespace or options.namespace or connect(options.context).namespace
    files = {SUITE_FILE: _suite_text(request), SYSTEMS_FILE: _system_text(request, space)}
    suite, systems = (f"{FILES_DIR}/{name}" for name in files)
    scheduled_suite = ScheduledSuite(
        name=_object_name(request.name, request.system.name),
        namespace=space,
        image=image,
        cron=request.period.cron(),
        limit_s=request.period.seconds,
        arguments=request.run_arguments(suite, systems, RUNS_DIR),
        files=files,
        claim=claim,
        options=options,
    )
    return scheduled_suite.objects()


def _object_name(suite: str, system: str) -> str:
    from assay.cluster.components.scheduled_suite import LONGEST_NAME

    return _LABEL.sub("-", f"assay-{suite}-{system}".lower())[: LONGEST_NAME - len("-exporter")].strip("-")


def _suite_text(request: ScheduleRequest) -> str:
    """The suite's file. Raises InputError for one that needs other files, or contains a secret."""
    if named := [*dict.fromkeys(_files(request))]:
        raise InputError(
            f"{request.suite}: {', '.join(named)}: a CronJob's pod has no other files than the "
            "suite's own; put them into the image of the trials, and name them there by an absolute path"
        )
    from assay.launch.kubernetes.objects.manifests import as_yaml

    source = request.plan.run.suite.source
    content = {key: value for key, value in source.data.items() if key not in ("systems", "baseline")}
    return _public(as_yaml([deepcopy({**content, "systems": [request.system.name]})]), source.file)


def _files(request: ScheduleRequest) -> Iterator[str]:
    """Files that Assay would send with a trial, and paths that are relative to the suite."""
    from assay.plan import task_of

    below = f"{request.plan.run.suite.directory}{os.sep}"
    for trial in request.plan.plan.trials:
        sent = (file.name for file in task_of(trial).files)
        yield from (name for name in sent if not name.startswith(PAYLOADS))
        yield from (text for text in _texts(trial.params) if text.startswith(below))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _texts(element)


def _system_text(request: ScheduleRequest, namespace: str) -> str:
    """The system's entry, for a pod: no kubeconfig's context, and the lowest priority."""
    from assay.cluster.components.scheduled_suite import priority_class
    from assay.launch.kubernetes.objects.manifests import as_yaml

    source = request.plan.run.systems.source
    written: Mapping[str, Any] = source.data[request.system.name]
    entry = {key: value for key, value in written.items() if key not in ("context", "prepare")}
    entry = {"priorityClassName": priority_class(namespace), **entry, "namespace": namespace}
    return _public(as_yaml([deepcopy({request.system.name: entry})]), source.file)


def _public(text: str, file: str) -> str:
    """The text of a file. Raises InputError if it contains a secret: a ConfigMap is no place for one."""
    from assay.redact import redacted_yaml

    if redacted_yaml(text) != text:
        raise InputError(
            f"{file}: a value looks like a secret, and a ConfigMap shows it to everybody in the namespace; "
            "keep it in a Secret and name that under `envFromSecret`"
        )
    return text
