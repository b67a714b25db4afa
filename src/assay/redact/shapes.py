"""Secrets that are known by their public shape, wherever they are in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.redact.names import is_secret_name

REDACTED = "(redacted)"

# What can't be before or after a token: else a piece of a digest, of base64 or of a longer word is one.
_START, _END = r"(?<![A-Za-z0-9+/_-])", r"(?![A-Za-z0-9+/_-])"
_PEM = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"

# Each with a part that every match has: only a text that holds one of these is searched.
_TOKENS: tuple[tuple[str, str], ...] = (
    ("hf_", r"hf_[A-Za-z0-9]{20,}"),
    ("api_org_", r"api_org_[A-Za-z0-9]{20,}"),
    ("gh", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    ("gl", r"gl(?:pat|dt|rt|ptt|cbt|ft|soat)-[A-Za-z0-9_-]{16,}"),
    ("A", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    ("AIza", r"AIza[A-Za-z0-9_-]{35}"),
    ("ya29.", r"ya29\.[A-Za-z0-9_-]{20,}"),
    ("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    ("xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("xapp-", r"xapp-[A-Za-z0-9-]{10,}"),
    ("npm_", r"npm_[A-Za-z0-9]{30,}"),
    ("pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{16,}"),
    ("sk-", r"sk-(?=[A-Za-z0-9_-]*[0-9])(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9_-]{20,}"),
    ("k_live_", r"[rs]k_live_[A-Za-z0-9]{16,}"),
    ("nvapi-", r"nvapi-[A-Za-z0-9_-]{20,}"),
    ("dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,}"),
    ("sha256~", r"sha256~[A-Za-z0-9_-]{43}"),  # of OpenShift; a digest has a colon there
    ("hvs.", r"hvs\.[A-Za-z0-9_-]{20,}"),
    ("eyJ", r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){2,4}"),  # a JSON web token
)
_ANY_TOKEN = re.compile(f"{_START}(?:{'|'.join(shape for _, shape in _TOKENS)}){_END}")

# What comes before a secret stays: the group `keep`.
_IN_CONTEXT: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (part, re.compile(shape))
    for part, shape in (
        (
            "PRIVATE KEY",
            rf"(?P<keep>-----BEGIN {_PEM})(?:[^\"]{{0,20000}}?-----END {_PEM}|[A-Za-z0-9+/=\\\s]*)",
        ),
        # a password in a URL, with @ and / in it too; what begins like a port is none
        (
            "://",
            r"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@\"'<>\\]*:)(?![{$<]|\d+(?:[/?#]|$))[^\s\"'<>\\]+(?=@)",
        ),
        ("earer", r"(?P<keep>\b[Bb]earer[ \t]+)(?=[^\s\"']*\d)[A-Za-z0-9._~+/-]{12,}=*"),
        ("BEARER", r"(?P<keep>\bBEARER[ \t]+)(?=[^\s\"']*\d)[A-Za-z0-9._~+/-]{12,}=*"),
        ("uthorization:", r"(?P<keep>\b[Aa]uthorization:\s*[A-Za-z]+[ \t]+)(?![{$<])[^\s\"'\\]{6,}"),
        ("AccountKey=", r"(?P<keep>\bAccountKey=)[A-Za-z0-9+/]{20,}={0,2}"),
        ("SharedAccessKey=", r"(?P<keep>\bSharedAccessKey=)[A-Za-z0-9+/]{20,}={0,2}"),
        ("sig=", r"(?P<keep>[?&;]sig=)[A-Za-z0-9%+/_-]{20,}={0,2}"),
        ("hooks.slack.com/", r"(?P<keep>hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}"),
        (
            "key",
            r"(?P<keep>(?i:aws_?secret_?access_?key)[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
        ),
        (
            "KEY",
            r"(?P<keep>(?i:aws_?secret_?access_?key)[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
        ),
        (
            "Key",
            r"(?P<keep>(?i:aws_?secret_?access_?key)[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
        ),
    )
)
# `HF_TOKEN=…` as a shell prints it, `&token=…` in a URL: their names decide
_ASSIGNED = re.compile(
    r"(?P<keep>(?:\b(?P<name>[A-Z][A-Z0-9_]{2,})|[?&](?P<query>[\w.-]+))=)(?P<value>[^\s\"'`&,;<>(){}$\\|]{4,})"
)
_PARTS = re.compile("|".join(map(re.escape, dict.fromkeys(part for part, _ in (*_TOKENS, *_IN_CONTEXT)))))


def hidden(text: str) -> str:
    """The text with each secret of a known shape replaced; digests, commits and numbers stay.

    >>> hidden("postgres://me:hunter2@db/x sha256:9f86d081884c7d65")
    'postgres://me:(redacted)@db/x sha256:9f86d081884c7d65'
    """
    if _PARTS.search(text):
        text = _ANY_TOKEN.sub(REDACTED, text)
        for part, shape in _IN_CONTEXT:
            if part in text:
                text = shape.sub(rf"\g<keep>{REDACTED}", text)
    return _ASSIGNED.sub(_assigned, text) if "=" in text else text


def _assigned(match: re.Match[str]) -> str:
    named = is_secret_name(match["name"] or match["query"])
    return f"{match['keep']}{REDACTED}" if named else match[0]


def passwords_in_urls(text: str) -> Iterator[str]:
    """The passwords alone: other texts may have them without their URL."""
    shape = dict(_IN_CONTEXT)["://"]
    yield from (found[0].removeprefix(found["keep"]) for found in shape.finditer(text))
