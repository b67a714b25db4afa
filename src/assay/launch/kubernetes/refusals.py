"""Requests that a Kubernetes API server refuses, and what to do about each. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import LaunchError, PlatformError, UnansweredError
from assay.records import Extent

FORBIDDEN = 403


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
