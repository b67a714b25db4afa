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


def request_of(file: Path, by: str, at: float, fields: Fields, *, is_template: bool) -> QueueRequest:
    """What the fields ask for. Raises InputError for what is no number."""
    failed, new = bool(_one(fields, "failed")), bool(_one(fields, "new"))
    if not is_template:
        systems = tuple(one for one in fields.get("system", ()) if one)
        decided = bool(_one(fields, "decided"))
        most = _number(fields, "max_repeats") if decided else None
        return QueueRequest(
            str(file), by, at, systems, failed=failed, new=new, decided=decided, max_repeats=most
        )
    labels = {n.removeprefix("label."): v[0].strip() for n, v in fields.items() if n.startswith("label.")}
    params = {n.removeprefix("param."): v[0].strip() for n, v in fields.items() if n.startswith("param.")}
    return QueueRequest(
        str(file), by, at, failed=failed, new=new, template=True,
        labels={name: value for name, value in labels.items() if value},
        params={name: _plain(value) for name, value in params.items() if value},
        system=_one(fields, "system"), shape=_one(fields, "shape"),
        limit=_number(fields, "limit"), seed=_number(fields, "seed"),
    )  # fmt: skip


def fields_of(wanted: QueueRequest, fields: Fields, runs: Path) -> tuple[list[str], dict[str, Any]]:
    """What is wrong, and the values of the form and of what would run."""
    made = _template_fields(wanted, runs) if wanted.template else _suite_fields(wanted, runs)
    return made[0], {"chosen": {name: list(values) for name, values in fields.items()}, **made[1]}


def _suite_fields(wanted: QueueRequest, runs: Path) -> tuple[list[str], dict[str, Any]]:
    text = redact.redacted_yaml(read_whole(Path(wanted.file)).decode(errors="replace"))
    try:
        whole = plan(wanted.file, runs=runs)
        part = plan(wanted.file, system=wanted.systems, runs=runs) if wanted.systems else whole
    except InputError as error:
        return str(error).splitlines(), {"text": text, "systems": (), "trials": 0, "takes": ""}
    times = [seconds for _, seconds in part.durations_of_trials()]
    known = [seconds for seconds in times if seconds is not None]
    takes = human_seconds(sum(known)) if known and len(known) == len(times) else ""
    return [], {
        "text": text, "systems": whole.plan.systems, "trials": len(part.plan.trials), "takes": takes,
    }  # fmt: skip


def _template_fields(wanted: QueueRequest, runs: Path) -> tuple[list[str], dict[str, Any]]:
    try:
        template = job_template(wanted.file)
    except InputError as error:
        return str(error).splitlines(), {"filling": None, "job": None}
    if not (wanted.labels or wanted.params or wanted.system):  # nothing was chosen yet
        return [], {"filling": template, "job": None}
    try:
        job = data_job(
            wanted.file, labels=wanted.labels, params=wanted.params, system=wanted.system, shape=wanted.shape,
            limit=wanted.limit, seed=wanted.seed, runs=runs,
        )  # fmt: skip
    except InputError as error:
        return str(error).splitlines(), {"filling": template, "job": None}
    text = redact.redacted_yaml(job.filled.suite.text)
    return [], {"filling": template, "job": data_jobs.document(job), "text": text}


def _one(fields: Fields, name: str) -> str | None:
    return next((value.strip() for value in fields.get(name, ()) if value.strip()), None)


def _number(fields: Fields, name: str) -> int | None:
    text = _one(fields, name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 15:
        raise InputError(f"{name}: found {text!r}; expected a whole number")
    return int(text)


def _plain(text: str) -> str | int | float | bool:
    """A parameter's value as YAML would read a plain one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
