"""`assay compare --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain
from assay.report.sentences import exchange as exchange_words
from assay.report.sentences import why as why_words

if TYPE_CHECKING:
    from assay.questions.compare import Comparisons
    from assay.records import Comparison


def document(found: Comparisons) -> dict[str, Any]:
    """The document, as its schema describes it."""
    leading = {id(comparison) for comparison in found.primary}
    return {
        "schema": "assay.compare/1",
        "margin": found.margin,
        "comparisons": [_plain(c, primary=id(c) in leading) for c in found.comparisons],
        "curves": exchange_words.plain(found.primary),
        "slower": why_words.plain(found.primary, found.sides, found.margin),
        "uncompared": [{"points": to_plain(point), "reason": why} for point, why in found.not_compared],
        "open": to_plain(found.open),
        "time_to_train": [to_plain(split) for split in found.time_to_train],
        "time_to_train_not_split": [to_plain(left) for left in found.not_split],
        "convergence": [to_plain(one) for one in found.convergence],
    }


def _plain(c: Comparison, *, primary: bool) -> dict[str, Any]:
    points = {"benchmark": c.point.benchmark, "shape": c.point.shape, "labels": dict(c.point.labels)}
    ratio = {"value": c.ratio.value, "low": c.ratio.low, "high": c.ratio.high}
    return {
        "a": c.a,
        "b": c.b,
        "metric": c.point.metric,
        "primary": primary,
        "unit": c.point.unit,
        "better": c.point.better,
        "points": points,
        "means": [c.mean_a, c.mean_b],
        "ratio": ratio | {"confidence": c.ratio.confidence},
        "n": list(c.n),
        "method": c.method,
        "margin": c.margin,
        "verdict": c.verdict,
        "reason": c.reason,
        "smallest_visible": c.smallest_visible,
        "by_margin": c.by_margin,
        "replication": c.replication,
        "sessions": list(c.sessions),
        "apart": c.apart,
        "new_session": None if c.new_session is None else to_plain(c.new_session),
        "allows_for": list(c.allows_for),
        "shift": c.shift,
        "lost_to_others": list(c.lost_to_others),
        "runs_needed": None if c.runs_needed is None else to_plain(c.runs_needed),
        "rank": None if c.rank is None else to_plain(c.rank),
        "deciding": {"low": c.deciding.low, "high": c.deciding.high},
        "family": None if c.family is None else to_plain(c.family),
        "doubts": to_plain(c.doubts),
    }
