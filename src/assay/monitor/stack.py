"""Prometheus and its neighbors on this machine: which programs, how they are configured, and running them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from assay.durable import deliver
from assay.errors import HostError, InputError
from assay.monitor import rules
from assay.monitor.dashboards import dashboards

READY_S: Final = 60.0  # for a program to answer after its start
END_S: Final = 10.0  # for a program to end; then it is killed
_LOG_BYTES: Final = 4096
_GRAFANA_HOME: Final = "/usr/share/grafana"


@dataclass(frozen=True)
class MonitoringStack:
    """What runs: program → URL; and what does not: program → how to get it."""

    directory: Path
    urls: Mapping[str, str]
    missing: Mapping[str, str]
    processes: Mapping[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def check(self) -> None:
        """Raises HostError if a program has ended."""
        for name, process in self.processes.items():
            if (code := process.poll()) is not None:
                raise HostError(_ended(name, code, _log(self.directory, name)))

    def document(self) -> dict[str, Any]:
        """URLs by program, and how to get the programs that are not here."""
        return {"directory": str(self.directory), "urls": {**self.urls}, "missing": {**self.missing}}


@contextmanager
def stack(options: StackOptions) -> Iterator[MonitoringStack]:
    """Start every program that is here, and end all of them with this context.

    Raises InputError if the program or configuration of the user is not there, HostError if there is no
    Prometheus or a program does not start.
    """
    directory = options.directory
    programs = _programs(options)
    names = {program.name for program, _ in programs}
    ports = _ports([program for program, _ in programs])
    write_configuration(options, ports)
    urls = {name: f"http://{HOST}:{port}" for name, port in ports.items()}
    urls["assay exporter"] = f"http://{options.exporter}/metrics"
    missing = {neighbor.name: neighbor.source for neighbor in NEIGHBORS if neighbor.name not in names}
    with ExitStack() as running:
        processes = {}
        for program, file in programs:
            argv, environment = _command(program, file, options, ports)
            log = _log(directory, program.name)
            processes[program.name] = running.enter_context(_process(argv, environment, log))
        stack = MonitoringStack(directory, urls, missing, processes)
        for program, _ in programs:
            _wait_until_ready(stack, urls[program.name] + program.ready, program.name)
        yield stack


def _programs(options: StackOptions) -> list[tuple[StackProgram, str]]:
    """What is on this machine, Prometheus first."""
    own, configuration = options.prometheus, options.alertmanager
    if own is not None and not (own.is_file() and os.access(own, os.X_OK)):
        raise InputError(f"{own}: not a program; --prometheus expects Prometheus' executable file")
    if configuration is not None and not configuration.is_file():
        raise InputError(f"{configuration}: no such file; --alertmanager-config expects its configuration")
    first = None if own is None else str(own.absolute())
    first = first or next(filter(None, map(shutil.which, PROMETHEUS.files)), None)
    if first is None:
        raise HostError(
            f"prometheus is not on the path; get it ({PROMETHEUS.source}), or name it with --prometheus"
        )
    programs = [(PROMETHEUS, first)]
    for program in NEIGHBORS:
        file = next(filter(None, map(shutil.which, program.files)), None)
        if file is not None:
            programs.append((program, file))
    if configuration is not None and "alertmanager" not in {program.name for program, _ in programs}:
        raise HostError(
            f"alertmanager is not on the path, so nobody would get an alert; {NEIGHBORS[0].source}"
        )
    return programs


def _command(
    program: StackProgram, file: str, options: StackOptions, ports: Mapping[str, int]
) -> tuple[list[str], dict[str, str]]:
    """Command line of a program, and what is added to its environment."""
    directory, port = options.directory.absolute(), ports[program.name]
    listen = f"--web.listen-address={HOST}:{port}"
    if program.name == "prometheus":
        data = f"--storage.tsdb.path={directory / 'prometheus-data'}"
        return [file, f"--config.file={directory / 'prometheus.yaml'}", data, listen], {}
    if program.name == "alertmanager":
        configuration = (options.alertmanager or directory / "alertmanager.yaml").absolute()
        data = f"--storage.path={directory / 'alertmanager-data'}"
        return [file, f"--config.file={configuration}", data, listen, "--cluster.listen-address="], {}
    if program.name == "node exporter":
        return [file, listen], {}
    environment = {
        "GF_SERVER_HTTP_ADDR": HOST,
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_PATHS_DATA": str(directory / "grafana" / "data"),
        "GF_PATHS_LOGS": str(directory / "grafana" / "logs"),
        "GF_PATHS_PROVISIONING": str(directory / "grafana" / "provisioning"),
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
    }
    return [file, "--homepath", _GRAFANA_HOME], environment


def _ports(programs: Sequence[StackProgram]) -> dict[str, int]:
    """A free port for each program: the usual one, or else any. All are held until all are chosen."""
    ports = {}
    with ExitStack() as held:
        for program in programs:
            own = held.enter_context(socket.socket())
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                own.bind((HOST, program.port))
            except OSError:
                own.bind((HOST, 0))
            ports[program.name] = int(own.getsockname()[1])
    return ports


@contextmanager
def _process(
    argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in its own session, so that Ctrl-C reaches Assay alone; ended with this context.

    Where `setpriv` is, the kernel ends it even if Assay is killed.
    """
    guard = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*guard, *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
                start_new_session=True,
            )
    except OSError as error:
        raise HostError(f"{argv[0]}: can't be started: {error.strerror}") from error
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _wait_until_ready(stack: MonitoringStack, url: str, name: str) -> None:
    give_up = time.monotonic() + READY_S
    while time.monotonic() < give_up:
        stack.check()
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - our own loopback URL
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise HostError(
        f"{name} does not answer at {url} after {READY_S:.0f} s; see {_log(stack.directory, name)}"
    )


