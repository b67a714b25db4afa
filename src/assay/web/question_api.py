"""The address of a question in the JSON API, made from its fields."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any, cast, get_type_hints

from litestar import MediaType, Response, get
from litestar.handlers import HTTPRouteHandler

from assay import redact
from assay.questions.question import Question
from assay.web.problems import PROBLEMS
from assay.web.queries import Name, Names, Required, some
from assay.web.site import Site

Document = Response[dict[str, Any]]


def answer(document: Any) -> Document:
    """A document without secrets."""
    text = redact.text(json.dumps(document, ensure_ascii=True, allow_nan=False))
    encoded = cast("dict[str, Any]", text)  # a text is sent as it is; the description shows what it holds
    return Response(encoded, media_type=MediaType.JSON, headers={"Cache-Control": "no-cache"})


def answering(path: str, summary: str) -> get:
    """A handler of the API: what it answers, and how it says that it can't."""
    return get(path, sync_to_thread=True, summary=summary, responses=PROBLEMS)


def asked(path: str, summary: str, question: type[Question]) -> HTTPRouteHandler:
    """A handler that answers a question from the site's runs, as the document of `--json`."""
    hints = get_type_hints(question)
    fields = [field for field in dataclasses.fields(question) if not field.metadata.get("local")]  # type: ignore[arg-type]
    types = {field.name: _type(field, hints[field.name]) for field in fields}

    def handler(site: Site, **arguments: Any) -> Document:
        values = {name: _value(arguments[name]) for name in types}
        options = {name: value for name, value in values.items() if value is not None}
        runs = {"runs": site.runs} if "runs" in hints else {}
        return answer(question(**options, **runs).answer().document())

    parameters = [inspect.Parameter("site", inspect.Parameter.KEYWORD_ONLY, annotation=Site)]
    for field in fields:
        default = inspect.Parameter.empty if types[field.name] is Required else _empty(types[field.name])
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, annotation=types[field.name], default=default
            )
        )
    handler.__name__ = question.__name__.lower()
    handler.__doc__ = inspect.cleandoc(question.__doc__ or "").split("\n\n")[0]
    handler.__signature__ = inspect.Signature(parameters, return_annotation=Document)  # type: ignore[attr-defined]
    handler.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": Document}
    return get(path, sync_to_thread=True, summary=summary, responses=PROBLEMS)(handler)


def _type(field: dataclasses.Field[Any], hint: Any) -> Any:
    if hint is bool:
        return bool
    if field.metadata.get("argument") and field.default is dataclasses.MISSING:
        return Required
    return Names if "tuple[" in str(hint) else Name


def _empty(kind: Any) -> Any:
    return False if kind is bool else None


def _value(value: Any) -> Any:
    """A value as the question has it: a field of a form that was left empty is none at all."""
    if isinstance(value, str) or value is None:
        return some(value)
    return tuple(value) if isinstance(value, list) else value
