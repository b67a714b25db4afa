"""The secrets that this process knows, hidden in any text."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote, unquote

from assay.redact.shapes import MARK, REDACTED, Mark, plain, replaced, spans

_LINE_END = re.compile(r"[\r\n]+|(?:\\[rn])+")  # also as written in JSON and in a shell
_TELLING = re.compile(r".{16}|(?=\S*\d)(?=\S*[A-Za-z])\S+$")

_known: set[str] = set()


def text(content: str, mark: Mark = plain) -> str:
    """The text without secrets: those that this process knows, and whatever has the shape of one."""
    known = _all_forms(frozenset(_known))
    present = [form for form in known if form in content]
    places = [
        (place.start(), place.start() + len(form))
        for form in present
        for place in re.finditer(f"(?={_whole_word(form)})", content)  # one secret may start inside another
    ]
    return replaced(content, [*places, *spans(content)], lambda form: mark(known.get(form, form)))


def shown_name(name: str) -> str:
    """A name without the secrets in it, unchanged if it has none; also where a dash or slash begins a token.

    In text, a token after a dash may be part of a longer word; in a name, it is the name of a part.
    """
    spaced = re.sub(r"[-+/]", " ", name)
    for form in (name, spaced):
        if (shown := text(form)) != form:
            return shown
    return name


def secrets_in_text(content: str) -> list[str]:
    """What `text` hides in this text, each once, in order of appearance."""
    secrets: dict[str, str] = {}
    text(content, lambda secret: secrets.setdefault(secret, REDACTED))
    return list(secrets)


def learn_values(values: Iterable[str]) -> None:
    """Learn these secrets: from now on `text` hides them wherever they appear, and their lines individually.

    Secrets that are too short or too plain to be searched for in any text are ignored.
    """
    for value in values:
        _known.update(filter(is_distinctive, (value, *_secret_lines(value))))


def known_values() -> frozenset[str]:
    """What `text` hides in addition to what has a shape."""
    return frozenset(_known)


def forget() -> None:
    """Forget all, like a process that has just started."""
    _known.clear()


def is_distinctive(value: str) -> bool:
    """Whether it may be replaced wherever it appears: not `basic`, `1234`, or an ordinary English word.

    >>> [is_distinctive(v) for v in ("hunter2", "basic", "12345678", REDACTED)]
    [True, False, False, False]
    """
    if len(value) < 6 or re.fullmatch(r"[\d.+-]*", value) or MARK.search(value):
        return False
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return len(value) >= 16 or sum(any(map(kind, value)) for kind in kinds) >= 2


def _secret_lines(value: str) -> Iterator[str]:
    """The lines of a secret that reveal part of it: long ones, and short ones that look random.

    Not `-----BEGIN PRIVATE KEY-----`, nor what any other file may contain: `kind: Config`, `users:`.
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
    """As it is, and as written in a shell, in JSON, and in a URL."""
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
