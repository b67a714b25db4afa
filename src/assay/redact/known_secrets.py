"""The secrets that this process knows, hidden in any text."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote, unquote

from assay.redact.marks import MARK, REDACTED, Mark, plain, replaced
from assay.redact.shapes import spans

_LINE_END = re.compile(r"[\r\n]+|(?:\\[rn])+")  # also as JSON and a shell write it
_TELLING = re.compile(r".{16}|(?=\S*\d)(?=\S*[A-Za-z])\S+$")

_known: set[str] = set()


def text(words: str, mark: Mark = plain) -> str:
    """The words without secrets: those that this process knows, and whatever has the shape of one."""
    known = _all_forms(frozenset(_known))
    present = [form for form in known if form in words]
    places = re.finditer("|".join(map(_whole_word, present)), words) if present else ()
    return replaced(
        words, [*(place.span() for place in places), *spans(words)], lambda form: mark(known.get(form, form))
    )


def secrets_in_text(words: str) -> list[str]:
    """What `text` hides of these words, each once, in the order in which it comes."""
    found: dict[str, str] = {}
    text(words, lambda secret: found.setdefault(secret, REDACTED))
    return list(found)


def learn_values(values: Iterable[str]) -> None:
    """Know these secrets: from now on `text` hides them wherever they appear, and their lines one by one.

    One that is too short or too plain to be looked for in any text is left out.
    """
    for value in values:
        _known.update(filter(is_distinctive, (value, *_lines(value))))


def known_values() -> frozenset[str]:
    """What `text` hides beside what has a shape."""
    return frozenset(_known)


def forget() -> None:
    """Know none, as a process that has just begun."""
    _known.clear()


def is_distinctive(value: str) -> bool:
    """Whether it may be replaced wherever it appears: not `basic`, `1234` or a word of plain English.

    >>> [is_distinctive(v) for v in ("hunter2", "basic", "12345678", REDACTED)]
    [True, False, False, False]
    """
    if len(value) < 6 or re.fullmatch(r"[\d.+-]*", value) or MARK.search(value):
        return False
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return len(value) >= 16 or sum(any(map(kind, value)) for kind in kinds) >= 2


def _lines(value: str) -> Iterator[str]:
    """The lines of a secret that give a part of it away: long ones, and short ones that look drawn.

    Not `-----BEGIN PRIVATE KEY-----`, nor what any other file may have: `kind: Config`, `users:`.
    """
    lines = [line.strip() for line in _LINE_END.split(value)]
    if len(lines) > 1:
        yield from (line for line in lines if not line.startswith("---") and _TELLING.match(line))


@lru_cache(maxsize=4)
def _all_forms(known: frozenset[str]) -> dict[str, str]:
    """Each form of a secret and the secret itself, longest first."""
    of_form = {form: value for value in sorted(known) for form in forms(value)}
    return {form: of_form[form] for form in sorted(of_form, key=len, reverse=True)}


def forms(value: str) -> set[str]:
    """As it is, and as a shell, JSON and a URL write it."""
    return {
        value,
        shlex.quote(value).strip("'"),
        json.dumps(value)[1:-1],
        quote(value, safe=""),
        unquote(value),
    }


def _whole_word(value: str) -> str:
    literal = re.escape(value)
    return literal if len(value) >= 8 else f"(?<![A-Za-z0-9]){literal}(?![A-Za-z0-9])"
