"""What a Kubernetes API server refuses, said once in words that tell what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import LaunchError, PlatformError, UnansweredError
from assay.records import Extent

FORBIDDEN = 403


class ApiError(LaunchError):
    """The API server answered no.

    code    HTTP status; 0 where there was no answer
    reason  Kubernetes' own word: `Forbidden`, `AlreadyExists`, `Invalid`, …
    fields  which field, and what is wrong with it, where it says so
    """

    def __init__(
        self, words: str, code: int = 0, reason: str = "", fields: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(words)
        self.code, self.reason, self.fields = code, reason, tuple(fields)


class NotFoundError(ApiError):
    """There is no such object, or the cluster does not know its kind."""


class ConflictError(ApiError):
    """An object of this name is there already, or was changed by somebody else."""


class LoginError(ApiError, PlatformError):
    """The login is expired or wrong, or the server is not the one that the kubeconfig trusts."""


class WatchExpiredError(ApiError):
    """A watch began too far back: list again."""


class ApiUnreachableError(ApiError, UnansweredError):
    """No answer came, however long one waited."""


def refusal(doing: str, code: int, status: Mapping[str, Any]) -> ApiError:
    """The error for an answer of 400 or above.

    doing   verb and object, for people: `create Job assay-1f in namespace bench`
    status  the answer's `Status` object; {} where it was none
    """
    reason, message = str(status.get("reason", "")), str(status.get("message", "")).strip()
    said = message or f"HTTP {code} {reason}".strip()
    kind = {401: LoginError, 404: NotFoundError, 409: ConflictError, 410: WatchExpiredError}.get(
        code, ApiError
    )
    if code == 409 and "exceeded quota" in message:  # the quota itself changed meanwhile
        kind = ApiError
    causes = (status.get("details") or {}).get("causes") or ()
    fields = [(str(cause.get("field", "")), str(cause.get("message", ""))) for cause in causes]
    return kind(f"can't {doing}: {_in_words(code, reason, said)}", code, reason, fields)


def extent_of(error: ApiError) -> Extent:
    """Which other jobs it would refuse: a right, a kind or a namespace that is missing is missed by all."""
    missed = re.search(_OF_ALL, str(error), re.DOTALL) or isinstance(error, NotFoundError)
    return Extent.SYSTEM if missed else Extent.POINT


def _in_words(code: int, reason: str, said: str) -> str:
    if code == 401:
        return (
            "the cluster does not accept these credentials (401): they are expired or wrong; log in again "
            "(oc login, or the command of your provider) and run the same command"
        )
    for pattern, remedy in _KNOWN:
        if re.search(pattern, said, re.DOTALL):
            return f"{said} — {remedy}"
    if code == 404 and "requested resource" in said:
        return "this cluster does not know that kind: the operator that brings it is not installed"
    return f"{said} ({reason})" if reason and reason not in said else said


_OF_ALL = (
    r'User ".*" cannot \w+ resource|namespaces "[^"]+" not found|because it is being terminated'
    r"|failed calling webhook|admission webhook"
)
# what a refusal's message has in common → what to do about it; the first that fits counts
_KNOWN = (
    (
        r'User ".*" cannot \w+ resource',
        "that right is missing: `assay cluster rbac` prints a Role with every right that runs need; "
        "ask whoever administers the namespace to apply it",
    ),
    (
        r"exceeded quota",
        "the namespace's ResourceQuota is used up: free some, ask for less in `resources`, or have it raised",
    ),
    (
        r"must specify|failed quota",
        "the namespace's quota wants every pod to state these: add them to `resources`",
    ),
    (
        r"violates PodSecurity",
        "the namespace's Pod Security level forbids it: leave out what is named, or use another namespace",
    ),
    (
        r"unable to validate against any security context constraint",
        "no SecurityContextConstraints of this ServiceAccount allow it",
    ),
    (
        r'admission webhook "[^"]+" denied',
        "the cluster's own rule forbids it: change what it names, or ask whoever runs that webhook",
    ),
    (
        r"failed calling webhook",
        "a webhook of the cluster does not answer: the operator that serves it is not running",
    ),
    (r"namespaces \"[^\"]+\" not found", "create the namespace, or name another in the system's `namespace`"),
    (r"because it is being terminated", "the namespace is being deleted: use another"),
)
