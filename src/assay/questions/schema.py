"""JSON Schemas of the user's files."""

from __future__ import annotations

from typing import Any, Final, Literal

from assay.errors import InputError
from assay.registry import imported

PARTS: Final = "assay.cluster.components:PARTS"  # of a prepared cluster


def schema(file: Literal["suite", "systems", "template"]) -> dict[str, Any]:
    """The JSON Schema of suite.yaml, systems.yaml or a template of jobs, like `assay schema FILE`.

    Raises InputError for the name of another file.
    """
    from assay.launch import SYSTEM_MODELS
    from assay.suite.schema import suite_schema, systems_schema, template_schema
    from assay.workloads import WORKLOADS

    if file not in ("suite", "systems", "template"):
        raise InputError(f"found {file!r}; expected suite, systems or template")
    if file == "template":
        return template_schema()
    if file == "systems":
        return systems_schema(dict(SYSTEM_MODELS.items()), imported(PARTS))
    models = {name: workload.params for name, workload in WORKLOADS.items()}
    return suite_schema(models, {name: workload.about for name, workload in WORKLOADS.items()})
