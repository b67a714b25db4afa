"""Plain data without its secrets: parameters, environments, command lines, the user's two files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from assay.redact import known
from assay.redact.arguments import Argument, arguments, is_shell_line, words_of
from assay.redact.names import WORD, is_secret_name, is_setting
from assay.redact.shapes import REDACTED, hidden, named_in

_PLACEHOLDER = re.compile(r"<[^<>]*>|\$\{?\w+\}?|")
_REFERENCES = frozenset({"envFromSecret"})  # tables whose values say where secrets are


def redacted(value: Any) -> Any:
    """Plain data without its secrets: under secret-looking keys, among arguments, and by their shapes.

    A table under such a key is no secret itself: its own keys decide (`token_rate: {unit: tokens/s}`).
    """
    return parted(value)[0]


def secrets_in(value: Any) -> frozenset[str]:
    """The values that `redacted` takes out for certain and that are long enough to look for elsewhere."""
    return parted(value)[1]


def parted(value: Any) -> tuple[Any, frozenset[str]]:
    """What `redacted` and `secrets_in` give, in one pass."""
    found: list[str] = []
    clean = _clean(value, found)
    return clean, frozenset(filter(known.is_distinctive, found))


def _clean(value: Any, found: list[str]) -> Any:
    if isinstance(value, dict):
        pair = _pair(value)
        return {
            key: _under(pair[0] if pair and key == pair[1] else str(key), item, found)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return _items(value, found)
    if not isinstance(value, str):
        return value
    return _line(value, found) if is_shell_line(value) else _shaped(value, found)


def _pair(table: Mapping[Any, Any]) -> tuple[str, Any] | None:
    """The name in a `{name: DB_PASSWORD, value: …}`, and the key of its value."""
    keys = {key.lower(): key for key in table if isinstance(key, str)}
    name = table.get(keys.get("name", keys.get("key")))
    return (name, keys["value"]) if isinstance(name, str) and "value" in keys else None


def _under(name: str, value: Any, found: list[str]) -> Any:
    """What stands under a key. Numbers are secret only where the name ends so: not `token_count: 128`."""
    if name in _REFERENCES:
        return value
    if not is_secret_name(name):
        return _clean(value, found)
    if isinstance(value, list | tuple):
        return [_under(name, item, found) for item in value]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not is_secret_name(WORD.findall(name)[-1]):
        return value
    if isinstance(value, str) and is_setting(name, value):
        return value
    if (isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is None) or number:
        found.append(str(value))
        return REDACTED
    return _clean(value, found)


def _items(items: Sequence[Any], found: list[str]) -> list[Any]:
    """A list, whose texts are taken for the arguments of a program."""
    parts = iter(arguments([item for item in items if isinstance(item, str)]))
    return [
        _item(item, next(parts), found) if isinstance(item, str) else _clean(item, found) for item in items
    ]


def _item(item: str, part: Argument, found: list[str]) -> str:
    """An argument; one with spaces may be a shell's line, with arguments in it."""
    if part.secret or not any(map(str.isspace, item)):
        return _shown(part, found)
    return _line(item, found)


def _line(line: str, found: list[str]) -> str:
    """A shell's line, with the arguments of programs in it."""
    words = words_of(line)
    inner = iter(arguments([word for word in words if not word.isspace()]))
    return _shaped("".join(word if word.isspace() else _shown(next(inner), found) for word in words), found)


def _shown(part: Argument, found: list[str]) -> str:
    shown = _shaped(part.shown, found)
    if part.secret and part.sure:
        found.append(part.secret.strip("\"'"))
    return f"{shown}{REDACTED}" if part.secret else shown


def _shaped(value: str, found: list[str]) -> str:
    found += named_in(value)
    return hidden(_inner(value, found))


def _inner(value: str, found: list[str]) -> str:
    """JSON in a text, alone or after `--config=`, without its secrets."""
    start = re.match(r"[\w-]{0,80}=?'?(?=[{\[])", value)
    if start is None:
        return value
    try:
        data, end = json.JSONDecoder().raw_decode(value, start.end())
    except (ValueError, RecursionError):  # no JSON: its names and shapes decide
        return value
    clean = _clean(data, found)
    return value if clean == data else f"{start[0]}{json.dumps(clean, ensure_ascii=False)}{value[end:]}"


def redacted_json(text: str) -> str:
    """A JSON file with its secrets replaced."""
    return json.dumps(redacted(json.loads(text)), ensure_ascii=False)


def redacted_yaml(text: str) -> str:
    """A YAML file as it was written; where it holds a secret, written anew with that value replaced."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    tree = yaml.load(text)
    if _hide_in_place(tree, redacted(tree)):
        out = StringIO()
        yaml.dump(tree, out)
        text = out.getvalue()
    return known.text(text)  # comments, too


def _hide_in_place(node: Any, clean: Any) -> bool:
    """Put what `redacted` changed into the tree itself, which keeps comments; whether there was any."""
    if not isinstance(node, dict | list):
        return False
    places = list(node) if isinstance(node, dict) else range(len(node))
    changed = False
    for place in places:
        if isinstance(node[place], dict | list):
            changed |= _hide_in_place(node[place], clean[place])
        elif node[place] != clean[place]:
            node[place], changed = clean[place], True
    return changed
