"""The variants that `assay try` compares: commands as typed, without a shell, named by what differs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from assay.errors import InputError

MOST_VARIANTS = 16
_LONGEST_LABEL, _LONGEST_NAME = 48, 36


@dataclass(frozen=True)
class Variant:
    """One command.

    label  what distinguishes it from the others, as typed: `--batch 16`
    name   the same as a system's name: `batch-16`
    """

    label: str
    name: str
    argv: tuple[str, ...]


def variants_of(commands: Sequence[str]) -> tuple[Variant, ...]:
    """The variants of commands whose braces outside quotes are alternatives: `train.py --batch {16,64}`.

    Raises InputError for a command that can't be split, for fewer than two, and for too many.
    """
    argvs = [_split(text) for command in commands for text in _expanded(command)]
    if len(argvs) < 2:
        raise InputError(
            "there is one command, and nothing to compare it with: write alternatives in braces, outside "
            "inner quotes, as in 'train.py --batch {16,64}', or name another command with --vs"
        )
    if len(argvs) > MOST_VARIANTS:
        raise InputError(f"the braces make {len(argvs)} commands; at most {MOST_VARIANTS} can be compared")
    labels = list(_unique(_labels(argvs), " again"))
    names = _unique([_name(label) for label in labels], "-again")
    return tuple(Variant(*each) for each in zip(labels, names, argvs, strict=True))


def suite_name(argv: Sequence[str]) -> str:
    """`try-train` for `python train.py`."""
    program = re.sub(r"[.](?:py|sh|pl|rb|jl|lua|js)$", "", _program(argv))
    return f"try-{_name(program)}"[:40].rstrip("-._")


def _program(argv: Sequence[str]) -> str:
    """What a command is about: its script, its module, or else its program."""
    script = next((word for word in argv if re.search(r"\.\w{1,4}\Z", word) and not word.startswith("-")), "")
    module = dict(pairwise(argv)).get("-m", "")
    return module.rpartition(".")[2] or script.rpartition("/")[2] or argv[0].rpartition("/")[2]


def _split(command: str) -> tuple[str, ...]:
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise InputError(f"{command}: can't be split into words: {error}") from error
    if not argv:
        raise InputError("a command is empty; write a program and its arguments")
    if "" in argv:
        raise InputError(f"{command}: an argument is empty, which `argv` of a suite can't have")
    return argv


def _expanded(text: str) -> list[str]:
    """The text once for each combination of the alternatives in its braces, the first braces slowest.

    >>> _expanded("a {1,2} '{3,4}'")
    ["a 1 '{3,4}'", "a 2 '{3,4}'"]
    """
    finished, waiting = [], [text]
    while waiting:
        first = waiting.pop(0)
        braces = _first_braces(first)
        if braces is None:
            finished.append(first)
            continue
        before, after = first[: braces[0]], first[braces[-1] + 1 :]
        waiting = [f"{before}{first[a + 1 : b]}{after}" for a, b in pairwise(braces)] + waiting
        if len(waiting) + len(finished) > 1000:
            raise InputError(f"the braces make more than 1000 commands; at most {MOST_VARIANTS} are compared")
    return finished


def _first_braces(text: str) -> list[int] | None:
    """Where the first braces with a comma begin, have their commas, and end; None if there are none.

    Quotes and backslashes hide braces as they would in a shell.
    """
    groups: list[list[int]] = []
    unclosed: list[list[int]] = []
    for position in _unquoted(text):
        match text[position]:
            case "{":
                unclosed.append([position])
            case "," if unclosed:
                unclosed[-1].append(position)
            case "}" if unclosed:
                group = [*unclosed.pop(), position]
                groups += [group] if len(group) > 2 else []
    return min(groups, default=None)


def _unquoted(text: str) -> Iterator[int]:
    """The positions of the characters that no quote and no backslash hides."""
    quote, position = "", 0
    while position < len(text):
        character = text[position]
        if character == "\\" and quote != "'":
            position += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            yield position
        position += 1


def _labels(argvs: Sequence[tuple[str, ...]]) -> list[str]:
    """What differs: the words between the common beginning and end, with the option that they belong to."""
    if len(set(argvs)) == 1:
        return [_program(argv) for argv in argvs]
    shared = _shared(argvs)
    rests = [argv[shared:] for argv in argvs]
    ending = _shared([rest[::-1] for rest in rests])
    rests = [rest[: len(rest) - ending] for rest in rests]
    option = argvs[0][shared - 1] if shared > 1 else ""
    if re.match("-[^=]+$", option) and all(rest and not rest[0].startswith("-") for rest in rests):
        rests = [(option, *rest) for rest in rests]
    if len(rests) == 2 and all(argvs) and sorted(map(bool, rests)) == [False, True]:
        (more,) = filter(None, rests)
        return [_cut(shlex.join(rest) if rest else f"without {shlex.join(more)}") for rest in rests]
    return [_cut(shlex.join(rest or argv)) for rest, argv in zip(rests, argvs, strict=True)]


def _shared(argvs: Sequence[tuple[str, ...]]) -> int:
    """How many words all have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*argvs, strict=False)))


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _name(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", label)[:_LONGEST_NAME].strip("-._") or "command"


def _unique(texts: Sequence[str], suffix: str) -> Iterator[str]:
    """The texts; one that occurred before gets the suffix, and a number from the third on."""
    seen: set[str] = set()
    for text in texts:
        number, unique = 1, text
        while unique.casefold() in seen:
            number += 1
            unique = f"{text}{suffix}{'' if number == 2 else f'-{number - 1}'}"
        seen.add(unique.casefold())
        yield unique
