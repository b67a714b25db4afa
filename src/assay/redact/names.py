"""Which variables and keys hold a secret, by their names alone."""

from __future__ import annotations

import re
from itertools import pairwise

# Words of a name, split at case and punctuation: `max_tokens` and `tokenizer` are no secrets, `HF_TOKEN` is.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    {"token", "secret", "password", "passwd", "passphrase", "pwd", "apikey", "cookie", "sshpass"}
    | {"credential", "credentials", "auth", "authorization"}
)
_SECRET_ENDS = ("password", "passwd", "apikey")  # PGPASSWORD is one word
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("account", "key")}
    | {(of, "pass") for of in ("db", "user", "smtp", "mysql", "pg", "redis", "proxy", "root", "admin")}
)
# `token` in a language model, and Assay's own name of a job
_PLAIN_TOKENS = frozenset(
    {"eos", "bos", "pad", "unk", "mask", "sep", "cls", "stop", "start", "end", "special", "image"}
    | {"first", "next", "last", "per", "input", "output", "assay"}
)
# A name that ends so says where a secret is, or how it is used: `secretName`, `TOKEN_FILE`, `auth_mode`.
_ABOUT_A_SECRET = frozenset(
    {"name", "path", "file", "dir", "directory", "ref", "env", "mode", "type", "kind", "method", "provider"}
    | {"count", "length", "limit", "size", "budget", "rate", "url", "endpoint"}
)


def is_secret_name(name: str) -> bool:
    """Whether a variable or key of this name usually holds a secret.

    >>> [is_secret_name(n) for n in ("HF_TOKEN", "awsSecretAccessKey", "max_tokens", "secretName")]
    [True, True, False, False]
    """
    words = [word.lower() for word in WORD.findall(name)]
    if not words or words[-1] in _ABOUT_A_SECRET:
        return False
    secret = {
        word
        for before, word in pairwise(["", *words])
        if (word in _SECRET_WORDS or word.endswith(_SECRET_ENDS))
        and not (word == "token" and before in _PLAIN_TOKENS)
    }
    return bool(secret) or not _SECRET_PAIRS.isdisjoint(pairwise(words))
