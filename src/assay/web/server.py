"""The server: listens on a port until it is stopped."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import EXIT_INTERRUPTED, EXIT_OK, HostError, InputError
from assay.web.site import Site

if TYPE_CHECKING:
    from types import FrameType

    import uvicorn

    from assay.web.access import AccessRules
    from assay.web.acting_api import Commands
    from assay.web.live import Watchers

BACKLOG = 128
MOST_CONNECTIONS = 400  # at once; for more, those that wait for their clients end, or else they get 503
STOPPING_S = 2  # for open answers, when it is stopped
STOPPED_S = 8  # after which it ends in any case: Python waits for every thread, and each takes what is queued


@dataclass(frozen=True)
class Certificate:
    """The server's certificate with its chain, and its key, both in PEM."""

    file: Path
    key: Path


@contextmanager
def serving(
    address: str,
    site: Site,
    *,
    names: Iterable[str] = (),
    rules: AccessRules | None = None,
    certificate: Certificate | None = None,
    commands: Commands | None = None,
) -> Iterator[str]:
    """A context with the URL where connections are accepted; its end answers them, until Ctrl-C or SIGTERM.

    address      `127.0.0.1:8080`; port 0: a free one
    names        further host names that the server is reached by
    rules        who may do what; None: everybody may read
    certificate  for HTTPS; None: plain HTTP
    commands     answers `assay --server`; None: it isn't answered

    Raises InputError for what is no address or certificate, HostError if it can't be listened on.
    """
    _check(certificate)
    import uvicorn

    from assay import store
    from assay.questions.queue_work import start_worker
    from assay.web.access import AccessRules
    from assay.web.app import make_app
    from assay.web.guard import BoundedConnection
    from assay.web.live import Watchers

    rules = rules or AccessRules()

    host, port = _parts(address)
    listening = _listen(host, port, address)
    scheme = "http" if certificate is None else "https"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    watchers = Watchers(site)
    config = uvicorn.Config(
        make_app(site, host, names, rules, commands, watchers),
        http=BoundedConnection,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOPPING_S,
        h11_max_incomplete_event_size=32 << 10,
        ssl_certfile=None if certificate is None else certificate.file,
        ssl_keyfile=None if certificate is None else certificate.key,
    )
    if "run" in rules.allowed:
        start_worker(runs=site.runs)  # what waits since the machine was restarted
    store.remove_left_indexes()
    threading.Thread(target=_warm_up, args=[site], name="first-answers", daemon=True).start()
    with listening:
        yield url
        streaming_server(config, watchers).run(sockets=[listening])


def streaming_server(config: uvicorn.Config, watchers: Watchers) -> uvicorn.Server:
    """Uvicorn's server, which ends open streams when it is stopped: they would hold it up.

    It ends within STOPPED_S, even if handlers are still at work: killing one leaves nothing half done.

    Answers that it then leaves unfinished are counted in one line, not each a traceback.
    """
    import asyncio

    import uvicorn

    def tells(record: logging.LogRecord) -> bool:
        return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)

    def end(code: int) -> None:
        logging.getLogger("assay").warning("stopped while answers were being made")
        os._exit(code)

    class StreamingServer(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            code = EXIT_INTERRUPTED if sig == signal.SIGINT else EXIT_OK
            last = threading.Timer(STOPPED_S, end, [code])
            last.daemon = True
            last.start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            logging.getLogger("uvicorn.error").addFilter(tells)
            await watchers.end()
            await super().shutdown(sockets)

    return StreamingServer(config)


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{address!r} is no address; write it as 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def _listen(host: str, port: int, address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise HostError(
            f"can't listen on {address}: {error.strerror or error}; choose another one with --listen"
        ) from error
    listener.set_inheritable(True)
    return listener


def _check(certificate: Certificate | None) -> None:
    """Raises InputError if the certificate or its key can't be used."""
    import ssl

    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate.file, certificate.key)
    except OSError as error:  # ssl.SSLError is one
        message = f"{certificate.file} and {certificate.key}: not a certificate and its key in PEM ({error})"
        raise InputError(message) from error


def _warm_up(site: Site) -> None:
    """Look at the runs, then import what pages of results need, so that the first readers don't wait.

    In this order: the imports would keep the first page from the processor.
    """
    from importlib import import_module

    site.refresh()
    for name in ("scipy.stats", "assay.view.charts", "altair", "assay.view.report", "assay.read"):
        import_module(name)
