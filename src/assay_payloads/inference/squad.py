"""SQuAD v1.1: questions about paragraphs of Wikipedia, with answers that people marked in the paragraph.

An answer's figure is F1 of its words. Source: Rajpurkar et al. 2016, and the data set's evaluate-v1.1.py.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
