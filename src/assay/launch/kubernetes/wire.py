"""Requests to an API server: patience while it is busy or unreachable, and what its refusals mean."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from assay.errors import LaunchError, PlatformError, UnansweredError
from assay.records import Extent

if TYPE_CHECKING:
    import httpx2 as httpx


Object = dict[str, Any]
"""A Kubernetes object, as JSON."""

CONNECT_S, ANSWER_S = 5.0, 35.0
FIRST_PATIENCE_S = 10.0  # a server that never responded is more likely misspelled than restarting
PATIENCE_S = 180.0
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # between attempts; the last one repeats
BUSY = (429, 502, 503, 504)
FORBIDDEN = 403
NO_NAMESPACE = r'namespaces "[^"]+" not found|because it is being terminated'
_NO_RIGHT = r'User ".*" cannot \w+ resource'
_WEBHOOK = r"failed calling webhook|admission webhook"
# pattern of a refusal's message → what to do; the first match counts
_KNOWN = (
    (
        _NO_RIGHT,
        "that permission is missing: `assay cluster rbac` prints a Role with every permission that runs "
        "need; ask the namespace's administrator to apply it",
    ),
    (
        r"exceeded quota",
        "the namespace's ResourceQuota is used up: free some, request less in `resources`, or have it raised",
    ),
    (
        r"must specify|failed quota",
        "the namespace's quota requires these on every pod: add them to `resources`",
    ),
    (
        r"violates PodSecurity",
        "the namespace's Pod Security level forbids it: remove what is named, or use another namespace",
    ),
    (
        r"unable to validate against any security context constraint",
        "no SecurityContextConstraints of this ServiceAccount allow it",
    ),
    (
        r'admission webhook "[^"]+" denied',
        "a rule of the cluster forbids it: change what it names, or ask the webhook's administrator",
    ),
    (
        r"failed calling webhook",
        "a webhook of the cluster does not respond: the operator that serves it is not running",
    ),
    (r"namespaces \"[^\"]+\" not found", "create the namespace, or name another in the system's `namespace`"),
    (r"because it is being terminated", "the namespace is being deleted: use another"),
)


class ApiError(LaunchError):
    """The API server refused a request.

    code    HTTP status; 0 if there was no response
    reason  Kubernetes' own word: `Forbidden`, `AlreadyExists`, `Invalid`, …
    fields  the wrong fields and what is wrong with each, if it says so
    """

    def __init__(
        self, message: str, code: int = 0, reason: str = "", fields: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.fields = code, reason, tuple(fields)


class NotFoundError(ApiError):
    """The object does not exist, or the cluster does not know its kind."""


class ConflictError(ApiError):
    """An object with this name already exists, or was changed by somebody else."""


class LoginError(ApiError, PlatformError):
    """The login is expired or wrong, or the kubeconfig does not trust the server."""


class WatchExpiredError(ApiError):
    """A watch started too far back: list again."""


class ApiUnreachableError(ApiError, UnansweredError):
    """No response arrived, however long Assay waited."""


def refusal(doing: str, code: int, status: Mapping[str, Any]) -> ApiError:
    """The error for a response of 400 or above.

    doing   verb and object, for people: `create Job assay-1f in namespace bench`
    status  the `Status` object in the response; {} if there is none
    """
    reason, message = str(status.get("reason", "")), str(status.get("message", "")).strip()
    explanation = message or f"HTTP {code} {reason}".strip()
    kind = {401: LoginError, 404: NotFoundError, 409: ConflictError, 410: WatchExpiredError}.get(
        code, ApiError
    )
    if code == 409 and "exceeded quota" in message:  # the quota itself changed in the meantime
        kind = ApiError
    causes = (status.get("details") or {}).get("causes") or ()
    fields = [(str(cause.get("field", "")), str(cause.get("message", ""))) for cause in causes]
    return kind(f"can't {doing}: {_explain(code, reason, explanation)}", code, reason, fields)


def extent_of(error: ApiError) -> Extent:
    """Which other jobs it would refuse: a missing permission, kind, or namespace affects all of them."""
    if re.search(rf"{NO_NAMESPACE}|{_NO_RIGHT}", str(error), re.DOTALL):
        return Extent.PLACE
    missed = re.search(_WEBHOOK, str(error)) or isinstance(error, NotFoundError)
    return Extent.SYSTEM if missed else Extent.POINT


def _explain(code: int, reason: str, explanation: str) -> str:
    if code == 401:
        return (
            "the cluster does not accept these credentials (401): they are expired or wrong; log in again "
            "(oc login, or your provider's command) and run the same command"
        )
    for pattern, remedy in _KNOWN:
        if re.search(pattern, explanation, re.DOTALL):
            return f"{explanation} — {remedy}"
    if code == 404 and "requested resource" in explanation:
        return "this cluster does not know that kind: the operator that provides it is not installed"
    return f"{explanation} ({reason})" if reason and reason not in explanation else explanation


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
