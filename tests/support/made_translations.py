"""A small language pair in the layout of WMT's English-German data: numbers, four to six a line."""

from __future__ import annotations

import random
from pathlib import Path

TRAIN, NEWSTEST, VOCABULARY = "train.tok.clean.bpe.32000", "newstest2014", "vocab.bpe.32000"
ENGLISH = ("one", "two", "three", "four", "five", "six", "sev@@ en", "eight")
GERMAN = ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sie@@ ben", "acht")
PIECES = sorted({piece for word in (*ENGLISH, *GERMAN) for piece in word.split()})
ROWS = 24  # of the tables: 18 pieces and 4 marks, made a multiple of 8


def make_translations(directory: Path, train: int = 512, test: int = 32) -> None:
    """Pairs to train on and pairs to evaluate with."""
    chosen = random.Random(1)
    drawn = [[chosen.randrange(8) for _ in range(chosen.randint(4, 6))] for _ in range(train + test)]
    english, german = ([" ".join(words[n] for n in one) for one in drawn] for words in (ENGLISH, GERMAN))
    files = {
        VOCABULARY: PIECES,
        f"{TRAIN}.en": english[:train],
        f"{TRAIN}.de": german[:train],
        f"{NEWSTEST}.tok.bpe.32000.en": english[train:],
        f"{NEWSTEST}.de": [line.replace("@@ ", "") for line in german[train:]],
    }
    for name, lines in files.items():
        (directory / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def spoil_translations(directory: Path) -> str:
    """A piece that the vocabulary lacks, in one line of the target; gives where it stands."""
    path = directory / f"{TRAIN}.de"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[99] = "eins zwei drölf vier"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f"{path}:100: piece 'drölf' is not in {VOCABULARY}"
