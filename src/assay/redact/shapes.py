"""Secrets recognized by their public shape, anywhere in a text.

Each shape is tried only where a literal part of it occurs, and reads a bounded stretch from there: the time
grows linearly with the length of the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from assay.redact.commands import in_commands
from assay.redact.names import assigned

REDACTED = "(redacted)"
MARK = re.compile(r"\(redacted(?:-(?P<number>\d+))?\)")
Span = tuple[int, int]
Mark = Callable[[str], str]


def plain(_secret: str) -> str:
    """The mark of running text, the same for each secret."""
    return REDACTED


def numbered(number: int) -> str:
    """The mark of a secret that has a number. It has no space, so it stays one word in a command line.

    >>> numbered(2)
    '(redacted-2)'
    """
    return f"(redacted-{number})"


class NumberedMarks:
    """Marks numbered from 1, in order of appearance."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def __call__(self, secret: str) -> str:
        """The secret's mark; the same secret always has the same mark."""
        return numbered(self._of.setdefault(secret, len(self._of) + 1))


def replaced(text: str, spans: Iterable[Span], mark: Mark) -> str:
    """The text with a mark in place of each span; overlapping spans are one secret. Marks are unchanged."""
    pieces, end = [], 0
    for begin, after in _merged(spans):
        secret = text[begin:after]
        pieces += [text[end:begin], secret if MARK.fullmatch(secret) else mark(secret)]
        end = after
    return "".join([*pieces, text[end:]])


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    begin, end = 0, 0
    for first, after in sorted(spans):
        if first >= end:
            if end:
                yield begin, end
            begin = first
        end = max(end, after)
    if end:
        yield begin, end


# What can't be next to a token: otherwise part of a digest, of base64, or of a longer word would match.
_START, _END = r"(?<![A-Za-z0-9+/_-])", r"(?![A-Za-z0-9+/_-])"
_FEW = r"{0,400}"

