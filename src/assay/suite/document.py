"""A YAML file as plain values that know their line.

YAML 1.2 through ruamel's composer: its nodes carry positions, and only plain values are ever created.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from assay import redact
from assay.errors import InputError, Problem
from assay.inputs import open_plain, unreadable

MAX_BYTES = 256 * 1024
MAX_JSON_BYTES = 64 * 2**20
MAX_DEPTH = 40
MAX_VALUES = 20_000  # after expanding aliases: ten short lines of anchors can stand for a billion values

Key = str | int
_TAG = "tag:yaml.org,2002:"
_NUMBER_BASES = {"0x": 16, "0o": 8, "0b": 2}


@dataclass(frozen=True)
class Document:
    """The content of a file.

    file      as the user named it; for generated content, its nominal name
    data      dicts, lists, str, int, float, bool and None; None if the file could not be read
    lines     path of keys and indices → line, counted from 1
    problems  what is wrong with it as YAML
    text      as it was read
    """

    file: str
    data: Any
    lines: Mapping[tuple[Key, ...], int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    text: str = field(default="", repr=False)

    def others(self, problems: Iterable[Problem]) -> list[Problem]:
        """The problems of lines that had none as YAML: a value that could not be read has no second one."""
        known = {problem.where for problem in self.problems}
        return [problem for problem in problems if problem.where not in known]

    def where(self, *path: Key) -> str:
        """`suite.yaml:12` for the value at `path`, or for the nearest enclosing value in the file."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return f"{self.file}:{self.lines[path[:end]]}"
        return f"{self.file}:1"


def read(path: Path) -> Document:
    """The file at `path`. Never raises: `problems` lists what is wrong.

    A `.json` file is written by a program: it may be far larger than a hand-written file, and has no line
    numbers. The secrets that it names are hidden from now on, including in messages about it.
    """
    document = _read(path)
    redact.learn(document.data)
    return document


def of_data(data: Mapping[str, Any], file: str) -> Document:
    """Generated content, as a document with this name; plain data only. It has no line numbers."""
    text = json.dumps(data, allow_nan=False)
    document = Document(file, json.loads(text), text=text)
    redact.learn(document.data)
    return document


def _read(path: Path) -> Document:
    try:
        if path.suffix == ".json":
            text = _text(path, MAX_JSON_BYTES)
            return Document(str(path), _json(text), text=text)
        text = _text(path)
        root = _compose(text)
        reader = _NodeReader(str(path))
        data = reader.value(root, ())
    except _UnusableError as error:
        where = str(path) if error.line is None else f"{path}:{error.line}"
        return Document(str(path), None, problems=(Problem(where, str(error)),))
    return Document(str(path), data, reader.lines, tuple(reader.problems), text)


class _UnusableError(Exception):
    """Why a file can't be used at all; `line` counts from 1, None if there is no line to name."""

    def __init__(self, line: int | None, what: str) -> None:
        super().__init__(what)
        self.line = line


def _text(path: Path, most_bytes: int = MAX_BYTES) -> str:
    try:
        with open_plain(path) as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        why = unreadable(path, error)
        raise (_UnusableError(None, why.problems[0].what) if isinstance(why, InputError) else why) from error
    except ValueError as error:  # a NUL in the name
        raise _UnusableError(None, f"can't be read: {error}") from error
    if len(data) > most_bytes:
        raise _UnusableError(None, f"is larger than {most_bytes // 1024} KiB, which no suite needs")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad_byte = f"byte 0x{data[error.start]:02x}"
        raise _UnusableError(line, f"is not UTF-8 text ({bad_byte}); save it as UTF-8") from error


