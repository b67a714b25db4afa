"""Numbers for the secrets in a session's logs, so that two secrets stay distinct in what is read there.

A number reveals nothing about its secret. A secret gets one when it is first read. `secrets.json` stores it
with a place where a log contains the secret; the value itself is only in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from assay.durable import locked, position, write_atomic
from assay.errors import HostError, InputError, Problem
from assay.inputs import open_plain, read_whole
from assay.records import Run
from assay.redact import MARK, forms
from assay.rundir.files import SCHEMA, read_record, record_json, safe_name
from assay.rundir.session import Attempt

FILE = "secrets.json"
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True)
class _Place:
    """Where a log contains a secret. trial and token: which attempt's log, and that it is still that one."""

    trial: str
    attempt: int
    token: str
    log: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class _Numbered:
    """The contents of the file.

    first   number of the first place; those below are for what the plan sweeps
    places  one per secret
    """

    schema: int
    first: int
    places: tuple[_Place, ...] = ()


def secret_numbers(attempt: Attempt, secrets: Sequence[str]) -> dict[str, int]:
    """The number of each secret within the attempt's session, the same on every call.

    A secret that no log contains literally (for example, one in a compressed log) has no number.
    Raises InputError if a new number can't be stored, or the file is damaged.
    """
    if not secrets:
        return {}
    session = attempt.path.parents[1]
    known = _numbers(session, _read(session), secrets)
    new = [secret for secret in secrets if secret not in known]
    place_by_secret = {secret: place for secret in new if (place := _place(attempt, secret)) is not None}
    if not place_by_secret:
        return known
    try:
        with locked(session / ".secrets.lock", f"{session / FILE}", wait_s=_LONGEST_WAIT_S):
            noted = _read(session)
            known = _numbers(session, noted, secrets)
            places = [place for secret, place in place_by_secret.items() if secret not in known]
            noted = _Numbered(SCHEMA, noted.first, (*noted.places, *places))
            write_atomic(session / FILE, record_json(noted))
    except HostError as error:
        what = f"the labels of {attempt.run_id} contain secrets, whose numbers can't be stored: {error}"
        raise InputError([Problem(str(session / FILE), what)]) from error
    return _numbers(session, noted, secrets)


def _read(session: Path) -> _Numbered:
    if (session / FILE).exists():
        return read_record(session / FILE, _Numbered)
    plan = session / "plan.json"
    swept = MARK.finditer(read_whole(plan).decode(errors="replace")) if plan.exists() else ()
    return _Numbered(SCHEMA, 1 + max((int(mark["number"] or 0) for mark in swept), default=0))


def _numbers(session: Path, noted: _Numbered, secrets: Sequence[str]) -> dict[str, int]:
    of_value: dict[str, int] = {}
    for number, place in enumerate(noted.places, noted.first):
        of_value.setdefault(_value(session, place), number)
    return {secret: known for secret in secrets if (known := _number(secret, of_value)) is not None}


def _number(secret: str, of_value: Mapping[str, int]) -> int | None:
    return min((of_value[form] for form in {secret, *forms(secret)} if form in of_value), default=None)


def _place(attempt: Attempt, secret: str) -> _Place | None:
    """Where a log of the attempt first contains the secret."""
    token = attempt.run().token
    for form in sorted({secret, *forms(secret)}, key=lambda form: (form != secret, form)):
        for name, path in attempt.logs().items():
            if (offset := position(path, form.encode())) is not None:
                trial = attempt.path.parent.name
                return _Place(trial, attempt.number, token, name, offset, len(form.encode()))
    return None


def _value(session: Path, place: _Place) -> str:
    """What the log contains there; "" if it is another log now, or gone."""
    attempt = session / safe_name(place.trial) / f"attempt-{place.attempt}"
    return _held(attempt, Attempt(attempt).stamp(), place)


@lru_cache(maxsize=10_000)
def _held(attempt: Path, _stamp: str, place: _Place) -> str:
    log = attempt / "logs" / safe_name(place.log)
    try:
        same = read_record(attempt / "run.json", Run).token == place.token
    except InputError:  # that attempt is gone or damaged, which is reported when it is read itself
        return ""
    if not same or not log.is_file():
        return ""
    with open_plain(log) as file:
        file.seek(place.offset)
        return file.read(place.bytes).decode(errors="replace")
