"""The workloads, from the models of their parameters."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from assay.units import human
from assay.workloads import WORKLOADS, Workload
from assay.workloads.training import TrainingParams, training_metrics


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    trainings = [w for w in WORKLOADS.values() if issubclass(w.params, TrainingParams)]
    others = [w for w in WORKLOADS.values() if w not in trainings]
    yield "# Workloads"
    yield "The workloads that a suite can run. Assay checks parameters before anything starts and reports"
    yield "errors with file and line. A list of values is swept. `assay plan` shows each trial.\n"
    yield "| workload | description |\n|---|---|"
    yield from (f"| [{w.name}](#{w.name}) | {w.about} |" for w in WORKLOADS.values())
    yield "\n## Training"
    yield "Assay sends each of these with the job, as a few files that need the framework and the library of"
    yield "the model, but not Assay itself. [Measure training](../how-to/training.md) describes how a"
    yield "training runs. `mode: real` writes the log that the rules of its MLPerf round require, so that"
    yield "`assay score` and MLPerf's own compliance checker can read it. MLCommons has not verified your"
    yield "result.\n"
    yield "| mode | metrics |\n|---|---|"
    for mode in ("synthetic", "real", "data-only"):
        found = training_metrics(TrainingParams(mode=mode, data="/data", target=1.0), "samples")
        yield f"| `{mode}` | {'; '.join(f'`{m.name}`: {m.about}' for m in found)} |"
    yield "\nAll of them have these parameters. If a benchmark has other defaults, its section lists them.\n"
    yield from _table(TrainingParams.model_fields.items())
    for workload in trainings:
        yield from _section(workload, TrainingParams)
    yield "\n## Arithmetic, memory, disk, communication, inference, and programs of your own"
    for workload in others:
        yield from _section(workload, None)


def _section(workload: Workload, common: type[BaseModel] | None) -> Iterator[str]:
    known = common.model_fields if common else {}
    fields = workload.params.model_fields
    own = [(name, field) for name, field in fields.items() if name not in known]
    changed = [(name, field) for name, field in fields.items() if _differs(field, known.get(name))]
    yield f"\n### {workload.name}"
    yield f"{workload.about[0].upper()}{workload.about[1:]}.\n"
    yield inspect.cleandoc(workload.params.__doc__ or "")
    flops = workload.reader.flops(workload.params()) if common else None
    if flops is not None:
        yield f"\nWith the defaults, training takes {human(flops, 'FLOP')} per {workload.sample}."
    if changed:
        yield "\nOther defaults: " + ", ".join(f"`{name}: {_value(field)}`" for name, field in changed) + "."
    yield ""
    yield from _table(own)
    for name, field in own:
        for entry in get_args(field.annotation):
            if inspect.isclass(entry) and issubclass(entry, BaseModel):
                yield f"\n{inspect.cleandoc(entry.__doc__ or '')}\n"
                yield from _table(entry.model_fields.items(), f"key of each entry of `{name}`")


def _table(fields: Iterable[tuple[str, FieldInfo]], heading: str = "parameter") -> Iterator[str]:
    yield f"| {heading} | default | meaning |\n|---|---|---|"
    for name, field in fields:
        default = "required" if field.is_required() else f"`{_value(field)}`"
        yield f"| `{name}` | {default} | {field.description or ''} |"


def _differs(field: FieldInfo, common: FieldInfo | None) -> bool:
    return common is not None and field.default != common.default


def _value(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return json.dumps(value, default=list) if not isinstance(value, str) or not value else value
