"""What looks like a secret does not reach a run directory: it travels to other people inside reports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import StringIO
from itertools import pairwise
from typing import Any

REDACTED = "(redacted)"

# Words of a name, split at case and punctuation: `max_tokens` and `tokenizer` are no secrets, `HF_TOKEN` is.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    {"token", "secret", "password", "passwd", "passphrase", "pwd", "apikey", "cookie"}
    | {"credential", "credentials", "auth", "authorization"}
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("account", "key")}
)


def is_secret_name(name: str) -> bool:
    """Whether a variable or key of this name usually holds a secret.

    >>> [is_secret_name(n) for n in ("HF_TOKEN", "awsSecretAccessKey", "max_tokens", "tokenizer")]
    [True, True, False, False]
    """
    words = [word.lower() for word in _WORD.findall(name)]
    return not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words))


def redacted(value: Any) -> Any:
    """Plain data with the texts under secret-looking keys replaced, at any depth.

    A table under such a key is no secret itself: its own keys tell (`token_rate: {unit: tokens/s}`).
    In lists `NAME=value` and `--api-key value` too: arguments are a common way to pass one.
    """
    if isinstance(value, dict):
        return {k: _hidden(str(k), v) if is_secret_name(str(k)) else redacted(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_argument(item, before) for item, before in zip(value, [None, *value], strict=False)]
    return value


def _hidden(name: str, value: Any) -> Any:
    """Texts; numbers only where the name ends in the secret: `PASSWORD: 1234`, but not `token_count: 128`."""
    if isinstance(value, list | tuple):
        return [_hidden(name, item) for item in value]
    if isinstance(value, str):
        return REDACTED
    if isinstance(value, int | float) and not isinstance(value, bool):
        return REDACTED if is_secret_name(_WORD.findall(name)[-1]) else value
    return redacted(value)


def _argument(item: Any, before: Any) -> Any:
    if not isinstance(item, str):
        return redacted(item)
    name, equals, _ = item.partition("=")
    if equals and is_secret_name(name) and " " not in name:
        return f"{name}={REDACTED}"
    follows_option = isinstance(before, str) and before.startswith("-") and "=" not in before
    return REDACTED if follows_option and is_secret_name(before) and not item.startswith("-") else item


def secrets_in(value: Any) -> frozenset[str]:
    """The texts that `redacted` takes out, to take them out elsewhere too."""
    return frozenset(_taken(value, redacted(value)))


def _taken(value: Any, clean: Any) -> Iterator[str]:
    if isinstance(value, dict) and isinstance(clean, dict):
        for key, item in value.items():
            yield from _taken(item, clean[key])
    elif isinstance(value, list | tuple) and isinstance(clean, list):
        for item, shown in zip(value, clean, strict=True):
            yield from _taken(item, shown)
    elif isinstance(value, str) and value != clean:
        secret = value if clean == REDACTED else value.partition("=")[2]
        if secret:
            yield secret


def redacted_json(text: str) -> str:
    """A JSON file with its secrets replaced."""
    return json.dumps(redacted(json.loads(text)), ensure_ascii=False)


def redacted_yaml(text: str) -> str:
    """A YAML file as it was written; where it holds a secret, written anew with that value replaced."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    tree = yaml.load(text)
    if not _hide_in_place(tree, redacted(tree)):
        return text
    out = StringIO()
    yaml.dump(tree, out)
    return out.getvalue()


def _hide_in_place(node: Any, clean: Any) -> bool:
    """Put what `redacted` changed into the tree itself, which keeps comments; whether there was any."""
    if not isinstance(node, dict | list):
        return False
    places = list(node) if isinstance(node, dict) else range(len(node))
    hidden = False
    for place in places:
        if isinstance(node[place], dict | list):
            hidden |= _hide_in_place(node[place], clean[place])
        elif node[place] != clean[place]:
            node[place], hidden = clean[place], True
    return hidden