def _json(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise _UnusableError(getattr(error, "lineno", None), f"is not JSON: {error}") from error


def _compose(text: str) -> Node:
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH
    yaml.composer.warn_double_anchors = False  # YAML 1.2 lets an anchor be redefined
    try:
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise _UnusableError(line, _syntax_error(error)) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _UnusableError(
            line, f"contains a character that YAML does not allow: {error.character!r}"
        ) from error
    except YAMLError as error:
        raise _UnusableError(None, f"is not YAML: {error}") from error
    except (ValueError, OverflowError) as error:  # ruamel's scanner, on "\UFFFFFFFF"
        raise _UnusableError(None, f"is not YAML: an escape does not name a character ({error})") from error
    if root is None:
        raise _UnusableError(1, "is empty")
    return root


def _syntax_error(error: MarkedYAMLError) -> str:
    message = f"is not YAML: {error.problem or error.context}"
    if error.context and error.problem:
        message += f" ({error.context})"
    if "'\\t'" in message:
        message += "; indent with spaces, not tabs"
    if "max_depth" in message:
        message = f"is nested deeper than {MAX_DEPTH} levels"
    return message


class _NodeReader:
    """Converts nodes to values, recording lines and problems."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[tuple[Key, ...], int] = {}
        self.problems: list[Problem] = []
        self._values = 0
        self._depth = 0

    def value(self, node: Node, path: tuple[Key, ...]) -> Any:
        """The plain value of the node at `path`."""
        line = node.start_mark.line + 1
        self._values += 1
        if self._values > MAX_VALUES:
            raise _UnusableError(line, f"has more than {MAX_VALUES} values once its aliases are expanded")
        if self._depth > MAX_DEPTH:
            raise _UnusableError(line, f"is nested deeper than {MAX_DEPTH} levels by its aliases")
        self.lines.setdefault(path, line)
        self._depth += 1
        result: Any
        if isinstance(node, MappingNode):
            result = self._mapping(node, path)
        elif isinstance(node, SequenceNode):
            result = [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        else:
            result = self._scalar(node)
        self._depth -= 1
        return result

    def _mapping(self, node: MappingNode, path: tuple[Key, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[Node] = []
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._problem(line, "a key must be a word, not a list or a mapping")
                continue
            if str(key_node.tag) == _TAG + "merge":
                merged.append(value_node)
                continue
            key = self._text(key_node)
            if key in first_lines:
                self._problem(line, f'"{key}" is written twice; the first is on line {first_lines[key]}')
                continue
            first_lines[key] = line
            self.lines[*path, key] = line
            result[key] = self.value(value_node, (*path, key))
        for source in merged:
            self._merge(source, path, result)
        return result

    def _merge(self, source: Node, path: tuple[Key, ...], result: dict[str, Any]) -> None:
        """`<<: *other`: what `other` has and this mapping does not define itself."""
        for node in source.value if isinstance(source, SequenceNode) else [source]:
            line = node.start_mark.line + 1
            if not isinstance(node, MappingNode):
                self._problem(line, "<< takes the alias of a mapping, such as <<: *common")
                continue
            inner = _NodeReader(self.file)
            inner._values, inner._depth = self._values, self._depth  # one budget for the whole file
            for key, value in inner.value(node, path).items():
                if key not in result:
                    result[key] = value
                    self.lines.update(_below((*path, key), inner.lines))
            self._values = inner._values
            self.problems += inner.problems

    def _scalar(self, node: Node) -> Any:
        tag, text = str(node.tag), self._text(node)
        kind = tag.removeprefix(_TAG)
        if kind in ("str", "timestamp"):  # none of our values is a date
            return text
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in ("int", "float"):
            number = _number(kind, text)
            if number is not None:
                return number
            self._problem(node.start_mark.line + 1, f"{text[:40]} is not a number that can be used here")
            return None
        self._problem(
            node.start_mark.line + 1, f"{text[:40]!r}: the tag {tag} is not supported here; remove it"
        )
        return None

    def _text(self, node: Node) -> str:
        text: str = node.value
        if "\0" not in text and text.isascii():
            return text
        try:  # JSON, which YAML includes, writes a character beyond 16 bits as a pair
            text = text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            self._problem(node.start_mark.line + 1, "the text contains a NUL or half of a character pair")
        return text.replace("\0", "?")

    def _problem(self, line: int, what: str) -> None:
        self.problems.append(Problem(f"{self.file}:{line}", what))


def _number(kind: str, text: str) -> int | float | None:
    """The number, or None if it is not one, not finite, or beyond 64 bits."""
    plain = text.replace("_", "").lower()
    try:
        if kind == "float":
            value = float(plain)
            return value if math.isfinite(value) else None
        sign, digits = (plain[0], plain[1:]) if plain[:1] in ("+", "-") else ("", plain)
        base = _NUMBER_BASES.get(digits[:2], 10)
        whole = int(sign + digits, base)
    except ValueError:
        return None
    return whole if abs(whole) < 2**63 else None


def _below(
    path: tuple[Key, ...], lines: Mapping[tuple[Key, ...], int]
) -> Iterator[tuple[tuple[Key, ...], int]]:
    """The entries of `lines` at and below `path`."""
    return ((key_path, line) for key_path, line in lines.items() if key_path[: len(path)] == path)
