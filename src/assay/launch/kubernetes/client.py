"""The Kubernetes API as Assay uses it: objects are plain dicts, custom resources too."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import inputs
from assay.errors import InputError, PlatformError
from assay.launch.kubernetes.wire import ANSWER_S, CONNECT_S, NotFoundError, Object, Stream, Wire, refusal

if TYPE_CHECKING:
    import httpx2 as httpx
    from lightkube.config.kubeconfig import SingleConfig


__all__ = ["Cluster", "Listing", "Object", "Resource"]

FIELD_MANAGER = "assay"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
WATCH_S = 300  # after this long, a watch is restarted
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

KEPT = 32  # idle connections: a handshake costs more than most requests
_open: dict[tuple[str | None, str | None, str], Cluster] = {}
_opening = threading.Lock()


class Resource(NamedTuple):
    """A kind of object: `batch/v1`, `jobs`."""

    api_version: str
    plural: str


PODS = Resource("v1", "pods")
CONFIG_MAPS = Resource("v1", "configmaps")
SERVICES = Resource("v1", "services")
EVENTS = Resource("v1", "events")
NODES = Resource("v1", "nodes")
NETWORK_POLICIES = Resource("networking.k8s.io/v1", "networkpolicies")
JOBS = Resource("batch/v1", "jobs")
_PLURALS = {
    ("v1", "ConfigMap"): CONFIG_MAPS,
    ("v1", "Service"): SERVICES,
    ("v1", "Pod"): PODS,
    ("batch/v1", "Job"): JOBS,
}


@dataclass
class Listing:
    """Objects and the version they were read at, from which a watch continues."""

    items: list[Object]
    version: str


class Cluster:
    """One cluster and namespace, as one user. Refusals raise ApiError; see wire.py."""

    def __init__(self, wire: Wire, context: str, namespace: str) -> None:
        self.wire, self.context, self.namespace = wire, context, namespace
        self._known: dict[str, dict[str, str]] = {}

    def within(self, namespace: str) -> Cluster:
        """The same cluster, as the same user, in another namespace."""
        there = Cluster(self.wire, self.context, namespace)
        there._known = self._known
        return there

    # Objects

    def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """The object as the cluster stored it. Raises ConflictError if one with its name exists.

        If a connection broke and the request was repeated, that object may be this one.
        """
        where = self._path(self.resource_of(obj))
        params = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self.wire.ask("POST", where, f"create {_called(obj)}", params=params, body=obj)

    def apply(self, obj: Object, *, dry_run: bool = False, everywhere: bool = False) -> Object:
        """Server-side apply: create the object, or own the given fields of an existing one.

        Fields given earlier but not now are released. Raises ConflictError if another manager owns one of
        the given fields with another value, ApiError if a field is unknown; in both cases nothing changes.
        """
        where = self._path(self.resource_of(obj), obj["metadata"]["name"], everywhere)
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        params |= {"dryRun": "All"} if dry_run else {}
        kind = "application/apply-patch+yaml"
        return self.wire.ask("PATCH", where, f"apply {_called(obj)}", params=params, body=obj, kind=kind)

    def get(
        self, resource: Resource, name: str, *, everywhere: bool = False, patience_s: float | None = None
    ) -> Object:
        """One object; `everywhere`: of a kind without a namespace. Raises NotFoundError."""
        where = self._path(resource, name, everywhere)
        return self.wire.ask("GET", where, f"get {resource.plural} {name}", patience_s=patience_s)

    def find(self, resource: Resource, name: str, *, everywhere: bool = False) -> Object | None:
        """One object, or None."""
        try:
            return self.get(resource, name, everywhere=everywhere)
        except NotFoundError:
            return None

    def list(
        self,
        resource: Resource,
        *,
        labels: str = "",
        fields: str = "",
        everywhere: bool = False,
        only_metadata: bool = False,
    ) -> Listing:
        """All objects that match the selectors, page by page; `only_metadata` for large ones."""
        items: list[Object] = []
        params = {"labelSelector": labels, "fieldSelector": fields, "limit": "500"}
        while True:
            where = self._path(resource, everywhere=everywhere)
            accept = METADATA if only_metadata else "application/json"
            page = self.wire.ask("GET", where, f"list {resource.plural}", params=params, accept=accept)
            items += page["items"] or ()  # null if only metadata is requested and there is none
            if not (more := page["metadata"].get("continue")):
                return Listing(items, page["metadata"]["resourceVersion"])
            params["continue"] = more

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        grace_s: int | None = None,
        wait: bool = False,
        only: Mapping[str, str] | None = None,
        everywhere: bool = False,
    ) -> Object | None:
        """Delete an object and, in the background, what it owns. An object that is gone is not an error.

        Returns the object if it stays for now: for its grace time, or for finalizers.

        wait  the object goes only after what it owns is gone (the caller does not wait)
        only  uid and resourceVersion that it must have; otherwise raises ConflictError
        """
        options: Object = {"propagationPolicy": "Foreground" if wait else "Background"}
        if only is not None:
            options["preconditions"] = dict(only)
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        where = self._path(resource, name, everywhere)
        try:
            left = self.wire.ask("DELETE", where, f"delete {resource.plural} {name}", body=options)
        except NotFoundError:
            return None
        return None if left["kind"] == "Status" else left

    # Streams

    @contextmanager
    def watch(self, resource: Resource, *, labels: str, version: str) -> Iterator[Iterator[Object]]:
        """Changes after that version, including bookmarks, until the server ends the watch.

        Raises WatchExpiredError if the version is too old: list again. Raises ApiUnreachableError if
        the connection breaks: watch again from the last version seen.
        """
        params = {"watch": "true", "labelSelector": labels, "resourceVersion": version}
        params |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        with self.wire.stream(self._path(resource), f"watch {resource.plural}", params) as stream:
            yield _changes(stream, f"watch {resource.plural}")

    @contextmanager
    def logs(self, pod: str, container: str, *, follow: bool) -> Iterator[Stream]:
        """Raw bytes that a container printed, as far as its kubelet still has them."""
        params = {"container": container, **({"follow": "true"} if follow else {})}
        with self.wire.stream(f"{self._path(PODS, pod)}/log", f"read the log of pod {pod}", params) as stream:
            yield stream

    # Properties of the cluster

    def version(self) -> str:
        """`v1.34.4`."""
        return str(self.wire.ask("GET", "/version", "ask the version")["gitVersion"])

    def groups(self) -> dict[str, tuple[str, ...]]:
        """API group → its versions, with the cluster's preferred version first."""
        versions_by_group = {}
        for group in self.wire.ask("GET", "/apis", "list the API groups")["groups"]:
            first = group["preferredVersion"]["version"]
            others = (entry["version"] for entry in group["versions"] if entry["version"] != first)
            versions_by_group[group["name"]] = (first, *others)
        return versions_by_group

    def kinds(self, api_version: str) -> dict[str, str]:
        """Kind → plural of one group and version; {} if the cluster does not have it."""
        if api_version not in self._known:
            root = "/api" if "/" not in api_version else "/apis"
            try:
                listed = self.wire.ask("GET", f"{root}/{api_version}", f"list the kinds of {api_version}")
            except NotFoundError:
                return {}
            plural_by_kind = {
                entry["kind"]: entry["name"] for entry in listed["resources"] if "/" not in entry["name"]
            }
            self._known[api_version] = plural_by_kind
        return self._known[api_version]

    def resource_of(self, obj: Mapping[str, Any]) -> Resource:
        """The resource of an object. Raises NotFoundError if the cluster does not know its kind."""
        api_version, kind = obj["apiVersion"], obj["kind"]
        known = _PLURALS.get((api_version, kind))
        if known is not None:
            return known
        plural = self.kinds(api_version).get(kind)
        if plural is None:
            raise NotFoundError(
                f"this cluster has no {kind} of {api_version}: the operator that provides it is not "
                "installed; install it, or choose another `kind`"
            )
        return Resource(api_version, plural)

    def may(self, verb: str, resource: str, *, group: str = "", name: str = "", sub: str = "") -> bool:
        """Whether this user may do so in this namespace."""
        attributes = {"namespace": self.namespace, "verb": verb, "group": group, "resource": resource}
        attributes |= {"name": name, "subresource": sub}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }
        where = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(self.wire.ask("POST", where, "ask for its rights", body=review)["status"]["allowed"])

    def _path(self, resource: Resource, name: str = "", everywhere: bool = False) -> str:
        root = "/api" if "/" not in resource.api_version else "/apis"
        space = "" if everywhere else f"/namespaces/{self.namespace}"
        return f"{root}/{resource.api_version}{space}/{resource.plural}" + (f"/{name}" if name else "")


