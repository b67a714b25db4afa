"""The classes of a data set: which color of a label image means what, and its column in a catalog."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import InputError, Problem
from assay_payloads.datasets.frame_files import CITYSCAPES as CITYSCAPES
from assay_payloads.datasets.places import DataPlace

UNKNOWN = "unknown"  # pixels of colors that no class has
LARGEST_BYTES = 16 << 20
MOST_CLASSES = 4000  # each is a column of the catalog
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True)
class Classes:
    """The classes in their order, and the class of each color.

    names    as the data set spells them
    columns  the same as words of a query: `rd_normal_street`
    colors  color, 0xRRGGBB or a gray value → place in `names`
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    colors: Mapping[int, int]

    def counted(self, pixels: Mapping[int, int]) -> tuple[list[int], int]:
        """Pixels per class in their order, and those of unknown colors; together all of the image."""
        counts, unknown = [0] * len(self.names), 0
        for color, count in pixels.items():
            place = self.colors.get(color)
            if place is None:
                unknown += count
            else:
                counts[place] += count
        return counts, unknown


def class_list(place: DataPlace, name: str) -> Classes:
    """A2D2's `{"#ff0000": "Car 1", …}`: colors that differ only by the number are one class.

    Raises InputError with everything that is wrong with the file.
    """
    problems: list[Problem] = []
    path = f"{place.address}/{name}"
    try:
        listed = json.loads(place.read(name, 0, LARGEST_BYTES), object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise InputError([Problem(path, f"is not JSON: {error}")]) from None
    if not isinstance(listed, list) or not listed or not all(isinstance(p, tuple) for p in listed):
        raise InputError([Problem(path, 'found no table; expected {"#ff0000": "Car 1", …}')])
    pairs: list[tuple[str, Any]] = listed
    for color, class_ in pairs:
        if not _COLOR.fullmatch(color):
            problems.append(Problem(path, f"found the color {color!r}; expected one like #ff0000"))
        if not isinstance(class_, str) or not class_.strip():
            problems.append(Problem(path, f"{color}: found {class_!r}; expected the name of a class"))
    twice = [color for color, n in Counter(c.lower() for c, _ in pairs).items() if n > 1]
    problems += [Problem(path, f"{color} is there twice; remove one") for color in twice]
    if problems:
        raise InputError(problems)
    single = {int(color[1:], 16): re.sub(r"\s+\d+$", "", class_.strip()) for color, class_ in pairs}
    names = tuple(dict.fromkeys(single.values()))
    if len(names) > MOST_CLASSES:
        raise InputError([Problem(path, f"has {len(names):,} classes; expected at most {MOST_CLASSES:,}")])
    return Classes(names, query_words(names), {color: names.index(name) for color, name in single.items()})


def of_names(names: Sequence[str]) -> Classes:
    """Classes whose gray value is their place."""
    return Classes(tuple(names), query_words(names), {value: value for value in range(len(names))})


def query_words(names: Sequence[str]) -> tuple[str, ...]:
    """A word of a query per name, each once."""
    taken: dict[str, None] = {}
    for name in names:
        word = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "class"
        word = f"class_{word}" if word[0].isdigit() else word
        number, chosen = 2, word
        while chosen in taken or chosen in RESERVED:
            chosen, number = f"{word}_{number}", number + 1
        taken[chosen] = None
    return tuple(taken)


RESERVED = frozenset(
    {
        *("label", "image", "scene", "camera", "taken_us", "width", "height", "pixels", UNKNOWN),
        *("objects", "overlaps"),
        *(
            "label_bytes",
            "image_bytes",
            "changed_ns",
            "and",
            "or",
            "not",
            "in",
            "is",
            "null",
            "true",
            "false",
        ),
    }
)
