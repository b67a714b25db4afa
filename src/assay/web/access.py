"""Who asks and what they may, who signed out, and the record of who did what.

A token is in a header or behind a cookie, or a proxy has checked already. Who signed out is in a file, so
that every server of the directory knows; the record is a file that is only appended to.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from litestar.concurrency import sync_to_thread
from litestar.types import ASGIApp, Message, Receive, Send

from assay import redact
from assay.durable import append, locked, make_directory, sync, write_atomic
from assay.errors import BusyError, HostError
from assay.web.refusals import API, refusal
from assay.web.tokens import RIGHTS, Right, Role, Token, holder

SIGNED_IN_S = 12 * 3600
LARGEST_FORM_BYTES = 64 << 10
SLOWEST_PART_S = 30.0  # between two parts of a request's body
MOST_FAILURES = 20  # wrong tokens from one address a minute; more are neither checked nor recorded
MOST_REFUSALS = 20  # of one address a minute that are recorded, so that nobody fills the disk with them
PUSH = "/api/v1/push"
_READING: frozenset[Right] = frozenset({"read"})
_OPEN = re.compile(r"/(login|healthz|static/.*)")


@dataclass(frozen=True)
class AccessRules:
    """What a server allows, and to whom.

    tokens       whoever has one may ask; without tokens and proxy, everybody may read and nobody may act
    allowed      rights beyond reading that this server grants at all
    suites       directory of the suites that can be started; None: none can
    is_https     browsers reach it by HTTPS, directly or through a proxy
    user_header  in which a proxy on this machine names whom it let in; "" if there is no such proxy
    operators    of those, who is an operator; the others are readers
    """

    tokens: tuple[Token, ...] = ()
    allowed: frozenset[Right] = frozenset()
    suites: Path | None = None
    is_https: bool = False
    user_header: str = ""
    operators: frozenset[str] = frozenset()

    @property
    def are_asked(self) -> bool:
        """Whether a request must say who it is from."""
        return bool(self.tokens or self.user_header)

    @property
    def cookie(self) -> str:
        """Its name; browsers take `__Host-` from this very host by HTTPS only."""
        return "__Host-assay" if self.is_https else "assay"


@dataclass(frozen=True)
class Identity:
    """Who asks.

    rights   what the role allows and this server grants
    is_page  it came with a cookie, or through a proxy, so that another site could have made the browser send
             it: what changes something needs the form's own word too
    """

    name: str
    role: Role
    rights: frozenset[Right]
    is_page: bool
    key: bytes = field(repr=False)

    def form_word(self) -> str:
        """What a form of this identity must contain."""
        return hmac.new(self.key, b"form", hashlib.sha256).hexdigest()


ASKING: ContextVar[Identity | None] = ContextVar("asking", default=None)
MAY_READ_ON: ContextVar[Callable[[], bool]] = ContextVar("may_read_on", default=lambda: True)
"""Whether who asked may still read: an answer can take longer than they are signed in."""


class Access:
    """The application behind the rules: finds who asks, and refuses what they may not do."""

    def __init__(self, app: ASGIApp, rules: AccessRules, audit: Audit, sign_outs: SignOuts) -> None:
        self._app, self._rules, self._audit = app, rules, audit
        self._proxy_key = secrets.token_bytes(32)
        self._failures, self._refusals = _LastMinute(), _LastMinute()
        self._sign_outs = sign_outs

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer, or refuse with 401, 403, 413 or 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        who = self._identify(headers)
        refused = self._refusal(scope, headers, who)
        if refused is not None:
            await refused(send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 403 and who is not None:
                await sync_to_thread(self._note_refusal, scope, who, "not allowed")
            await send(message)

        def may_read_on() -> bool:
            return not self._rules.are_asked or self._identify(headers) is not None

        asking, reading = ASKING.set(who), MAY_READ_ON.set(may_read_on)
        try:
            await self._app(scope, _bounded(scope, receive), sent if _changes(scope) else send)
        finally:
            ASKING.reset(asking)
            MAY_READ_ON.reset(reading)

    def _identify(self, headers: dict[str, str]) -> Identity | None:
        rules = self._rules
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (token := holder(rules.tokens, credential.strip())) is not None:
            return self._identity(token.name, token.role, token.digest, is_page=False)
        cookie = _cookie_of(rules, headers.get("cookie", ""))
        if (signed_token := signed_in(rules, cookie)) is not None and cookie not in self._sign_outs:
            return self._identity(signed_token.name, signed_token.role, signed_token.digest, is_page=True)
        user = headers.get(rules.user_header.lower(), "") if rules.user_header else ""
        if user:
            role: Role = "operator" if user in rules.operators else "reader"
            key = hmac.new(self._proxy_key, user.encode(), hashlib.sha256).digest()
            return self._identity(user, role, key, is_page=True)
        return None

    def _identity(self, name: str, role: Role, digest: bytes, *, is_page: bool) -> Identity:
        granted = RIGHTS[role] & (self._rules.allowed | _READING)
        return Identity(name, role, granted, is_page, hmac.new(digest, b"key", hashlib.sha256).digest())

    def _refusal(self, scope: Any, headers: dict[str, str], who: Identity | None) -> Any:
        path, changes = scope["path"], _changes(scope)
        length = headers.get("content-length", "0")
        if changes and not path.startswith(PUSH) and length.isdecimal() and int(length) > LARGEST_FORM_BYTES:
            return refusal(scope, 413, f"The request is larger than {LARGEST_FORM_BYTES} bytes.")
        if changes and (who is None or who.is_page) and _is_foreign(headers):
            self._note_refusal(scope, who, "from another site")
            return refusal(scope, 403, "This request comes from a page of another site.")
        if _OPEN.fullmatch(path):
            return None
        if who is None and self._rules.are_asked:
            return self._unknown(scope, headers)
        return None

    def _note_refusal(self, scope: Any, who: Identity | None, why: str) -> None:
        client = _client(scope)
        if self._refusals.count(client) < MOST_REFUSALS:
            self._refusals.add(client)
            self._audit.note("" if who is None else who.name, client, scope["path"], f"refused: {why}")

    def sign_out(self, cookies: str) -> None:
        """End what the cookie in a header allows, on every server of this directory."""
        cookie = _cookie_of(self._rules, cookies)
        if signed_in(self._rules, cookie) is not None:
            self._sign_outs.add(cookie, time.time() + SIGNED_IN_S)

    def _unknown(self, scope: Any, headers: dict[str, str]) -> Any:
        if "authorization" in headers and not self.may_try(_client(scope)):
            return refusal(scope, 429, "Too many wrong tokens; wait a minute.", [(b"retry-after", b"60")])
        if "authorization" in headers:
            self.failed(_client(scope), "a wrong token in a header")
        is_form = scope["method"] == "POST" and "authorization" not in headers
        if scope["path"].startswith(API) or not (is_form or scope["method"] in ("GET", "HEAD")):
            detail = "Send a token that this server knows, as `Authorization: Bearer TOKEN`."
            return refusal(scope, 401, detail, [(b"www-authenticate", b"Bearer")])
        query = scope["query_string"].decode("latin-1")
        here = scope["path"] + (f"?{query}" if query else "")
        if is_form:  # back to the page that it is on
            page = urlsplit(headers.get("referer", ""))
            here = page._replace(scheme="", netloc="").geturl() if page.netloc == headers.get("host") else "/"
        return refusal(scope, 303, "", [(b"location", f"/login?next={quote(here, safe='')}".encode())])

    def may_try(self, client: str) -> bool:
        """Whether this address may try another token now."""
        return self._failures.count(client) < MOST_FAILURES

    def failed(self, client: str, what: str) -> None:
        """Record a wrong token from an address."""
        self._failures.add(client)
        self._audit.note("", client, "sign in", f"refused: {what}")


class _LastMinute:
    """How often addresses did something within the last minute; of the 1,000 newest addresses."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def count(self, client: str) -> int:
        return len(self._recent(client))

    def add(self, client: str) -> None:
        recent = self._recent(client)
        self._times.pop(client, None)
        self._times[client] = [*recent, time.monotonic()]
        while len(self._times) > 1000:
            self._times.popitem(last=False)

    def _recent(self, client: str) -> list[float]:
        return [moment for moment in self._times.get(client, []) if time.monotonic() - moment < 60]


