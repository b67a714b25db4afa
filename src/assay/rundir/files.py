"""The JSON files of a run directory: their contents, how they are checked, what is kept out of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from assay import redact
from assay.errors import InputError, Problem
from assay.inputs import json_value, read_whole, unreadable
from assay.records import (
    Count,
    Reading,
    RenderedJob,
    Scalar,
    Share,
    Time,
    Trial,
    from_json,
    indented,
    is_reserved,
    to_plain,
)
from assay.version import __version__

SCHEMA = 1
FIX = "restore the file, or remove its directory to repeat the work"
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,199}")


@dataclass(frozen=True)
class StepOf:
    """What a session is a step of: an exploration or a bisection, which is one session to everything else.

    confidence  that an interval from the runs of all steps needs to hold 95 % at all looks
    """

    name: str
    confidence: Share


@dataclass(frozen=True)
class Header:
    """The contents of `session.json`: who requested what, when, from where.

    command_line  as typed, without secrets
    suite_file    the suite's path as given; "" for imported logs
    git           state of the repository that contains the suite: commit, branch, dirty
    finished_at   when its last trial was settled; None while it is unfinished
    content       digest of what was imported; "" for what Assay ran itself
    repeated      trial → number of its last attempt when it was marked for repetition: attempts up to it are
                  kept but don't count
    step_of       the exploration or bisection that it is a step of; None for what stands for itself
    """

    schema: int
    assay_version: str
    suite: str
    suite_digest: str
    plan_digest: str
    created_at: Time
    host: str
    command_line: tuple[str, ...] = ()
    suite_file: str = ""
    git: Mapping[str, Scalar] = field(default_factory=dict)
    finished_at: Time | None = None
    content: str = ""
    repeated: Mapping[str, Count] = field(default_factory=dict)
    step_of: StepOf | None = None


@dataclass(frozen=True)
class AttemptPlan:
    """The contents of an attempt's `plan.json`: the trial and exactly what was submitted for it."""

    schema: int
    trial: Trial
    rendered: RenderedJob


@dataclass(frozen=True)
class CachedReading:
    """The contents of an attempt's `reading.json`: a reading, and what it was made from and by."""

    key: str
    reading: Reading


def safe_name(name: str) -> str:
    """A name that is one entry of a directory, checked."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} can't be a file name: use at most 200 letters, digits and . _ + = @ -, "
            "a letter or digit first"
        )
    return name


def set_name(name: str) -> str:
    """The name of a suite or an imported set, checked: a directory's, not Assay's own, without a secret."""
    if is_reserved(name):
        raise InputError(f"{name!r} is the name of a file that Assay keeps there; choose another name")
    return public_name(safe_name(name))


def public_name(name: str, where: str = "name") -> str:
    """A name that paths, tables and pages show, checked. Raises InputError if it contains a secret.

    Two secrets would become one name, `(redacted)`, and their runs would be pooled.
    """
    if (shown := redact.shown_name(name)) != name:
        what = f"the name {shown!r} contains a secret, which directories and pages would show; rename it"
        raise InputError([Problem(where, what)])
    return name


def public_word(text: str, where: str) -> str:
    """Any text as a part of a name, as `word` has it. Raises InputError if the text contains a secret."""
    return word(public_name(text, where))


def word(text: str) -> str:
    """Any text as a part of such a name: at most 60 letters, digits and `.`, `_`, `-`; "" if none is left.

    >>> word("DGX A100 / bare metal")
    'DGX-A100-bare-metal'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[:60]


def read_record(path: Path, kind: type[T]) -> T:
    """The record in a file. Raises InputError if it is missing, damaged or from a newer version of Assay."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError([Problem(str(path), f"is missing: {FIX}")]) from None
    except OSError as error:
        raise unreadable(path, error) from error
    text = read_whole(path)
    try:
        record = from_json(kind, text)
    except ValueError as error:
        raise InputError([_damage(path, text, error)]) from error
    schema = getattr(record, "schema", SCHEMA)
    if schema > SCHEMA:
        raise InputError([_newer(path, schema)])
    return record


def _newer(path: Path, schema: int) -> Problem:
    return Problem(
        str(path),
        f"written by a newer version of Assay (schema {schema}; this is {__version__}, schema {SCHEMA}): use "
        "that version",
    )


def _damage(path: Path, text: bytes, error: ValueError) -> Problem:
    """Why a record can't be read, and what to do."""
    try:
        plain = json_value(path, text)
    except InputError as wrong:
        [problem] = wrong.problems
        return replace(problem, what=f"{problem.what}: {FIX}")
    if isinstance(plain, dict) and isinstance(plain.get("schema"), int) and plain["schema"] > SCHEMA:
        return _newer(path, plain["schema"])
    return Problem(str(path), f"not a file that Assay wrote ({error}): {FIX}")


def without_secrets(record: Any) -> Any:
    """A record as plain data, without the secrets in what the user wrote: parameters, command line.

    They are known from now on, so that they are also removed as text from the rest of the record.
    """
    plain = to_plain(record)
    for part in (plain, plain.get("trial", {}), plain.get("rendered", {}), *plain.get("trials", ())):
        for key in ("params", "varied", "nodes", "env", "command_line"):
            if key in part:
                part[key] = redact.learn(part[key])
    return plain


def record_json(record: Any) -> bytes:
    """A record as JSON, without secrets: by name in what the user wrote, by value everywhere."""
    return _text(without_secrets(record))


def _text(plain: Any) -> bytes:
    return redact.text(indented(plain) + "\n").encode()
