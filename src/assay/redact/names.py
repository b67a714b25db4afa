"""Which variables and keys hold a secret, judging by their names."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

# Words of a name, split at case and punctuation: `max_tokens` and `tokenizer` aren't secrets, `HF_TOKEN` is.
WORD = re.compile(r"[sS]3|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    {"token", "secret", "password", "passwd", "passphrase", "pwd", "apikey", "cookie", "sshpass"}
    | {
        "bearer",
        "creds",
        "userpass",
        "pw",
        "otp",
        "bindpw",
        "storepass",
        "keypass",
        "requirepass",
        "masterauth",
    }
    | {"credential", "credentials", "auth", "authorization"}
)
# PGPASSWORD and s3sessiontoken are one word each
_SECRET_ENDS = (
    "password",
    "passwd",
    "apikey",
    "secretkey",
    "accesskey",
    "sessiontoken",
    "authtoken",
    "accesstoken",
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("account", "key")}
    | {(word, "key") for word in ("license", "licence", "encryption", "signing", "s3", "customer", "storage")}
    | {(word, "pass") for word in ("db", "user", "smtp", "mysql", "pg", "redis", "proxy", "root", "admin")}
    | {
        (word, "pass")
        for word in ("http", "https", "ftp", "ssh", "ldap", "bind", "kafka", "mqtt", "ipmi", "bmc", "s3")
    }
)
# `token` in a language model, and Assay's ID of a job
_PLAIN_TOKENS = frozenset(
    {"eos", "bos", "pad", "unk", "mask", "sep", "cls", "stop", "start", "end", "special", "image"}
    | {"first", "next", "last", "per", "input", "output", "assay"}
    | {"max", "min", "num"}
)
# A name with this ending says where a secret is, or how it is used: `secretName`, `TOKEN_FILE`, `auth_mode`.
_ABOUT_A_SECRET = frozenset(
    {"name", "path", "file", "dir", "directory", "ref", "env", "mode", "type", "kind", "method", "provider"}
    | {"count", "length", "limit", "size", "budget", "rate", "url", "endpoint"}
)
# Libraries whose variables are settings: `NCCL_TOKEN_RING` is a secret only if its last word is one.
_LIBRARIES = frozenset(
    {"nccl", "rccl", "gloo", "ucx", "ucc", "ompi", "omp", "kmp", "mkl", "cuda", "cudnn", "cublas"}
    | {"torch", "pytorch", "triton", "xla", "tf", "jax", "hip", "rocr", "hsa", "nvshmem", "nvte", "vllm"}
)
_SWITCH = re.compile(r"[01]|(?i:true|false|yes|no|on|off|none|null)")
# Where a secret name may be in a text, in lowercase: each contains one of these.
KEYWORDS = ("token", "secret", "pass", "pwd", "pw", "otp", "key", "cookie", "cred", "auth", "bearer")


def is_setting(name: str, value: str) -> bool:
    """Whether the value of a secret-looking name is a switch, or a number for a name that isn't a secret's.

    >>> [is_setting(*pair) for pair in (("USE_AUTH", "1"), ("TOKEN_RINGS", "16"), ("PASSWORD", "1234"))]
    [True, True, False]
    """
    last = WORD.findall(name)[-1]
    if _SWITCH.fullmatch(value):
        return "pass" not in last.lower()
    return re.fullmatch(r"[\d.]+", value) is not None and not is_secret_name(last)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable or key with this name usually holds a secret.

    >>> [is_secret_name(n) for n in ("HF_TOKEN", "awsSecretAccessKey", "max_tokens", "secretName")]
    [True, True, False, False]
    """
    parts = [word.lower() for word in WORD.findall(name)]
    if not parts or parts[-1] in _ABOUT_A_SECRET:
        return False
    if parts[0] in _LIBRARIES and parts[-1] not in _SECRET_WORDS and parts[-1] != "key":
        return False
    secret = {
        word
        for before, word in pairwise(["", *parts])
        if (word in _SECRET_WORDS or word.endswith(_SECRET_ENDS))
        and not (word == "token" and before in _PLAIN_TOKENS)
    }
    if parts == ["pass"]:
        return re.match(r"-[a-z]", name) is None  # `-pass` is openssl's, which says where the secret is
    return bool(secret) or not _SECRET_PAIRS.isdisjoint(pairwise(parts))
