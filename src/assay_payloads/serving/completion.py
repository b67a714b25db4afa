"""One request to a server with OpenAI's completions API: sent, streamed back, each piece timed.

Standard library only: HTTP/1.1 over asyncio, so that one thread holds thousands of open streams and records
the time of each piece of text when it arrives. Each request has its own connection, like separate users.
Format of the event stream: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http.client import responses
from typing import Any
from urllib.parse import urlsplit

LONGEST_LINE = 1 << 20  # bytes of a header or chunk-size line
SHOWN = 300  # characters of a server's own words in a message


class FailedRequestError(Exception):
    """A request without a complete answer, with its cause as text."""


@dataclass
class Completion:
    """What a server streamed back; times are seconds on the monotonic clock.

    sent           the request was written, its connection open
    first, last    the first and the last piece of text arrived; None if there was no text
    longest_gap_s  between two pieces
    prompt_tokens, output_tokens  as the server counts them (`usage`); None if it doesn't say
    finish         the server's finish reason: `length`, `stop`; None if it gave none
    model          that answered, in the server's words
    """

    sent: float
    first: float | None = None
    last: float | None = None
    pieces: int = 0
    longest_gap_s: float = 0.0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    finish: str | None = None
    model: str | None = None

    def take(self, event: dict[str, Any], now: float) -> None:
        """One event of the stream. Only text counts as a piece: a role or an empty delta does not.

        Raises TypeError or AttributeError for an event that is not in OpenAI's format.
        """
        usage = event.get("usage") or {}
        self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
        self.output_tokens = _count(usage.get("completion_tokens"), self.output_tokens)
        self.model = event.get("model", self.model)
        for choice in event.get("choices") or []:
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or {}
            text = choice.get("text") or delta.get("content") or delta.get("reasoning_content")
            if text or delta.get("reasoning") or delta.get("tool_calls"):
                self._piece(now)

    def _piece(self, now: float) -> None:
        if self.first is None or self.last is None:
            self.first = now
        else:
            self.longest_gap_s = max(self.longest_gap_s, now - self.last)
        self.last = now
        self.pieces += 1


class Endpoint:
    """The endpoint for requests, and its key; the key is in no message.

    url        of the API, like http://gpu7:8000/v1
    path       below it: /completions or /chat/completions
    timeout_s  for a complete answer

    Names are resolved once: later connections go to the address that answered first.
    """

    def __init__(self, url: str, path: str, timeout_s: float, key: str | None = None) -> None:
        self._parts, self._path, self._timeout_s, self._key = urlsplit(url), path, timeout_s, key
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._port = self._parts.port or (443 if self._tls else 80)
        self._address = self._parts.hostname

    async def stream(self, name: str, body: dict[str, Any]) -> Completion:
        """Send one request and read its stream to the end. Raises FailedRequestError.

        name  its X-Request-Id, which many servers write to their logs
        """
        try:
            return await asyncio.wait_for(self._stream(name, body), self._timeout_s)
        except asyncio.TimeoutError:  # noqa: UP041  (another class before Python 3.11)
            raise FailedRequestError(f"no complete answer within {self._timeout_s:g} s") from None

    async def _stream(self, name: str, body: dict[str, Any]) -> Completion:
        reader, writer = await self._connection()
        try:
            writer.write(self._request(name, body))
            await writer.drain()
            answer = Completion(time.perf_counter())
            await self._read(reader, answer)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise FailedRequestError(
                f"the connection broke before an answer arrived: {_words(error)}"
            ) from error
        finally:
            writer.close()
            # Otherwise asyncio prints a traceback for a connection that the server has reset.
            asyncio.ensure_future(writer.wait_closed()).add_done_callback(
                lambda closed: closed.cancelled() or closed.exception()
            )
        return answer

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = self._parts.hostname if self._tls else None
        try:
            reader, writer = await asyncio.open_connection(
                self._address, self._port, ssl=self._tls, server_hostname=name, limit=LONGEST_LINE
            )
        except (OSError, UnicodeError) as error:  # the second from an invalid name
            raise FailedRequestError(f"can't connect to {self._parts.netloc}: {_words(error)}") from error
        self._address = writer.get_extra_info("peername")[0]
        return reader, writer

    def _request(self, name: str, body: dict[str, Any]) -> bytes:
        content = json.dumps(body).encode()
        lines = [
            f"POST {self._parts.path.rstrip('/')}{self._path} HTTP/1.1",
            f"Host: {self._parts.netloc}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            "Accept: text/event-stream",
            "Connection: close",
            f"X-Request-Id: {name}",
        ]
        if self._key:
            lines.append(f"Authorization: Bearer {self._key}")
        return "\r\n".join([*lines, "", ""]).encode() + content

    async def _read(self, reader: asyncio.StreamReader, answer: Completion) -> None:
        status, headers = await _head(reader)
        if status != 200:
            content = b"".join([part async for part in _body(reader, headers)])
            raise FailedRequestError(f"HTTP {status} {responses.get(status, '')}: {self._shown(content)}")
        kind = headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise FailedRequestError(
                f"the server answered with {kind or 'no content-type'}, not with a stream"
            )
        done = False
        try:
            async for event in _events(_body(reader, headers)):
                now = time.perf_counter()
                if event == b"[DONE]":
                    done = True
                    break
                self._take(event, answer, now)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise FailedRequestError(
                f"the stream broke after {answer.pieces} pieces: {_words(error)}"
            ) from error
        if not done and answer.finish is None:
            raise FailedRequestError(f"the stream ended after {answer.pieces} pieces without saying why")

    def _take(self, data: bytes, answer: Completion, now: float) -> None:
        try:
            event = json.loads(data)
            failed = event.get("error")
            answer.take(event, now)
        except (ValueError, TypeError, AttributeError):
            raise FailedRequestError(f"an event not in OpenAI's format: {self._shown(data)}") from None
        if failed:
            raise FailedRequestError(f"the server ended the stream with an error: {self._shown(data)}")

    def _shown(self, content: bytes) -> str:
        """A server's own words on one line, truncated, without the key, which some repeat."""
        text = " ".join(content.decode(errors="replace").split())
        return (text.replace(self._key, "(redacted)") if self._key else text)[:SHOWN] or "(nothing)"


def _count(count: object, before: int | None) -> int | None:
    if count is None:
        return before
    if type(count) is not int or count < 0:
        raise TypeError(count)
    return count


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers, with lowercase names."""
    first = (await reader.readline()).decode("latin-1")
    parts = first.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
        raise FailedRequestError(f"no HTTP answer: {first[:SHOWN].strip()!r}")
    headers = {}
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(parts[1]), headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The body in parts as they arrive. Raises IncompleteReadError or ValueError if it is cut off."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readline()).partition(b";")[0], 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        return
    left = int(headers["content-length"]) if "content-length" in headers else None
    while left is None or left > 0:
        part = await reader.read(1 << 16 if left is None else min(left, 1 << 16))
        if not part:
            if left is None:
                return
            raise asyncio.IncompleteReadError(part, left)
        left = None if left is None else left - len(part)
        yield part


async def _events(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The `data:` of each line as soon as the line is complete; comments and other fields are ignored.

    These servers send one line of data per event, so an event need not wait for the empty line after it.
    """
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()


def _words(error: Exception) -> str:
    own_number = isinstance(error, ssl.SSLError)  # from TLS, not from the system
    if isinstance(error, OSError) and not own_number and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