def _log(directory: Path, name: str) -> Path:
    return directory / f"{name.replace(' ', '-')}.log"


def _ended(name: str, code: int, log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
    printable = "".join(character for character in last if character.isprintable())[:500]
    return f"{name} ended with exit code {code}: {printable}; see {log}"


HOST: Final = "127.0.0.1"  # none of them asks for a password


@dataclass(frozen=True)
class StackProgram:
    """A program of the stack.

    files   its names on the path
    port    the usual one
    ready   path of the URL that answers once it works
    source  how to get it
    """

    name: str
    files: tuple[str, ...]
    port: int
    ready: str
    source: str


PROMETHEUS: Final = StackProgram(
    "prometheus", ("prometheus",), 9090, "/-/ready", "apt install prometheus, or prometheus.io/download"
)
NEIGHBORS: Final = (
    StackProgram(
        "alertmanager",
        ("prometheus-alertmanager", "alertmanager"),
        9093,
        "/-/ready",
        "apt install prometheus-alertmanager, or prometheus.io/download",
    ),
    StackProgram(
        "node exporter",
        ("prometheus-node-exporter", "node_exporter"),
        9100,
        "/metrics",
        "apt install prometheus-node-exporter, or prometheus.io/download",
    ),
    StackProgram("grafana", ("grafana-server",), 3000, "/api/health", "grafana.com/grafana/download"),
)


@dataclass(frozen=True)
class StackOptions:
    """Choices of the user.

    directory     for configuration, data and logs
    exporter      host and port of Assay's exporter
    prometheus    its program; None: the one on the path
    every_s       between scrapes, and between looks at the rules
    hold_s        how long each alert must hold before it fires; None: as its rule says
    alertmanager  the user's own configuration of Alertmanager; None: alerts are shown and sent to nobody
    """

    directory: Path
    exporter: str
    prometheus: Path | None = None
    every_s: float = 15.0
    hold_s: float | None = None
    alertmanager: Path | None = None


def prometheus_configuration(options: StackOptions, ports: Mapping[str, int]) -> dict[str, Any]:
    """Prometheus' configuration: scrapes of what runs, the rules, Alertmanager if it runs."""
    every = _milliseconds(options.every_s)
    targets = {"assay": options.exporter, "prometheus": f"{HOST}:{ports['prometheus']}"}
    if "node exporter" in ports:
        targets["node"] = f"{HOST}:{ports['node exporter']}"
    configuration: dict[str, Any] = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()
        ],
    }
    if "alertmanager" in ports:
        target = f"{HOST}:{ports['alertmanager']}"
        configuration["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [target]}]}]}
    return configuration


def rule_groups(hold_s: float | None) -> dict[str, Any]:
    """The content of the rule file; hold_s: as in StackOptions."""
    groups = rules.groups()
    if hold_s is not None:
        held = {"for": _milliseconds(hold_s)}
        groups = [{**group, "rules": [{**rule, **held} for rule in group["rules"]]} for group in groups]
    return {"groups": groups}


def write_configuration(options: StackOptions, ports: Mapping[str, int]) -> None:
    """The files that these programs read, below the stack's directory; JSON is YAML.

    Raises HostError if one can't be written.
    """
    files: dict[str, Any] = {
        "prometheus.yaml": prometheus_configuration(options, ports),
        "rules.yaml": rule_groups(options.hold_s),
        "alertmanager.yaml": {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]},
    }
    texts = {name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}
    if "grafana" in ports:
        texts |= _grafana_files(options.directory, f"http://{HOST}:{ports['prometheus']}")
    for name, text in texts.items():
        deliver(options.directory / name, text.encode(), option="--dir")


def _grafana_files(directory: Path, prometheus: str) -> dict[str, str]:
    """Our dashboards, and where their data is."""
    source = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": prometheus}
    boards = directory.absolute() / "grafana" / "dashboards"
    provided = {"name": "assay", "type": "file", "options": {"path": str(boards)}}
    provisioning = {
        "datasources": {"apiVersion": 1, "datasources": [{**source, "isDefault": True}]},
        "dashboards": {"apiVersion": 1, "providers": [provided]},
    }
    return {
        f"grafana/provisioning/{kind}/assay.yaml": json.dumps(content, indent=2) + "\n"
        for kind, content in provisioning.items()
    } | {f"grafana/dashboards/assay-{name}.json": text for name, text in dashboards().items()}


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1e3))}ms"
