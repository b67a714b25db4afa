"""Two ranks that measure their connection, with a program that serves on one and connects on the other.

The first rank and the first rank of the second half are the two ends; the others have nothing to do. They
meet at MASTER_ADDR and MASTER_PORT and keep that connection. Over it, each tells the other, one JSON object
per line, where its program listens, that it has ended, or why it failed: so neither end waits for one
that is gone, and both report the reason.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from assay_payloads.measuring.rank import END, Rank
from assay_payloads.measuring.rendezvous import accepted, connected
from assay_payloads.measuring.site_program import NOT_THERE, FailureWords, SiteProgram

LISTEN_S = 30.0
END_S = 30.0  # one end's program has ended; the other's follows
REASON_S = 2.0  # time to wait for a reason from the other end
LOOK_EVERY_S = 0.05
LISTENING = "0A"  # state in /proc/net/tcp
REFUSED = (
    "a firewall or a NetworkPolicy blocks this port from the other end (it allowed MASTER_PORT); open a port "
    "and set `port` to it"
)

Message = dict[str, Any]


class PairEnd:
    """One end, and its connection to the other.

    words          of the measuring program
    number         0 on the first rank's worker, 1 on the other's
    other_address  the other end's, as this end reaches it
    """

    def __init__(self, rank: Rank, failure_words: FailureWords) -> None:
        self.rank, self.failure_words = rank, failure_words
        self.number = 0 if rank.rank == 0 else 1
        self.other = f"rank {rank.size // 2 if self.number == 0 else 0}"
        self._rest = b""
        self._heard: list[Message] = []
        self.socket = accepted(rank, 1)[0] if self.number == 0 else connected(rank)
        own_address = self.socket.getsockname()[0].replace("::ffff:", "")  # IPv4, on a socket for both
        self.other_address = self.exchange(own_address)

    # Messages

    def tell(self, **message: object) -> None:
        """Send one message. A lost connection is not reported here, but by the next `hear`."""
        self.socket.settimeout(None)
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def exchange(self, value: object) -> Any:
        """Exchange values: returns the other end's value."""
        self.tell(value=value)
        return self.hear(END_S)["value"]

    def hear(self, patience_s: float) -> Message:
        """The next message; a failure of the other end, or its silence, ends this one too."""
        until = time.monotonic() + patience_s
        while not self._heard:
            if time.monotonic() > until:
                self.rank.fail(f"{self.other} has been silent for {patience_s:g} s; its log may show why")
            if not self._receive(until - time.monotonic()):
                self.rank.fail(f"{self.other} ended without a report; its log may show why")
        message = self._heard.pop(0)
        if "failed" in message:
            self.rank.fail(f"{self.other}: {message['failed']}")
        return message

    def _receive(self, patience_s: float) -> bool:
        """Read what arrives within this time; False at the end of the connection."""
        self.socket.settimeout(max(patience_s, LOOK_EVERY_S))
        try:
            came = self.socket.recv(1 << 16)
        except socket.timeout:  # noqa: UP041
            return True
        except OSError:
            return False
        *lines, self._rest = (self._rest + came).split(b"\n")
        self._heard += [json.loads(line) for line in lines]
        return bool(came)

    def fail(self, why: str) -> NoReturn:
        """End both, with this end's reason, and the other end's if it has one."""
        self.tell(failed=why)
        until = time.monotonic() + REASON_S
        while time.monotonic() < until and self._receive(until - time.monotonic()):
            theirs = next((message["failed"] for message in self._heard if "failed" in message), None)
            if theirs is not None:
                self.rank.fail(why if theirs == why else f"{why}; {self.other}: {theirs}")
        self.rank.fail(why)

    # Measuring

    def serve(
        self, argv_at: Callable[[int], list[str]], port: int | None, labels: Mapping[str, object]
    ) -> None:
        """Run the program that serves one client, until both ends have ended successfully.

        argv_at  its command, given the port to listen on
        port     None: a free one
        """
        chosen = port or free_port()
        if listens(chosen):  # otherwise the other end would connect to that program
            self.fail(f"port {chosen} is already in use; remove `port`, or set another one")
        program = self._start(argv_at(chosen), "server", labels)
        until = time.monotonic() + LISTEN_S
        with selectors.DefaultSelector() as ready:
            ready.register(program.output, selectors.EVENT_READ)
            while not listens(chosen):
                if ready.select(LOOK_EVERY_S) and not program.pass_on():
                    self.fail(
                        program.why_not(self.failure_words) or f"{program.name} ended before it listened"
                    )
                if time.monotonic() > until:
                    self.fail(f"{program.name} does not listen on port {chosen} after {LISTEN_S:g} s")
        self.tell(port=chosen)
        self._to_end(program)

    def connect(self, argv_at: Callable[[str, int], list[str]], labels: Mapping[str, object]) -> None:
        """Run the program that connects, once the other end listens, until both ends have ended successfully.

        argv_at  its command, given the address and the port of the server
        """
        port = self.hear(LISTEN_S + END_S)["port"]
        self._to_end(self._start(argv_at(self.other_address, port), "client", labels))

    def _start(self, argv: list[str], part: str, labels: Mapping[str, object]) -> SiteProgram:
        try:
            return SiteProgram(self.rank, argv, part, labels)
        except OSError as error:
            self.fail(f"{argv[0]} can't be started: {error.strerror}: {NOT_THERE}")

    def _to_end(self, program: SiteProgram) -> None:
        """Pass on its output until it ends, and check that the other end's program ends too."""
        other_ended_at: float | None = None
        with selectors.DefaultSelector() as ready:
            ready.register(program.output, selectors.EVENT_READ)
            ready.register(self.socket, selectors.EVENT_READ)
            while program.exit_code is None:
                for key, _ in ready.select(1.0):
                    if key.fileobj is program.output:
                        program.pass_on()
                    else:
                        self.hear(
                            END_S
                        )  # that its program has ended; its next message belongs to the next test
                        other_ended_at = time.monotonic()
                        ready.unregister(self.socket)
                if other_ended_at is not None and time.monotonic() > other_ended_at + END_S:
                    self.fail(
                        f"{program.name} is still running {END_S:g} s after the program on the other end "
                        "ended"
                    )
        if why := program.why_not(self.failure_words):
            self.fail(why)
        self.tell(ended=True)
        if other_ended_at is None:
            self.hear(2 * END_S)  # a program that does not end is reported by its own end, after END_S


def joined(failure_words: FailureWords) -> PairEnd:
    """The pair of which this rank is an end; other ranks exit here, with exit code 0."""
    rank = Rank()
    rank.log("world_size", rank.size)
    if rank.rank not in (0, rank.size // 2):
        rank.log("payload", event=END)
        sys.exit(0)
    return PairEnd(rank, failure_words)


def listens(port: int) -> bool:
    """Whether anything in this network namespace listens on a TCP port, found out without connecting."""
    for table in ("tcp", "tcp6"):
        file = Path("/proc/self/net") / table
        for line in file.read_text().splitlines()[1:] if file.exists() else []:
            _, local, _, state = line.split()[:4]
            if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def free_port() -> int:
    """A TCP port that is free at the moment."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
        return port
