"""Telemetry of finished runs from a Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay import redact
from assay.errors import EXIT_OK, EXIT_WORSE, HostError, InputError
from assay.inputs import open_plain
from assay.monitor.fetched_telemetry import FetchedTelemetry, RunPlace, fetch
from assay.monitor.prometheus import PrometheusClient
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    argument,
    function,
    option,
    progress_line,
    question,
)
from assay.questions.values import Location
from assay.records import Run, RunState
from assay.rundir import session as rundir
from assay.rundir.session import Attempt, Session
from assay.telemetry import recorded
from assay.telemetry.agreement import TelemetryAgreement, agreement
from assay.telemetry.recorded import store_tables
from assay.telemetry.samples import NodeTelemetry, TelemetryHeader
from assay.units import counted, human
from assay.view.blocks import Block, Paragraph

MOST_TOKEN_BYTES = 1 << 16
MOST_LINES = 12  # of missing metrics


@question
class FetchTelemetry(Question):
    """Store what a Prometheus has about the nodes, pods and GPUs of finished runs.

    RUN is a suite (its newest session) or a session. Metrics of the DCGM exporter, node exporter and cAdvisor
    are used, for the time and the nodes of each trial, under any of their usual labels. Reports and doubts
    then rest on them where Assay's sampler did not run. Where it did, the two are compared.

    \b
    Examples:
      assay monitor fetch training --prometheus http://prometheus:9090
      oc whoami -t > token
      assay monitor fetch training --prometheus https://thanos-querier.example --token-file token

    \b
    Exit codes: 0 stored; 1 nothing about these runs is there; 4 an address, a token or RUN is wrong; 5 the
    Prometheus does not answer, or refuses.
    """

    reference: str = argument(metavar="RUN")
    prometheus: str = option("Its address, which ends before /api/v1.", metavar="URL", positional=True)
    token_file: Location | None = option(
        "A file with a bearer token.", default=None, metavar="PATH", local=True
    )
    token_env: str | None = option(
        "A variable that holds the token instead.", default=None, metavar="NAME", local=True
    )
    ca_file: Location | None = option(
        "Certificates that vouch for the server.", default=None, metavar="PATH", local=True
    )
    runs: Location | None = option(RUNS, default=None, local=True)
    progress: Callable[[int, int], None] | None = progress_line(
        lambda done, total: f"{done} of {total} runs", default=None
    )

    def answer(self) -> FetchedRuns:
        """What was fetched for each run."""
        return FetchedRuns(self.fetch())

    def fetch(self) -> list[FetchedRun]:
        """What was fetched for each run. What was stored earlier stays after an error.

        Raises InputError for a wrong reference, address, token or certificate; BusyError if the session runs;
        HostError if the Prometheus does not answer or refuses.
        """
        session = _session(runs_directory(self.runs), self.reference)
        token = _token(self.token_file, self.token_env)
        client = PrometheusClient(
            self.prometheus, token, None if self.ca_file is None else Path(self.ca_file)
        )
        version = client.version()
        fetched = []
        with session.lock():
            attempts = list(session.last_attempts().values())
            for number, attempt in enumerate(attempts):
                run = attempt.run()
                if run.state in (RunState.FINISHED, RunState.FAILED):
                    fetched.append(_fetch(client, version, attempt, run))
                if self.progress is not None:
                    self.progress(number + 1, len(attempts))
        if not fetched:
            raise InputError(f"{session.id}: no run has ended yet; fetch its telemetry when one has")
        return fetched


fetch_telemetry = function(FetchTelemetry, FetchTelemetry.fetch)


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


@dataclass(frozen=True)
class FetchedRuns(Answer):
    """What was fetched for each run."""

    runs: Sequence[FetchedRun]

    @property
    def exit_code(self) -> int:
        """1 if nothing was stored."""
        return EXIT_WORSE if all(run.why_not for run in self.runs) else EXIT_OK

    def view(self) -> Iterator[Block]:
        """Each run, how its means agree with the sampler's, and what no run has."""
        for run in self.runs:
            if run.why_not:
                yield Paragraph(f"{run.run}: nothing stored: {run.why_not}")
                continue
            there, node_count = run.nodes
            yield Paragraph(
                f"{run.run}: {there} of {counted(node_count, 'node')}, {counted(run.gpus, 'GPU')}: "
                f"{counted(run.samples[0], 'row')} of nodes, {run.samples[1]:,} of GPUs"
            )
            if run.agreement is not None:
                agreed = run.agreement.compared - len(run.agreement.differences)
                yield Paragraph(f"  {agreed} of {run.agreement.compared} means agree with the sampler's")
                for differing in run.agreement.differences:
                    unit = differing.unit
                    yield Paragraph(
                        f"  ! {differing.what} of {differing.place}: "
                        f"sampler {human(differing.sampler, unit)}, "
                        f"Prometheus {human(differing.prometheus, unit)}, "
                        f"tolerance {human(differing.tolerance, unit)}"
                    )
        missing = {name: source for run in self.runs for name, source in (run.missing or {}).items()}
        everywhere = [name for name in missing if all(name in (run.missing or {}) for run in self.runs)]
        if everywhere:
            yield Paragraph("Not there:")
            for name in everywhere[:MOST_LINES]:
                yield Paragraph(f"  {name}: {missing[name]}")
            if len(everywhere) > MOST_LINES:
                yield Paragraph(f"  and {len(everywhere) - MOST_LINES} more; --json has all")

    def document(self) -> dict[str, Any]:
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
                for run in self.runs
            ]
        }


def _session(runs_dir: Path, reference: str) -> Session:
    matching = [
        session
        for session in rundir.sessions(runs_dir)
        if reference in (session.id, session.id.partition("/")[0])
    ]
    if not matching:
        raise InputError(f"{reference}: no session below {runs_dir}; `assay show` shows what there is")
    return max(matching, key=lambda session: session.name)


def _token(file: str | os.PathLike[str] | None, name: str | None) -> str:
    """The bearer token, learned so that no output shows it."""
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
    try:
        if not recorded.nodes(attempt.path, "sampler"):
            return None
        return agreement(attempt.path)
    except InputError as error:
        raise HostError(str(error)) from error
