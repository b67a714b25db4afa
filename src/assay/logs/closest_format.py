"""Which format an unrecognized log comes closest to: the words of each format that it contains.

None of the words is enough to recognize a format: they show a person which part of a log was not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.logs.log_text import LogText
from assay.logs.tools import EMPTY, TOOLS, is_empty, unread_output


@dataclass(frozen=True)
class Format:
    """A kind of log.

    name   as `assay import --format` accepts it
    line   the line that identifies it, as its program prints it
    words  from its logs, in lowercase
    """

    name: str
    line: str
    words: tuple[str, ...]


_OWN: Final = (
    Format("mlperf", ':::MLLOG {"key": …}', ("mllog", "run_start", "run_stop", "eval_accuracy", "loadgen")),
    Format("tf-cnn-benchmarks", "total images/sec: 1234.5", ("images/sec", "num batches", "variables:")),
)


def known_formats() -> tuple[Format, ...]:
    """All of them, those of plug-ins last."""
    return (*_OWN, *(Format(tool.name, tool.line, tool.words) for tool in TOOLS.values()))


def words_in(path: Path) -> dict[str, list[str]]:
    """Format → its words that a file contains, most first; a format without any is omitted.

    Raises InputError if the file can't be read.
    """
    formats = known_formats()
    unseen = {word for known in formats for word in known.words}
    seen: set[str] = set()
    for block in LogText(path).blocks():
        text = block.decode("latin-1").lower()
        seen |= {word for word in unseen - seen if word in text}
    words_of = {known.name: [word for word in known.words if word in seen] for known in formats}
    most_first = sorted(words_of.items(), key=lambda pair: -len(pair[1]))
    return {name: present for name, present in most_first if present}


_OTHERWISE: Final = (
    "set the format with --format, or copy the whole log; figures of another program can be imported as a "
    "CSV file"
)


def unrecognised(path: Path, otherwise: str = _OTHERWISE) -> str:
    """Why a file is not a known log, which format it is closest to, which formats exist, and what to do.

    Raises InputError if it can't be read.
    """
    if is_empty(path):
        return EMPTY
    if reason := unread_output(path):
        return reason
    matched = {name: present for name, present in words_in(path).items() if _point_to_it(present)}
    most = max(map(len, matched.values()), default=0)
    closest = [known for known in known_formats() if len(matched.get(known.name, ())) == most > 0]
    parts = ["is not a log in a known format"]
    if closest:
        parts.append(f"closest to {_listed(closest, matched)}")
    names = ", ".join(known.name for known in known_formats())
    parts.append(f"known formats: {names}; {otherwise}")
    return "; ".join(parts)


def _point_to_it(present: Sequence[str]) -> bool:
    """Whether these words point to one program: several words, or a phrase.

    A single word such as `busbw` or `iodepth=` is in the logs of many programs.
    """
    return len(present) > 1 or any(" " in word.strip() for word in present)


def _listed(closest: Iterable[Format], matched: dict[str, list[str]]) -> str:
    return "; ".join(
        f"{known.name}: it has {', '.join(map(repr, matched[known.name]))}, but lacks the line `{known.line}`"
        for known in closest
    )
