"""Requests to an API server: patience while the server is busy or unreachable, clear errors otherwise."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from assay.launch.kubernetes.refusals import ApiUnreachableError, LoginError, refusal

if TYPE_CHECKING:
    import httpx2 as httpx

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""

CONNECT_S, ANSWER_S = 5.0, 35.0
FIRST_PATIENCE_S = 10.0  # a server that never responded is more likely misspelled than restarting
PATIENCE_S = 180.0
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # between attempts; the last one repeats
BUSY = (429, 502, 503, 504)


class Stream:
    """Bytes of an open-ended response; another thread may call `stop`."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._socket: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
        for option, value in ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)  # so that a vanished server is noticed
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def __iter__(self) -> Iterator[bytes]:
        """The bytes as they arrive. Raises ApiUnreachableError if the connection breaks."""
        import httpx2 as httpx

        try:
            yield from self._response.iter_raw()
        except (httpx.TransportError, httpx.StreamError, OSError, ValueError) as error:
            raise ApiUnreachableError(f"the connection to the API server broke: {error}") from error
        finally:
            self.stop()
            self._response.close()

    def stop(self) -> None:
        """Stop the watch: the iterator ends."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Wire:
    """The connection to one API server, as one user.

    waits_for  what it waits for, as text, while the server does not respond; otherwise ""
    requests   made so far
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.waits_for, self.requests, self._answered = "", 0, False

    def ask(
        self,
        method: str,
        path: str,
        doing: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Object | None = None,
        kind: str = "application/json",
        accept: str = "application/json",
        patience_s: float | None = None,
    ) -> Object:
        """The JSON response; `doing` describes the request for people. Raises ApiError if refused."""
        request = self._http.build_request(
            method,
            path,
            params={key: value for key, value in (params or {}).items() if value},
            content=None if body is None else json.dumps(body).encode(),
            headers={"Accept": accept} | ({"Content-Type": kind} if body is not None else {}),
        )
        response = self._patiently(lambda: self._http.send(request), doing, patience_s)
        answer: Object = response.json()
        return answer

    @contextmanager
    def stream(self, path: str, doing: str, params: Mapping[str, str]) -> Iterator[Stream]:
        """An open-ended response. Not retried: the caller knows where to continue."""
        import httpx2 as httpx

        request = self._http.build_request(
            "GET",
            path,
            params={key: value for key, value in params.items() if value},
            headers={"Accept-Encoding": "identity"},
            timeout=httpx.Timeout(CONNECT_S, read=None),
        )
        response = self._patiently(lambda: self._http.send(request, stream=True), doing, patience_s=0.0)
        stream = Stream(response)
        try:
            yield stream
        finally:
            stream.stop()
            response.close()

    def _patiently(
        self, send: Callable[[], httpx.Response], doing: str, patience_s: float | None = None
    ) -> httpx.Response:
        """The response; retried while the server is busy or unreachable, for as long as there is patience.

        Patience is short until the server has responded once. `waits_for` says what it waits for meanwhile.
        """
        began, tries = time.monotonic(), 0
        if patience_s is None:
            patience_s = PATIENCE_S if self._answered else FIRST_PATIENCE_S
        try:
            while True:
                response, error = self._once(send, doing)
                if response is not None:
                    self._answered = True
                    return response
                assert error is not None
                pause_s = error.retry_after_s or PAUSES_S[min(tries, len(PAUSES_S) - 1)]
                tries += 1
                if time.monotonic() - began + pause_s > patience_s:
                    raise error
                self.waits_for = str(error)
                time.sleep(pause_s)
        finally:
            self.waits_for = ""

    def _once(
        self, send: Callable[[], httpx.Response], doing: str
    ) -> tuple[httpx.Response | None, _AwayError | None]:
        import httpx2 as httpx
        from lightkube.core.exceptions import ConfigError

        self.requests += 1
        try:
            response = send()
        except httpx.TransportError as error:
            _raise_if_hopeless(error, doing)
            return None, _AwayError(f"can't {doing}: the API server does not respond ({_why(error)})")
        except (ConfigError, json.JSONDecodeError, KeyError, OSError) as error:
            raise LoginError(
                f"can't {doing}: the kubeconfig's login program failed: {error}; log in again"
            ) from error
        if response.status_code < 400:
            return response, None
        status = _status(response)
        refused = refusal(doing, response.status_code, status)
        busy = response.status_code in BUSY or "etcdserver:" in str(refused)
        if not busy:
            raise refused
        return None, _AwayError(str(refused), _retry_after_s(response))


class _AwayError(ApiUnreachableError):
    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _retry_after_s(response: httpx.Response) -> float:
    delay = response.headers.get("Retry-After", "")
    return float(delay) if delay.isdigit() else 0.0


def _status(response: httpx.Response) -> Object:
    text = response.read()
    try:
        value = json.loads(text)
    except ValueError:  # a proxy's page, or a line from the server
        return {"message": text.decode(errors="replace")[:300]}
    return value if isinstance(value, dict) else {}


def _raise_if_hopeless(error: Exception, doing: str) -> None:
    """Errors that waiting does not fix: certificates."""
    message = str(error)
    if isinstance(error.__cause__, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in message:
        raise LoginError(
            f"can't {doing}: the API server's certificate is not the one that the kubeconfig trusts: "
            f"{message}"
        ) from error
    if "certificate expired" in message or "certificate_expired" in message:
        raise LoginError(f"can't {doing}: your client certificate has expired; log in again") from error


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