def _changes(stream: Stream, doing: str) -> Iterator[Object]:
    rest = bytearray()
    for data in stream:
        rest += data
        *lines, last = rest.split(b"\n")
        rest = bytearray(last)
        for line in lines:
            change: Object = json.loads(line)
            if change["type"] == "ERROR":
                status = change["object"]
                raise refusal(doing, int(status.get("code", 0)), status)
            yield change


def _called(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind']} {obj['metadata'].get('name', '')}"


def _forget_after_fork() -> None:
    """A child process must not use its parent's connections."""
    global _opening
    _open.clear()
    _opening = threading.Lock()  # a thread that the child does not have may have held the lock


os.register_at_fork(after_in_child=_forget_after_fork)


def connect(context: str | None = None, namespace: str | None = None) -> Cluster:
    """The cluster of this kubeconfig context (None: the current one) and namespace (None: the context's).

    One for the whole process. Raises InputError if the kubeconfig is unusable, PlatformError if the extra
    `kubernetes` is not installed. Sends no request to the cluster.
    """
    file = os.environ.get("KUBECONFIG", "")
    key = (context, namespace, file)
    with _opening:
        if key not in _open:
            config = _config(context)
            name, space = config.context_name, namespace or config.namespace
            if (name, space, file) not in _open:  # named or current, it is the same context
                _open[name, space, file] = Cluster(Wire(_http(config)), name, space)
            _open[key] = _open[name, space, file]
        return _open[key]


def _http(config: SingleConfig) -> httpx.Client:
    import httpx2 as httpx
    from lightkube.config.client_adapter import ConnectionParams

    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    try:
        params = ConnectionParams(timeout=timeout).httpx_params(config)
    except (OSError, ValueError) as error:
        raise InputError(f"kubeconfig {config.fname}: its certificates can't be read: {error}") from error
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT)
    client: httpx.Client = httpx.Client(**params, limits=limits)
    return client


