"""JSON Schemas of suite.yaml, systems.yaml and templates of jobs, for completion and checks in editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from assay.suite.job_template import TemplateFile
from assay.suite.model import NAME_PATTERN, BenchmarkEntry, SuiteFile
from assay.suite.sweep import takes_list

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
_PRICE: Schema = {
    "type": "string",
    "pattern": r"^\d+(\.\d+)? [A-Z]{3}/((accelerator|node)-hour|kWh)$",
    "description": "The system's price, for the report: 2.50 EUR/accelerator-hour, 30 USD/node-hour, "
    "or 0.25 EUR/kWh for the energy of its GPUs.",
}

_PARAMS: Schema = {
    "type": "object",
    "description": "Parameters of the suite's benchmarks that have other values on this system: "
    "{directory: /lustre}, or {argv: [python, train.py, --batch, 64]}.",
}


def suite_schema(params_models: Mapping[str, type[BaseModel]], about: Mapping[str, str]) -> Schema:
    """The schema of suite.yaml; the valid `params` follow from `workload`.

    params_models  workload → model of its parameters
    about          workload → one line for people
    """
    refs, definitions = _schemas({"suite": SuiteFile, "benchmark": BenchmarkEntry, **params_models})
    for name, model in params_models.items():
        _allow_sweeps(definitions[refs[name]], model)
        definitions[refs[name]]["description"] = about[name]
    choice = [
        _when("workload", name, {"properties": {"params": {"$ref": f"#/$defs/{refs[name]}"}}})
        for name in params_models
    ]
    for ref in (refs["suite"], refs["benchmark"]):
        definitions[ref]["properties"]["workload"] = {
            "description": definitions[ref]["properties"]["workload"]["description"],
            "oneOf": [{"const": name, "description": about[name]} for name in params_models],
        }
        definitions[ref]["allOf"] = choice
    root = definitions.pop(refs["suite"])
    root["oneOf"] = [{"required": ["workload"]}, {"required": ["benchmarks"]}]
    return {"$schema": DIALECT, "$id": "urn:assay:schema:suite:1", **root, "$defs": definitions}


def template_schema() -> Schema:
    """The schema of a template of jobs on labeled data."""
    return {"$schema": DIALECT, "$id": "urn:assay:schema:template:1", **TemplateFile.model_json_schema()}


def systems_schema(
    launcher_models: Mapping[str, type[BaseModel]], parts: Mapping[str, type[BaseModel]]
) -> Schema:
    """The schema of systems.yaml; the valid options of a system follow from its `launcher`.

    launcher_models  launcher → model of a system's options
    parts            part of a prepared cluster → model of its options, for launchers that have `prepare`
    """
    refs, definitions = _schemas({**launcher_models, **parts})
    of_parts = {name: {"anyOf": [{"$ref": f"#/$defs/{refs[name]}"}, {"type": "null"}]} for name in parts}
    for name in launcher_models:
        definition = definitions[refs[name]]
        definition["properties"] = {
            "launcher": {"const": name},
            "price": _PRICE,
            "params": _PARAMS,
            **definition.get("properties", {}),
        }
        if prepare := definition["properties"].get("prepare"):
            prepare |= {"properties": of_parts, "additionalProperties": False}
    system = {
        "type": "object",
        "description": "One place to measure: a launcher and its options.",
        "required": ["launcher"],
        "properties": {
            "launcher": {"enum": list(launcher_models), "description": "How a job is started here."}
        },
        "allOf": [_when("launcher", name, {"$ref": f"#/$defs/{refs[name]}"}) for name in launcher_models],
    }
    return {
        "$schema": DIALECT,
        "$id": "urn:assay:schema:systems:1",
        "title": "systems.yaml",
        "description": "Where to measure: systems by the names that suites use.",
        "type": "object",
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": system,
        "$defs": definitions,
    }


def _schemas(models: Mapping[str, type[BaseModel]]) -> tuple[dict[str, str], Schema]:
    """Name → key among the definitions, and the definitions of all models."""
    places, whole = models_json_schema([(model, "validation") for model in models.values()])
    refs = {name: places[model, "validation"]["$ref"].rpartition("/")[2] for name, model in models.items()}
    return refs, whole.get("$defs", {})


def _when(key: str, value: str, then: Schema) -> Schema:
    return {"if": {"required": [key], "properties": {key: {"const": value}}}, "then": then}


def _allow_sweeps(definition: Schema, model: type[BaseModel]) -> None:
    """Let each parameter also be a list of its values: the sweep."""
    for name, field in model.model_fields.items():
        single = definition["properties"][name]
        annotations = {key: single.pop(key) for key in ("title", "description", "default") if key in single}
        items = single if not takes_list(field.annotation) else {"type": "array", **_array_of(single)}
        many = {"type": "array", "minItems": 1, "uniqueItems": True, "items": items}
        definition["properties"][name] = {**annotations, "anyOf": [single, many]}


def _array_of(schema: Schema) -> Schema:
    """The array among the forms that `schema` allows."""
    forms = [schema, *schema.get("anyOf", [])]
    return next(form for form in forms if form.get("type") == "array")
