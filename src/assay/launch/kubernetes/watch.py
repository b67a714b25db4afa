"""A job's pods, kept up to date by one watch for all jobs, and their logs, each read by its own thread."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial

from assay.launch.frames import Frame, FrameReader, PlainLine
from assay.launch.kubernetes.client import PODS, Cluster, Object
from assay.launch.kubernetes.objects.order import LABEL_TOKEN, MANAGED_BY
from assay.launch.kubernetes.pod_status import deleted_at, has_begun, rank_container
from assay.launch.kubernetes.wire import (
    ApiError,
    ApiUnreachableError,
    NotFoundError,
    Stream,
    WatchExpiredError,
)

SELECTOR = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
WATCH_RETRY_S = (0.2, 0.5, 1.0, 2.0)
SYNC_S = 30.0
_watches: weakref.WeakKeyDictionary[Cluster, PodWatch] = weakref.WeakKeyDictionary()
_making = threading.Lock()
QUEUE_CHUNKS = 64  # of at most 64 KiB each, read ahead of the consumer
LINES_KEPT = 20
LOG_RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0)
WAKE_S = 0.1
ENDED_PATIENCE_S = 60.0  # for the log of an ended pod: its node may be down, or its kubelet restarting


@dataclass
class JobPods:
    """The pods of one job as last seen, by uid.

    deleted  pods that somebody deleted, in that order, and when; gone: those of them that no longer exist
    """

    seen: dict[str, Object] = field(default_factory=dict)
    deleted: dict[str, float | None] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def left(self) -> list[Object]:
        """Those that still exist."""
        return [pod for uid, pod in self.seen.items() if uid not in self.gone]

    def see(self, pod: Object, *, gone: bool = False) -> None:
        """Record a pod's current or last state."""
        uid = pod["metadata"]["uid"]
        self.seen = {**self.seen, uid: pod}  # a new dict: others read it in their own threads
        if (gone or "deletionTimestamp" in pod["metadata"]) and uid not in self.deleted:
            self.deleted[uid] = deleted_at(pod)
        if gone:
            self.gone.add(uid)


class PodWatch:
    """The pods of one cluster and namespace.

    trouble  why it is not up to date, as text; "" while it is
    refused  the cluster's words if this user may not list or watch; it is not asked again
    """

    def __init__(self, cluster: Cluster) -> None:
        self.trouble = ""
        self.refused: ApiError | None = None
        self._cluster = cluster
        self._lock = threading.Lock()
        self._pods: dict[str, Object] = {}
        self._followed: list[tuple[str, JobPods, Callable[[], None]]] = []
        self._listed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def follow(self, token: str, wake: Callable[[], None]) -> Iterator[JobPods]:
        """The pods of a job, kept up to date inside the context; another thread calls `wake` at each change.

        Raises ApiError if the pods may not be listed or watched.
        """
        entry = (token, JobPods(), wake)
        with self._lock:
            if self._thread is None:
                self.refused = None
                self._listed.clear()
                self._thread = threading.Thread(
                    target=self._run, name=f"assay-pods-{self._cluster.namespace}", daemon=True
                )
                self._thread.start()
            for pod in self._pods.values():
                if _token(pod) == token:
                    entry[1].see(pod)
            self._followed.append(entry)
        try:
            self._listed.wait(SYNC_S)
            if self.refused is not None:
                raise self.refused
            yield entry[1]
        finally:
            with self._lock:
                self._followed.remove(entry)

    def now(self, token: str) -> dict[str, Object]:
        """The pods of a job that exist now, by name, as far as the watch has heard."""
        with self._lock:
            return {pod["metadata"]["name"]: pod for pod in self._pods.values() if _token(pod) == token}

    def _run(self) -> None:
        """List and watch for as long as the process lives."""
        tries = 0
        try:
            while True:
                try:
                    version = self._list()
                    self._listed.set()
                    while True:
                        version = self._watch(version)
                        tries = 0
                except WatchExpiredError:
                    continue
                except ApiUnreachableError as error:
                    self.trouble = str(error)
                    time.sleep(WATCH_RETRY_S[min(tries, len(WATCH_RETRY_S) - 1)])
                    tries += 1
        except ApiError as error:
            self.refused, self._thread = error, None
            self._listed.set()

    def _list(self) -> str:
        listing = self._cluster.list(PODS, labels=SELECTOR)
        self.trouble = ""
        now = {pod["metadata"]["uid"]: pod for pod in listing.items}
        for uid in self._pods.keys() - now.keys():
            self._changed("DELETED", self._pods[uid])
        for pod in now.values():
            self._changed("MODIFIED", pod)
        return listing.version

    def _watch(self, version: str) -> str:
        with self._cluster.watch(PODS, labels=SELECTOR, version=version) as changes:
            for change in changes:
                version = change["object"]["metadata"]["resourceVersion"]
                if change["type"] != "BOOKMARK":
                    self._changed(change["type"], change["object"])
        return version

    def _changed(self, how: str, pod: Object) -> None:
        pod["metadata"].pop("managedFields", None)
        uid, token = pod["metadata"]["uid"], _token(pod)
        with self._lock:
            if how == "DELETED":
                self._pods.pop(uid, None)
            else:
                self._pods[uid] = pod
            concerned = [entry for entry in self._followed if entry[0] == token]
            for _, pods, _ in concerned:
                pods.see(pod, gone=how == "DELETED")
        for _, _, wake in concerned:
            wake()


