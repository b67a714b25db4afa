"""Prometheus and its neighbors on this machine, while they run."""

from __future__ import annotations

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
from typing import Final

from assay.errors import HostError, InputError
from assay.monitor.stack_configuration import (
    HOST,
    NEIGHBORS,
    PROMETHEUS,
    StackOptions,
    StackProgram,
    write_configuration,
)

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
