"""Prometheus and its neighbors on this machine."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from assay.errors import InputError
from assay.questions.monitor import monitor_server
from assay.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from assay.monitor.stack import MonitoringStack

SHORTEST_S, LONGEST_S = 0.1, 3600.0  # between scrapes
LOOK_S = 0.5  # between looks at the processes


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
    from assay.durable import delivering, locked
    from assay.monitor.stack import StackOptions, stack
    from assay.run.stopping import terminable

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


def follow(running: MonitoringStack) -> NoReturn:
    """Wait until Ctrl-C or SIGTERM, as KeyboardInterrupt. Raises HostError once a program has ended."""
    while True:
        running.check()
        time.sleep(LOOK_S)


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