def signed(token: Token, until: int) -> str:
    """The content of the cookie of a token's holder: name, end, a random part, signature; never the token.

    The random part makes each one different, so that signing out ends one and not the next. No character of
    it is one that a browser or library quotes.
    """
    content = f"{token.name.encode().hex()}.{until}.{secrets.token_hex(8)}"
    return f"{content}.{_signature(token, content)}"


def signed_in(rules: AccessRules, cookie: str) -> Token | None:
    """Whose cookie it is, by its value; None if it is forged or has ended."""
    content, _, signature = cookie.rpartition(".")
    name, _, rest = content.partition(".")
    until = rest.partition(".")[0]
    token = next((known for known in rules.tokens if known.name.encode().hex() == name), None)
    if token is None or not hmac.compare_digest(_signature(token, content).encode(), signature.encode()):
        return None
    return token if until.isdecimal() and int(until) > time.time() else None


def _cookie_of(rules: AccessRules, cookies: str) -> str:
    """The value of this server's cookie in a header; "" if there is none."""
    parts = [part.strip().partition("=") for part in cookies.split(";")]
    return next((value for name, _, value in parts if name == rules.cookie), "")


def _signature(token: Token, content: str) -> str:
    return hmac.new(token.digest, f"cookie {content}".encode(), hashlib.sha256).hexdigest()


