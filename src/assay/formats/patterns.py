"""A pattern that a user wrote, searched by RE2: its time grows with the line, whatever the pattern.

Python's own engine tries every way to match: `(\\w+\\s?)*x` takes years on a line of a hundred characters.
A pattern must be valid for both engines, so that it means what Python's documentation says. Two things
differ: `\\d`, `\\w`, `\\s`, and `\\b` are ASCII only, and `{,3}` must be written `{0,3}`.

Source: https://github.com/google/re2/wiki/Syntax.

A match must be a complete number. A search stops where the pattern stops: `[0-9.]+` finds 1 in `1,234.5` and
1.234 in `1.234e+03`. Both look like results, so a match that begins or ends inside what reads like one number
is a problem of the run.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from assay.formats.figures import LARGEST_FIGURE, number
from assay.inputs import LONGEST_LINE
from assay.units import factor

NUMBER: Final = "[-+.0-9eE]+"  # in a pattern: a number with its sign, point and exponent
_WINDOW: Final = 40  # bytes around a match; no number is longer
_SEPARATOR: Final = "[,'’_·\u00a0\u2009\u202f]"
_BEFORE: Final = re.compile(
    rf"(?:\d[.]?|\d{_SEPARATOR}|(?<![\w.])[.]|[\d.][eEdD][-+]?|\b0[xX][0-9a-fA-F]*|(?<![\w.)\]%-])[-\u2212])\Z"
)
_CLOCK_BEFORE: Final = re.compile(r"(?<!\d)\d{1,2}:\Z")
_CLOCK: Final = re.compile(r":?\d\d(?!\d)")
_POWER: Final = r"\s?[×*]\s?10(?:\^|\*\*|[⁰-⁹¹²³⁻])|\^[-+]?\d|[⁰-⁹¹²³]"  # 1.5×10^3, 2^10, 10⁶
_AFTER: Final = re.compile(
    rf"\d|[.]\d|{_SEPARATOR}\d|[eEdD][-+]?\d|:\d\d(?!\d)|(?<=\b0)[xX][0-9a-fA-F]|{_POWER}"
)
_START: Final = re.compile(rf"(?:[-+\u2212.:\deExX]|{_SEPARATOR})*\Z")
_REST: Final = re.compile(
    rf"(?:[-+\u2212.:\deE]|{_SEPARATOR})*(?:[xXdD][\da-fA-F+-]+)?(?:[\s×*^]*[\d^⁰-⁹¹²³⁻*+-]+)?"
)
_THOUSANDS: Final = re.compile(rf"[-+]?\d{{1,3}}(?:{_SEPARATOR}\d{{3}})+(?:\.\d+)?")
_UNIT: Final = re.compile(r"\s?([A-Za-zµ]+(?:/[A-Za-z]+)?)")


def not_a_number(match: Match, group: str) -> str:
    """Why a group's text is not a number, and what to write instead; "" if it is one."""
    text = match.groups[group]
    if not text:
        return f"the group {group} is empty in {match.text!r}; write (?P<{group}>{NUMBER}) around the number"
    if number(text) is not None:
        return ""
    refused = f"the group {group} matched {text!r}, which is not a number"
    if re.fullmatch(r"[-+]?(?:nan|inf|infinity)", text, re.IGNORECASE):
        return f"the group {group} matched {text!r}, which is not a finite number"
    if re.fullmatch(NUMBER, text) and _is_float(text):
        return f"the group {group} matched {text!r}, which is larger than {LARGEST_FIGURE:g}"
    other = re.search(r"[^-+.\deE]", text, re.ASCII)
    if other is None or not re.search(r"\d", text):
        return f"{refused}; write (?P<{group}>{NUMBER}) around the number"
    refused = f"{refused} because of {other[0]!r}"
    if _THOUSANDS.fullmatch(text):
        return f"{refused}; {_of_thousands(text)}"
    return f"{refused}; {_instead(group, text)}"