def _config(context: str | None) -> SingleConfig:
    """The kubeconfig, or the pod's own ServiceAccount if there is none."""
    try:
        from lightkube import ConfigError, KubeConfig
    except ModuleNotFoundError as error:
        raise PlatformError(
            "launcher kubernetes needs lightkube, not installed: pip install 'cluster-assay[kubernetes]'"
        ) from error
    named = os.environ.get("KUBECONFIG")
    files = [Path(name) for name in (named or "~/.kube/config").split(os.pathsep) if name]
    there = [file for file in map(inputs.from_home, files) if file.is_file()]
    try:
        if not there and named is None and IN_CLUSTER.exists():
            own: SingleConfig | None = KubeConfig.from_service_account().get()
            assert own is not None  # it has a current context
            return own
        read = [KubeConfig.from_file(file) for file in there]
        context_name = context or next(
            (config.current_context for config in read if config.current_context), None
        )
        config = next((config for config in read if context_name in config.contexts), None)
        if config is None or context_name is None:
            raise InputError(
                _no_context(context_name, files, [name for config in read for name in config.contexts])
            )
        chosen: SingleConfig | None = config.get(context_name)
        assert chosen is not None
        return _with_login(chosen)
    except (ConfigError, KeyError, ValueError, OSError) as error:
        raise InputError(f"kubeconfig {', '.join(map(str, files))}: {error}") from error


def _no_context(context_name: str | None, files: list[Path], known: list[str]) -> str:
    where = f"kubeconfig {', '.join(map(str, files))}"
    if not known:
        return f"{where}: no such file, or no context in it; set KUBECONFIG, or log in to the cluster"
    if context_name is None:
        return f"{where}: no current context; set the system's `context` to one of {', '.join(known)}"
    return f"{where}: no context {context_name!r}; the contexts are {', '.join(known)}"


def _with_login(config: SingleConfig) -> SingleConfig:
    """Tell the login program which response version to use: lightkube accepts v1 but requests v1beta1."""
    from lightkube.config.models import NameValue

    if config.user is None or config.user.exec is None:
        return config
    login, form = config.user.exec, config.user.exec.apiVersion
    info = json.dumps({"apiVersion": form, "kind": "ExecCredential", "spec": {"interactive": False}})
    login.env = [*(login.env or []), NameValue("KUBERNETES_EXEC_INFO", info)]
    if form == "client.authentication.k8s.io/v1":
        login.apiVersion = "client.authentication.k8s.io/v1beta1"
    return config
