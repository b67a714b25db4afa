"""`assay watch --json`: a document per sample, then one with the summary."""

from __future__ import annotations

from typing import Any

from assay.monitor.watching import Watching


def document(watching: Watching) -> dict[str, Any]:
    """The newest samples."""
    header, node = watching.header, watching.latest[None]
    return {
        "started_at": header.started_at if header else None,
        "at_s": node.at_s,
        "node": {**node.values},
        "per_second": watching.speeds.get(None, {}),
        "gpus": {gpu: {**one.values} for gpu, one in watching.latest.items() if gpu is not None},
        "events": [{"at_s": e.at_s, "gpu": e.gpu, "xid": e.xid, "words": e.words} for e in watching.events],
    }


def summary(watching: Watching | None) -> dict[str, Any]:
    """What is known of the whole time; nothing if it ended before the first sample."""
    return {"summary": watching.summary() if watching else {}}
