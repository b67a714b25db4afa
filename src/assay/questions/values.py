"""How values on the command line are read, for the fields of questions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated

from assay.questions.question import Reads
from assay.units import seconds, size

Location = str | PathLike[str]


def texts(arguments: Sequence[str]) -> dict[str, str]:
    """Values as they were typed, by name, of many NAME=VALUE. Raises ValueError for another text."""
    values_by_name: dict[str, str] = {}
    for text in arguments:
        name, mark, value = (part.strip() for part in text.partition("="))
        if not mark or not name:
            raise ValueError(f"{text!r} is not NAME=VALUE")
        if name in values_by_name:
            raise ValueError(f"{name} is given twice")
        values_by_name[name] = value
    return values_by_name


def values(arguments: Sequence[str]) -> dict[str, object]:
    """The same, with values as JSON, or as the text that they are: `batch_size=2`, `camera=cam_side_left`."""
    return {name: _value(text) for name, text in texts(arguments).items()}


def variables(arguments: Sequence[str]) -> dict[str, str]:
    """Variables of an environment, whose values keep every blank, from NAME=VALUE. Raises ValueError."""
    values_by_name: dict[str, str] = {}
    for text in arguments:
        name, mark, value = text.partition("=")
        if not mark or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{text!r} is not NAME=VALUE, like OMP_NUM_THREADS=1")
        if name in values_by_name:
            raise ValueError(f"{name} is given twice")
        values_by_name[name] = value
    return values_by_name


def within(low: float, high: float) -> Reads:
    """Reads a number from low to high: a whole one if these are."""

    def read(text: str) -> float:
        try:
            number = type(low)(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise ValueError(f"{text} is not between {low} and {high}")
        return number

    return Reads(read, f"{low}..{high}")


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_constant=lambda constant: constant)
    except (ValueError, RecursionError):
        return text


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text} is not a whole number")
    return int(text)


def duration(text: str) -> float:
    """Seconds of a time such as 90min. Raises ValueError unless it is above 0."""
    time_s = seconds(text)
    if not time_s > 0:
        raise ValueError(f"{text}: expected a time above 0, such as 10s")
    return time_s


def _size(text: str) -> int:
    size_bytes = size(text)
    if size_bytes < 1:
        raise ValueError(f"{text!r} is not more than 0; write it like 200GB")
    return int(size_bytes)


def _object_name(text: str) -> str:
    if text and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
        raise ValueError(f"{text!r} is no name of an object: lowercase letters, digits and -, at most 63")
    return text


def _file(text: Location) -> Path:
    if Path(text).is_dir():
        raise ValueError(f"{text} is a directory; expected a file")
    return Path(text)


def _present(text: str) -> Path:
    if not Path(text).exists():
        raise ValueError(f"{text} does not exist")
    return Path(text)


def present_file(text: str) -> Path:
    """A file that exists. Raises ValueError if it doesn't, or is a directory."""
    return _file(_present(text))


def _folder(text: Location) -> Path:
    if Path(text).is_file():
        raise ValueError(f"{text} is a file; expected a directory")
    return Path(text)


File = Annotated[Location, Reads(_file, "FILE")]
PresentPath = Annotated[Location, Reads(_present, "PATH")]
PresentFolder = Annotated[Location, Reads(lambda text: _folder(_present(text)), "DIRECTORY")]
PresentFile = Annotated[Location, Reads(present_file, "FILE")]
Folder = Annotated[Location, Reads(_folder, "DIRECTORY")]
Seed = Annotated[int, Reads(_seed, "INTEGER")]
Duration = Annotated[str | float, Reads(duration, "TIME")]
Seconds = Annotated[float, Reads(duration, "TIME")]
Size = Annotated[int, Reads(_size, "SIZE")]
ObjectName = Annotated[str, Reads(_object_name, "TEXT")]
Texts = Annotated[Mapping[str, str], Reads(texts, "NAME=VALUE", several=True)]
Variables = Annotated[Mapping[str, str], Reads(variables, "NAME=VALUE", several=True)]
Values = Annotated[Mapping[str, object], Reads(values, "NAME=VALUE", several=True)]
