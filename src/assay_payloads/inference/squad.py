"""SQuAD v1.1: questions about paragraphs of Wikipedia, with answers that people marked in the paragraph.

An answer's figure is F1 of its words. Source: Rajpurkar et al. 2016, and the data set's evaluate-v1.1.py.

For LoadGen: windows of a text in, logits of an answer's ends out. The samples, the selection among logits,
and the text of an answer follow MLPerf's reference, so that its script computes the same figure from the same
log.
Source: mlcommons/inference, language/bert: create_squad_data.py, accuracy-squad.py.
"""

from __future__ import annotations

import json
import re
import string
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay_payloads.inference.loadgen_samples import SPANS, Arrays, Data

SQUAD_FILES = ("dev-v1.1.json", "vocab.txt")  # questions, and BERT's vocabulary for tokenizing them
PIECES = 30522  # of that vocabulary, uncased
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only: other marks belong to their words
_JSON = {list: "a list", str: "a text", int: "a number"}


@dataclass(frozen=True)
class SquadQuestion:
    """A question and its correct answers."""

    wording: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class SquadParagraph:
    """A text and the questions about it."""

    text: str
    questions: tuple[SquadQuestion, ...]


def paragraphs(path: Path) -> list[SquadParagraph]:
    """Every paragraph of the data set's file, in order.

    Raises OSError, and ValueError if the file is not SQuAD v1.1's, naming the file and the place in it.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # from the encoding, or from JSON
        raise ValueError(f"{path}: can't be read as JSON: {error}") from error
    all_paragraphs = list(_paragraphs(document, str(path)))
    if not any(paragraph.questions for paragraph in all_paragraphs):
        raise ValueError(f"{path}: has no questions; expected SQuAD v1.1's, whose dev-v1.1.json has 10,570")
    return all_paragraphs


def _paragraphs(document: Any, where: str) -> Iterator[SquadParagraph]:
    for article, place in _each(document, "data", where):
        for entry, entry_place in _each(article, "paragraphs", place):
            yield _paragraph(entry, entry_place)


def _paragraph(entry: Any, where: str) -> SquadParagraph:
    text = _member(entry, "context", str, where)
    entries = [(_member(qa, "question", str, place), qa, place) for qa, place in _each(entry, "qas", where)]
    return SquadParagraph(
        text, tuple(SquadQuestion(question, _answers(qa, text, place)) for question, qa, place in entries)
    )


def _answers(question: Any, text: str, where: str) -> tuple[str, ...]:
    answers = []
    for entry, place in _each(question, "answers", where):
        answer, start = _member(entry, "text", str, place), _member(entry, "answer_start", int, place)
        if start < 0 or not text.startswith(answer, start):
            there = text[max(0, start) :][: len(answer)]
            raise ValueError(f"{place}: its text is {answer!r}, but the context has {there!r} at {start}")
        answers.append(answer)
    if not answers:
        raise ValueError(f"{where}: has no answer; expected SQuAD v1.1, where every question has one")
    return tuple(answers)


def _each(entry: Any, key: str, where: str) -> list[tuple[Any, str]]:
    """The entries of a member that is a list, each with its location."""
    entries = _member(entry, key, list, where)
    return [(member, f"{where}: {key}[{index}]") for index, member in enumerate(entries)]


def _member(entry: Any, key: str, kind: type, where: str) -> Any:
    """A member of a JSON object, which must be of this kind."""
    member = entry.get(key) if isinstance(entry, dict) else None
    if isinstance(member, kind):
        return member
    got = f"the keys {', '.join(entry) or 'none'}" if isinstance(entry, dict) else type(entry).__name__
    raise ValueError(f"{where}: expected `{key}`, {_JSON[kind]}, as in SQuAD v1.1; found {got}")


def words(answer: str) -> list[str]:
    """An answer's words for comparison: lowercase, without ASCII punctuation and articles.

    >>> words("The  Anglo-Saxons'")
    ['anglosaxons']
    """
    return _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def f1(answer: str, right: Sequence[str]) -> float:
    """F1 of the words of an answer and of the best-matching correct answer, at most 1.

    An answer without words scores 0, even if the correct answer has no words either.

    >>> f1("in the year 1066", ["1066", "year 1066"])
    0.8
    """
    answer_words = Counter(words(answer))
    scores = []
    for correct in right:
        expected = Counter(words(correct))
        common = (answer_words & expected).total()
        scores.append(2 * common / (answer_words.total() + expected.total()) if common else 0.0)
    return max(scores)


QUESTIONS, VOCABULARY = SQUAD_FILES
EXPECTED = f"{VOCABULARY} of BERT, uncased: {PIECES:,} pieces, one per line"
MARKS = ("[CLS]", "[SEP]", "[UNK]")
MOST_ASKED = 64  # pieces of a question; longer ones are cut
STRIDE = 128  # pieces of a text from one window to the next
BEST, LONGEST = 20, 30  # logits considered on each side; pieces of an answer
NO_ANSWER = "empty"  # the reference's answer if none of them form a span
_BETWEEN_WORDS = re.compile("[ \t\r\n\u202f]+")


@dataclass(frozen=True)
class Text:
    """A paragraph as words between blanks, and as pieces of the vocabulary.

    ids      of the pieces
    word_of  the word that contains each piece, by number
    """

    words: Sequence[str]
    pieces: Sequence[str]
    ids: Sequence[int]
    word_of: Sequence[int]

    def cut(self, first: int, last: int) -> str:
        """The answer from piece to piece, as in its text.

        Characters around the pieces in their words are removed if the letters of words and pieces match up:
        "1066" from "(1066)." Otherwise, as with a word of several pieces, the answer is all of its words.
        """
        passage = " ".join(self.words[self.word_of[first] : self.word_of[last] + 1])
        begin = bisect_left(self.word_of, self.word_of[first])
        end = bisect_right(self.word_of, self.word_of[last])
        pieces = " ".join(self.pieces[begin:end])
        answer = " ".join(self.pieces[first : last + 1]).replace(" ##", "").replace("##", "")
        letters = [index for index, letter in enumerate(passage) if letter != " "]
        begin_in_pieces = pieces.find(answer)
        if begin_in_pieces < 0 or len(letters) != len(pieces.replace(" ", "")):
            return passage
        before = len(pieces[:begin_in_pieces].replace(" ", ""))
        return passage[letters[before] : letters[before + len(answer.replace(" ", "")) - 1] + 1]


@dataclass(frozen=True)
class Windows:
    """A question with each part of its text that fits: one sample per part, the first with number `start`.

    question_ids  IDs of the question's pieces
    parts         pieces of the text, by number
    nearest       the part in which each piece has the most context, by number: only there can it start an
                  answer
    """

    question: SquadQuestion
    question_ids: Sequence[int]
    text: Text
    parts: Sequence[range]
    nearest: np.ndarray
    start: int

    def span(self, logits: Sequence[np.ndarray]) -> tuple[int, int] | None:
        """The answer's first and last piece, from each part's logits, tokens × 2; None if there is none."""
        best, best_span = -np.inf, None
        for number, (part, part_logits) in enumerate(zip(self.parts, logits, strict=True)):
            offset = part.start - len(self.question_ids) - 2
            likely = np.argsort(-part_logits, axis=0, kind="stable")[:BEST]
            first, last = likely[:, 0, None] + offset, likely[None, :, 1] + offset
            scores = part_logits[likely[:, 0], 0][:, None] + part_logits[likely[:, 1], 1]
            fits = np.isin(first, np.flatnonzero(self.nearest == number)) & (last < part.stop)
            scores[~(fits & (first <= last) & (last < first + LONGEST))] = -np.inf
            row, column = np.unravel_index(scores.argmax(), scores.shape)
            if scores[row, column] > best:
                best, best_span = scores[row, column], (int(first[row, 0]), int(last[0, column]))
        return best_span


class Samples:
    """Every window of every question, as network input; `windows` has those of each question.

    length  tokens of a sample; MLPerf's is 384

    Raises OSError and ValueError, which name the file.
    """

    def __init__(self, directory: Path, length: int) -> None:
        for name in SQUAD_FILES:
            if not (directory / name).is_file():
                raise ValueError(
                    f"{directory / name}: is missing; expected {QUESTIONS} from SQuAD and {EXPECTED}"
                )
        from tokenizers import BertWordPieceTokenizer

        vocabulary = read_vocabulary(directory / VOCABULARY)
        self._length, self._cut = length, BertWordPieceTokenizer(vocabulary, lowercase=True)
        self._begin, self._end = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self.windows: list[Windows] = []
        self._of_sample: list[Windows] = []
        for paragraph in paragraphs(directory / QUESTIONS):
            text = self._text(paragraph.text)
            for question in paragraph.questions:
                windows = self._beside(question, text)
                self.windows.append(windows)
                self._of_sample += [windows] * len(windows.parts)

    def __len__(self) -> int:
        return len(self._of_sample)

    def _text(self, text: str) -> Text:
        tokens = [word for word in _BETWEEN_WORDS.split(text) if word]
        cut = self._cut.encode(tokens, is_pretokenized=True, add_special_tokens=False)
        return Text(tokens, cut.tokens, cut.ids, [word for word in cut.word_ids if word is not None])

    def _beside(self, question: SquadQuestion, text: Text) -> Windows:
        question_ids = self._cut.encode(question.wording, add_special_tokens=False).ids[:MOST_ASKED]
        room = self._length - len(question_ids) - 3  # [CLS], and [SEP] twice
        if room < 1:
            raise ValueError(
                f"samples of {self._length} tokens have no room for a text next to a question of "
                f"{len(question_ids)}; MLPerf's have 384"
            )
        parts = windows_of(len(text.ids), room)
        return Windows(question, question_ids, text, parts, nearest_of(parts, len(text.ids)), len(self))

    def read(self, index: int) -> Arrays:
        """A sample's ids, mask and types: `[CLS] question [SEP] text [SEP]`, padded with zeros."""
        windows = self._of_sample[index]
        part = windows.parts[index - windows.start]
        question_ids = [self._begin, *windows.question_ids, self._end]
        text = [*windows.text.ids[part.start : part.stop], self._end]
        ids, mask, types = np.zeros((3, self._length), dtype=np.int64)
        ids[: len(question_ids) + len(text)] = question_ids + text
        mask[: len(question_ids) + len(text)] = 1
        types[len(question_ids) : len(question_ids) + len(text)] = 1
        return ids, mask, types

    def score(self, answers: Sequence[bytes]) -> float:
        """Mean F1 over the questions, at most 1, from each sample's logits.

        Raises ValueError if an answer is not tokens × 2 finite logits.
        """
        logits = [self._logits(number, answer) for number, answer in enumerate(answers)]
        scores = []
        for windows in self.windows:
            span = windows.span(logits[windows.start : windows.start + len(windows.parts)])
            answer = windows.text.cut(*span) if span else NO_ANSWER
            scores.append(f1(answer, windows.question.answers))
        return float(np.mean(scores))

    def _logits(self, number: int, answer: bytes) -> np.ndarray:
        logits = np.frombuffer(answer, np.float32).astype(np.float64)
        if logits.size != 2 * self._length or not np.isfinite(logits).all():
            raise ValueError(
                f"the answer to sample {number} has {np.isfinite(logits).sum()} finite logits; expected "
                f"{2 * self._length}, two for each token"
            )
        return logits.reshape(-1, 2)


