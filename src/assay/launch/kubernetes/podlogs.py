"""The logs of a job's pods, each read by its own thread, as frames in one place."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.launch.frames import Frame, FrameReader, PlainLine
from assay.launch.kubernetes.client import Cluster, Object
from assay.launch.kubernetes.refusals import ApiError, NotFoundError
from assay.launch.kubernetes.wire import Stream

QUEUE_CHUNKS = 64  # of at most 64 KiB each, read ahead of the consumer
LINES_KEPT = 20
RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0)
WAKE_S = 0.1


@dataclass
class PodLog:
    """How far the log of one pod has been read.

    said      last lines in it that are the runtime's, not the job's
    unkept    why the relay did not send the requested files
    waits_for what its keeper waits for before it starts the ranks; "" if it doesn't wait
    ended     its last frame arrived: nothing is missing after it
    complete  there is nothing more to read
    trouble   why it can't be read at the moment
    """

    name: str
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    unkept: str = ""
    waits_for: str = ""
    framed: bool = False
    ended: bool = False
    complete: bool = False
    trouble: str = ""
    reader: FrameReader = field(default_factory=FrameReader)
    reading: _Reading | None = None
    tries: int = 0
    again_at: float = 0.0
    read_after_end: bool = False
    read_for_gaps: bool = False

    def says(self, line: str) -> None:
        """A line of the runtime's; a log may be read several times from its beginning."""
        if line not in self.said:
            self.said.append(line)


class PodLogs:
    """The logs of one job's pods. `take` returns what arrived; `stop` ends all reading."""

    def __init__(self, cluster: Cluster) -> None:
        self.logs: dict[str, PodLog] = {}
        self._cluster = cluster
        self._queue: queue.Queue[tuple[_Reading | None, bytes | ApiError | None]] = queue.Queue(QUEUE_CHUNKS)

    def wake(self) -> None:
        """Make `take` look again: something happened that is not in a log."""
        if self._queue.empty():
            self._queue.put_nowait((None, None))

    def read_on(self, pod: Object, *, over: bool) -> None:
        """Start or continue reading a pod's log, if that is due now.

        over  the pod has ended or is gone: what can be read now is everything
        """
        uid = pod["metadata"]["uid"]
        log = self.logs.setdefault(uid, PodLog(pod["metadata"]["name"]))
        if log.complete or log.reading is not None or time.monotonic() < log.again_at:
            return
        if not over and not _has_begun(pod):
            return
        if over and (log.read_after_end or not _has_begun(pod)):
            log.complete = True
            return
        log.reader, log.read_after_end = FrameReader(), over
        log.reading = _Reading(self._cluster, uid, log.name, self._queue, follow=not over)

    def read_again(self, uid: str) -> None:
        """Read a log again from its beginning because of a gap in it; only once."""
        log = self.logs[uid]
        if not log.read_for_gaps and log.reading is not None:
            log.read_for_gaps = True
            log.reading.stop()
            log.reading, log.again_at, log.ended, log.read_after_end = None, 0.0, False, False

    def take(self) -> Iterator[tuple[str, Frame]]:
        """Frames that arrived, with their pod's uid; waits at most a tenth of a second for the first.

        Raises ApiError if logs may not be read.
        """
        wait = True
        while True:
            try:
                reading, data = self._queue.get(timeout=WAKE_S) if wait else self._queue.get_nowait()
            except queue.Empty:
                return
            wait = False
            if reading is None:
                continue
            log = self.logs[reading.uid]
            if log.reading is not reading:  # abandoned in the meantime
                continue
            if isinstance(data, bytes):
                yield from ((reading.uid, frame) for frame in self._framed(log, data))
            else:
                self._stopped(log, data)

    def stop(self) -> None:
        """End all reading."""
        for log in self.logs.values():
            if log.reading is not None:
                log.reading.stop()

    def _framed(self, log: PodLog, data: bytes) -> Iterator[Frame]:
        log.tries, log.trouble = 0, ""
        for item in log.reader.feed(data):
            if isinstance(item, PlainLine):
                if item.unkept:
                    log.unkept = f"outputs: {item.unkept}"
                elif item.waits_for:
                    log.waits_for = item.waits_for
                elif not log.framed:  # later, such lines are the rest of a truncated frame
                    log.says(str(item))
                continue
            log.framed = True
            if item.stream.startswith(("started-", "ended-")):
                log.waits_for = ""
            log.ended = log.ended or item.stream.startswith("ended-")
            yield item

    def _stopped(self, log: PodLog, error: ApiError | None) -> None:
        log.reading = None
        if isinstance(error, NotFoundError) or (error is None and log.ended):
            log.complete = True
            return
        if error is not None and error.code in (401, 403):  # asking again is useless
            raise error
        if error is not None:
            log.trouble, log.read_after_end = str(error), False
        log.again_at = time.monotonic() + RETRY_S[min(log.tries, len(RETRY_S) - 1)]
        log.tries += 1


class _Reading:
    """One request for a log, in its own thread."""

    def __init__(
        self,
        cluster: Cluster,
        uid: str,
        name: str,
        out: queue.Queue[tuple[_Reading | None, bytes | ApiError | None]],
        *,
        follow: bool,
    ) -> None:
        self.uid = uid
        self._cluster, self._name, self._out, self._follow = cluster, name, out, follow
        self._stream: Stream | None = None
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name=f"assay-log-{name}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._stream is not None:
            self._stream.stop()

    def _run(self) -> None:
        try:
            with self._cluster.logs(self._name, follow=self._follow) as stream:
                self._stream = stream
                if self._stopped.is_set():
                    return
                for data in stream:
                    if not self._put(data):
                        return
        except ApiError as error:
            self._put(error)
        else:
            self._put(None)

    def _put(self, what: bytes | ApiError | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._out.put((self, what), timeout=1.0)
            except queue.Full:
                continue
            return True
        return False


def _has_begun(pod: Object) -> bool:
    """Whether its container runs or ran, so that there is a log."""
    states = (status["state"] for status in pod.get("status", {}).get("containerStatuses", ()))
    return any("running" in state or "terminated" in state for state in states)
