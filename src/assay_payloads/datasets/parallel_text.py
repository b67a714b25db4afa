"""WMT's English-German sentence pairs, tokenized by Moses and split into pieces by byte-pair encoding.

One directory contains, under the names that MLPerf's GNMT, tensorflow/nmt, and google/seq2seq use:

    vocab.bpe.32000                      one piece per line
    train.tok.clean.bpe.32000.{en,de}    one sentence per line; line n of one file translates line n of the
                                         other
    newstest2014.tok.bpe.32000.en        the evaluation's source sentences
    newstest2014.de                      their reference translations, plain text
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from assay_payloads.datasets.feed import UnreadableSampleError

VOCABULARY, TRAIN, NEWSTEST = "vocab.bpe.32000", "train.tok.clean.bpe.32000", "newstest2014"
PAD, UNKNOWN, BEGIN, STOP = range(4)  # the first rows of the tables; the vocabulary's pieces follow
MARKS = 4
MULTIPLE = 8  # lengths are padded to a multiple of this: tensor cores need it, and fewer shapes occur
BATCHES_SORTED = 80  # sorted together, as in MLPerf's GNMT
CONTINUES = "@@ "  # ends a piece that the next one continues

Pair = tuple[list[int], list[int]]


class TextLines:
    """Lines of a text file, read on demand; only their offsets are kept in memory."""

    def __init__(self, path: Path) -> None:
        if not path.is_file() or not path.stat().st_size:
            state = "empty" if path.is_file() else "missing"
            raise UnreadableSampleError(f"{path} is {state}; expected text, one sentence per line")
        self.path = path
        self.bytes = np.memmap(path, np.uint8, "r")
        ends = np.flatnonzero(self.bytes == ord("\n"))
        if self.bytes[-1] != ord("\n"):
            ends = np.append(ends, len(self.bytes))
        self.ends, self.starts = ends, np.concatenate(([0], ends[:-1] + 1))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, line: int) -> str:
        raw = self.bytes[self.starts[line] : self.ends[line]].tobytes()
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableSampleError(
                f"{self.path}:{line + 1} is not UTF-8: {error.reason} at byte {error.start} of the line"
            ) from error

    def stored_bytes(self, line: int) -> int:
        """Bytes of the line in the file, including its end."""
        return int(self.ends[line] - self.starts[line]) + 1

    def words(self) -> Any:
        """Number of words in each line: its spaces plus one."""
        return np.add.reduceat(self.bytes == ord(" "), self.starts, dtype=np.int32) + 1


class Vocabulary:
    """Pieces by number and numbers by piece."""

    def __init__(self, path: Path, rows: int) -> None:
        """Check that the tables' `rows` suffice for the pieces and four special tokens."""
        lines = TextLines(path)
        self.path = path
        self.pieces = [*[""] * MARKS, *(lines[number].strip() for number in range(len(lines)))]
        self.numbers = {piece: number for number, piece in enumerate(self.pieces) if number >= MARKS}
        if len(self.pieces) > rows:
            least = -(-len(self.pieces) // MULTIPLE) * MULTIPLE
            raise UnreadableSampleError(
                f"{path} has {len(lines)} pieces, and {MARKS} special tokens are added: --vocabulary-size "
                f"{rows} is too small for them; set it to at least {least}"
            )

    def encode(self, lines: TextLines, line: int, *, strict: bool) -> list[int]:
        """Begin token, pieces, and stop token of a line; if strict, an unknown piece is an error."""
        pieces = lines[line].split()
        if not pieces:
            raise UnreadableSampleError(f"{lines.path}:{line + 1} is empty; expected a sentence")
        piece_numbers = [self.numbers.get(piece, UNKNOWN) for piece in pieces]
        if strict and UNKNOWN in piece_numbers:
            piece = pieces[piece_numbers.index(UNKNOWN)]
            raise UnreadableSampleError(
                f"{lines.path}:{line + 1}: piece {piece!r} is not in {self.path.name}"
            )
        return [BEGIN, *piece_numbers, STOP]

    def words(self, numbers: Sequence[int]) -> list[str]:
        """Words of a translation, up to its stop token: pieces joined, other special tokens omitted."""
        end = numbers.index(STOP) if STOP in numbers else len(numbers)
        pieces = [self.pieces[n] for n in numbers[:end] if MARKS <= n < len(self.pieces)]
        return (" ".join(pieces) + " ").replace(CONTINUES, "").split()


def translations(source: Path, target: Path) -> tuple[TextLines, TextLines]:
    """Both files, which must have the same number of lines."""
    pair = TextLines(source), TextLines(target)
    if len(pair[0]) != len(pair[1]):
        raise UnreadableSampleError(
            f"{source} has {len(pair[0])} lines, but {target.name} has {len(pair[1])}; line n of one must "
            "translate line n of the other"
        )
    return pair


class TrainingPairs(Dataset[Pair]):
    """Pairs of at most `longest` pieces on either side, including special tokens; longer ones are skipped."""

    draws = False

    def __init__(self, directory: Path, vocabulary: Vocabulary, longest: int) -> None:
        paths = [directory / f"{TRAIN}.{language}" for language in ("en", "de")]
        self.source, self.target = translations(*paths)
        self.vocabulary = vocabulary
        lengths = np.stack([self.source.words(), self.target.words()]) + 2
        self.kept = np.flatnonzero(lengths.max(0) <= longest)
        self.lengths = lengths.sum(0)[self.kept]
        if not len(self.kept):
            raise UnreadableSampleError(
                f"{paths[0]}: no pair has at most {longest} pieces, including special tokens, on each side"
            )

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> Pair:
        line = int(self.kept[index])
        sides = (self.source, self.target)
        source, target = (self.vocabulary.encode(side, line, strict=True) for side in sides)
        return source, target

    def location(self, index: int) -> str:
        """File and line of the source."""
        return f"{self.source.path}:{self.kept[index] + 1}"

    def stored_bytes(self, index: int) -> int:
        """Bytes of both lines."""
        line = int(self.kept[index])
        return self.source.stored_bytes(line) + self.target.stored_bytes(line)

    def arranged(self, order: Sequence[int], step: int) -> list[int]:
        """The same samples, ordered so that each step's pairs have similar lengths and need less padding.

        Pairs are sorted by length within every 80 steps; then those steps are shuffled again.
        """
        result: list[int] = []
        for first in range(0, len(order), BATCHES_SORTED * step):
            chunk = np.asarray(order[first : first + BATCHES_SORTED * step])
            shuffled = np.random.default_rng(int(chunk[0]))  # the order is random, and so is its first
            chunk = chunk[np.argsort(self.lengths[chunk], kind="stable")]
            whole = len(chunk) // step * step
            result += shuffled.permutation(chunk[:whole].reshape(-1, step)).ravel().tolist()
            result += chunk[whole:].tolist()
        return result


class Newstest:
    """newstest2014: sentences to translate, as numbers, and their reference translations, as text."""

    def __init__(self, directory: Path, vocabulary: Vocabulary) -> None:
        source, target = translations(
            directory / f"{NEWSTEST}.tok.bpe.32000.en", directory / f"{NEWSTEST}.de"
        )
        self.sources = [vocabulary.encode(source, line, strict=False) for line in range(len(source))]
        self.references = [target[line] for line in range(len(target))]

    def __len__(self) -> int:
        return len(self.references)


def padded(rows: Sequence[list[int]]) -> torch.Tensor:
    """Rows of IDs as one tensor, rows × the longest length, rounded up."""
    length = -(-max(map(len, rows)) // MULTIPLE) * MULTIPLE
    return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])


def collate(pairs: Sequence[Pair]) -> dict[str, Any]:
    """`source` and `target`, batch × length, and how many of their pieces are not padding."""
    sides = dict(zip(("source", "target"), zip(*pairs, strict=True), strict=True))
    batch: dict[str, Any] = {side: padded(rows) for side, rows in sides.items()}
    return batch | {f"{side}_pieces": sum(map(len, rows)) for side, rows in sides.items()}
