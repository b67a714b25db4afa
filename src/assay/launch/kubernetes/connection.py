"""Which cluster a kubeconfig refers to, and one connection to each cluster for the whole process.

lightkube reads the kubeconfig and sets up certificates, tokens, and login programs. Assay sends the requests
itself (wire.py), so that custom resources need no model and nothing is throttled on the client side.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from assay import inputs
from assay.errors import InputError, PlatformError
from assay.launch.kubernetes.client import Cluster
from assay.launch.kubernetes.wire import ANSWER_S, CONNECT_S, Wire

if TYPE_CHECKING:
    import httpx2 as httpx
    from lightkube.config.kubeconfig import SingleConfig

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

KEPT = 32  # idle connections: a handshake costs more than most requests
_open: dict[tuple[str | None, str | None, str], Cluster] = {}
_opening = threading.Lock()


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
            "launcher kubernetes needs lightkube, which is not installed: pip install 'assay[kubernetes]'"
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
