"""Metrics for Prometheus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from assay.errors import HostError, InputError
from assay.questions.evidence import runs_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

    from assay.monitor.exporter import NewestResults, NewestStep
    from assay.records import Comparison, Point
    from assay.rundir.session import Session

MOST_BYTES = 4096  # of a reference in a file
IDLE_S = 10.0  # after which a client that sends nothing is closed
MOST_SUITES = 200  # of which the newest results are exported, the newest suites


def monitor_metrics(
    *, runs: str | PathLike[str] | None = None, form: Literal["prometheus", "openmetrics"] = "prometheus"
) -> bytes:
    """Every metric of a runs directory as text, like `assay monitor export --textfile`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    """
    from prometheus_client import exposition
    from prometheus_client.openmetrics import exposition as openmetrics

    registry = _registry(runs_directory(runs))
    text: bytes = (openmetrics if form == "openmetrics" else exposition).generate_latest(registry)
    return text


def monitor_server(address: str, *, runs: str | PathLike[str] | None = None) -> tuple[WSGIServer, str]:
    """An HTTP server that answers each scrape of `/metrics`, and its URL; the caller serves and closes it.

    address  `127.0.0.1:9850`; port 0: a free one

    Raises InputError for what is no address, HostError if it can't be listened on.
    """
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from prometheus_client import make_wsgi_app

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True  # a client that sends nothing keeps nobody waiting

    class Quiet(WSGIRequestHandler):
        timeout = IDLE_S

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Scrapes are not news."""

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{address!r} is no address; write it as 127.0.0.1:9850")
    try:
        server = make_server(
            host.strip("[]"), int(port), make_wsgi_app(_registry(runs_directory(runs))), Server, Quiet
        )
    except OSError as error:
        raise HostError(
            f"can't listen on {address}: {error.strerror or error}; choose another one with --listen"
        ) from error
    return server, f"http://{host}:{server.server_port}/metrics"


def _registry(runs_dir: Path) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    from assay.monitor.exporter import MetricsCollector
    from assay.monitor.live import live_runs

    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: live_runs(runs_dir), _newest(runs_dir)))
    return registry


def _newest(runs_dir: Path) -> Callable[[], NewestResults]:
    """Reads the newest finished session of each suite; one that has not changed is not read again."""
    known: dict[tuple[str, tuple[str, ...]], NewestResults] = {}

    def read() -> NewestResults:
        from assay.monitor.exporter import NewestResults
        from assay.rundir.session import sessions

        last: dict[str, Session] = {}
        newest, errors = [], 0
        for session in sessions(runs_dir):
            try:
                if not session.lost_files and session.header.finished_at is not None:
                    last[session.path.parent.name] = session
            except InputError:  # counted, and named by `assay list`
                errors += 1
        chosen = sorted(last.values(), key=lambda session: session.name)[-MOST_SUITES:]
        for session in chosen:
            key = session.id, tuple(session.stamps().values())
            if key not in known:
                try:
                    known[key] = _of_session(session, runs_dir)
                except InputError:  # counted in the metrics, and reported by `assay show`
                    errors += 1
                    continue
            newest.append(known[key])
        return NewestResults(
            [result for results in newest for result in results.results],
            [verdict for results in newest for verdict in results.verdicts],
            {name: count for results in newest for name, count in (results.doubts or {}).items()},
            errors + sum(results.errors for results in newest),
            [step for results in newest for step in results.steps],
        )

    return read


