"""Two ranks that measure their connection, with a program that serves on one and connects on the other.

The first rank and the first rank of the second half are the two ends; the others have nothing to do. They
meet at MASTER_ADDR and MASTER_PORT and keep that connection. Over it, each tells the other, one JSON object
per line, where its program listens, that it has ended, or why it failed: so neither end waits for one
that is gone, and both report the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from assay_payloads.measuring.rank import END, Rank
from assay_payloads.measuring.site_program import NOT_THERE, FailureWords, SiteProgram

MEET_S = 300.0  # as long as torch.distributed waits for a rank that starts late
LISTEN_S = 30.0
END_S = 30.0  # one end's program has ended; the other's follows
REASON_S = 2.0  # time to wait for a reason from the other end
LOOK_EVERY_S = 0.05
RETRY_EVERY_S = 0.2
TOKEN_S = 2.0
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

    def __init__(self, rank: Rank, words: FailureWords) -> None:
        self.rank, self.words = rank, words
        self.number = 0 if rank.rank == 0 else 1
        self.other = f"rank {rank.size // 2 if self.number == 0 else 0}"
        self._rest = b""
        self._heard: list[Message] = []
        self.socket = accepted(rank) if self.number == 0 else connected(rank)
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
                    self.fail(program.why_not(self.words) or f"{program.name} ended before it listened")
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
        if why := program.why_not(self.words):
            self.fail(why)
        self.tell(ended=True)
        if other_ended_at is None:
            self.hear(2 * END_S)  # a program that does not end is reported by its own end, after END_S


def joined(words: FailureWords) -> PairEnd:
    """The pair of which this rank is an end; other ranks exit here, with exit code 0."""
    rank = Rank()
    rank.log("world_size", rank.size)
    if rank.rank not in (0, rank.size // 2):
        rank.log("payload", event=END)
        sys.exit(0)
    return PairEnd(rank, words)


def accepted(rank: Rank) -> socket.socket:
    """The connection that the other end has made to this one."""
    port, until = int(os.environ["MASTER_PORT"]), time.monotonic() + MEET_S
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        server = socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        rank.fail(f"can't listen on MASTER_PORT={port}: {error.strerror}")
    with server:
        while True:
            server.settimeout(max(until - time.monotonic(), LOOK_EVERY_S))
            try:
                found = server.accept()[0]
            except socket.timeout:  # noqa: UP041  (another class before Python 3.10)
                rank.fail(
                    f"the other end did not connect to {socket.gethostname()}:{port} within {MEET_S:g} s"
                )
            if is_of_this_job(found):
                return found
            found.close()


def is_of_this_job(found: socket.socket) -> bool:
    """Whether the peer knows the job's token."""
    found.settimeout(TOKEN_S)
    token, said = own_token(), b""
    try:
        while len(said) < len(token) and (came := found.recv(len(token) - len(said))):
            said += came
    except OSError:
        return False
    return said == token


def connected(rank: Rank) -> socket.socket:
    """The connection that this end has made to the first rank."""
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    until = time.monotonic() + MEET_S
    while True:
        try:
            found = socket.create_connection(place, timeout=max(until - time.monotonic(), LOOK_EVERY_S))
        except OSError as error:
            if time.monotonic() > until:
                rank.fail(f"can't reach rank 0 at {place[0]}:{place[1]} within {MEET_S:g} s: {error}")
            time.sleep(RETRY_EVERY_S)
        else:
            found.sendall(own_token())
            return found


def own_token() -> bytes:
    """What all ranks of a job share, and nobody else."""
    return os.environ.get("ASSAY_TOKEN", "").encode() + b"\n"


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
    with socket.socket() as found:
        found.bind(("", 0))
        port: int = found.getsockname()[1]
        return port
