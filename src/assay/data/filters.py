"""Short conditions on frames, and their SQL: `road_blocks > 1% and camera = cam_front_center`.

    condition   a class, one of label, image, scene, camera, taken_us, width, height, pixels, unknown, or a
                column of tags or of the vehicle's bus; then = != < <= > >= and a value, `in (a, b)`, or
                `5000..6000` after `=`
    value       a number of pixels, a share of the frame's pixels with %, a word, or text in quotes
    joined by   and, or, not, and parentheses

Nothing of the text reaches the SQL: names are those of the catalog's columns, values are parameters.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from assay.errors import InputError

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<range>\d+(?:\.\d+)?%?\.\.\d+(?:\.\d+)?%?)|(?P<number>-?\d+(?:\.\d+)?%?(?![\w.:/-]))"""
    r"""|(?P<text>'[^']*'|"[^"]*")|(?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,)|(?P<word>[^\s()<>=!,'"]+))"""
)
_SIGNS: Final = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
DEEPEST: Final = 100  # parentheses


@dataclass(frozen=True)
class Condition:
    """A condition of SQL, and its parameters in their order."""

    sql: str
    values: tuple[str | float, ...]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


def condition(text: str, columns: Mapping[str, str]) -> Condition:
    """The SQL of a condition on frames. Raises InputError that shows the place.

    columns  name → kind: text, number, or pixels (of a class), as `Catalog.columns` has them
    """
    return _Parser(text, columns).whole()


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, str]) -> None:
        self._text, self._columns = text, columns
        self._tokens = list(_tokens(text))
        self._next, self._depth = 0, 0

    def whole(self) -> Condition:
        condition = self._alternatives()
        if self._peek() is not None:
            raise self._error("expected `and`, `or`, or the end")
        return condition

    def _alternatives(self) -> Condition:
        parts = [self._conjunction()]
        while self._word("or"):
            parts.append(self._conjunction())
        return _joined(parts, " OR ")

    def _conjunction(self) -> Condition:
        parts = [self._not()]
        while self._word("and"):
            parts.append(self._not())
        return _joined(parts, " AND ")

    def _not(self) -> Condition:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"expected at most {DEEPEST} nested conditions")
        try:
            if self._word("not"):
                inner = self._not()
                return Condition(f"(NOT {inner.sql})", inner.values)
            if self._sign("("):
                inner = self._alternatives()
                if not self._sign(")"):
                    raise self._error("expected )")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Condition:
        name = self._column()
        if self._word("in"):
            return self._one_of(name)
        token = self._take()
        sign = _SIGNS.get(token.text) if token is not None and token.kind == "sign" else None
        if sign is None:
            self._next -= token is not None
            raise self._error(f"expected = != < <= > >= or `in` after {name}")
        value = self._take()
        if value is not None and value.kind == "range":
            return self._between(name, sign, value)
        side, operand = self._value(name, value)
        if self._columns[name] == "text" and sign not in ("=", "<>"):
            self._next -= 1
            raise self._error(f"{name} is text: expected = or != before it")
        return Condition(f"({side} {sign} ?)", (operand,))

    def _one_of(self, name: str) -> Condition:
        if not self._sign("("):
            raise self._error("expected ( after `in`")
        values = [self._value(name, self._take())]
        while self._sign(","):
            values.append(self._value(name, self._take()))
        if not self._sign(")"):
            raise self._error("expected , or )")
        return _joined([Condition(f"({side} = ?)", (operand,)) for side, operand in values], " OR ")

    def _between(self, name: str, sign: str, value: _Token) -> Condition:
        low, high = (_Token("number", part, value.start) for part in value.text.split(".."))
        if sign != "=" or self._columns[name] == "text":
            self._next -= 1
            raise self._error("expected a range only after = and the name of a class or number")
        (side, least), (other, most) = self._value(name, low), self._value(name, high)
        if side == other and float(least) > float(most):
            self._next -= 1
            raise self._error("no value is in the range: expected the lower bound first")
        return Condition(f"({side} >= ? AND {other} <= ?)", (least, most))

    def _column(self) -> str:
        token = self._take()
        if token is None or token.kind != "word":
            self._next -= token is not None
            raise self._error("expected the name of a class or column")
        name = token.text.lower()
        if name not in self._columns:
            close = difflib.get_close_matches(name, list(self._columns), 3, 0.6)
            self._next -= 1
            raise self._error(
                f"there is no class or column {token.text!r}; "
                + (f"did you mean {' or '.join(close)}?" if close else "see `assay data classes`")
            )
        return name

    def _value(self, name: str, token: _Token | None) -> tuple[str, str | float]:
        """What is compared with the value: the column, or its share of the pixels in percent."""
        column = f'"{name}"'
        if token is None or token.kind == "sign":
            self._next -= token is not None
            raise self._error("expected a value")
        if self._columns[name] == "text":
            return column, token.text[1:-1] if token.kind == "text" else token.text
        if token.kind != "number":
            self._next -= 1
            raise self._error(f"{name} is a number: expected pixels, or a share like 1%")
        if not token.text.endswith("%"):
            return column, float(token.text)
        if self._columns[name] != "pixels":
            self._next -= 1
            raise self._error(f"{name} is no number of pixels of a class: expected a value without %")
        return f"{column} * 100.0 / pixels", float(token.text[:-1])

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> _Token | None:
        token = self._peek()
        self._next += token is not None
        return token

    def _word(self, word: str) -> bool:
        token = self._peek()
        matches = token is not None and token.kind == "word" and token.text.lower() == word
        self._next += matches
        return matches

    def _sign(self, sign: str) -> bool:
        token = self._peek()
        matches = token is not None and token.kind == "sign" and token.text == sign
        self._next += matches
        return matches

    def _error(self, what: str) -> InputError:
        token = self._peek()
        position = len(self._text.rstrip()) if token is None else token.start
        where = "at its end" if token is None else f"at {token.text!r}"
        return InputError(f"the condition {self._text!r}, character {position + 1}, {where}: {what}")


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            raise InputError(
                f"the condition {text!r}, character {position + 1}: a quotation mark has no partner"
            )
        yield _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        position = match.end()


def _joined(parts: list[Condition], operator: str) -> Condition:
    if len(parts) == 1:
        return parts[0]
    return Condition(
        f"({operator.join(part.sql for part in parts)})",
        tuple(value for part in parts for value in part.values),
    )
