"""What a ResourceQuota's refusal means: the quota is used up, or too small in any case. Pure."""

from __future__ import annotations

import re

from assay.launch.kubernetes.quantities import number

_REFUSAL = re.compile(r"requested: (\S+), used: \S+, limited: (\S+)")


def never_fits(message: str) -> bool:
    """Whether a request exceeds the whole quota, so that the end of another pod would not help.

    >>> never_fits("exceeded quota: q, requested: cpu=2,pods=1, used: cpu=1,pods=1, limited: cpu=1,pods=9")
    True
    """
    refusal = _REFUSAL.search(message)
    if refusal is None:
        return False
    requested, limits = (dict(pair.split("=", 1) for pair in part.split(",")) for part in refusal.groups())
    return any(number(value) > number(limits[name]) for name, value in requested.items() if name in limits)
