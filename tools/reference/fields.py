"""Tables of a pydantic model's fields: type, default, meaning and an example that the model accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from page_text import table
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

Schema = Mapping[str, Any]
_TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "`true` or `false`",
    "object": "mapping",
    "array": "list",
}


def fields(model: type[BaseModel], examples: Mapping[str, str], unsaid: str = "") -> Iterator[str]:
    """One row per field. Exits if a field has no example, or if its model rejects the example.

    examples  field → its value as it is written in YAML
    unsaid    meaning of a field without a description
    """
    schema = model.model_json_schema()
    missing = [name for name in model.model_fields if name not in examples]
    if missing:
        raise SystemExit(f"tools/reference: {model.__name__} needs examples of {', '.join(missing)}")
    yield from table(
        ("key", "type", "default", "meaning", "example"),
        (
            (
                f"`{name}`",
                _type(schema["properties"][name], schema.get("$defs", {})),
                _default(field),
                field.description or unsaid,
                f"`{_accepted(model, name, field, examples[name])}`",
            )
            for name, field in model.model_fields.items()
        ),
    )


def nested(model: type[BaseModel], among: Mapping[str, type[BaseModel]]) -> list[type[BaseModel]]:
    """The models that the fields of this one name, in their order."""
    text = json.dumps(model.model_json_schema()["properties"])
    found = [(text.find(f'#/$defs/{name}"'), kind) for name, kind in among.items()]
    return [kind for at, kind in sorted(found, key=lambda pair: pair[0]) if at >= 0]


def _accepted(model: type[BaseModel], name: str, field: FieldInfo, example: str) -> str:
    """The example unchanged, after the field has accepted it."""
    adapter: TypeAdapter[Any] = TypeAdapter(
        Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    )
    try:
        adapter.validate_python(YAML(typ="safe").load(example))
    except ValueError as error:
        raise SystemExit(f"tools/reference: {model.__name__}.{name}: {example}: {error}") from error
    return example


def _type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[mapping](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        choices = [s for s in schema.get("anyOf") or schema["oneOf"] if s.get("type") != "null"]
        return " or ".join(dict.fromkeys(_type(choice, definitions) for choice in choices))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"`{json.dumps(v) if not isinstance(v, str) else v}`" for v in values)
    if isinstance(schema.get("type"), list):
        return " or ".join(_TYPES[kind] for kind in schema["type"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), definitions)}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"mapping to {_type(schema['additionalProperties'], definitions)}"
    return _TYPES.get(schema.get("type", ""), "any")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if isinstance(field.json_schema_extra, dict) and "default" in field.json_schema_extra:
        return f"`{json.dumps(field.json_schema_extra['default'])}`"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), [], {}) or isinstance(value, BaseModel):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
