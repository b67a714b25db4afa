"""What launchers, container engines and log daemons put before each line that a program prints.

A prefix that no measured program prints itself is taken off where half of the lines have it. One that a
program might print, such as `12: `, is taken off only where nearly all lines have it and its labels repeat.
So the number of a table's row, which differs in each line, is no prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_MOST_STACKED: Final = 4  # kubectl's pod and time before mpirun's rank
_HALF: Final = 0.5  # of the lines
_NEARLY_ALL: Final = 0.9
_MANY: Final = 10  # lines that are enough after a batch script's own output, however long that is
_REPEATS: Final = 2  # lines that each label has on average


@dataclass(frozen=True)
class Prefix:
    """What one program puts before lines.

    by       the program and its option
    pattern  at a line's beginning; its group `label`, if it has one, says which process printed the line
    is_sure  whether only this program prints it
    """

    by: str
    pattern: re.Pattern[bytes]
    is_sure: bool


def _prefix(by: str, pattern: bytes, *, is_sure: bool = True) -> Prefix:
    return Prefix(by, re.compile(rb"^[ \t]*" + pattern, re.MULTILINE), is_sure)


_TIME: Final = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[-+]\d\d:?\d\d)"
_DATE: Final = rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|" + _TIME + rb")"
PREFIXES: Final = (
    _prefix(
        "mpirun", rb"(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})?\[\d+,(?P<label>\d+)\]<std(?:out|err|diag)>:"
    ),
    _prefix("prterun", rb"\[[\w.-]+@\d+,(?P<label>\d+)\]<std(?:out|err|diag)>: ?"),
    _prefix("torchrun", rb"\[(?P<label>[A-Za-z_]\w*?\d+)\]:"),
    _prefix("journald", _DATE + rb" (?P<label>[\w.-]+ [\w@.\\:/-]+\[\d+\]): ?"),
    _prefix("a container runtime", _TIME + rb" std(?:out|err) [FP] "),
    _prefix("a timestamp", rb"\[?" + _TIME + rb"\]?(?:[ \t]|$)"),
    _prefix("kubectl --prefix", rb"\[(?P<label>pod/[\w.-]+/[\w.-]+)\](?:[ ]|$)"),
    _prefix("docker compose", rb"(?P<label>[\w.-]*[_-]\d+)[ ]+\|(?:[ ]|$)", is_sure=False),
    _prefix("Ray", rb"\((?P<label>[\w .:,=-]*\bpid=\d+[ -(*-~]{0,80})\)(?:[ ]|$)"),
    _prefix("srun --label or pdsh", rb"(?P<label>[\w.-]*\d):(?:[ ]|$)", is_sure=False),
    _prefix("mpiexec -l", rb"\[(?P<label>\d+)\](?:[ ]|$)", is_sure=False),
)


def prefixes_of(sample: bytes) -> tuple[Prefix, ...]:
    """The prefixes before the lines of a log, outermost first, from whole lines of it."""
    found: list[Prefix] = []
    while len(found) < _MOST_STACKED:
        fitting = next((prefix for prefix in PREFIXES if _fits(prefix, sample)), None)
        if fitting is None:
            break
        found.append(fitting)
        sample = fitting.pattern.sub(b"", sample)
    return tuple(found)


def without(block: bytes, prefixes: Sequence[Prefix]) -> bytes:
    """Whole lines without their prefixes."""
    for prefix in prefixes:
        block = prefix.pattern.sub(b"", block)
    return block


def labelled(block: bytes, prefixes: Sequence[Prefix]) -> Iterator[tuple[str, bytes]]:
    """Each line without its prefixes, with the label of the process that printed it; "" if it has none."""
    for line in block.split(b"\n"):
        labels, rest = [], line
        for prefix in prefixes:
            if match := prefix.pattern.match(rest):
                labels += [label.decode(errors="replace") for label in match.groupdict().values()]
                rest = rest[match.end() :]
        yield " ".join(labels), rest


def example(prefix: Prefix, sample: bytes) -> str:
    """The first of them in some lines."""
    match = prefix.pattern.search(sample)
    return match[0].decode(errors="replace").strip() if match else ""


def _fits(prefix: Prefix, sample: bytes) -> bool:
    """Whether enough lines have it, of those from the first that does to the last; if unsure, of all."""
    matches = list(prefix.pattern.finditer(sample))
    if not matches:
        return False
    end = sample.find(b"\n", matches[-1].end())
    among = _lines(sample[matches[0].start() : end if end >= 0 else len(sample)])
    if prefix.is_sure:
        return len(matches) >= _HALF * among
    labels = {match["label"] for match in matches}
    most = len(matches) >= max(_NEARLY_ALL * among, min(_HALF * _lines(sample), _MANY))
    return most and len(matches) >= _REPEATS * len(labels)


def _lines(text: bytes) -> int:
    """How many are not blank."""
    return sum(1 for line in text.split(b"\n") if line.strip())
