"""The Kubernetes API as Assay uses it: plain dicts, patience where it helps, clear words where not.

lightkube reads the kubeconfig and makes the connection (certificates, tokens, exec plugins); requests are
made here, so that custom resources need no model and nothing is throttled on this side.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import InputError, LaunchError
from assay.launch.kubernetes.refusals import ApiError, NotFound, Unreachable, refusal

if TYPE_CHECKING:
    import httpx2 as httpx
    from lightkube.config.kubeconfig import SingleConfig

Object = dict[str, Any]
"""An object of Kubernetes as its JSON has it."""

FIELD_MANAGER = "assay"
CONNECT_S, ANSWER_S = 5.0, 35.0
FIRST_PATIENCE_S = 10.0  # a server that never answered is more likely misspelt than restarting
PATIENCE_S = 180.0
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # between tries; the last again and again
WATCH_S = 300  # after so long a watch is begun anew
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
BUSY = (429, 502, 503, 504)


class Resource(NamedTuple):
    """A kind of objects: `batch/v1`, `jobs`."""

    api_version: str
    plural: str


PODS = Resource("v1", "pods")
CONFIG_MAPS = Resource("v1", "configmaps")
SERVICES = Resource("v1", "services")
EVENTS = Resource("v1", "events")
NODES = Resource("v1", "nodes")
JOBS = Resource("batch/v1", "jobs")
_PLURALS = {
    ("v1", "ConfigMap"): CONFIG_MAPS,
    ("v1", "Service"): SERVICES,
    ("v1", "Pod"): PODS,
    ("batch/v1", "Job"): JOBS,
}


@dataclass
class Listing:
    """Objects and the moment that they show, from which a watch goes on."""

    items: list[Object]
    version: str


class Stream:
    """Bytes of an answer that has no end yet; `stop` may come from another thread."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._socket: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
        for option, value in ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)  # a server that vanished is noticed
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def __iter__(self) -> Iterator[bytes]:
        """What comes, as it comes. Raises Unreachable where the connection breaks."""
        import httpx2 as httpx

        try:
            yield from self._response.iter_raw()
        except (httpx.TransportError, httpx.StreamError, OSError, ValueError) as error:
            raise Unreachable(f"the connection to the API server broke: {error}") from error
        finally:
            self.stop()
            self._response.close()

    def stop(self) -> None:
        """End it: who iterates gets the end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Cluster:
    """One cluster and namespace, as one user.

    waits_for  what is being waited for, in words, while the API server does not answer; else ""
    requests   made so far
    """

    def __init__(self, http: httpx.Client, context: str, namespace: str) -> None:
        self._http = http
        self.context, self.namespace = context, namespace
        self.waits_for, self.requests, self._answered = "", 0, False
        self._known: dict[str, dict[str, str]] = {}

    # Objects

    def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """The object as the cluster took it. Raises Conflict where one of its name is there.

        Where a connection broke and the request was made again, that one may be the object itself.
        """
        where = self._path(self.resource_of(obj))
        params = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self._ask("POST", where, f"create {_called(obj)}", params=params, body=obj)

    def apply(self, obj: Object, *, dry_run: bool = False, everywhere: bool = False) -> Object:
        """Server-side apply: create it, or own the given fields of the one that is there.

        Fields given before and not now are given up. Raises Conflict where another manager owns one of the
        given fields with another value: nothing is changed then.
        """
        where = self._path(self.resource_of(obj), obj["metadata"]["name"], everywhere)
        params = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        kind = "application/apply-patch+yaml"
        return self._ask("PATCH", where, f"apply {_called(obj)}", params=params, body=obj, kind=kind)

    def replace(self, resource: Resource, obj: Object) -> Object:
        """Replace an object; with `metadata.resourceVersion`, only as it was then. Raises Conflict else."""
        where = self._path(resource, obj["metadata"]["name"])
        return self._ask("PUT", where, f"replace {_called(obj)}", body=obj)

    def get(self, resource: Resource, name: str, *, everywhere: bool = False) -> Object:
        """One object; `everywhere`: of a kind that belongs to no namespace. Raises NotFound."""
        return self._ask("GET", self._path(resource, name, everywhere), f"get {resource.plural} {name}")

    def find(self, resource: Resource, name: str, *, everywhere: bool = False) -> Object | None:
        """One object, or None."""
        try:
            return self.get(resource, name, everywhere=everywhere)
        except NotFound:
            return None

    def list(
        self, resource: Resource, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> Listing:
        """All objects that match the selectors, page by page."""
        items: list[Object] = []
        params = {"labelSelector": labels, "fieldSelector": fields, "limit": "500"}
        while True:
            where = self._path(resource, everywhere=everywhere)
            page = self._ask("GET", where, f"list {resource.plural}", params=params)
            items += page["items"]
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
    ) -> None:
        """Delete an object, and in the background what it owns; one that is gone is gone.

        wait  it goes only when what it owns is gone (who asks does not wait)
        only  uid and resourceVersion that it has to have; else Conflict is raised
        """
        options: Object = {"propagationPolicy": "Foreground" if wait else "Background"}
        if only is not None:
            options["preconditions"] = dict(only)
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        where = self._path(resource, name, everywhere)
        with suppress(NotFound):
            self._ask("DELETE", where, f"delete {resource.plural} {name}", body=options)

    def delete_all(self, resource: Resource, *, labels: str) -> None:
        """Delete every object that matches."""
        options: Object = {"propagationPolicy": "Background"}
        doing, params = f"delete {resource.plural}", {"labelSelector": labels}
        self._ask("DELETE", self._path(resource), doing, params=params, body=options)

    # Streams

    @contextmanager
    def watch(self, resource: Resource, *, labels: str, version: str) -> Iterator[Iterator[Object]]:
        """Changes after that version, bookmarks too, until the server ends it.

        Raises Gone where the version is too old: list again. Raises Unreachable where the connection
        breaks: watch again from the last version seen.
        """
        params = {"watch": "true", "labelSelector": labels, "resourceVersion": version}
        params |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        with self._stream(self._path(resource), f"watch {resource.plural}", params) as stream:
            yield _changes(stream, f"watch {resource.plural}")

    @contextmanager
    def logs(self, pod: str, *, follow: bool, since_s: int | None = None) -> Iterator[Stream]:
        """Raw bytes of what a pod's first container printed, as its kubelet still has them."""
        params = {"follow": "true"} if follow else {}
        if since_s is not None:
            params["sinceSeconds"] = str(since_s)
        with self._stream(f"{self._path(PODS, pod)}/log", f"read the log of pod {pod}", params) as stream:
            yield stream

    # What the cluster is

    def version(self) -> str:
        """`v1.34.4`."""
        return str(self._ask("GET", "/version", "ask the version")["gitVersion"])

    def groups(self) -> dict[str, tuple[str, ...]]:
        """API group → its versions, the cluster's preferred one first."""
        found = {}
        for group in self._ask("GET", "/apis", "list the API groups")["groups"]:
            first = group["preferredVersion"]["version"]
            others = (entry["version"] for entry in group["versions"] if entry["version"] != first)
            found[group["name"]] = (first, *others)
        return found

    def kinds(self, api_version: str) -> dict[str, str]:
        """Kind → plural of one group and version; {} where the cluster does not have it."""
        if api_version not in self._known:
            root = "/api" if "/" not in api_version else "/apis"
            try:
                found = self._ask("GET", f"{root}/{api_version}", f"list the kinds of {api_version}")
            except NotFound:
                return {}
            of = {entry["kind"]: entry["name"] for entry in found["resources"] if "/" not in entry["name"]}
            self._known[api_version] = of
        return self._known[api_version]

    def resource_of(self, obj: Mapping[str, Any]) -> Resource:
        """The resource of an object. Raises NotFound where the cluster does not know its kind."""
        api_version, kind = obj["apiVersion"], obj["kind"]
        known = _PLURALS.get((api_version, kind))
        if known is not None:
            return known
        plural = self.kinds(api_version).get(kind)
        if plural is None:
            raise NotFound(
                f"this cluster has no {kind} of {api_version}: the operator that brings it is not installed; "
                "install it, or choose another `kind`"
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
        return bool(self._ask("POST", where, "ask for its rights", body=review)["status"]["allowed"])

    # Requests

    def _path(self, resource: Resource, name: str = "", everywhere: bool = False) -> str:
        root = "/api" if "/" not in resource.api_version else "/apis"
        space = "" if everywhere else f"/namespaces/{self.namespace}"
        return f"{root}/{resource.api_version}{space}/{resource.plural}" + (f"/{name}" if name else "")

    def _ask(
        self,
        method: str,
        path: str,
        doing: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Object | None = None,
        kind: str = "application/json",
    ) -> Object:
        request = self._http.build_request(
            method,
            path,
            params={key: value for key, value in (params or {}).items() if value},
            content=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind} if body is not None else {},
        )
        response = self._patiently(lambda: self._http.send(request), doing)
        answer: Object = response.json()
        return answer

    @contextmanager
    def _stream(self, path: str, doing: str, params: Mapping[str, str]) -> Iterator[Stream]:
        import httpx2 as httpx

        request = self._http.build_request(
            "GET",
            path,
            params={key: value for key, value in params.items() if value},
            headers={"Accept-Encoding": "identity"},
            timeout=httpx.Timeout(CONNECT_S, read=None),
        )
        response = self._patiently(lambda: self._http.send(request, stream=True), doing, patience_s=0.0)
        stream = Stream(response)
        try:
            yield stream
        finally:
            stream.stop()
            response.close()

    def _patiently(
        self, send: Callable[[], httpx.Response], doing: str, patience_s: float | None = None
    ) -> httpx.Response:
        """The answer; asked again while the server is busy or away, for as long as there is patience.

        The patience is short until it has answered once. `waits_for` says meanwhile what is waited for.
        """
        began, tries = time.monotonic(), 0
        if patience_s is None:
            patience_s = PATIENCE_S if self._answered else FIRST_PATIENCE_S
        try:
            while True:
                response, error = self._once(send, doing)
                if response is not None:
                    self._answered = True
                    return response
                assert error is not None
                pause_s = error.retry_after_s or PAUSES_S[min(tries, len(PAUSES_S) - 1)]
                tries += 1
                if time.monotonic() - began + pause_s > patience_s:
                    raise error
                self.waits_for = f"{error}; asked again for {time.monotonic() - began:.0f} s"
                time.sleep(pause_s)
        finally:
            self.waits_for = ""

    def _once(
        self, send: Callable[[], httpx.Response], doing: str
    ) -> tuple[httpx.Response | None, _Away | None]:
        import httpx2 as httpx
        from lightkube.core.exceptions import ConfigError

        self.requests += 1
        try:
            response = send()
        except httpx.TransportError as error:
            _raise_if_hopeless(error, doing)
            return None, _Away(f"can't {doing}: the API server does not answer ({_why(error)})")
        except (ConfigError, json.JSONDecodeError, KeyError, OSError) as error:
            raise ApiError(
                f"can't {doing}: the kubeconfig's login program failed: {error}; log in again"
            ) from error
        if response.status_code < 400:
            return response, None
        status = _status(response)
        said = refusal(doing, response.status_code, status)
        busy = response.status_code in BUSY or "etcdserver:" in str(said)
        if not busy:
            raise said
        return None, _Away(str(said), _retry_after_s(response))


