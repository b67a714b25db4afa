"""Numbers of the secrets that a session's logs hold, so that two of them stay two in what is read there.

A number says nothing of its secret. A secret gets one when it is first read. `secrets.json` keeps it with a
place where a log holds the secret; the value itself is in the log alone.
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
    """Where a log holds a secret. trial and token: which attempt's log, and that it is still that one."""

    trial: str
    attempt: int
    token: str
    log: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class _Numbered:
    """What the file holds.

    first   number of the first place; those below are of what the plan sweeps
    places  of a secret each
    """

    schema: int
    first: int
    places: tuple[_Place, ...] = ()


def secret_numbers(attempt: Attempt, secrets: Sequence[str]) -> dict[str, int]:
    """The number of each secret within the attempt's session, the same whenever it is asked for.

    A secret that no log holds as it is (one in a compressed log, say) has none.
    Raises InputError where a new number can't be kept, or the file is damaged.
    """
    if not secrets:
        return {}
    session = attempt.path.parents[1]
    known = _numbers(session, _read(session), secrets)
    new = [secret for secret in secrets if secret not in known]
    found = {secret: place for secret in new if (place := _place(attempt, secret)) is not None}
    if not found:
        return known
    try:
        with locked(session / ".secrets.lock", f"{session / FILE}", wait_s=_LONGEST_WAIT_S):
            noted = _read(session)
            known = _numbers(session, noted, secrets)
            places = [place for secret, place in found.items() if secret not in known]
            noted = _Numbered(SCHEMA, noted.first, (*noted.places, *places))
            write_atomic(session / FILE, record_json(noted))
    except HostError as error:
        what = f"the labels of {attempt.run_id} hold secrets, whose numbers can't be kept: {error}"
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
    """Where a log of the attempt first holds the secret."""
    token = attempt.run().token
    for form in sorted({secret, *forms(secret)}, key=lambda form: (form != secret, form)):
        for name, path in attempt.logs().items():
            if (at := position(path, form.encode())) is not None:
                trial = attempt.path.parent.name
                return _Place(trial, attempt.number, token, name, at, len(form.encode()))
    return None


@lru_cache(maxsize=10_000)
def _value(session: Path, place: _Place) -> str:
    """What the log holds there; "" where it is another one now, or gone."""
    attempt = session / safe_name(place.trial) / f"attempt-{place.attempt}"
    log = attempt / "logs" / safe_name(place.log)
    try:
        same = read_record(attempt / "run.json", Run).token == place.token
    except InputError:  # that attempt is gone or damaged, which is an error where it is read itself
        return ""
    if not same or not log.is_file():
        return ""
    with open_plain(log) as file:
        file.seek(place.offset)
        return file.read(place.bytes).decode(errors="replace")