def _token(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get(LABEL_TOKEN, ""))


def watch_of(cluster: Cluster) -> PodWatch:
    """The one watch of this cluster and namespace in this process."""
    with _making:
        return _watches.setdefault(cluster, PodWatch(cluster))


@dataclass
class PodLog:
    """How far the log of one pod has been read.

    runtime_lines  last lines in it that are the runtime's, not the job's
    unkept         why the relay did not send the requested files
    waits_for      what its keeper waits for before it starts the ranks; "" if it doesn't wait
    ended          its last frame arrived: nothing is missing after it
    over           its pod has ended; gone: it no longer exists
    complete       there is nothing more to read, or no hope to read it
    trouble        why it can't be read at the moment, or could not to the last
    since          when that began, after its pod had ended, by the monotonic clock
    """

    name: str
    runtime_lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    unkept: str = ""
    waits_for: str = ""
    framed: bool = False
    ended: bool = False
    over: bool = False
    gone: bool = False
    complete: bool = False
    trouble: str = ""
    since: float | None = None
    reader: FrameReader = field(default_factory=FrameReader)
    reading: _Reading | None = None
    tries: int = 0
    again_at: float = 0.0
    reads_after_end: int = 0
    read_for_gaps: bool = False

    def says(self, line: str) -> None:
        """A line of the runtime's; a log may be read several times from its beginning."""
        if line not in self.runtime_lines:
            self.runtime_lines.append(line)


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

    def read_on(self, pod: Object, *, over: bool, gone: bool) -> None:
        """Start or continue reading a pod's log, if that is due now.

        over  the pod has ended: what can be read now is everything; gone: it was removed, and its log with it
        """
        uid = pod["metadata"]["uid"]
        log = self.logs.setdefault(uid, PodLog(pod["metadata"]["name"]))
        log.over, log.gone = over, gone
        if log.complete or log.reading is not None or time.monotonic() < log.again_at:
            return
        if not over and not has_begun(pod):
            return
        # a kubelet that stops cuts a log without an error: one that lacks its last frame is read twice
        if over and (log.reads_after_end > log.framed or not has_begun(pod)):
            log.complete = True
            return
        log.reader, log.reads_after_end = FrameReader(), log.reads_after_end + over
        read = partial(self._cluster.logs, log.name, rank_container(pod), follow=not over)
        log.reading = _Reading(uid, log.name, read, self._queue)

    def read_again(self, uid: str) -> None:
        """Read a log again from its beginning because of a gap in it; only once."""
        log = self.logs[uid]
        if not log.read_for_gaps and log.reading is not None:
            log.read_for_gaps = True
            log.reading.stop()
            log.reading, log.again_at, log.ended, log.reads_after_end = None, 0.0, False, 0

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
        log.tries, log.trouble, log.since = 0, "", None
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
        if error is None:
            log.complete = log.ended
        elif error.code in (401, 403):  # asking again is useless
            raise error
        elif log.gone and isinstance(error, NotFoundError):
            log.complete, log.trouble = True, ""
        else:
            log.trouble, log.reads_after_end = str(error), 0
            log.complete = _is_hopeless(log, error)
        log.again_at = time.monotonic() + LOG_RETRY_S[min(log.tries, len(LOG_RETRY_S) - 1)]
        log.tries += 1


class _Reading:
    """One request for a log, in its own thread."""

    def __init__(
        self,
        uid: str,
        name: str,
        read: Callable[[], AbstractContextManager[Stream]],
        out: queue.Queue[tuple[_Reading | None, bytes | ApiError | None]],
    ) -> None:
        self.uid = uid
        self._read, self._out = read, out
        self._stream: Stream | None = None
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name=f"assay-log-{name}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._stream is not None:
            self._stream.stop()

    def _run(self) -> None:
        try:
            with self._read() as stream:
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


def _is_hopeless(log: PodLog, error: ApiError) -> bool:
    """Whether to give up a log whose pod exists.

    A kubelet that has just started answers 404 until it knows its pods again. A node that stays away after
    its pod has ended is given up, but not the API server (code 0).
    """
    if not log.over or error.code == 0:
        log.since = None
        return False
    log.since = log.since or time.monotonic()
    return time.monotonic() > log.since + ENDED_PATIENCE_S
