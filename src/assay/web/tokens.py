"""Who may do what: tokens by name and role, kept only as digests."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from assay.errors import InputError, Problem
from assay.inputs import read_whole

Role = Literal["reader", "pusher", "operator"]
Right = Literal["read", "push", "run"]
RIGHTS: Mapping[Role, frozenset[Right]] = {
    "reader": frozenset({"read"}),
    "pusher": frozenset({"read", "push"}),
    "operator": frozenset({"read", "push", "run"}),
}
VARIABLE = "ASSAY_TOKENS"
SHORTEST = 32  # characters: such a token can't be guessed, so that its plain digest can't be reversed
SHOWN_LIKE = "NAME ROLE TOKEN, such as `alice operator` and the output of `openssl rand -hex 32`"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True)
class Token:
    """A token that was given to somebody.

    digest  SHA-256 of the token; it is also the key of what the server signs for its holder
    """

    name: str
    role: Role
    digest: bytes = field(repr=False)


def read_tokens(file: Path | None) -> tuple[Token, ...]:
    """The tokens of a file, else of $ASSAY_TOKENS, which is then removed from the environment.

    A line each: name, role, token; lines that begin with # are comments.

    Raises InputError with every problem; no message repeats a token.
    """
    if file is None:
        text, where = os.environ.pop(VARIABLE, ""), f"${VARIABLE}"
    else:
        text, where = _text(file), str(file)
    tokens: dict[str, Token] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not (fields := line.split()) or fields[0].startswith("#"):
            continue
        token, what = _token(fields)
        if token is not None and token.name in tokens:
            what = f"{token.name} has a token already"
        if what or token is None:
            problems.append(Problem(f"{where}:{number}", what))
        else:
            tokens[token.name] = token
    if file is not None and not tokens and not problems:
        problems = [Problem(where, f"it has no token; write {SHOWN_LIKE}")]
    if problems:
        raise InputError(problems)
    return tuple(tokens.values())


def holder(tokens: Iterable[Token], presented: str) -> Token | None:
    """Whose token it is; takes as long for a wrong one as for a right one."""
    digest, owner = digest_of(presented), None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            owner = token
    return owner


def digest_of(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _token(fields: list[str]) -> tuple[Token | None, str]:
    """A line's token, or what is wrong with it."""
    if len(fields) != 3:
        return None, f"found {len(fields)} words; expected {SHOWN_LIKE}"
    name, role, token = fields
    if not _NAME.fullmatch(name):
        return None, f"{name!r} can't be a name: use at most 64 letters, digits and . _ @ -"
    known = next((known_role for known_role in RIGHTS if known_role == role), None)
    if known is None:
        return None, f"{role!r} is not a role; choose from {', '.join(RIGHTS)}"
    if len(token) < SHORTEST:
        return None, f"the token of {name} has {len(token)} characters; make one of at least {SHORTEST}"
    return Token(name, known, digest_of(token)), ""


def _text(file: Path) -> str:
    try:
        about = file.stat()
        content = read_whole(file)
    except OSError as error:
        raise InputError(f"{file}: can't be read: {error.strerror}") from error
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise InputError(f"{file}: others may read or change it; run: chmod 600 {file}")
    if about.st_uid not in (os.geteuid(), 0):
        raise InputError(f"{file}: it belongs to another user; make it yours")
    return content.decode(errors="replace")
