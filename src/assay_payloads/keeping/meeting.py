"""Where the keepers of a job's nodes meet: no rank of any node starts before all nodes are ready.

Runs with only the standard library (3.9 or newer), next to keeper.py. The keeper of node 0 listens at rank
0's address before rank 0 does, so a job needs no additional port or permission. Each other keeper connects
and sends the job's token and its number. When all are connected, each gets one line: `{}` to start, or
`{"cause": …}` if not all arrived in time. The others close their connections first, so that node 0 leaves
its port free for rank 0.

What it waits for is in `waiting.json` in the keeper's directory.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from assay_payloads.keeping.pauses import Pauses, now

CONNECT_S, CLOSE_S = 2.0, 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.5
LOOK_EVERY_S = 0.1  # whether this keeper must end, while it waits for the others
STATED_AFTER_S = 2.0
ANSWER_SLACK_S = 10.0  # for node 0's answer, beyond its own patience
HELLO_BYTES = 512
ENDING = {signal.SIGTERM, signal.SIGINT}

Ended = tuple[str, str]
"""State and cause of a share that ended before its ranks started."""


class Meeting:
    """One node's part in the meeting, which starts on construction.

    spec  of the keeper; address: where rank 0 will listen
    """

    def __init__(self, spec: dict[str, Any], node: int, address: tuple[str, str], directory: Path) -> None:
        self.nodes, self.node, self.ranks = spec["nodes"], node, spec["ranks"]
        self.token, self.limit_s = spec["token"], spec["start_timeout_s"]
        self.address, self.directory = address, directory
        self.began, self.pauses = now(), Pauses()
        self._stated = ""
        self._arrived: dict[int, socket.socket] = {}
        self._listener = listen(int(address[1])) if node == 0 and self.nodes > 1 else None

    def wait(self) -> Ended | None:
        """Wait until the ranks may start; returns how the share ended if they may not."""
        if self.nodes == 1:
            return None
        try:
            self._await_name()
            if self._listener is not None:
                self._await_others(self._listener)
            else:
                self._join()
        except EndRequest:
            return "cancelled", "cancelled before the ranks started"
        except MeetingTimeoutError as error:
            return "failed", str(error)
        finally:
            self.close()
        return None

    def close(self) -> None:
        """Release the port and all connections."""
        for connection in (*self._arrived.values(), *filter(None, [self._listener])):
            connection.close()

    def _await_name(self) -> None:
        """Wait until the address of rank 0 can be resolved here.

        In a cluster, the name of a new pod can be resolved a moment after the pod starts.
        """
        while True:
            try:
                socket.getaddrinfo(self.address[0], None)
            except socket.gaierror as error:
                where = f"its name {self.address[0]}: {error.strerror}"
            else:
                return
            if self._waited_s() > self.limit_s:
                raise MeetingTimeoutError(self._unreached(where))
            self._pause(0.2, f"{self._call([0])} ({where})")

    def _await_others(self, listener: socket.socket) -> None:
        """As node 0: wait until all other nodes are connected, then let them start."""
        with selectors.DefaultSelector() as readable:
            readable.register(listener, selectors.EVENT_READ)
            while missing := set(range(1, self.nodes)) - self._arrived.keys():
                if self._waited_s() > self.limit_s:
                    late = self._late(missing)
                    self._answer({"cause": late})
                    raise MeetingTimeoutError(late)
                with self.pauses.noting(LOOK_EVERY_S):
                    ready = readable.select(LOOK_EVERY_S)
                for key, _ in ready:
                    if key.fileobj is listener:
                        connection, _ = listener.accept()
                        connection.settimeout(CONNECT_S)
                        readable.register(connection, selectors.EVENT_READ)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        self._hear(key.fileobj, readable)
                self._pause(0.0, self._call(missing))
        self._answer({})

    def _hear(self, connection: socket.socket, readable: selectors.BaseSelector) -> None:
        """What a connection reports: which node it is, or that its keeper has gone."""
        try:
            word = connection.recv(HELLO_BYTES).decode(errors="replace").split()
        except OSError:
            word = []
        number = int(word[1]) if len(word) == 2 and word[1].isdecimal() else 0
        if len(word) == 2 and word[0] == self.token and 0 < number < self.nodes:
            self._arrived[number] = connection
            return
        self._arrived = {node: other for node, other in self._arrived.items() if other is not connection}
        readable.unregister(connection)
        connection.close()

    def _answer(self, word: dict[str, str]) -> None:
        """Send it to all connected keepers, and wait a moment for them to close."""
        assert self._listener is not None
        self._listener.close()  # first: a rank that starts at once finds rank 0's listener or none
        for connection in self._arrived.values():
            try:
                connection.sendall(json.dumps(word).encode() + b"\n")
            except OSError:  # it has just gone, and its platform ends the others
                continue
        until = time.monotonic() + CLOSE_S
        for connection in self._arrived.values():
            connection.settimeout(max(0.01, until - time.monotonic()))
            try:
                connection.recv(1)
            except OSError:
                continue

    def _join(self) -> None:
        """As any other node: connect to node 0, and wait for its answer."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                with socket.create_connection(
                    (self.address[0], int(self.address[1])), timeout=CONNECT_S
                ) as there:
                    there.sendall(f"{self.token} {self.node}\n".encode())
                    word = self._await_word(there)
                why = "it left before all nodes had started"
            except OSError as error:
                word, why = None, error.strerror or str(error)
            if word is not None:
                if "cause" in word:
                    raise MeetingTimeoutError(word["cause"])
                return
            where = f"at {':'.join(self.address)}: {why}"
            if self._waited_s() > self.limit_s:
                raise MeetingTimeoutError(self._unreached(where))
            self._pause(pause_s, f"{self._call([0])} ({where})")
            pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)

    def _await_word(self, there: socket.socket) -> dict[str, str] | None:
        """Node 0's answer; None if the connection ended without one."""
        give_up, answer = self._waited_s() + self.limit_s + ANSWER_SLACK_S, b""
        there.settimeout(LOOK_EVERY_S)
        while not answer.endswith(b"\n"):
            try:
                with self.pauses.noting(LOOK_EVERY_S):
                    data = there.recv(HELLO_BYTES)
            except socket.timeout:  # noqa: UP041  (another class than TimeoutError before Python 3.10)
                if self._waited_s() > give_up:
                    raise MeetingTimeoutError(
                        f"{self._call([0])} was reached, but did not report that all have started"
                    ) from None
                self._pause(0.0, "the other nodes")
                continue
            if not data:
                return None
            answer += data
        word: dict[str, str] = json.loads(answer)
        return word

    def _pause(self, pause_s: float, waits_for: str) -> None:
        """Wait a moment, recording what for. Raises EndRequest if this keeper must end."""
        if self._waited_s() > STATED_AFTER_S and waits_for != self._stated:
            self._stated = waits_for
            beside = self.directory / "waiting.part"
            beside.write_text(json.dumps({"for": waits_for}))
            beside.replace(self.directory / "waiting.json")
        if self.pauses.wait(ENDING, pause_s) is not None:
            raise EndRequest

    def _waited_s(self) -> float:
        return now() - self.began - self.pauses.past_s()

    def _unreached(self, where: str) -> str:
        """That node 0 can't be reached from here, whether it has started or not."""
        return f"{self._call([0])} could not be reached within {self.limit_s:g} s ({where})"

    def _late(self, nodes: Collection[int]) -> str:
        return f"{self._call(nodes)} did not start within {self.limit_s:g} s, or can't reach rank 0"

    def _call(self, nodes: Collection[int]) -> str:
        """The ranks of these nodes: `rank 1 of 2`, `ranks 4 to 7, 12 to 15 of 16`."""
        spans = [(node * self.ranks, (node + 1) * self.ranks - 1) for node in sorted(nodes)]
        listed = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans[:4])
        more = f" and {len(spans) - 4} more nodes" if len(spans) > 4 else ""
        plural = "s" if self.ranks > 1 or len(spans) > 1 else ""
        return f"rank{plural} {listed}{more} of {self.nodes * self.ranks}"


class EndRequest(Exception):  # noqa: N818  (not an error)
    """The keeper was asked to end."""


class MeetingTimeoutError(Exception):
    """Not all nodes arrived in time; the message says which."""


def listen(port: int) -> socket.socket:
    """Listen on a port on all addresses. Raises OSError if something else does."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=4096, dualstack_ipv6=both)
