"""Which jobs LSF would refuse, judging by its message about one, and which waiting does not help."""

from __future__ import annotations

import re
from typing import Final

from assay.records import Extent

# From LSF's manuals; the first match counts
REFUSALS: Final = (
    (
        r"no such queue|use the queue|queue (has been|is) closed|queue name|project|application profile"
        r"|user group|permission|reservation|LSF is down|not responding|can'?t (contact|connect)|timed? ?out"
        r"|authentication|licen[cs]e",
        Extent.PLATFORM,
    ),
    (r"runlimit|run limit", Extent.BENCHMARK),
    (r"too many (processors|slots|tasks)|proclimit|task ?limit|memlimit|memory", Extent.SHAPE),
    (
        r"resource requirement|res_req|gpu|bad host|host name|host group|esub|illegal option|bad argument"
        r"|syntax|invalid|unknown option",
        Extent.SYSTEM,
    ),
)
# Reasons why a job waits in vain → which other jobs would
HOPELESS: Final = (
    (r"queue is inactivated by the administrator|queue was inactivated by", Extent.PLATFORM),
    (r"never be satisfied|requirements? can(not| not|'t) ever", Extent.SHAPE),
)


def extent_of(message: str) -> Extent:
    """Which jobs it would refuse for the same reason as this one.

    >>> extent_of("Too many processors requested. Job not submitted.")
    <Extent.SHAPE: 'shape'>
    """
    return _first(REFUSALS, message) or Extent.POINT


def hopeless(reason: str) -> Extent | None:
    """Which jobs would wait in vain for this reason; None if waiting may help."""
    return _first(HOPELESS, reason)


def _first(table: tuple[tuple[str, Extent], ...], message: str) -> Extent | None:
    extents = (extent for pattern, extent in table if re.search(pattern, message, re.IGNORECASE))
    return next(extents, None)
