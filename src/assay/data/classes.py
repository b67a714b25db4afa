"""The classes of a data set: which colour of a label image means what, and its column in a catalog."""

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

UNKNOWN = "unknown"  # pixels of colours that no class has
LARGEST_BYTES = 16 << 20
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True)
class Classes:
    """The classes in their order, and the class of each colour.

    names    as the data set spells them
    columns  the same as words of a query: `rd_normal_street`
    colours  colour, 0xRRGGBB or a grey value → place in `names`
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    colours: Mapping[int, int]

    def counted(self, pixels: Mapping[int, int]) -> tuple[list[int], int]:
        """Pixels per class in their order, and those of unknown colours; together all of the image."""
        found, unknown = [0] * len(self.names), 0
        for colour, count in pixels.items():
            place = self.colours.get(colour)
            if place is None:
                unknown += count
            else:
                found[place] += count
        return found, unknown


def class_list(place: DataPlace, name: str) -> Classes:
    """A2D2's `{"#ff0000": "Car 1", …}`: colours that differ only by the number are one class.

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
    for colour, class_ in pairs:
        if not _COLOUR.fullmatch(colour):
            problems.append(Problem(path, f"found the color {colour!r}; expected one like #ff0000"))
        if not isinstance(class_, str) or not class_.strip():
            problems.append(Problem(path, f"{colour}: found {class_!r}; expected the name of a class"))
    twice = [colour for colour, n in Counter(c.lower() for c, _ in pairs).items() if n > 1]
    problems += [Problem(path, f"{colour} is there twice; remove one") for colour in twice]
    if problems:
        raise InputError(problems)
    single = {int(colour[1:], 16): re.sub(r"\s+\d+$", "", class_.strip()) for colour, class_ in pairs}
    names = tuple(dict.fromkeys(single.values()))
    return Classes(names, words(names), {colour: names.index(name) for colour, name in single.items()})


def of_names(names: Sequence[str]) -> Classes:
    """Classes whose grey value is their place."""
    return Classes(tuple(names), words(names), {value: value for value in range(len(names))})


def words(names: Sequence[str]) -> tuple[str, ...]:
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