def _of_session(session: Session, runs_dir: Path) -> NewestResults:
    from assay import read
    from assay.analyse.comparison.sides import led_by
    from assay.monitor.exporter import NewestResult, NewestResults, NewestVerdict
    from assay.report.contents.contents import gather

    plan = session.plan()
    results = [read.result(attempt) for attempt in session.last_attempts().values()]
    sides = {name: [r for r in results if r.run.trial.system == name] for name in plan.systems}
    sides = {name: own for name, own in sides.items() if own}
    if not sides:
        return NewestResults()
    contents = gather(sides, led_by(plan.primary_metric, read.metrics), plan=plan)
    suite = session.path.parent.name
    values = [
        NewestResult(
            suite,
            session.name,
            summary.side,
            summary.point.benchmark,
            str(summary.point.shape),
            summary.point.metric,
            summary.point.unit,
            summary.estimate.value,
            summary.estimate.low,
            summary.estimate.high,
            len(summary.values),
            _labels(summary.point),
        )
        for summary in contents.summaries
        if contents.primary.get(summary.point.benchmark) == summary.point.metric
    ]
    compared = [
        (comparison, comparison.b) for question in contents.questions for comparison in question.comparisons
    ]
    steps: list[NewestStep] = []
    errors = 0
    try:
        compared += _with_baseline(session, runs_dir, [*sides])
        steps = _steps(suite, contents.primary, runs_dir)
    except InputError:  # the baseline is gone, or older runs can't be read: what is known is served
        errors = 1
    verdicts = [
        NewestVerdict(
            suite,
            session.name,
            system,
            comparison.a,
            comparison.point.benchmark,
            str(comparison.point.shape),
            comparison.point.metric,
            comparison.verdict,
            comparison.ratio.value,
            _labels(comparison.point),
        )
        for comparison, system in compared
        if comparison.ratio.value == comparison.ratio.value
    ]
    return NewestResults(values, verdicts, {(suite, session.name): len(contents.doubts)}, errors, steps)


def _with_baseline(session: Session, runs_dir: Path, systems: Sequence[str]) -> list[tuple[Comparison, str]]:
    """Primary comparisons with the runs that `assay run --baseline` named, each with the system's name."""
    from assay.inputs import open_plain
    from assay.questions.gate import gate
    from assay.questions.run import BASELINE_FILE

    file = session.path / BASELINE_FILE
    if not file.exists():
        return []
    with open_plain(file) as stream:
        baseline = stream.read(MOST_BYTES).decode(errors="replace").strip()
    gated = gate(session.id, baseline=baseline, runs=runs_dir)
    only = systems[0] if len(systems) == 1 else None  # a pair's names are sessions if systems are the same
    return [(verdict.comparison, only or verdict.comparison.b) for verdict in gated.judged]


def _steps(suite: str, primary: Mapping[str, str], runs_dir: Path) -> list[NewestStep]:
    """The newest step or drift of each primary metric."""
    from assay.monitor.exporter import NewestStep
    from assay.questions.history import history

    steps = []
    for benchmark, metric in primary.items():
        for annotated in history(metric, suite=suite, benchmark=benchmark, runs=runs_dir):
            past = annotated.history
            if not past.steps:
                continue
            step = past.steps[-1]
            way = {True: "better", False: "worse", None: "neither"}[step.better]
            shape, began_at = str(past.point.shape), past.entries[step.before].at
            steps.append(
                NewestStep(
                    suite,
                    past.system,
                    benchmark,
                    shape,
                    metric,
                    step.kind,
                    way,
                    step.ratio.value,
                    began_at,
                    _labels(past.point),
                )
            )
    return steps


def _labels(point: Point) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(point.labels.items()))


def write_textfile(path: Path, *, runs: str | PathLike[str] | None = None) -> None:
    """Write the metrics for node exporter's textfile collector, atomically. Raises HostError if it can't."""
    from assay.durable import deliver

    if path.suffix != ".prom":
        raise InputError(f"{path}: node exporter reads files whose names end in .prom only")
    deliver(path, monitor_metrics(runs=runs), option="--textfile")


def write_textfile_every(
    path: Path, every_s: float, *, runs: str | PathLike[str] | None = None
) -> None:  # pragma: no cover - ends with its process
    """The same again and again, until the process is ended."""
    while True:
        write_textfile(path, runs=runs)
        time.sleep(every_s)
