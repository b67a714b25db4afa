"""Secrets among the arguments of a known program, anywhere in a text: `+ curl -u me:hunter2 https://x`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.redact.arguments import program_arguments
from assay.redact.programs import LITERALS, NO_PASSWORD, program

_REST = re.compile(r"(?:[^\n\\]|\\.){0,2000}", re.DOTALL)  # of a line that may go on after a backslash
# Words of a shell, and of a list that Python or JSON prints
_WORD = re.compile(r"(?:[^\s\"'=]+=)?(?:'[^'\n]*'|\"[^\"\n]*\")|[^\s\"']+")
_BETWEEN_WORDS = re.compile(r"[\s\"'\\,\[\]]*")
_NO_SECRET = re.compile(r"[$<{(%\[*]|\W*$")  # a placeholder, or the end of a list
_WORDLIKE = re.compile(r"[A-Za-z_./-]+|[\d.:]+")  # more often a word of prose than a password
_NAME = re.compile(r"(?<![A-Za-z0-9])[a-z][\w.-]{1,40}(?=[\s\"',])")
_END = re.compile(r"[\"'\\]")


def in_commands(text: str, lower: bytes) -> Iterator[tuple[int, int]]:
    """Where each value is. `lower` is the text in lowercase, one byte per character."""
    if b"-" not in lower:
        return
    for literal in LITERALS:
        position = lower.find(literal)
        while position >= 0:
            end = position + len(literal)
            if _begins_command(text, position) and (rest := _REST.match(text, position)):
                end = rest.end()
                yield from _values(text, position, end)
            position = lower.find(literal, end)


def _begins_command(text: str, position: int) -> bool:
    name = _NAME.match(text, position)
    return name is not None and program(name[0]) not in (None, NO_PASSWORD)


def _values(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    tokens = [word for word in _WORD.finditer(text, begin, end) if not _BETWEEN_WORDS.fullmatch(word[0])]
    arguments = program_arguments([word[0].strip("\"'") for word in tokens])
    for word, argument in zip(tokens, arguments, strict=True):
        cut = _END.search(argument.secret)
        value = argument.secret[: cut.start()] if cut else argument.secret
        follows_user = argument.shown[-1:] in (":", ",", "%")
        if len(value) < 4 or _NO_SECRET.match(value) or (_WORDLIKE.fullmatch(value) and not follows_user):
            continue
        start = text.rfind(argument.secret, word.start(), word.end())
        yield start, start + len(value)
