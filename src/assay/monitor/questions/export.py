"""Metrics of runs and results for Prometheus: served, or written to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import ClassVar, Literal
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, exposition, make_wsgi_app
from prometheus_client.openmetrics import exposition as openmetrics

from assay import read
from assay.analyse.comparison.sides import led_by
from assay.durable import deliver
from assay.errors import HostError, InputError
from assay.inputs import open_plain
from assay.monitor.exporter import (
    MetricsCollector,
    NewestResult,
    NewestResults,
    NewestStep,
    NewestVerdict,
)
from assay.monitor.live import live_runs
from assay.questions.evidence import runs_directory
from assay.questions.gate import BASELINE_FILE, gate
from assay.questions.history import history
from assay.questions.question import RUNS, Answer, Question, option, question
from assay.questions.values import Duration, File, Location
from assay.records import Comparison, Point
from assay.rundir.session import Session, sessions
from assay.units import seconds
from assay.view.blocks import Block, Paragraph
from assay.view.contents import gather

MOST_BYTES = 4096  # of a reference in a file
IDLE_S = 10.0  # after which a client that sends nothing is closed
MOST_SUITES = 200  # of which the newest results are exported, the newest suites
DEFAULT_ADDRESS = "127.0.0.1:9850"


@question
class ExportMetrics(Question):
    """Serve what Assay knows as metrics: running trials with their telemetry, newest results and verdicts.

    Each scrape reads the runs directory. A batch node, which nobody can scrape, writes a file for node
    exporter's textfile collector. The server has no authentication, so it listens on the loopback address;
    put a proxy before it, or choose another address with --listen, to let others in.

    \b
    Examples:
      assay monitor export
      assay monitor export --listen 0.0.0.0:9850
      assay monitor export --textfile /var/lib/node_exporter/assay.prom --every 30s

    \b
    Exit codes: 0 the file is written; 2 the options contradict each other; 4 no such address;
    5 can't listen or write; 130 stopped by Ctrl-C.
    """

    has_json: ClassVar[bool] = False

    listen: str | None = option(
        f"Where to serve /metrics.  [default: {DEFAULT_ADDRESS}]", default=None, metavar="HOST:PORT"
    )
    textfile: File | None = option(
        "Write a file for node exporter's textfile collector instead.", default=None
    )
    every: Duration | None = option("With --textfile: write it again and again.", default=None)
    runs: Location | None = option(RUNS, default=None, local=True)

    def __post_init__(self) -> None:
        if self.textfile is None and self.every is not None:
            raise ValueError("--every needs --textfile: a server answers each scrape")
        if self.textfile is not None and self.listen is not None:
            raise ValueError("--textfile and --listen exclude each other")

    @contextmanager
    def answering(self) -> Iterator[Answer]:
        """Serves or writes after the answer was shown, until the process ends."""
        if self.textfile is None:
            server, url = monitor_server(self.listen or DEFAULT_ADDRESS, runs=self.runs)
            with server:
                yield MetricsPlace(url)
                server.serve_forever()
            return
        write_textfile(Path(self.textfile), runs=self.runs)
        yield MetricsPlace("")
        while self.every is not None:  # pragma: no cover - ends with its process
            time.sleep(seconds(self.every))
            write_textfile(Path(self.textfile), runs=self.runs)


@dataclass(frozen=True)
class MetricsPlace(Answer):
    """Where metrics are served; "" if a file has them."""

    url: str

    def view(self) -> Iterator[Block]:
        """The address."""
        if self.url:
            yield Paragraph(f"Serving {self.url} until Ctrl-C.")


def monitor_metrics(
    *, runs: str | PathLike[str] | None = None, form: Literal["prometheus", "openmetrics"] = "prometheus"
) -> bytes:
    """Every metric of a runs directory as text, like `assay monitor export --textfile`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    """
    registry = _registry(runs_directory(runs))
    text: bytes = (openmetrics if form == "openmetrics" else exposition).generate_latest(registry)
    return text


def monitor_server(address: str, *, runs: str | PathLike[str] | None = None) -> tuple[WSGIServer, str]:
    """An HTTP server that answers each scrape of `/metrics`, and its URL; the caller serves and closes it.

    address  `127.0.0.1:9850`; port 0: a free one

    Raises InputError for what is no address, HostError if it can't be listened on.
    """

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
    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: live_runs(runs_dir), _newest(runs_dir)))
    return registry


def _newest(runs_dir: Path) -> Callable[[], NewestResults]:
    """Reads the newest finished session of each suite; one that has not changed is not read again."""
    known: dict[tuple[str, tuple[str, ...]], NewestResults] = {}

    def read_newest() -> NewestResults:
        last: dict[str, Session] = {}
        newest, errors = [], 0
        for session in sessions(runs_dir):
            try:
                if not session.lost_files and session.header.finished_at is not None:
                    last[session.path.parent.name] = session
            except InputError:  # counted, and named by `assay show`
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

    return read_newest


def _of_session(session: Session, runs_dir: Path) -> NewestResults:
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
    if path.suffix != ".prom":
        raise InputError(f"{path}: node exporter reads files whose names end in .prom only")
    deliver(path, monitor_metrics(runs=runs), option="--textfile")
