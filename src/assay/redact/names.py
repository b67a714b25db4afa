"""Which variables and keys hold a secret, judging by their names."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
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
_LONGEST_NAME = 80
_NAME = re.compile(r"[\w.-]{1,80}")
_NAME_CHARACTERS = f"{string.ascii_letters}{string.digits}_.-"
_QUOTE = r"(?P<quote>\\{0,3}[\"'])"
_BARE = r"[^\s\"'`&,;<>\\|]{1,500}"
_VALUE = rf"(?:{_QUOTE}(?P<quoted>[^\"'\n\\]{{1,500}})|(?P<bare>{_BARE}))"
# what may be between a name and its value: `=`, ` = `, `: `, the end of a quoted name, `, value: `, and after
# `--name` a space
_BETWEEN = re.compile(
    rf"(?P<name_quote>\\{{0,3}}[\"'])?(?:(?P<pair>,?(?:\s|\\n){{1,40}}\\{{0,3}}[\"']?value\\{{0,3}}[\"']?:\s{{1,9}})"
    rf"|(?P<argument>,?[ \t]{{1,3}})(?=[^-=:])|\s{{0,3}}(?P<sign>[=:])(?P<space>\s{{0,3}})){_VALUE}"
)
_PAIRED = re.compile(r"(?i:\b(?:name|key)\\{0,3}[\"']?:\s{1,9}\\{0,3}[\"']?)\Z")
_SIGNATURES = frozenset({"sig", "signature", "x-amz-signature", "x-goog-signature"})
_WORDS = tuple(word.encode() for word in (*KEYWORDS, "sig=", "signature="))
# a placeholder, a call, an expression, or something hidden before
_NO_VALUE = re.compile(
    r"[$<{(%\[*].*|os\..*|\w*getenv.*|\(redacted\).*|[\w.]+[(\[].*|(?i:none|null|true|false|yes|no|on|off)"
)
_NUMBER = re.compile(r"[\d.,+-]+(?:[eE][+-]?\d+)?(?:[munkMG]?s|[kKMGT]?i?B(?:/s)?|%|x|(?:it)?/s)?")
_ONE_WORD = re.compile(r"(?i:token|auth|authorization|cookie|credentials?|creds|bearer)")  # as used in prose
_WORD = re.compile(r"[A-Za-z_./-]+")


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


def assigned(text: str, lower: bytes) -> Iterator[tuple[int, int]]:
    """Where each value is. `lower` is the text in lowercase, one byte per character."""
    seen = 0
    for position in sorted(_places(lower)):
        if position < seen:
            continue
        before = text[max(position - _LONGEST_NAME, seen) : position]
        begin = position - len(before) + len(before.rstrip(_NAME_CHARACTERS))
        name = _NAME.match(text, begin)
        if name is None:
            continue
        seen = name.end()
        match = _BETWEEN.match(text, seen)
        if match is not None and (span := _value(text, begin, name[0], match)) is not None:
            yield span
            seen = span[1]


def _places(lower: bytes) -> Iterator[int]:
    for word in _WORDS:
        position = lower.find(word)
        while position >= 0:
            yield position
            position = lower.find(word, position + len(word))


def _value(text: str, begin: int, name: str, match: re.Match[str]) -> tuple[int, int] | None:
    preceding = text[begin - 1] if begin else ""
    in_query = preceding in ("?", "&", ";") and match["sign"] == "="
    if preceding == "/" and match["sign"] == ":":  # a label: assay.dev/token
        return None
    if not is_secret_name(name) and not (in_query and name.lower() in _SIGNATURES):
        return None
    if match["argument"] and not name.startswith("-"):
        return None
    if match["pair"] and _PAIRED.search(text[max(begin - 20, 0) : begin]) is None:
        return None
    group = "quoted" if match["quoted"] else "bare"
    value = match[group].rstrip(")]}" if group == "bare" else "")
    if not _is_secret(name.upper() if in_query else name, value, match):
        return None
    return match.start(group), match.start(group) + len(value)


def _is_secret(name: str, value: str, match: re.Match[str]) -> bool:
    """Whether the value is a secret: not a number, a placeholder, or, in running text, a word."""
    if len(value) < 4 or _NO_VALUE.fullmatch(value) or is_setting(name, value):
        return False
    if match["sign"] == ":" and "\n" in match["space"] and value.endswith(":"):
        return False  # YAML's next key: `pushSecret:` and below it `name: …`
    if match["argument"]:  # usage names the value: `--password PASSWORD`
        return not _WORD.fullmatch(value) and not _NUMBER.fullmatch(value)
    if match["pair"] or (match["sign"] == "=" and not match["space"] and name.isupper()):
        return True
    if match["name_quote"] and match["quoted"]:
        # Assay's own records call a job's ID `"token": "…"`
        return not (name == "token" and match["name_quote"].endswith('"')) and not _NUMBER.fullmatch(value)
    if _NUMBER.fullmatch(value):
        return False
    if not _WORD.fullmatch(value):
        return match["sign"] == "=" or (
            bool(match["space"]) and (len(value) >= 16 or not _ONE_WORD.fullmatch(name))
        )
    # `password=swordfish` is one; `password=db_password`, `token=word` and `password: wrong` are not
    return (
        match["sign"] == "=" and not match["space"] and "pass" in name.lower() and not is_secret_name(value)
    )