def without_separators(match: Match, group: str, separator: str) -> Match:
    """The match with a group's text without separators, if all of them are between thousands."""
    text = match.groups[group]
    if text is None or separator not in text or not _THOUSANDS.fullmatch(text):
        return match
    if len(set(re.findall(_SEPARATOR, text))) > 1:
        return match
    return replace(match, groups={**match.groups, group: text.replace(separator, "")})


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def fault(pattern: Pattern, match: Match, group: str, unit: str) -> str:
    """Why a group's text is not the figure that was printed, and what to write instead; "" if it is.

    unit  of the group's figure, as the user declared it
    """
    start, end = match.spans[group]
    if end >= LONGEST_LINE:
        return f"{match.line[start:end].decode()} ends at the maximum line length of {LONGEST_LINE} bytes"
    before = match.line[max(start - _WINDOW, 0) : start].decode(errors="ignore")
    text = match.line[start:end].decode()
    after = match.line[end : end + _WINDOW].decode(errors="ignore")
    if printed := _other_unit(after, unit):
        return f"{text} is printed in {printed}, but its unit is declared as {unit}; write unit: {printed}"
    begins_inside = _begins_inside(before, text) and not _demanded(pattern, match, group, before[-1], -1)
    ends_inside = _ends_inside(text, after, unit) and not _demanded(pattern, match, group, after[0], 1)
    if not begins_inside and not ends_inside:
        return ""
    first, last = _START.search(before), _REST.match(after)
    assert first is not None  # both match nothing, too
    assert last is not None
    rest = last[0] + _multiple(after.removeprefix(last[0]), unit)
    token = f"{first[0]}{text}{rest}".strip(".,:'_")
    return f"{text!r} is only part of {token}; {_instead(group, token)}"


def _begins_inside(before: str, text: str) -> bool:
    if text[0] in "-+" and not before[-1:].isalnum():
        return False
    clock = _CLOCK_BEFORE.search(before) is not None and _CLOCK.match(text) is not None
    return clock or _BEFORE.search(before) is not None


def _ends_inside(text: str, after: str, unit: str) -> bool:
    return bool(_multiple(after, unit)) or _AFTER.match(text + after, len(text)) is not None


def _multiple(after: str, unit: str) -> str:
    """The k in `3.4k images/s` and `3.4kimages/s`; "" if none follows, or if it begins the declared unit."""
    end = r"(?![A-Za-z])" + (f"|(?={re.escape(unit)})" if unit else "")
    match = re.match(f"[kKMGTP]i??(?:{end})", after)
    return match[0] if match and match[0][0] != unit[:1] else ""


def _other_unit(after: str, unit: str) -> str:
    """The unit after the figure, if it is a different one of the same kind: ms if s is declared."""
    word = _UNIT.match(after)
    if word is None:
        return ""
    (size, base), (declared, declared_base) = factor(word[1]), factor(unit)
    return word[1] if base and base == declared_base and size != declared else ""


def _demanded(pattern: Pattern, match: Match, group: str, character: str, side: int) -> bool:
    """Whether the pattern itself requires the character next to the group, which then ends the number.

    side  -1: before the group; 1: after it

    Such a pattern doesn't match the same figure with another character in its place.
    """
    if character.isdigit():
        return False
    other = b"q" if character.isalpha() else b";"
    (start, end), size = match.spans[group], len(character.encode())
    if side < 0:
        line = match.line[: start - size] + other + match.line[start:]
        start, end = start - size + 1, end - size + 1
    else:
        line = match.line[:end] + other + match.line[end + size :]
    return all(other_match.spans.get(group) != (start, end) for other_match in pattern.matches(line.decode()))


def _instead(group: str, token: str) -> str:
    """What to write so that the figure is found, or separated from what is next to it."""
    if re.search(r"\d[kKMGTP]i?\Z", token):
        letters = token.lstrip("0123456789.,+-eE")
        return f"end it with the pattern, as in (?P<{group}>{NUMBER}){letters}, and add {letters} to the unit"
    if re.search(r"[×*^⁰-⁹¹²³]", token):
        return "print it as 1.5e3"
    if _THOUSANDS.fullmatch(token):
        return _of_thousands(token, f"match all of it, as in (?P<{group}>[-+.,'_0-9eE]+), and ")
    if match := re.search(rf"{_SEPARATOR}|:|[dDxX]", token):
        return (
            f"print plain digits, like 1234.5; if {match[0]!r} ends the number, write it next to the "
            f"group, as in (?P<{group}>{NUMBER}){match[0]}"
        )
    return f"write (?P<{group}>{NUMBER}), which matches the whole number"


def _of_thousands(text: str, first: str = "") -> str:
    """What to do about a figure with separators between its thousands; `first` before they are declared."""
    plain = f"print it without thousands separators, like {re.sub(_SEPARATOR, '', text)}"
    separator = re.search("[,'_]", text)
    return f'{plain}, or {first}write thousands: "{separator[0]}" next to the pattern' if separator else plain


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
