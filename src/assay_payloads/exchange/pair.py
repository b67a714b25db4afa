"""Two ranks that measure what is between them, by a program that serves on one and connects from the other.

The first rank and the first of the second half are the two ends; the others have nothing to do. They meet
at MASTER_ADDR and MASTER_PORT and keep that connection, over which each tells the other, one JSON object a
line, where its program listens, that it has ended, or why it failed: so the one end never waits for an end
that is no more, and both say the reason.
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
REASON_S = 2.0  # a reason from the other end is worth so long a wait
LOOK_EVERY_S = 0.05
RETRY_EVERY_S = 0.2
TOKEN_S = 2.0
LISTENING = "0A"  # state in /proc/net/tcp
REFUSED = (
    "a firewall or a NetworkPolicy keeps the other end from this port (it let MASTER_PORT through); open one "
    "and name it as `port`"
)

Message = dict[str, Any]


class PairEnd:
    """One end, and its connection to the other.

    words          of the program that is measured with
    number         0 on the first rank's worker, 1 on the other's
    other_address  the other end's, as this one reaches it
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

    # Talking

    def tell(self, **message: object) -> None:
        """One message. That the other end is no more is not told here: whoever hears next learns it."""
        self.socket.settimeout(None)
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def exchange(self, value: object) -> Any:
        """The other end's value for this one's."""
        self.tell(value=value)
        return self.hear(END_S)["value"]

    def hear(self, patience_s: float) -> Message:
        """The next message; a failure of the other end, or its silence, ends this one too."""
        until = time.monotonic() + patience_s
        while not self._heard:
            if time.monotonic() > until:
                self.rank.fail(f"{self.other} says nothing for {patience_s:g} s; its log may tell why")
            if not self._receive(until - time.monotonic()):
                self.rank.fail(f"{self.other} ended without a word; its log may tell why")
        message = self._heard.pop(0)
        if "failed" in message:
            self.rank.fail(f"{self.other}: {message['failed']}")
        return message

    def _receive(self, patience_s: float) -> bool:
        """Take in what comes within this time; False at the end of the connection."""
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
        """End both, with this end's reason and the other's where it has one too."""
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
        """Run the program that serves one client, until both ends have ended well.

        argv_at  its command, by the port that it is to listen on
        port     None: one that is free
        """
        chosen = port or free_port()
        if listens(chosen):  # else the other end would meet whoever does
            self.fail(f"something listens on port {chosen} already; leave `port` out, or name another")
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
        """Run the program that connects, once the other end listens, until both ends have ended well.

        argv_at  its command, by the address and the port of the server
        """
        port = self.hear(LISTEN_S + END_S)["port"]
        self._to_end(self._start(argv_at(self.other_address, port), "client", labels))

    def _start(self, argv: list[str], part: str, labels: Mapping[str, object]) -> SiteProgram:
        try:
            return SiteProgram(self.rank, argv, part, labels)
        except OSError as error:
            self.fail(f"{argv[0]} can't be started: {error.strerror}: {NOT_THERE}")

    def _to_end(self, program: SiteProgram) -> None:
        """Pass its output on until it ends, and see that the other end's does so too."""
        other_ended_at: float | None = None
        with selectors.DefaultSelector() as ready:
            ready.register(program.output, selectors.EVENT_READ)
            ready.register(self.socket, selectors.EVENT_READ)
            while program.exit_code is None:
                for key, _ in ready.select(1.0):
                    if key.fileobj is program.output:
                        program.pass_on()
                    else:
                        self.hear(END_S)  # that its program has ended; what it tells next is of the next test
                        other_ended_at = time.monotonic()
                        ready.unregister(self.socket)
                if other_ended_at is not None and time.monotonic() > other_ended_at + END_S:
                    self.fail(f"{program.name} still runs {END_S:g} s after the other end's has ended")
        if why := program.why_not(self.words):
            self.fail(why)
        self.tell(ended=True)
        if other_ended_at is None:
            self.hear(2 * END_S)  # a program that does not end is told of by its own end, after END_S


def joined(words: FailureWords) -> PairEnd:
    """The pair that this rank is an end of; a rank that is none leaves here, with exit code 0."""
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
        rank.fail(f"MASTER_PORT={port} can't be listened on: {error.strerror}")
    with server:
        while True:
            server.settimeout(max(until - time.monotonic(), LOOK_EVERY_S))
            try:
                found = server.accept()[0]
            except socket.timeout:  # noqa: UP041  (another class before Python 3.10)
                rank.fail(f"the other end did not come to {socket.gethostname()}:{port} in {MEET_S:g} s")
            if is_of_this_job(found):
                return found
            found.close()


def is_of_this_job(found: socket.socket) -> bool:
    """Whether whoever connected knows the job's token."""
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
                rank.fail(f"rank 0 is not reached at {place[0]}:{place[1]} in {MEET_S:g} s: {error}")
            time.sleep(RETRY_EVERY_S)
        else:
            found.sendall(own_token())
            return found


def own_token() -> bytes:
    """What every rank of a job has in common and nobody else."""
    return os.environ.get("ASSAY_TOKEN", "").encode() + b"\n"


def listens(port: int) -> bool:
    """Whether anything of this network listens on a TCP port; nothing is connected to it to find out."""
    for table in ("tcp", "tcp6"):
        file = Path("/proc/self/net") / table
        for line in file.read_text().splitlines()[1:] if file.exists() else []:
            _, local, _, state = line.split()[:4]
            if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def free_port() -> int:
    """A TCP port that nobody uses at this moment."""
    with socket.socket() as found:
        found.bind(("", 0))
        port: int = found.getsockname()[1]
        return port
