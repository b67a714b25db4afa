"""A foreign log as its program printed it: the one place where readers of logs open them.

Whatever others put around the text is taken off before a reader sees it, and said in a note: compression,
encoding, Docker's JSON (`unpacked`), prefixes of lines, color codes, no-break spaces,
Markdown's bold. Lines keep their numbers.

Prefixes are what launchers, container engines and log daemons put before each line. A prefix that no measured
program prints itself is taken off where half of the lines have it. One that a program might print, such as
`12: `, is taken off only where nearly all lines have it and its labels repeat. So the number of a table's
row, which differs in each line, is no prefix. What else all lines begin with is never taken off:
`shared_beginning` finds it, so that a reader can name it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay import inputs
from assay.errors import InputError, Problem
from assay.formats.unpacked import DAMAGED, form_of, open_log
from assay.inputs import LONGEST_LINE, Log, unreadable

_MOST_STACKED: Final = 4  # kubectl's pod and time before mpirun's rank
_HALF: Final = 0.5  # of the lines
_NEARLY_ALL: Final = 0.9
_MANY: Final = 10  # lines that are enough after a batch script's own output, however long that is
_REPEATS: Final = 2  # lines that each label has on average
_MOST_LINES: Final = 400  # in which a shared beginning is searched
_LONGEST_PREFIX: Final = 120  # bytes
_FEWEST_LINES: Final = 3  # fewer share a beginning by chance
_OF_JSON: Final = (r"\{", '"')
_BLANK: Final = r"[ \t]"
_BLANKS: Final = rf"{_BLANK}+"
_PART: Final = re.compile(r"[0-9]+|[ \t]+|.")
_SPECIAL: Final = re.compile(r"[].\\/*+?^$|(){}[]")


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
_SYSLOG_TIME: Final = rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
_DATE: Final = rb"(?:" + _SYSLOG_TIME + rb"|" + _TIME + rb")"
PREFIXES: Final = (
    _prefix(
        "mpirun", rb"(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})?\[\d+,(?P<label>\d+)\]<std(?:out|err|diag)>:"
    ),
    _prefix("prterun", rb"\[[\w.-]+@\d+,(?P<label>\d+)\]<std(?:out|err|diag)>: ?"),
    _prefix("torchrun", rb"\[(?P<label>[A-Za-z_]\w*?\d+)\]:"),
    _prefix("journald", _DATE + rb" (?P<label>[\w.-]+ [\w@.\\:/-]+\[\d+\]): ?"),
    _prefix("a container runtime", _TIME + rb" std(?:out|err) [FP] "),
    _prefix("GitLab", _TIME + rb" \d\d[OE][ +]"),
    _prefix("a timestamp", rb"\[?" + _TIME + rb"\]?(?:[ \t]|$)"),
    _prefix("ts", _SYSLOG_TIME + rb"(?:[ ]|$)"),
    _prefix("kubectl --prefix", rb"\[(?P<label>pod/[\w.-]+/[\w.-]+)\](?:[ ]|$)"),
    _prefix("docker compose", rb"(?P<label>[\w.-]*[_-]\d+)[ ]+\|(?:[ ]|$)", is_sure=False),
    _prefix("Ray", rb"\((?P<label>[\w .:,=-]*\bpid=\d+[ -(*-~]{0,80})\)(?:[ ]|$)"),
    _prefix("srun --label or pdsh", rb"(?P<label>[\w.-]*\d):(?:[ ]|$)", is_sure=False),
    _prefix("mpiexec -l", rb"\[(?P<label>\d+)\](?:[ ]|$)", is_sure=False),
)


def prefixes_of(sample: bytes) -> tuple[Prefix, ...]:
    """The prefixes before the lines of a log, outermost first, from whole lines of it."""
    prefixes: list[Prefix] = []
    while len(prefixes) < _MOST_STACKED:
        fitting = next((prefix for prefix in PREFIXES if _fits(prefix, sample)), None)
        if fitting is None:
            break
        prefixes.append(fitting)
        sample = fitting.pattern.sub(b"", sample)
    return tuple(prefixes)


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


def shared_beginning(sample: bytes) -> str:
    """A regular expression of what nearly all lines begin with, whatever its digits; "" if nothing is shared.

    Lines of one form count once, so that a long table has no more weight than a title.
    """
    lines = [line for line in sample.split(b"\n") if line.strip()][:_MOST_LINES]
    forms = list(dict.fromkeys(map(_form, lines)))
    shared: list[str] = []
    while len(lines) >= _FEWEST_LINES:
        longer = [form for form in forms if len(form) > len(shared)]
        if not longer or len(longer) < _HALF * len(forms):
            break
        part, count = Counter(form[len(shared)] for form in longer).most_common(1)[0]
        if count < _NEARLY_ALL * len(longer) or part in _OF_JSON:
            break
        forms = [form for form in forms if form[len(shared) : len(shared) + 1] in ((), (part,))]
        shared.append(part)
    if shared[:1] == [_BLANKS]:
        shared[0] = _BLANKS.replace("+", "*")
    while shared and shared[-1].startswith(_BLANK):  # may be the program's indentation
        shared.pop()
    return "".join(shared)


def _form(line: bytes) -> tuple[str, ...]:
    """The parts of a line, as regular expressions that sed reads too: digits, blanks, other characters."""
    parts = _PART.findall(line[:_LONGEST_PREFIX].decode(errors="replace"))
    return tuple(
        "[0-9]+" if part.isdigit() else _BLANKS if part.isspace() else _SPECIAL.sub(r"\\\g<0>", part)
        for part in parts
    )


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


_SAMPLE_BYTES: Final = 1 << 17  # of the first lines, by which prefixes are recognized
_COLOR: Final = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
_SPACES: Final = (b"\xc2\xa0", b"\xe2\x80\xaf")  # no-break, wide and narrow
_BOLD: Final = re.compile(rb"\*\*([-+]?\d[\d.,eE+-]*)\*\*")


class LogText(Log):
    """The lines of a foreign log. Raises InputError if it can't be read or unpacked."""

    def __init__(self, path: Path, longest: int = LONGEST_LINE) -> None:
        super().__init__(path, longest)
        self.prefixes: tuple[Prefix, ...] = ()

    def blocks(self) -> Iterator[bytes]:
        """Complete lines, many at a time, as the program printed them."""
        for block in self.prefixed_blocks():
            yield without(block, self.prefixes) if self.prefixes else block

    def prefixed_blocks(self) -> Iterator[bytes]:
        """The same with what launchers put before the lines; `prefixes` is known after the first block."""
        for number, block in enumerate(super().blocks()):
            text = plain(block)
            if not number:
                self.prefixes = prefixes_of(sample_of(text))
            yield text

    def _pieces(self) -> Iterator[bytes]:
        try:
            with closing(open_log(self.path)) as log:
                while piece := log.read(inputs.BLOCK_BYTES):
                    yield piece
        except DAMAGED as error:
            what = f"is damaged or truncated, so that it can't be unpacked ({error})"
            raise InputError([Problem(str(self.path), what)]) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


