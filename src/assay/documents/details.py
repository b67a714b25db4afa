"""`assay show --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.analyse.points.groups import cause
from assay.records import to_plain
from assay.report.sentences import ranking as ranking_words

if TYPE_CHECKING:
    from assay.questions.show import RunDetails


def document(details: RunDetails) -> Mapping[str, Any]:
    """The document, as its schema describes it."""
    return {
        "schema": "assay.show/1",
        "reference": details.runs.reference,
        "rankings": ranking_words.plain(details.rankings),
        "runs": [
            {
                "id": r.run.id,
                "attempt": r.run.attempt,
                "system": r.run.trial.system,
                "benchmark": r.run.trial.benchmark,
                "shape": str(r.run.trial.shape),
                "state": r.run.state.value,
                "counts": r.counts,
                "cause": cause(r),
                "measurements": [to_plain(m) for m in r.reading.measurements],
                "series": [to_plain(s) for s in r.reading.series],
                "confusion": None if r.reading.confusion is None else to_plain(r.reading.confusion),
                "facts": dict(r.reading.facts),
                "notes": list(r.reading.notes),
                "links": [to_plain(links) for links in r.reading.links],
                "places": list(r.run.places),
                "nodes": [to_plain(node) for node in r.run.nodes],
                "provenance": None if r.provenance is None else to_plain(r.provenance)["nodes"],
            }
            for r in details.runs.results
        ],
        "points": [
            {
                "system": system.name,
                **to_plain(here.group.point),
                "estimate": to_plain(here.estimate),
                "spread": here.spread,
                "values": here.group.values,
            }
            for system in details.systems
            for here in system.points
        ],
        "exchanges": [to_plain(curve) for system in details.systems for curve in system.exchanges],
        "usage": [to_plain(usage) for usage in details.usage],
        "doubts": [{**to_plain(doubt), "points": times} for doubt, times in details.doubts],
    }
