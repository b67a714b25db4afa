"""What LoadGen asks for: samples as arrays, the kind of answer to each, and how answers are scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Arrays = tuple[np.ndarray, ...]
CLASSES, BOXES, SPANS = "classes", "boxes", "spans of a text"  # kinds of answers


@dataclass(frozen=True)
class Data:
    """Samples in a fixed order.

    answer_kind what an answer is: classes, boxes, or spans of a text
    read        a sample's arrays by its index; a ValueError names its file
    score       score of the answers, at most 1: one for each sample, as in LoadGen's accuracy log
    categories  IDs that boxes can have; () for samples without boxes
    """

    answer_kind: str
    count: int
    read: Callable[[int], Arrays]
    score: Callable[[Sequence[bytes]], float]
    categories: tuple[int, ...] = ()
