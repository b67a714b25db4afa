"""Ranks that start something at the same moment, without torch: rank 0 waits for all, then tells all.

They meet at MASTER_ADDR and MASTER_PORT and keep the connection. A rank that ends closes its connection, so
the others don't wait for it: they end too, and say which one is gone.
"""

from __future__ import annotations

import os
import socket
import time

from assay_payloads.measuring.rank import Rank

MEET_S = 300.0  # as long as torch.distributed waits for a rank that starts late
LOOK_EVERY_S = 0.05
RETRY_EVERY_S = 0.2
TOKEN_S = 2.0
READY, GO = b"r", b"g"


class Rendezvous:
    """All ranks of a job, connected through rank 0; one rank needs nobody."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        if rank.size == 1:
            self._others: list[socket.socket] = []
        elif rank.rank == 0:
            self._others = accepted(rank, rank.size - 1)
        else:
            self._others = [connected(rank)]
        for connection in self._others:
            connection.settimeout(None)

    def together(self, wait_s: float) -> None:
        """Return when every rank has called this; a rank that ended, or takes longer, ends this one."""
        if self.rank.rank == 0:
            for connection in self._others:
                self._hear(connection, READY, wait_s)
            for connection in self._others:
                self._tell(connection, GO)
        else:
            self._tell(self._others[0], READY)
            self._hear(self._others[0], GO, wait_s)

    def _tell(self, to: socket.socket, message: bytes) -> None:
        try:
            to.sendall(message)
        except OSError as error:
            self.rank.fail(f"another rank ended early ({error}); its log may show why")

    def _hear(self, other: socket.socket, message: bytes, wait_s: float) -> None:
        other.settimeout(wait_s)
        try:
            came = other.recv(1)
        except socket.timeout:  # noqa: UP041  (another class before Python 3.10)
            self.rank.fail(f"another rank has been silent for {wait_s:g} s; its log may show why")
        except OSError as error:
            self.rank.fail(f"another rank ended early ({error}); its log may show why")
        if came != message:
            self.rank.fail("another rank ended early; its log may show why")


def accepted(rank: Rank, count: int) -> list[socket.socket]:
    """The connections that this many other ranks have made to this one."""
    port, until = int(os.environ["MASTER_PORT"]), time.monotonic() + MEET_S
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        server = socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        rank.fail(f"can't listen on MASTER_PORT={port}: {error.strerror}")
    connections: list[socket.socket] = []
    with server:
        while len(connections) < count:
            server.settimeout(max(until - time.monotonic(), LOOK_EVERY_S))
            try:
                new = server.accept()[0]
            except socket.timeout:  # noqa: UP041  (another class before Python 3.10)
                who = "the other end" if count == 1 else f"{count - len(connections)} of {count} ranks"
                rank.fail(f"{who} did not connect to {socket.gethostname()}:{port} within {MEET_S:g} s")
            if is_of_this_job(new):
                connections.append(new)
            else:
                new.close()
    return connections


def is_of_this_job(connection: socket.socket) -> bool:
    """Whether the peer knows the job's token."""
    connection.settimeout(TOKEN_S)
    token, received = own_token(), b""
    try:
        while len(received) < len(token) and (came := connection.recv(len(token) - len(received))):
            received += came
    except OSError:
        return False
    return received == token


def connected(rank: Rank) -> socket.socket:
    """The connection that this end has made to the first rank."""
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    until = time.monotonic() + MEET_S
    while True:
        try:
            connection = socket.create_connection(place, timeout=max(until - time.monotonic(), LOOK_EVERY_S))
        except OSError as error:
            if time.monotonic() > until:
                rank.fail(f"can't reach rank 0 at {place[0]}:{place[1]} within {MEET_S:g} s: {error}")
            time.sleep(RETRY_EVERY_S)
        else:
            connection.sendall(own_token())
            return connection


def own_token() -> bytes:
    """What all ranks of a job share, and nobody else."""
    return os.environ.get("ASSAY_TOKEN", "").encode() + b"\n"
