"""Another Assay's server, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import stat
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from assay import redact
from assay.errors import BusyError, HostError, InputError
from assay.inputs import read_whole
from assay.version import __version__

TIMEOUT_S: Final = 180.0  # without a byte: an answer may take long to compute
MOST_BYTES: Final = 256 << 20  # of one answer
VARIABLE: Final = "ASSAY_TOKEN"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ServerAnswer:
    """The status of an answer, and its document."""

    status: int
    document: Any


T = TypeVar("T")


class NotAssayError(InputError):
    """What answers at this address is not Assay."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url}: this is not an answer of Assay ({why}); is the address right?")


class AssayServer:
    """Asks one server. Raises InputError for what it refuses, HostError if it does not answer.

    url      with a path if a proxy has it below one
    token    "" for none; it is sent by HTTPS or to this machine only, and never after a redirect
    ca_file  certificates that vouch for the server, in PEM; None: the system's
    """

    def __init__(self, url: str, token: str = "", ca_file: Path | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InputError(f"{url!r} is no address of a server; write it as https://assay.example.com")
        if parts.username or parts.password:
            raise InputError("the address has a user or a password; use a token file instead")
        if token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise InputError(f"{url!r} isn't encrypted, so anyone on the way could read the token; use https")
        self.url, self._token = url.rstrip("/"), token
        redact.learn_values([token] if token else [])
        try:
            tls = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        except OSError as error:  # ssl.SSLError is one
            raise InputError(f"{ca_file}: can't be read as certificates in PEM ({error})") from error
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls), _NoRedirect())

    def ask(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: bytes | None = None
    ) -> ServerAnswer:
        """One request; 409 is an answer like any other.

        Raises InputError for other refusals, BusyError if it asks to come again, HostError otherwise.
        """
        query_string = f"?{urllib.parse.urlencode(query, doseq=True)}" if query else ""
        headers = {"Assay-Client": __version__, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self.url + path + query_string, data=body, method=method, headers=headers
        )
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return ServerAnswer(answer.status, self._document(answer.read(MOST_BYTES + 1)))
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(error.code, error.read(64 << 10))
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise HostError(f"{self.url}: no answer ({reason or type(error).__name__})") from error

    def record(self, kind: type[T], answer: ServerAnswer) -> T:
        """An answer as a record. Raises NotAssayError if it isn't one."""
        try:
            return msgspec.convert(answer.document, kind)
        except msgspec.ValidationError as error:
            raise NotAssayError(self.url, str(error)) from error

    def _document(self, body: bytes) -> Any:
        if len(body) > MOST_BYTES:
            raise HostError(f"{self.url}: an answer of more than {MOST_BYTES >> 20} MiB")
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise NotAssayError(self.url, "it is not JSON") from error

    def _refused(self, status: int, body: bytes) -> ServerAnswer:
        try:
            document = json.loads(body)
            detail = str(document["detail"])
        except (ValueError, KeyError, TypeError, RecursionError):
            document, detail = None, body[:300].decode(errors="replace").strip()
        if status == 409 and document is not None:
            return ServerAnswer(status, document)
        if status == 401:
            hint = f"name a file with it by --token-file, or set ${VARIABLE}"
            raise InputError(f"{self.url}: it asks for a token that it knows; {hint}")
        if 300 <= status < 400:
            raise InputError(
                f"{self.url}: it sends elsewhere, to a page for people to sign in; use its own address"
            )
        if status in (429, 503):
            raise BusyError(f"{self.url}: {detail or 'it is busy'}")
        if status >= 500:
            raise HostError(f"{self.url}: it failed: {detail or status}")
        raise InputError(f"{self.url}: {detail or f'refused with status {status}'}")


def token_of(file: Path | None) -> str:
    """The token of a file, else of $ASSAY_TOKEN; "" for none.

    Raises InputError if others may read the file.
    """
    if file is None:
        return os.environ.get(VARIABLE, "").strip()
    try:
        mode, content = stat.S_IMODE(file.stat().st_mode), read_whole(file)
    except OSError as error:
        raise InputError(f"{file}: can't be read: {error.strerror}") from error
    if mode & 0o077:
        raise InputError(f"{file}: others may read or change it; run: chmod 600 {file}")
    tokens = content.decode(errors="replace").split()
    if not tokens:
        raise InputError(f"{file}: it is empty; write the token that you were given")
    return tokens[-1]  # a line of the server's own file ends in it too


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        """Don't follow: the token is for this server."""