# Prefix of a token, in lowercase, and the pattern of the whole token.
_TOKENS: tuple[tuple[str, str], ...] = (
    ("hf_", r"hf_[A-Za-z0-9]{20,400}"),
    ("api_org_", r"api_org_[A-Za-z0-9]{20,400}"),
    *((f"gh{kind}_", rf"gh{kind}_[A-Za-z0-9]{{20,400}}") for kind in "pousr"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,400}"),
    *(
        (f"gl{kind}-", rf"gl{kind}-[A-Za-z0-9_-]{{16,400}}")
        for kind in ["pat", "dt", "rt", "ptt", "cbt", "ft", "soat"]
    ),
    *((f"{kind.lower()}", rf"{kind}[A-Z0-9]{{16}}") for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("aiza", r"AIza[A-Za-z0-9_-]{35}"),
    ("ya29.", r"ya29\.[A-Za-z0-9_-]{20,400}"),
    ("gocspx-", r"GOCSPX-[A-Za-z0-9_-]{20,400}"),
    ("xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,400}"),
    ("xapp-", r"xapp-[A-Za-z0-9-]{10,400}"),
    ("npm_", r"npm_[A-Za-z0-9]{30,400}"),
    ("pypi-ag", r"pypi-Ag[A-Za-z0-9_-]{16,400}"),
    ("sk-", rf"sk-(?=[A-Za-z0-9_-]{_FEW}[0-9])(?=[A-Za-z0-9_-]{_FEW}[A-Z])[A-Za-z0-9_-]{{20,400}}"),
    ("sk-", r"sk-(?=[a-z]{0,40}[0-9])[a-z0-9]{32,400}"),
    ("sk-", rf"sk-(?:proj|ant|svcacct|admin|or)-(?=[A-Za-z0-9_-]{_FEW}[0-9])[A-Za-z0-9_-]{{16,400}}"),
    *((f"{kind}k_live_", rf"{kind}k_live_[A-Za-z0-9]{{16,400}}") for kind in "rs"),
    ("nvapi-", r"nvapi-[A-Za-z0-9_-]{20,400}"),
    ("dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,400}"),
    ("sha256~", r"sha256~[A-Za-z0-9_-]{43}"),  # of OpenShift; a digest has a colon there
    ("hvs.", r"hvs\.[A-Za-z0-9_-]{20,400}"),
    ("eyj", r"eyJ[A-Za-z0-9_-]{8,4000}(?:\.[A-Za-z0-9_-]{1,8000}){2,4}"),  # a JSON web token
)
_ANY_TOKEN = "|".join(shape for _, shape in _TOKENS)
# Literal in the context, in lowercase; the context from there on, with the secret as the group `secret`.
_SURROUNDED: tuple[tuple[str, str], ...] = (
    (
        "-----begin ",
        r"-----BEGIN [A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?-----"
        r"(?P<secret>(?:[A-Za-z0-9+/=\\\s]|[A-Z][A-Za-z-]{1,20}: [^\n\\]{1,80}(?=\n|\\n)){1,20000})",
    ),
    # a password in a URL, which may contain @ and /; not if it begins like a port
    (
        "://",
        r"://[^/\s:@\"'<>\\]{0,200}:(?![{$<]|\d{1,5}(?:[/?#]|$))(?P<secret>[^\s\"'<>\\]{1,300})@",
    ),
    # a token in place of the user
    (
        "://",
        r"://(?P<secret>(?:gh[pousr]_|github_pat_|hf_|glpat-)\w{3,400}"
        r"|(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{20,400})@",
    ),
    # a token as a part of the path, where `/` precedes it as it does in base64
    (
        "://",
        rf"://[^\s\"'<>\\?#]{{1,300}}?/(?P<secret>{_ANY_TOKEN})(?![A-Za-z0-9_-])",
    ),
    (
        "bearer",
        r"(?:[Bb]earer|BEARER)(?:\s|\\n){1,9}(?P<secret>(?=[^\s\"'\d]{0,80}\d)[A-Za-z0-9._~+/-]{12,8000}={0,2})",
    ),
    (
        "authorization:",
        r"[Aa]uthorization:\s{0,9}(?:[A-Za-z]{1,20}[ \t]{1,9}|(?i:basic|bearer|token)(?:\s|\\n){1,9})"
        r"(?P<secret>(?![{$<])[^\s\"'\\]{6,8000})",
    ),
    *(
        (
            f"{name} is",
            rf"(?i:{name} is):?\s{{1,9}}[\"']?"
            r"(?P<secret>(?=[^\s\"'\\]{0,80}[\d!@#$%^&*?~])(?![\d.,]{1,300}(?:\s|$))"
            r"(?![{$<(])[^\s\"'\\]{6,300})",
        )
        for name in ("password", "passphrase", "passwd", "secret", "token", "api key", "api_key")
    ),
    ("hooks.slack.com/", r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,200})"),
    (
        " login ",
        r" login\s{1,9}\S{1,100}(?:\s|\\n){1,9}password\s{1,9}(?P<secret>[^\s\"'\\]{1,300})",
    ),  # netrc
    ("wandb login ", r"wandb login (?:--\S{1,40} ){0,4}(?P<secret>[a-f0-9]{40}(?![a-f0-9]))"),
)
_SHAPES: tuple[tuple[bytes, re.Pattern[str]], ...] = (
    *((part.encode(), re.compile(f"{_START}(?P<secret>{shape}){_END}")) for part, shape in _TOKENS),
    *((part.encode(), re.compile(shape)) for part, shape in _SURROUNDED),
)
_ALONE_TOO = tuple((part, shape) for part, shape in _SHAPES if part in (b"://", b"-----begin "))


def hidden(text: str, mark: Mark = plain) -> str:
    """The text with each secret of a known shape or name replaced; digests, commits, and numbers stay.

    >>> hidden("postgres://me:hunter2@db/x sha256:9f86d081884c7d65")
    'postgres://me:(redacted)@db/x sha256:9f86d081884c7d65'
    """
    return replaced(text, spans(text), mark)


def spans(text: str) -> list[Span]:
    """Where the secrets of a known shape or name are; some may overlap."""
    lower = _lower(text)
    return [*_found(_SHAPES, text, lower), *assigned(text, lower), *in_commands(text, lower)]


def named_in(text: str) -> Iterator[str]:
    """The secrets that a name, a URL, or a PEM header reveals, alone: other texts may lack that context."""
    lower = _lower(text)
    for begin, end in (*_found(_ALONE_TOO, text, lower), *assigned(text, lower)):
        yield text[begin:end]


def _lower(text: str) -> bytes:
    """The text in lowercase, one byte per character."""
    return text.encode("ascii", "replace").lower()


def _found(shapes: Iterable[tuple[bytes, re.Pattern[str]]], text: str, lower: bytes) -> Iterator[Span]:
    for part, shape in shapes:
        position = lower.find(part) if part in lower else -1
        while position >= 0:
            match = shape.match(text, position)
            if match is not None:
                yield match.span("secret")
            position = lower.find(part, match.end() if match is not None else position + len(part))
