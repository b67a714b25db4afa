"""Listens to one host of a job over a connection that may break, without loss or duplication."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from assay.launch.frames import Frame, FrameReader, Joiner
from assay.launch.ssh.connection import Connection, unreachable
from assay.records import NODE_STREAMS, Output
from assay_payloads.keeping.ssh_host import MARK

READ_BYTES = 1 << 18
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0


class Listener:
    """One host's share of a job, as it arrives.

    over       it has ended, or nothing of it is left; nothing more will arrive
    ended      how, according to its keeper; None until then, or if no keeper is left to report it
    waits_for  what its keeper waits for before it starts the ranks; "" if it does not wait
    trouble    why nothing arrives at the moment, as text; "" while it is connected
    heard_at   monotonic time at which the host was last heard from
    """

    def __init__(self, connection: Connection, directory: str, node: int, kept: Mapping[str, int]) -> None:
        self.connection, self.directory, self.node = connection, directory, node
        self.over = self.started = False
        self.ended: dict[str, Any] | None = None
        self.trouble = self.waits_for = ""
        self.heard_at = time.monotonic()
        self._joiner = Joiner({name: size for name, size in kept.items() if _is_output(name)})
        self._end_bytes = b""
        self._pause_s, self._again_at = FIRST_PAUSE_S, 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (until closed)
        self._connect()

    @property
    def failed(self) -> bool:
        """Whether it failed, so that the other hosts' shares are in vain."""
        return self.over and (self.ended is None or self.ended["state"] != "succeeded")

    def give_up(self) -> None:
        """Stop waiting for the host."""
        self.over = True

    def fileno(self) -> int | None:
        """What to wait for; None while it is not connected."""
        if self._process is None or self._process.stdout is None:
            return None
        return self._process.stdout.fileno()

    def hear(self) -> Iterator[Output]:
        """What has arrived since; reconnects if the connection broke."""
        if self._process is None:
            if not self.over and time.monotonic() >= self._again_at:
                self._connect()
            return
        data = self._read()
        if data is None:
            return
        if not data:
            self._broke()
            return
        self.heard_at, self.trouble, self._pause_s = time.monotonic(), "", FIRST_PAUSE_S
        for item in self._reader.feed(data):
            if isinstance(item, Frame):
                new = self._join(item)
                if new is not None:
                    yield new
            elif item.waits_for:
                self.waits_for = item.waits_for
            elif item.line.startswith(MARK.encode()):
                self._came_to_its_end()

    def close(self) -> None:
        """Stop listening; the job continues."""
        if self._process is not None:
            self._process.kill()
            self._drop()
        self._stderr.close()

    def _connect(self) -> None:
        self._reader = FrameReader()
        self._stderr.seek(0)
        self._stderr.truncate()
        argv = self.connection.program("follow", self.directory, json.dumps(self._joiner.taken))
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _read(self) -> bytes | None:
        number = self.fileno()
        assert number is not None
        try:
            return os.read(number, READ_BYTES)
        except BlockingIOError:
            return None

    def _join(self, frame: Frame) -> Output | None:
        if frame.stream == f"started-{self.node}":
            self.started, self.waits_for = True, ""
        elif frame.stream == f"ended-{self.node}":
            self._end_bytes = self._end_bytes[: frame.offset] + frame.data
        elif _is_output(frame.stream):
            new = self._joiner.join(frame)
            return Output(frame.stream, new) if new else None
        return None

    def _came_to_its_end(self) -> None:
        """The host has sent everything; if there is a gap, read again from before it."""
        self._drop()
        if self._joiner.gaps:
            self._joiner.gaps.clear()
            return
        self.over = True
        self.ended = json.loads(self._end_bytes) if self._end_bytes else None

    def _broke(self) -> None:
        """Record why, and try again later."""
        self._drop()
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace")
        self.trouble = unreachable(self.connection.host, stderr)
        self._again_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _drop(self) -> None:
        assert self._process is not None
        with self._process as process:
            process.kill()
        self._process = None


def _is_output(stream: str) -> bool:
    return stream.startswith(("rank-", *NODE_STREAMS))
