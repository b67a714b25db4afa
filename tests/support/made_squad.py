"""Questions in SQuAD's layout that a small network learns in seconds: who, where or when, told once."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FILLING = ("they", "met", "and", "spoke", "of", "many", "things", "for", "hours", "before", "it", "rained")
# Question → what may be answered, as texts have it
TOLD = {
    "Who was there?": ("Ada Berg", "Zoë Lund", "Max Holm"),
    "Where was it?": ("the Old Harbour", "the New Bridge", "the High Tower"),
    "When was it?": ("1066", "1492", "1789"),
}
WORDS = (
    "ada berg zoe lund max holm the old new high harbour bridge tower 1066 1492 1789 who was there where when"
)
PIECES = (*MARKS, *"?.,()'", *FILLING, *WORDS.split())


def question(asked: str, context: str, *answers: str, at: int | None = None) -> dict[str, Any]:
    """An entry of `qas`; the answers lie where the context has them first, unless it is said where."""
    found = [{"text": one, "answer_start": context.index(one) if at is None else at} for one in answers]
    return {"id": f"{asked} {context[:40]}", "question": asked, "answers": found}


def document(paragraphs: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> dict[str, Any]:
    """The whole file, from contexts and their questions."""
    entries = [{"context": context, "qas": list(qas)} for context, qas in paragraphs]
    return {"version": "1.1", "data": [{"title": "made", "paragraphs": entries}]}


def write(directory: Path, content: Any, pieces: Sequence[str] = PIECES) -> Path:
    """A directory as `data` takes it; gives it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "dev-v1.1.json").write_text(json.dumps(content), encoding="utf-8")
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return directory


def make(directory: Path, *, paragraphs: int, seed: int) -> Path:
    """Paragraphs of 20 to 90 words, each with a question and its answer; gives the directory."""
    chance = random.Random(seed)
    found = []
    for _ in range(paragraphs):
        asked = chance.choice(list(TOLD))
        answer = chance.choice(TOLD[asked])
        text = chance.choices(FILLING, k=chance.randint(20, 90))
        text[chance.randrange(len(text))] = chance.choice(("{}", "({}),", "{}.")).format(answer)
        context = " ".join(text)
        found.append((context, [question(asked, context, answer.removeprefix("the "), answer)]))
    return write(directory, document(found))
