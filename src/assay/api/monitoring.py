"""Metrics for Prometheus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from assay.api.evidence import runs_directory
from assay.errors import HostError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

    from assay.monitor.exporter import NewestResults
    from assay.rundir.session import Session

MOST_SUITES = 200  # of which the newest results are exported, the newest suites


def monitor_metrics(
    *, runs: str | PathLike[str] | None = None, form: Literal["prometheus", "openmetrics"] = "prometheus"
) -> bytes:
    """Every metric of a runs directory as text, like `assay monitor export --textfile`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    """
    from prometheus_client import exposition
    from prometheus_client.openmetrics import exposition as openmetrics

    made = _registry(runs_directory(runs))
    text: bytes = (openmetrics if form == "openmetrics" else exposition).generate_latest(made)
    return text


def monitor_server(address: str, *, runs: str | PathLike[str] | None = None) -> tuple[WSGIServer, str]:
    """An HTTP server that answers each scrape of `/metrics`, and its URL; the caller serves and closes it.

    address  `127.0.0.1:9850`; port 0: a free one

    Raises InputError for what is no address, HostError if it can't be listened on.
    """
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from prometheus_client import make_wsgi_app

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Scrapes are not news."""

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{address!r} is no address; write it as 127.0.0.1:9850")
    try:
        server = make_server(
            host.strip("[]"), int(port), make_wsgi_app(_registry(runs_directory(runs))), handler_class=Quiet
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

    made = CollectorRegistry()
    made.register(MetricsCollector(lambda: live_runs(runs_dir), _newest(runs_dir)))
    return made


def _newest(runs_dir: Path) -> Callable[[], NewestResults]:
    """Reads the newest finished session of each suite; one that has not changed is not read again."""
    known: dict[tuple[str, tuple[str, ...]], NewestResults] = {}

    def read() -> NewestResults:
        from assay.monitor.exporter import NewestResults
        from assay.rundir.session import sessions

        last: dict[str, Session] = {}
        for session in sessions(runs_dir):
            if not session.lost_files and session.header.finished_at is not None:
                last[session.path.parent.name] = session
        chosen = sorted(last.values(), key=lambda session: session.name)[-MOST_SUITES:]
        found, errors = [], 0
        for session in chosen:
            key = session.id, tuple(attempt.stamp() for attempt in session.last_attempts().values())
            if key not in known:
                try:
                    known[key] = _of_session(session)
                except InputError:  # counted in the metrics, and reported by `assay show`
                    errors += 1
                    continue
            found.append(known[key])
        return NewestResults(
            [one for each in found for one in each.results],
            [one for each in found for one in each.verdicts],
            {name: count for each in found for name, count in (each.doubts or {}).items()},
            errors,
        )

    return read


def _of_session(session: Session) -> NewestResults:
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
            one.side,
            one.point.benchmark,
            str(one.point.shape),
            one.point.metric,
            one.point.unit,
            one.estimate.value,
            one.estimate.low,
            one.estimate.high,
            len(one.values),
        )
        for one in contents.summaries
        if contents.primary.get(one.point.benchmark) == one.point.metric and not one.point.labels
    ]
    verdicts = [
        NewestVerdict(
            suite,
            session.name,
            one.b,
            one.a,
            one.point.benchmark,
            str(one.point.shape),
            one.point.metric,
            one.verdict,
            one.ratio.value,
        )
        for question in contents.questions
        for one in question.comparisons
        if one.ratio.value == one.ratio.value
    ]
    return NewestResults(values, verdicts, {(suite, session.name): len(contents.doubts)})


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
