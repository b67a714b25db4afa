"""The form of a suite, or of a template of jobs on labelled data: fields, and what they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import redact
from assay.documents import data_jobs
from assay.errors import InputError
from assay.inputs import read_whole
from assay.questions.data_job import data_job, job_template
from assay.questions.plan import plan
from assay.queue.requests import QueueRequest
from assay.units import human_seconds

TEMPLATE = "start_template.html"
Fields = Mapping[str, Sequence[str]]


def request_of(file: Path, by: str, moment: float, fields: Fields, *, is_template: bool) -> QueueRequest:
    """What the fields ask for. Raises InputError for what is no number."""
    failed, new = bool(_first_value(fields, "failed")), bool(_first_value(fields, "new"))
    if not is_template:
        systems = tuple(system for system in fields.get("system", ()) if system)
        decided = bool(_first_value(fields, "decided"))
        most = _number(fields, "max_repeats") if decided else None
        return QueueRequest(
            str(file), by, moment, systems, failed=failed, new=new, decided=decided, max_repeats=most
        )
    labels = {n.removeprefix("label."): v[0].strip() for n, v in fields.items() if n.startswith("label.")}
    params = {n.removeprefix("param."): v[0].strip() for n, v in fields.items() if n.startswith("param.")}
    return QueueRequest(
        str(file), by, moment, failed=failed, new=new, template=True,
        labels={name: value for name, value in labels.items() if value},
        params={name: _parse_scalar(value) for name, value in params.items() if value},
        system=_first_value(fields, "system"), shape=_first_value(fields, "shape"),
        limit=_number(fields, "limit"), seed=_number(fields, "seed"),
    )  # fmt: skip


def fields_of(request: QueueRequest, fields: Fields, runs: Path) -> tuple[list[str], dict[str, Any]]:
    """What is wrong, and the values of the form and of what would run."""
    problems, values = _template_fields(request, runs) if request.template else _suite_fields(request, runs)
    return problems, {"chosen": {name: list(chosen) for name, chosen in fields.items()}, **values}


def _suite_fields(request: QueueRequest, runs: Path) -> tuple[list[str], dict[str, Any]]:
    text = redact.redacted_yaml(read_whole(Path(request.file)).decode(errors="replace"))
    try:
        whole = plan(request.file, runs=runs)
        part = plan(request.file, system=request.systems, runs=runs) if request.systems else whole
    except InputError as error:
        return str(error).splitlines(), {"text": text, "systems": (), "trials": 0, "takes": ""}
    times = [seconds for _, seconds in part.durations_of_trials()]
    known = [seconds for seconds in times if seconds is not None]
    takes = human_seconds(sum(known)) if known and len(known) == len(times) else ""
    return [], {
        "text": text, "systems": whole.plan.systems, "trials": len(part.plan.trials), "takes": takes,
    }  # fmt: skip


def _template_fields(request: QueueRequest, runs: Path) -> tuple[list[str], dict[str, Any]]:
    try:
        template = job_template(request.file)
    except InputError as error:
        return str(error).splitlines(), {"filling": None, "job": None}
    if not (request.labels or request.params or request.system):  # nothing was chosen yet
        return [], {"filling": template, "job": None}
    try:
        job = data_job(
            request.file, labels=request.labels, params=request.params, system=request.system,
            shape=request.shape, limit=request.limit, seed=request.seed, runs=runs,
        )  # fmt: skip
    except InputError as error:
        return str(error).splitlines(), {"filling": template, "job": None}
    text = redact.redacted_yaml(job.filled.suite.text)
    return [], {"filling": template, "job": data_jobs.document(job), "text": text}


def _first_value(fields: Fields, name: str) -> str | None:
    return next((value.strip() for value in fields.get(name, ()) if value.strip()), None)


def _number(fields: Fields, name: str) -> int | None:
    text = _first_value(fields, name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 15:
        raise InputError(f"{name}: found {text!r}; expected a whole number")
    return int(text)


def _parse_scalar(text: str) -> str | int | float | bool:
    """A parameter's value as YAML would read a plain one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
