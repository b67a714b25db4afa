"""Prometheus and its neighbors on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from assay.durable import delivering, locked
from assay.errors import InputError
from assay.monitor.questions.export import DEFAULT_ADDRESS, monitor_server
from assay.monitor.stack import MonitoringStack, StackOptions, stack
from assay.questions.question import RUNS, Answer, Question, option, question
from assay.questions.values import Duration, Folder, Location
from assay.run.stopping import terminable
from assay.units import seconds
from assay.view.blocks import Block, Paragraph

SHORTEST_S, LONGEST_S = 0.1, 3600.0  # between scrapes
LOOK_S = 0.5  # between looks at the processes


@question
class Up(Question):
    """Run Prometheus with Assay's metrics and alert rules until Ctrl-C, for one machine without monitoring.

    Alertmanager, node exporter and Grafana run too if they are installed. Everything listens on the loopback
    address, on the usual port or, if that is taken, another one. Ctrl-C ends everything; the data stays in
    the directory, and the next start goes on with it.

    \b
    Examples:
      assay monitor up
      assay monitor up --dir /data/monitoring --every 5s
      assay monitor up --alertmanager-config alertmanager.yaml --hold 10s

    \b
    Exit codes: 4 a time, address or file is invalid; 5 Prometheus is not installed, or a program does not
    start or has ended; 6 the directory is in use; 130 stopped by Ctrl-C.
    """

    directory: Folder = option("Configuration, data and logs.", default="assay-monitoring", names=("--dir",))
    prometheus: Location | None = option("Else the one on the path.", default=None, metavar="BIN")
    alertmanager_config: Location | None = option(
        "Where alerts go, in Alertmanager's form; else it shows them and sends none.",
        default=None,
        metavar="FILE",
    )
    listen: str = option("Our exporter.", default=DEFAULT_ADDRESS, metavar="HOST:PORT")
    every: Duration = option("Time between scrapes.", default="15s")
    hold: Duration | None = option("How long every alert must hold to fire.", default=None)
    runs: Location | None = option(RUNS, default=None, local=True)

    @contextmanager
    def answering(self) -> Iterator[Answer]:
        """After the answer was shown, waits until Ctrl-C. Raises HostError once a program has ended."""
        with monitoring_stack(
            self.directory,
            runs=self.runs,
            listen=self.listen,
            prometheus=self.prometheus,
            every=self.every,
            hold=self.hold,
            alertmanager_config=self.alertmanager_config,
        ) as running:
            yield RunningPrograms(running)
            while True:
                running.check()
                time.sleep(LOOK_S)


@dataclass(frozen=True)
class RunningPrograms(Answer):
    """What runs, and what is not installed."""

    stack: MonitoringStack

    def view(self) -> Iterator[Block]:
        """A line for each program."""
        yield from (Paragraph(f"{name:15} {url}") for name, url in self.stack.urls.items())
        for name, source in self.stack.missing.items():
            yield Paragraph(f"{name:15} not installed: {source}")
        yield Paragraph(f"Runs until Ctrl-C; data and logs are in {self.stack.directory}.")

    def document(self) -> dict[str, Any]:
        """URLs by program, and how to get the programs that are not here."""
        return self.stack.document()


@contextmanager
def monitoring_stack(
    directory: str | PathLike[str],
    *,
    runs: str | PathLike[str] | None = None,
    listen: str = "127.0.0.1:9850",
    prometheus: str | PathLike[str] | None = None,
    every: str | float = 15.0,
    hold: str | float | None = None,
    alertmanager_config: str | PathLike[str] | None = None,
) -> Iterator[MonitoringStack]:
    """Prometheus with what `assay monitor export` serves, and what else is here, like `assay monitor up`.

    directory            for configuration, data and logs
    listen               address of Assay's exporter; port 0: a free one
    prometheus           its program; None: the one on the path
    every                between scrapes: `"15s"` or seconds
    hold                 how long each alert must hold before it fires; None: as its rule says
    alertmanager_config  None: alerts are shown and sent to nobody

    Everything ends with this context. Raises InputError for a time, address or file that is not one;
    HostError if a program is missing or does not start; BusyError if the directory is in use.
    """
    try:
        every_s, hold_s = seconds(every), None if hold is None else seconds(hold)
    except ValueError as error:
        raise InputError(str(error)) from None
    if not SHORTEST_S <= every_s <= LONGEST_S:
        raise InputError(f"every {every_s:g} s: choose between {SHORTEST_S:g} s and {LONGEST_S:g} s")
    folder = Path(directory)
    lock = folder / "lock"
    with delivering(lock, option="--dir"):
        pass
    with locked(lock, str(folder)), terminable(), _served(listen, runs) as target:
        options = StackOptions(
            folder,
            target,
            None if prometheus is None else Path(prometheus),
            every_s,
            hold_s,
            None if alertmanager_config is None else Path(alertmanager_config),
        )
        with stack(options) as running:
            yield running


@contextmanager
def _served(listen: str, runs: str | PathLike[str] | None) -> Iterator[str]:
    """Assay's exporter; its host and port."""
    server, url = monitor_server(listen, runs=runs)
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield url.removeprefix("http://").removesuffix("/metrics")
        finally:
            server.shutdown()