def questions(directory: Path, length: int) -> Data:
    """The questions of a directory with SQuAD's `dev-v1.1.json` and BERT's uncased `vocab.txt`.

    Raises OSError and ValueError, which name the file.
    """
    samples = Samples(directory, length)
    return Data(SPANS, len(samples), samples.read, samples.score)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Pieces and their IDs, one per line.

    Raises OSError, and ValueError if the file lacks a special token or has more pieces than the networks.
    """
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: can't be read as UTF-8: {error.reason}; expected {EXPECTED}") from error
    missing = [mark for mark in MARKS if mark not in lines]
    if missing:
        raise ValueError(f"{path}: has no {', '.join(missing)}; expected {EXPECTED}")
    if len(lines) > PIECES:
        raise ValueError(f"{path}: has {len(lines):,} pieces; expected {EXPECTED}")
    return {piece: number for number, piece in enumerate(lines)}


def windows_of(pieces: int, room: int) -> list[range]:
    """Parts of a text that fit, each one stride further; the last one ends with the text.

    >>> windows_of(300, 200)
    [range(0, 200), range(128, 300)]
    """
    step = min(room, STRIDE)
    starts = range(0, max(1, pieces - room + step), step)
    return [range(start, min(start + room, pieces)) for start in starts]


def nearest_of(parts: Sequence[range], pieces: int) -> np.ndarray:
    """The part in which each piece has the most context on its shorter side; ties: longest, then first.

    >>> nearest_of([range(0, 4), range(2, 6)], 6).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    piece = np.arange(pieces)
    around = [
        np.where(
            (part.start <= piece) & (piece < part.stop),
            np.minimum(piece - part.start, part.stop - 1 - piece) + 0.01 * len(part),
            -1.0,
        )
        for part in parts
    ]
    return np.argmax(around, axis=0)
