"""Variables whose value the user's files only reference, and finding the value when a job is submitted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainSerializer, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator

from assay import inputs, redact
from assay.errors import InputError, Problem
from assay.records import SecretReference

LARGEST_BYTES = 64 * 1024  # of a secret's file: a variable can't contain much more
_FORMS = "{from_env: NAME}, {from_file: PATH} or {from_kubernetes_secret: {name: NAME, key: KEY}}"
_TEXT = {"type": "string", "minLength": 1}
_TWO = {
    "type": "object",
    "properties": {"name": _TEXT, "key": _TEXT},
    "required": ["name", "key"],
    "additionalProperties": False,
}


def parse(value: Mapping[str, Any]) -> SecretReference:
    """The reference as written in the user's files. Raises ValueError for anything else."""
    match value:
        case {"from_env": str(name)} if name and len(value) == 1:
            return SecretReference("from_env", name)
        case {"from_file": str(path)} if path and len(value) == 1:
            if not path.startswith(("/", "~/")):
                # "found" comes first: after a secret's name and a colon, any other word looks like its value.
                raise ValueError(
                    f"found from_file: {path!r}; expected an absolute path, or one that begins with ~/"
                )
            return SecretReference("from_file", path)
        case {"from_kubernetes_secret": {"name": str(name), "key": str(key), **rest}} if name and key:
            if len(value) == 1 and not rest:
                return SecretReference("from_kubernetes_secret", name, key)
    raise ValueError(f"found {_shown(value)}; expected text, {_FORMS}")


def _shown(value: Mapping[str, Any]) -> str:
    return f"{{{', '.join(map(str, value))}: …}}"


def _checked(value: Any, text: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, SecretReference):
        return value
    return parse(value) if isinstance(value, dict) else text(value)


def _as_written(value: str | SecretReference) -> Any:
    return value.written if isinstance(value, SecretReference) else value


_FIELDS = {"from_env": _TEXT, "from_file": _TEXT, "from_kubernetes_secret": _TWO}
_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        *(
            {"type": "object", "properties": {name: form}, "required": [name], "additionalProperties": False}
            for name, form in _FIELDS.items()
        ),
    ]
}

if TYPE_CHECKING:
    EnvironmentValue = str | SecretReference
else:
    EnvironmentValue = Annotated[
        str, WrapValidator(_checked), PlainSerializer(_as_written), WithJsonSchema(_SCHEMA)
    ]


def texts(env: Mapping[str, str | SecretReference]) -> dict[str, str]:
    """The variables with literal values."""
    return {name: value for name, value in env.items() if isinstance(value, str)}


def references(env: Mapping[str, str | SecretReference]) -> dict[str, SecretReference]:
    """The variables with references."""
    return {name: value for name, value in env.items() if isinstance(value, SecretReference)}


def values(references: Mapping[str, SecretReference]) -> dict[str, str]:
    """The value of each variable, which this process hides from now on in all its output.

    Raises InputError that names every one that can't be found.
    """
    value_by_name, problems = {}, []
    for name, reference in references.items():
        try:
            value_by_name[name] = _value(reference)
        except ValueError as error:
            problems.append(Problem("env", f"{name}: {reference}: {error}"))
    redact.learn_values(value_by_name.values())
    if problems:
        raise InputError(problems)
    return value_by_name


def _value(reference: SecretReference) -> str:
    """The value. Raises ValueError if there is none."""
    if reference.source == "from_env":
        value = os.environ.get(reference.name, "")
        if not value:
            raise ValueError(
                f"the variable is not set here; set it before you start Assay: export {reference.name}"
            )
        return value
    if reference.source == "from_file":
        return _content(inputs.from_home(reference.name))
    raise ValueError("only a cluster has the value")


def _content(path: Path) -> str:
    """A file's content, without the newline at its end."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"the file can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError("the file is not UTF-8 text") from error
    if not text or "\0" in text or len(data) > LARGEST_BYTES:
        raise ValueError(
            f"expected a text of 1 to {LARGEST_BYTES} bytes without NUL in the file; found {len(data)}"
        )
    return text
