"""Telemetry of finished runs from a Prometheus."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import HostError, InputError
from assay.questions.evidence import runs_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assay.monitor.fetched_telemetry import FetchedTelemetry, RunPlace
    from assay.monitor.prometheus import PrometheusClient
    from assay.records import Run
    from assay.rundir.session import Attempt, Session
    from assay.telemetry.agreement import TelemetryAgreement

MOST_TOKEN_BYTES = 1 << 16


@dataclass(frozen=True)
class FetchedRun:
    """What was fetched for one attempt.

    samples    rows of nodes, and of GPUs
    nodes      nodes with samples, of so many; gpus: GPUs with samples
    missing    column → the metric and exporter that would have it
    left_out   series that were not used, and why
    agreement  with the sampler; None if only one of the two has telemetry
    why_not    why nothing was stored: the run has no time or no nodes, or the Prometheus nothing about them
    """

    run: str
    samples: tuple[int, int] = (0, 0)
    nodes: tuple[int, int] = (0, 0)
    gpus: int = 0
    missing: Mapping[str, str] | None = None
    left_out: Sequence[str] = ()
    agreement: TelemetryAgreement | None = None
    why_not: str = ""


def fetch_telemetry(
    reference: str,
    prometheus: str,
    *,
    token_file: str | os.PathLike[str] | None = None,
    token_env: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    runs: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[FetchedRun]:
    """Store what a Prometheus knows about finished runs next to them, like `assay monitor fetch`.

    reference    `SUITE` (its newest session) or `SUITE/SESSION`
    prometheus   its address, which ends before /api/v1
    token_file   a file with a bearer token; token_env: a variable that has one
    ca_file      certificates that vouch for the server
    progress     called with the runs done and all of them

    Raises InputError for a wrong reference, address, token or certificate; BusyError if the session runs;
    HostError if the Prometheus does not answer or refuses. What was stored earlier stays then.
    """
    from assay.monitor.prometheus import PrometheusClient
    from assay.records import RunState

    session = _session(runs_directory(runs), reference)
    token = _token(token_file, token_env)
    client = PrometheusClient(prometheus, token, None if ca_file is None else Path(ca_file))
    version = client.version()
    fetched = []
    with session.lock():
        attempts = list(session.last_attempts().values())
        for number, attempt in enumerate(attempts):
            run = attempt.run()
            if run.state in (RunState.FINISHED, RunState.FAILED):
                fetched.append(_fetch(client, version, attempt, run))
            if progress is not None:
                progress(number + 1, len(attempts))
    if not fetched:
        raise InputError(f"{session.id}: no run has ended yet; fetch its telemetry when one has")
    return fetched


def _session(runs_dir: Path, reference: str) -> Session:
    from assay.rundir import session as rundir

    matching = [
        session
        for session in rundir.sessions(runs_dir)
        if reference in (session.id, session.id.partition("/")[0])
    ]
    if not matching:
        raise InputError(f"{reference}: no session below {runs_dir}; `assay list` shows what there is")
    return max(matching, key=lambda session: session.name)


def _token(file: str | os.PathLike[str] | None, name: str | None) -> str:
    """The bearer token, learned so that no output shows it."""
    from assay import redact
    from assay.inputs import open_plain

    if file is None and name is None:
        return ""
    if file is not None and name is not None:
        raise InputError("a token file and a variable are given; choose one")
    if name is not None:
        token = os.environ.get(name, "").strip()
        where = f"${name}"
    else:
        where = os.fspath(file or "")
        try:
            with open_plain(Path(where)) as stream:
                token = stream.read(MOST_TOKEN_BYTES).decode(errors="replace").strip()
        except OSError as error:
            raise InputError(f"{where}: {error.strerror}; expected a file with a bearer token") from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"{where}: no bearer token; expected one line without spaces")
    redact.learn_values([token])
    return token


def _fetch(client: PrometheusClient, version: str, attempt: Attempt, run: Run) -> FetchedRun:
    from assay.monitor.fetched_telemetry import fetch

    if run.started_at is None or run.ended_at is None:
        return FetchedRun(run.id, why_not="its log does not say when it ran")
    places = run_places(attempt, run)
    if not places:
        return FetchedRun(run.id, why_not="it is unknown on which nodes it ran")
    telemetry = fetch(client, places, run.started_at, run.ended_at)
    nodes = sorted(telemetry.step_s)
    if not nodes:
        names = ", ".join(sorted({name for place in places for name in place.hosts | place.pods})[:6])
        why = f"this Prometheus has no series of its nodes at that time (looked for {names})"
        return FetchedRun(run.id, nodes=(0, len(places)), missing=telemetry.missing, why_not=why)
    _store(client, version, attempt, telemetry)
    return FetchedRun(
        run.id,
        (telemetry.node.rows, telemetry.gpu.rows),
        (len(nodes), len(places)),
        sum(map(len, telemetry.gpus.values())),
        telemetry.missing,
        telemetry.left_out,
        _agreement(attempt),
    )


def run_places(attempt: Attempt, run: Run) -> list[RunPlace]:
    """Each node of a run by its names: the launcher's, and the host name that the probe saw."""
    from assay.monitor.fetched_telemetry import RunPlace

    provenance = attempt.provenance()
    probed = [] if provenance is None else [str(node.get("host", "")) for node in provenance.nodes]
    by_rank = list(run.places)
    workers = run.trial.shape.workers
    per_worker = max(1, run.trial.shape.ranks // workers)
    by_worker = by_rank[::per_worker] if len(by_rank) == run.trial.shape.ranks else []
    count = max(len(probed), 0) or len(dict.fromkeys(filter(None, by_rank)))
    named = by_worker if len(by_worker) == count else list(dict.fromkeys(filter(None, by_rank)))
    named = named if len(named) == count else []
    places = []
    for number in range(count):
        names = {*(probed[number : number + 1]), *(named[number : number + 1])} - {""}
        places.append(RunPlace(frozenset(names), frozenset(names)))
    return places


def _store(client: PrometheusClient, version: str, attempt: Attempt, telemetry: FetchedTelemetry) -> None:
    from assay.telemetry.lines import NodeTelemetry
    from assay.telemetry.recorded import store_tables
    from assay.telemetry.samples import TelemetryHeader

    arrays = {
        name: table.arrays()
        for name, table in (("node", telemetry.node), ("gpu", telemetry.gpu))
        if table.rows
    }
    begin = min(float(times[0]) for table in (telemetry.node, telemetry.gpu) for times in table.unix_s)
    nodes = []
    for number, step_s in sorted(telemetry.step_s.items()):
        gpus = tuple(telemetry.gpus.get(number, ()))
        header = TelemetryHeader(begin, step_s, tuple(telemetry.node.names), tuple(telemetry.gpu.names), gpus)
        samples = sum(len(numbers) for numbers in telemetry.node.node if numbers[0] == number)
        nodes.append(NodeTelemetry(number, header, samples=samples))
    source = {
        "url": client.url,
        "version": version,
        "missing": dict(telemetry.missing),
        "left_out": list(telemetry.left_out),
    }
    store_tables(attempt.path, arrays, nodes, source)
    attempt.renew_stamp()


def _agreement(attempt: Attempt) -> TelemetryAgreement | None:
    from assay.telemetry import recorded
    from assay.telemetry.agreement import agreement

    try:
        if not recorded.nodes(attempt.path, "sampler"):
            return None
        return agreement(attempt.path)
    except InputError as error:
        raise HostError(str(error)) from error


def fetch_document(runs: Sequence[FetchedRun]) -> dict[str, Any]:
    """Each run with what was fetched, what is missing, and whether the sampler agrees."""
    return {
        "runs": [
            {
                "run": run.run,
                "stored": not run.why_not,
                "why_not": run.why_not,
                "samples": {"node": run.samples[0], "gpu": run.samples[1]},
                "nodes": {"found": run.nodes[0], "all": run.nodes[1]},
                "gpus": run.gpus,
                "missing": dict(run.missing or {}),
                "left_out": list(run.left_out),
                "agreement": None
                if run.agreement is None
                else {
                    "compared": run.agreement.compared,
                    "differences": [asdict(difference) for difference in run.agreement.differences],
                },
            }
            for run in runs
        ]
    }
