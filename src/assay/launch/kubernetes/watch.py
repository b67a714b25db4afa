"""All of Assay's pods in a namespace, kept up to date by one watch for any number of jobs."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from assay.launch.kubernetes.client import PODS, Cluster, Object
from assay.launch.kubernetes.order import LABEL_TOKEN, MANAGED_BY
from assay.launch.kubernetes.pod_status import deleted_at
from assay.launch.kubernetes.wire import ApiError, ApiUnreachableError, WatchExpiredError

SELECTOR = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
RETRY_S = (0.2, 0.5, 1.0, 2.0)
SYNC_S = 30.0


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
                    time.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
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


_watches: weakref.WeakKeyDictionary[Cluster, PodWatch] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def watch_of(cluster: Cluster) -> PodWatch:
    """The one watch of this cluster and namespace in this process."""
    with _making:
        return _watches.setdefault(cluster, PodWatch(cluster))
