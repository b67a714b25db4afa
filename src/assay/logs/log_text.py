"""A foreign log as its program printed it: the one place where readers of logs open them.

Whatever others put around the text is taken off before a reader sees it, and said in a note: compression,
encoding, Docker's JSON (`unpacked`), prefixes of lines (`launcher_prefixes`), color codes, no-break spaces,
Markdown's bold. Lines keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay import inputs
from assay.errors import InputError, Problem
from assay.inputs import LONGEST_LINE, Log, unreadable
from assay.logs.launcher_prefixes import Prefix, example, labelled, prefixes_of, without
from assay.logs.unpacked import DAMAGED, form_of, open_log

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
