"""`assay watch --json`: a line per sample, then one with the summary."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from assay.monitor.flight_recorder import FlightRecord
from assay.monitor.nccl_ras import RasWatch
from assay.monitor.stragglers import RankVerdict
from assay.monitor.watching import Watching
from assay.monitor.watching_jobs import WatchedJob
from assay.monitor.watching_logs import WatchedLogs


def document(watching: Watching) -> dict[str, Any]:
    """The newest samples."""
    header, node = watching.header, watching.latest[None]
    return {
        "started_at": header.started_at if header else None,
        "at_s": node.at_s,
        "node": {**node.values},
        "per_second": watching.speeds.get(None, {}),
        "gpus": {gpu: {**sample.values} for gpu, sample in watching.latest.items() if gpu is not None},
        "events": [{"at_s": e.at_s, "gpu": e.gpu, "xid": e.xid, "words": e.words} for e in watching.events],
    }


def job_document(watched: WatchedJob) -> dict[str, Any]:
    """The newest samples of each node or pod, and why others have none."""
    return {
        "job": watched.job,
        "places": {
            place: document(watching) for place, watching in watched.places.items() if None in watching.latest
        },
        "failed": dict(watched.failed),
    }


def job_summary(watched: WatchedJob | None) -> dict[str, Any]:
    """What is known of the whole time, by node or pod."""
    return {
        "summary": {
            place: watching.summary() for place, watching in (watched.places if watched else {}).items()
        }
    }


def flight_document(record: FlightRecord) -> dict[str, Any]:
    """What dumps of the flight recorder say."""
    return {
        "ranks": record.ranks,
        "stops": [asdict(stop) for stop in record.stops],
        "stragglers": [asdict(straggler) for straggler in record.stragglers],
        "timed": record.timed,
        "judged": {group: _judged(verdict) for group, verdict in record.verdicts.items()},
    }


def _judged(verdict: RankVerdict) -> dict[str, Any]:
    """What could have been seen of ranks."""
    return {
        "named_from": verdict.named_from,
        "correlated_steps": {str(rank): steps for rank, steps in verdict.correlated.items()},
        "steps": verdict.steps,
    }


def ras_document(watched: RasWatch) -> dict[str, Any]:
    """What NCCL reports of its communicators, and which ranks need a look."""
    return {
        "at_s": watched.at_s,
        "communicators": [asdict(communicator) for communicator in watched.communicators],
        "stalls": [asdict(stall) for stall in watched.stalls],
        "lost": {name: [asdict(rank) for rank in ranks] for name, ranks in watched.lost.items()},
        "failed": {name: [asdict(rank) for rank in ranks] for name, ranks in watched.failed.items()},
    }


def summary(watching: Watching | None) -> dict[str, Any]:
    """What is known of the whole time; nothing if it ended before the first sample."""
    return {"summary": watching.summary() if watching else {}}


def logs_document(logs: WatchedLogs) -> dict[str, Any]:
    """What a job's logs have said so far, and which of them need a look."""
    return {
        "at": logs.at,
        "logs": [
            {
                "path": str(log.path),
                "format": log.format or None,
                "step": log.steps.newest,
                "figures": {**log.steps.figures},
                "units": {**log.units},
                "silent_s": log.grown_s,
                "off": log.off or None,
            }
            for log in logs.logs
        ],
        "stop": None if logs.stop is None else asdict(logs.stop),
        "stragglers": [asdict(straggler) for straggler in logs.ranks.slow],
        "judged": _judged(logs.ranks),
    }
