"""The doubts of a page, by code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.analyse.doubts import KINDS, rank
from assay.records import SEVERITIES, Doubt
from assay.report.tables import gathered

MOST_EVIDENCE = 1  # items shown per doubt; the rest is collapsed
MOST_PLACES = 2  # named per item of evidence; more are only counted


DoubtPlaces = Sequence[tuple[Doubt, Sequence[str]]]


def values(doubted: DoubtPlaces) -> dict[str, Any]:
    """What `doubts_section` of parts.html shows: doubts with the places that they concern."""
    return {"doubts": _by_code(doubted), "severities": SEVERITIES}


def _by_code(doubted: DoubtPlaces) -> list[dict[str, Any]]:
    """Each code, the gravest first, with the most frequent evidence first and its places."""
    groups = []
    by_code = gathered(doubted, lambda pair: pair[0].code)
    for group in sorted(by_code, key=lambda group: rank(group[0][0].code)):
        ordered = sorted(group, key=lambda pair: -len(pair[1]))
        entries = [
            {"evidence": doubt.evidence, "reach": _reach(places), "many": len(places) > MOST_PLACES}
            for doubt, places in ordered
        ]
        groups.append(
            {
                "code": ordered[0][0].code,
                "severity": KINDS[ordered[0][0].code].severity,
                "remedy": ordered[0][0].remedy,
                "first": entries[:MOST_EVIDENCE],
                "more": entries[MOST_EVIDENCE:],
            }
        )
    return groups


def _reach(places: Sequence[str]) -> str:
    return "; ".join(places) if len(places) <= MOST_PLACES else f"{len(places)} results"
