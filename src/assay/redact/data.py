"""Removes secrets from plain data: parameters, environments, command lines, the user's two files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO
from typing import Any

from assay.redact import known_secrets
from assay.redact.commands import Argument, arguments, is_shell_line, words_of
from assay.redact.names import WORD, is_secret_name, is_setting
from assay.redact.shapes import MARK, Mark, hidden, named_in, plain

_PLACEHOLDER = re.compile(rf"<[^<>]*>|\$\{{?\w+\}}?|{MARK.pattern}|")
_SHORT = 200  # longest text whose answer is cached, in characters
_REFERENCES = frozenset({"envFromSecret"})  # tables whose values say where secrets are


@dataclass
class _Hiding:
    """One pass over some data.

    mark     what replaces a secret
    secrets  values that are certainly secrets
    """

    mark: Mark = plain
    secrets: list[str] = field(default_factory=list)

    def hide(self, secret: str, *, sure: bool = True) -> str:
        """Its replacement; a mark is unchanged."""
        if MARK.fullmatch(secret):
            return secret
        if sure:
            self.secrets.append(secret)
        return self.mark(secret)


def redacted(value: Any, mark: Mark = plain) -> Any:
    """Plain data without its secrets: those under secret-looking keys, among arguments, and by shape.

    A table under such a key is not a secret itself: its own keys decide (`token_rate: {unit: tokens/s}`).
    """
    return parted(value, mark)[0]


def secrets_in(value: Any) -> frozenset[str]:
    """The values that `redacted` certainly removes and that are long enough to search for elsewhere."""
    return parted(value)[1]


def parted(value: Any, mark: Mark = plain) -> tuple[Any, frozenset[str]]:
    """The results of `redacted` and `secrets_in`, in one pass."""
    hiding = _Hiding(mark)
    clean = _clean(value, hiding)
    return clean, frozenset(filter(known_secrets.is_distinctive, hiding.secrets))


def _clean(value: Any, hiding: _Hiding) -> Any:
    if isinstance(value, dict):
        pair = _pair(value)
        return {
            key: _under(pair[0] if pair and key == pair[1] else str(key), item, hiding)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return _items(value, hiding)
    if not isinstance(value, str) or (len(value) <= _SHORT and _is_harmless(value)):
        return value
    return _line(value, hiding) if is_shell_line(value) else _shaped(value, hiding)


@lru_cache(maxsize=4096)
def _is_harmless(text: str) -> bool:
    """Whether a text by itself contains no secret; most facts of a node are the same before every trial."""
    return not is_shell_line(text) and _has_no_shape(text)


@lru_cache(maxsize=4096)
def _has_no_shape(text: str) -> bool:
    """Whether nothing in a text is a secret by its shape; most arguments are the same in every trial."""
    hiding = _Hiding()
    return _without_shapes(text, hiding) == text and not hiding.secrets


def _pair(table: Mapping[Any, Any]) -> tuple[str, Any] | None:
    """The name in a `{name: DB_PASSWORD, value: …}`, and the key of its value."""
    keys = {key.lower(): key for key in table if isinstance(key, str)}
    name = table.get(keys.get("name", keys.get("key")))
    return (name, keys["value"]) if isinstance(name, str) and "value" in keys else None


def _under(name: str, value: Any, hiding: _Hiding) -> Any:
    """The value of a key. Numbers are secret only if the name ends that way: not `token_count: 128`."""
    if name in _REFERENCES:
        return value
    if not is_secret_name(name):
        return _clean(value, hiding)
    if isinstance(value, list | tuple):
        return [_under(name, item, hiding) for item in value]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not is_secret_name(WORD.findall(name)[-1]):
        return value
    if isinstance(value, str) and is_setting(name, value):
        return value
    if (isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is None) or number:
        return hiding.hide(str(value))
    return _clean(value, hiding)


def _items(items: Sequence[Any], hiding: _Hiding) -> list[Any]:
    """A list, whose strings are treated as a program's arguments."""
    parts = iter(arguments([item for item in items if isinstance(item, str)]))
    return [
        _item(item, next(parts), hiding) if isinstance(item, str) else _clean(item, hiding) for item in items
    ]


def _item(item: str, part: Argument, hiding: _Hiding) -> str:
    """An argument; one with spaces may be a shell line with arguments in it."""
    if part.secret or not any(map(str.isspace, item)):
        return _shown(part, hiding)
    return _line(item, hiding)


def _line(line: str, hiding: _Hiding) -> str:
    """A shell line, with programs' arguments in it."""
    tokens = words_of(line)
    inner = iter(arguments([word for word in tokens if not word.isspace()]))
    return _shaped(
        "".join(word if word.isspace() else _shown(next(inner), hiding) for word in tokens), hiding
    )


def _shown(part: Argument, hiding: _Hiding) -> str:
    shown = _shaped(part.shown, hiding)
    secret = part.secret.strip("\"'")
    return f"{shown}{hiding.hide(secret, sure=part.sure)}" if part.secret else shown


def _shaped(value: str, hiding: _Hiding) -> str:
    return value if len(value) <= _SHORT and _has_no_shape(value) else _without_shapes(value, hiding)


def _without_shapes(value: str, hiding: _Hiding) -> str:
    hiding.secrets += named_in(value)
    return hidden(_inner(value, hiding), hiding.mark)


def _inner(value: str, hiding: _Hiding) -> str:
    """JSON in a text, alone or after `--config=`, without its secrets."""
    start = re.match(r"[\w-]{0,80}=?'?(?=[{\[])", value)
    if start is None:
        return value
    try:
        data, end = json.JSONDecoder().raw_decode(value, start.end())
    except (ValueError, RecursionError):  # not JSON: names and shapes decide
        return value
    clean = _clean(data, hiding)
    return value if clean == data else f"{start[0]}{json.dumps(clean, ensure_ascii=False)}{value[end:]}"


def redacted_json(text: str) -> str:
    """A JSON file with its secrets replaced."""
    return json.dumps(redacted(json.loads(text)), ensure_ascii=False)


def redacted_yaml(text: str) -> str:
    """A YAML file, unchanged; if it contains a secret, rewritten with that value replaced."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    tree = yaml.load(text)
    if _hide_in_place(tree, redacted(tree)):
        out = StringIO()
        yaml.dump(tree, out)
        text = out.getvalue()
    return known_secrets.text(text)  # comments, too


def _hide_in_place(node: Any, clean: Any) -> bool:
    """Apply the changes of `redacted` to the tree, keeping comments; returns whether there were any."""
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
