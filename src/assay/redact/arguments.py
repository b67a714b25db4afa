"""Secrets among the arguments of a program, where an option or a variable before them says what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.redact.names import is_secret_name

# Programs whose -p is a password, attached to it or not; elsewhere -p is a port, a path, a precision …
_WITH_PASSWORD = re.compile(r"(.*/)?(mysql\w*|mariadb[\w-]*|mongo\w*|sshpass)|login")
_WORDS = re.compile(r"\s+|(?:'[^']*'|\"[^\"]*\"|[^\s'\"]|['\"])+")
_ELSEWHERE = re.compile(r"[\"']?(\$|<.*>|\{|os\.|\w*getenv|\(redacted\))|-|=")  # no value but where one is
_PLAIN_VALUE = re.compile(
    r"(?i:b?float|bf|fp|u?int|tf|cuda|gpu|node|rank|port|cpu|py|v)\d+|\d[\d.]*[a-z]*|.*[/.:=,].*|[A-Za-z_-]+"
)
_USER = re.compile(r"(?P<keep>[\"']?[^:\s\"']+:)(?!\d+$)(?P<value>[^\s\"']+)")
_HEADER = re.compile(r"(?P<keep>[\"']?(?P<name>[\w-]+):\s*)(?P<value>.+)")


@dataclass(frozen=True)
class Argument:
    """An argument in parts: what may be shown, then the secret; "" without one.

    sure  the secret is one for certain, not by a guess, and may be looked for elsewhere
    """

    shown: str
    secret: str = ""
    sure: bool = True


def arguments(items: Sequence[str]) -> Iterator[Argument]:
    """Each argument with the secret that it holds, if any."""
    takes_password = False
    for before, item in zip(["", *items], items, strict=False):
        takes_password = takes_password or _WITH_PASSWORD.fullmatch(item) is not None
        yield _argument(item, before, takes_password)


def words_of(command: str) -> list[str]:
    """A shell's line as words and the spaces between them, quotes kept."""
    return _WORDS.findall(command)


def _argument(item: str, before: str, takes_password: bool) -> Argument:
    if before == "-c":  # a shell's or an interpreter's line, with arguments in it
        return Argument(item)
    name, equals, value = item.partition("=")
    if equals and is_secret_name(name) and not re.search(r"\s", name):
        return Argument(item) if _elsewhere(value) else Argument(f"{name}=", value)
    if takes_password and item.startswith("-p") and len(item) > 2:
        return Argument("-p", item[2:])
    if _elsewhere(item):
        return Argument(item)
    if before == "-p" and (takes_password or (_PLAIN_VALUE.fullmatch(item) is None and len(item) >= 6)):
        return Argument("", item, sure=takes_password)
    if before.startswith("-") and "=" not in before and is_secret_name(before):
        return Argument("", item)
    within = {"-u": _USER, "--user": _USER, "-H": _HEADER, "--header": _HEADER}.get(before)
    match = within.fullmatch(item) if within is not None else None
    if match is None or (within is _HEADER and not is_secret_name(match["name"])):
        return Argument(item)
    return Argument(match["keep"], match["value"])


def _elsewhere(value: str) -> bool:
    """Whether this is no value: a variable, a place for one, another option."""
    return not value or _ELSEWHERE.match(value) is not None