class _Away(Unreachable):
    def __init__(self, words: str, retry_after_s: float = 0.0) -> None:
        super().__init__(words)
        self.retry_after_s = retry_after_s


def _retry_after_s(response: httpx.Response) -> float:
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdigit() else 0.0


def _status(response: httpx.Response) -> Object:
    text = response.read()
    try:
        value = json.loads(text)
    except ValueError:  # a proxy's page, or a line of the server's
        return {"message": text.decode(errors="replace")[:300]}
    return value if isinstance(value, dict) else {}


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


def _raise_if_hopeless(error: Exception, doing: str) -> None:
    """What waiting does not mend: certificates."""
    said = str(error)
    if isinstance(error.__cause__, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in said:
        raise ApiError(
            f"can't {doing}: the API server's certificate is not the one that the kubeconfig trusts: {said}"
        ) from error
    if "certificate expired" in said or "certificate_expired" in said:
        raise ApiError(f"can't {doing}: your client certificate has expired; log in again") from error


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _called(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind']} {obj['metadata'].get('name', '')}"


# The connection ------------------------------------------------------------------------------------------

_open: dict[tuple[str | None, str | None, str], Cluster] = {}
_opening = threading.Lock()


def _forget_after_fork() -> None:
    """A child must not speak on its parent's connections."""
    global _opening
    _open.clear()
    _opening = threading.Lock()  # a thread that the child does not have may have held it


os.register_at_fork(after_in_child=_forget_after_fork)


def connect(context: str | None = None, namespace: str | None = None) -> Cluster:
    """The cluster of this kubeconfig context (None: the current one) and namespace (None: the context's).

    One for the whole process. Raises InputError for a kubeconfig that can't be used, LaunchError where
    the extra `kubernetes` is not installed. Asks the cluster nothing.
    """
    key = (context, namespace, os.environ.get("KUBECONFIG", ""))
    with _opening:
        if key not in _open:
            config = _config(context)
            space = namespace or config.namespace
            _open[key] = Cluster(_http(config), config.context_name, space)
        return _open[key]


def _http(config: SingleConfig) -> httpx.Client:
    import httpx2 as httpx
    from lightkube.config.client_adapter import ConnectionParams

    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    try:
        params = ConnectionParams(timeout=timeout).httpx_params(config)
    except (OSError, ValueError) as error:
        raise InputError(f"kubeconfig {config.fname}: its certificates can't be read: {error}") from error
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
    client: httpx.Client = httpx.Client(**params, limits=limits)
    return client


def _config(context: str | None) -> SingleConfig:
    """What the kubeconfig says, or a pod's own ServiceAccount where there is none."""
    try:
        from lightkube import ConfigError, KubeConfig
    except ModuleNotFoundError as error:
        raise LaunchError(
            "launcher kubernetes needs lightkube, which is not installed: pip install 'assay[kubernetes]'"
        ) from error
    named = os.environ.get("KUBECONFIG")
    files = [Path(name) for name in (named or "~/.kube/config").split(os.pathsep) if name]
    there = [file for file in (f.expanduser() for f in files) if file.is_file()]
    try:
        if not there and named is None and IN_CLUSTER.exists():
            own: SingleConfig | None = KubeConfig.from_service_account().get()
            assert own is not None  # it has a current context
            return own
        read = [KubeConfig.from_file(file) for file in there]
        wanted = context or next((config.current_context for config in read if config.current_context), None)
        config = next((config for config in read if wanted in config.contexts), None)
        if config is None or wanted is None:
            raise InputError(_no_context(wanted, files, [name for one in read for name in one.contexts]))
        chosen: SingleConfig | None = config.get(wanted)
        assert chosen is not None
        return _with_login(chosen)
    except (ConfigError, KeyError, ValueError, OSError) as error:
        raise InputError(f"kubeconfig {', '.join(map(str, files))}: {error}") from error


def _no_context(wanted: str | None, files: list[Path], known: list[str]) -> str:
    where = f"kubeconfig {', '.join(map(str, files))}"
    if not known:
        return f"{where}: no such file, or no context in it; set KUBECONFIG, or log in to the cluster"
    if wanted is None:
        return f"{where}: no current context; name one of {', '.join(known)} in the system's `context`"
    return f"{where}: no context {wanted!r}; there are {', '.join(known)}"


def _with_login(config: SingleConfig) -> SingleConfig:
    """Its login program told which form the answer may have: lightkube takes v1, and calls it v1beta1."""
    from lightkube.config.models import NameValue

    if config.user is None or config.user.exec is None:
        return config
    login, form = config.user.exec, config.user.exec.apiVersion
    info = json.dumps({"apiVersion": form, "kind": "ExecCredential", "spec": {"interactive": False}})
    login.env = [*(login.env or []), NameValue("KUBERNETES_EXEC_INFO", info)]
    if form == "client.authentication.k8s.io/v1":
        login.apiVersion = "client.authentication.k8s.io/v1beta1"
    return config
