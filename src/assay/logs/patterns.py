"""A pattern that a user wrote, searched by RE2: its time grows with the line, whatever the pattern.

Python's own engine tries every way to match: `(\\w+\\s?)*x` takes years on a line of a hundred characters.
A pattern must be valid for both engines, so that it means what Python's documentation says. Two things
differ: `\\d`, `\\w`, `\\s`, and `\\b` are ASCII only, and `{,3}` must be written `{0,3}`.

Source: https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_FROM_NOTHING = re.compile(r"(?<!\\)\{,\d+\}")
# suffix of RE2's message → what it is, and what to write instead
_LACKS: Final = (
    (r"\(\?<?[=!]", "lookaround", "match the text around the group outside it"),
    (r"\\[1-9]|\(\?P$", "a backreference", "write the group's pattern again"),
    (r"\(\?\(", "a condition", "write both cases with | between them"),
    (r"\(\?>|[*+?}]\+", "a possessive or atomic repeat", "write an ordinary repeat, which is fast here"),
    (r"\\Z", r"\Z", "write $"),
    (r"\\[uUN]", "a character by its code or name", "write the character itself"),
    (r"\(\?[aLux]", "a flag other than i, m, and s", "remove it"),
    (r"\(\?#", "a comment", "remove it"),
    (r"\{\d+,?\d*\}", "more than 1000 repeats", "write *, +, or a smaller count"),
)


@dataclass(frozen=True)
class Match:
    """One match of a pattern.

    text    the whole match
    groups  text of each named group; None for one that took no part
    line    that was searched, in UTF-8
    spans   where each participating group begins and ends in it, in bytes
    """

    text: str
    groups: Mapping[str, str | None]
    line: bytes
    spans: Mapping[str, tuple[int, int]]


class Pattern:
    """A pattern, ready to be searched for; `names` are those of its groups."""

    def __init__(self, regexp: Any) -> None:
        self._regexp = regexp
        self._groups: Mapping[str, int] = regexp.groupindex
        self.names = frozenset(self._groups)

    def matches(self, text: str) -> Iterator[Match]:
        """Each match from left to right."""
        line = text.encode()
        for match in self._regexp.finditer(line):
            spans = {
                name: match.span(index) for name, index in self._groups.items() if match[index] is not None
            }
            groups = {n: line[slice(*spans[n])].decode() if n in spans else None for n in self._groups}
            yield Match(match[0].decode(), groups, line, spans)


def compiled(text: str) -> Pattern:
    """The pattern. Raises ValueError that says what is wrong with it and what to write instead."""
    import re2

    options = re2.Options()
    options.log_errors = False  # on standard error, next to Assay's message
    try:
        regexp = re2.compile(text, options)
    except re2.error as error:
        raise ValueError(_why(text, error.args[0].decode(errors="replace"))) from None
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} contains half of a surrogate pair") from None
    if wrong := _not_pythons(text):
        raise ValueError(f"{text!r} is not a regular expression: {wrong}")
    if _FROM_NOTHING.search(text):
        raise ValueError(f"{text!r}: {{,n}} is not supported; write {{0,n}}")
    return Pattern(regexp)


def searcher(mark: re.Pattern[bytes]) -> Callable[[bytes], bool]:
    """Whether one of Assay's patterns occurs in text of any origin, in bounded time as well."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    regexp = re2.compile(mark.pattern, options)
    return lambda text: regexp.search(text) is not None


def _why(text: str, message: str) -> str:
    """Why RE2 rejects it, from its message; in Python's words if Python rejects it too."""
    refused = _not_pythons(text)
    part = message.rpartition(": ")[2]
    for lack, what, instead in () if refused else _LACKS:
        if re.match(lack, part):
            return f"{text!r} contains {what}, which the engine RE2 doesn't support; {instead}"
    return f"{text!r} is not a regular expression: {refused or message}"


def _not_pythons(text: str) -> str:
    """Why Python rejects it, with the position; "" if it doesn't. Only compiled: that is bounded."""
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except (re.error, OverflowError) as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"
    return ""
