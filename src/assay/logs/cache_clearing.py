"""Whether a log that claims cleared caches also shows that clearing them failed."""

from __future__ import annotations

import re

from assay.records import Doubt, DoubtKind

_FAILURE = re.compile(rb"read-only|denied|not permitted|ignoring|failed|no such file", re.IGNORECASE)


CACHE_NOT_CLEARED = DoubtKind(
    code="cache-not-cleared",
    subject="training",
    severity="biased",
    means="The log claims that caches were cleared, but shows that clearing them failed.",
    effect="Data came from memory: the start and the first epoch are faster than the rules allow.",
    remedy="Clear the page cache on the host (a container can't), or state that caches were warm.",
)


def failed_drop(head: bytes) -> tuple[int, str] | None:
    """The line in a log's head, counted from 1, that shows a failed `drop_caches`, and its text."""
    for number, line in enumerate(head.splitlines(), start=1):
        if b"drop_caches" in line and _FAILURE.search(line):
            return number, line.decode("latin-1").strip()[:200]
    return None


def cache_doubt(head: bytes) -> Doubt | None:
    """A doubt if the head of a log shows a failed `drop_caches`, with that line; otherwise None."""
    failure = failed_drop(head)
    if failure is None:
        return None
    number, message = failure
    return CACHE_NOT_CLEARED.doubt(f"cache_clear is logged as true, but line {number} says: {message}")