def plain(block: bytes) -> bytes:
    """Text without color codes, with plain spaces, and with figures that Markdown doesn't make bold."""
    if b"\x1b" in block:
        block = _COLOR.sub(b"", block)
    for space in _SPACES:
        if space[:1] in block:  # one byte is found much faster than two
            block = block.replace(space, b" ")
    return _BOLD.sub(rb"\1", block) if b"*" in block and b"**" in block else block


def sample_of(block: bytes) -> bytes:
    """Its first lines."""
    if len(block) <= _SAMPLE_BYTES:
        return block
    return block[: block.rfind(b"\n", 0, _SAMPLE_BYTES) + 1]


@dataclass(frozen=True)
class Surroundings:
    """What is around a log's text.

    notes     what was taken off, each as a sentence
    printing  labels of the processes whose lines a pattern matches; empty without labels
    """

    notes: tuple[str, ...]
    printing: tuple[str, ...]


def surroundings(path: Path, mark: re.Pattern[bytes] | None = None) -> Surroundings:
    """What others put around a log, and which processes print a line with `mark`. Raises like `LogText`."""
    packed = form_of(path)
    notes = [f"read out of {' in '.join(reversed(packed))}"] if packed else []
    log, printing = LogText(path), dict[str, None]()
    raw = next(Log.blocks(log), b"")
    for number, block in enumerate(log.prefixed_blocks()):
        if not number:
            notes += _notes(raw, block, log.prefixes)
        if mark is None or not any(prefix.pattern.groups for prefix in log.prefixes):
            break
        if mark.search(block):
            printing |= {label: None for label, line in labelled(block, log.prefixes) if mark.search(line)}
    return Surroundings(tuple(notes), tuple(label for label in printing if label))


def _notes(raw: bytes, block: bytes, prefixes: tuple[Prefix, ...]) -> Iterator[str]:
    if _COLOR.search(raw):
        yield "read without its color codes"
    if any(space in raw for space in _SPACES):
        yield "read with spaces in place of its no-break spaces"
    if _BOLD.search(raw):
        yield "read without the ** around figures"
    sample = sample_of(block)
    for prefix in prefixes:
        yield f"read without what precedes its lines, like `{example(prefix, sample)}` ({prefix.by})"
        sample = prefix.pattern.sub(b"", sample)