def _is_foreign(headers: dict[str, str]) -> bool:
    """Whether a browser says that a page of another site makes this request."""
    site, origin = headers.get("sec-fetch-site", ""), headers.get("origin", "")
    if site:  # browsers send it by HTTPS and to this machine; it is more exact than the origin
        return site not in ("same-origin", "none")
    return bool(origin) and urlsplit(origin).netloc != headers.get("host", "")


def _changes(scope: Any) -> bool:
    return scope["method"] not in ("GET", "HEAD")


def _client(scope: Any) -> str:
    return (scope.get("client") or ("",))[0]


def _bounded(scope: Any, receive: Receive) -> Receive:
    """The body in parts that come in time, and of a form no more than a form has."""
    taken, most = 0, None if scope["path"].startswith(PUSH) else LARGEST_FORM_BYTES
    if scope["method"] in ("GET", "HEAD"):
        return receive

    async def part() -> Any:
        nonlocal taken
        if taken < 0:  # the body is complete: what follows is the end of the connection, whenever it comes
            return await receive()
        try:
            message: Any = await asyncio.wait_for(receive(), SLOWEST_PART_S)
        except TimeoutError:
            return {"type": "http.disconnect"}
        taken += len(message.get("body", b""))
        if most is not None and taken > most:
            return {"type": "http.disconnect"}
        if not message.get("more_body"):
            taken = -1
        return message

    return part


SIGN_OUTS_FILE = "signed-out.json"
_WAIT_S = 10.0  # for another server that writes the file
_log = logging.getLogger("assay")


class SignOuts:
    """The cookies that somebody signed out, as digests, until they would have ended anyway."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / SIGN_OUTS_FILE
        self._here: dict[str, float] = {}  # digest → when the cookie ends
        self._in_file: Mapping[str, float] = {}
        self._stamp: tuple[int, int] | None = None

    def __contains__(self, cookie: str) -> bool:
        digest = _cookie_digest(cookie)
        return digest in self._here or digest in self._read()

    def add(self, cookie: str, until: float) -> None:
        """Remember a cookie; where the file can't be written, until this server ends, which is logged."""
        now = time.time()
        self._here = {digest: end for digest, end in self._here.items() if end > now} | {
            _cookie_digest(cookie): until
        }
        try:
            make_directory(self._path.parent)
            with locked(self._path.with_suffix(".lock"), "the list of who signed out", wait_s=_WAIT_S):
                kept = {digest: end for digest, end in self._read().items() if end > now} | self._here
                write_atomic(self._path, json.dumps(kept).encode())
        except (HostError, BusyError) as error:
            _log.warning("%s; once this server is restarted, the cookie is taken again", error)

    def _read(self) -> Mapping[str, float]:
        try:
            status = self._path.stat()
            if (stamp := (status.st_ino, status.st_mtime_ns)) != self._stamp:
                self._stamp = stamp
                self._in_file = dict(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            self._in_file = {}
        except (OSError, ValueError, TypeError) as error:
            _log.warning(
                "%s: can't be read (%s); cookies that were signed out are taken again", self._path, error
            )
            self._in_file = {}
        return self._in_file


def _cookie_digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()


AUDIT_FILE = "audit.jsonl"
SHOWN_BYTES = 64 << 10


class Audit:
    """The record of one runs directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / AUDIT_FILE

    def note(self, who: str, client: str, what: str, result: str, **about: Any) -> None:
        """Append a line, and wait until the disk has it. Raises HostError if it can't be written.

        What changes something is noted before as `requested`, so that nothing happens unrecorded.
        """
        entry = {"at": round(time.time(), 3), "who": who, "from": client, "what": what, "result": result}
        line = json.dumps(redact.redacted({**entry, **about}), ensure_ascii=True, allow_nan=False)
        make_directory(self.path.parent)
        append(self.path, f"{line}\n".encode())
        sync(self.path)

    def newest(self, most: int = 200) -> list[dict[str, Any]]:
        """The last lines, newest first; a line that a full disk cut short is left out."""
        if not self.path.is_file():
            return []
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - SHOWN_BYTES))
            lines = file.read().splitlines()[1 if size > SHOWN_BYTES else 0 :]
        entries = []
        for line in lines[-most:]:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        return entries[::-1]
