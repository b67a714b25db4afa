"""What mpirun needs in a pod, so that mpirun starts the ranks and the keeper watches them.

Runs with only the standard library (3.9 or newer), next to relay.py:

    python -I -S …/mpi.py launch -- MPIRUN ARGUMENT…        first process of the launcher's pod
    python -I -S …/mpi.py serve DIRECTORY PORT -- ARGUMENT… first process of a worker's pod: sshd, then relay
    python -I -S …/mpi.py arrive DIRECTORY                  what mpirun starts, once per rank

mpirun reaches a worker over ssh and starts a stand-in for each rank there, which records mpirun's variables
in DIRECTORY/arrivals. When all have arrived, the keeper starts the ranks, as it does everywhere, each with
its stand-in's variables (`rank_env` in the spec), so that MPI works. The stand-in ends like its rank, which
is how mpirun learns of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

AUTH = Path("/assay/ssh")  # where the operator mounts the job's own key pair
KEY = Path("/assay/job/ssh-key")
TOLD = ("OMPI_", "PMIX_", "PRTE_", "ORTE_")  # variables of Open MPI 4 and 5
LOOK_EVERY_S = 0.1
NOT_FOUND, CANCELLED = 127, 143


def launch(command: list[str]) -> NoReturn:
    """Become mpirun."""
    copy_key()
    if shutil.which(command[0]) is None:
        print(f"assay: {command[0]}: not found: the image has no MPI", flush=True)
        sys.exit(NOT_FOUND)
    os.execvp(command[0], command)  # noqa: S606  (no shell is what is wanted)


def serve(directory: Path, port: int, relay: list[str]) -> int:
    """Serve ssh until mpirun has left, and relay the ranks meanwhile; returns the relay's exit code."""
    signals: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: object) -> None:
        signals.append(number)
        for process in running:
            process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    copy_key()
    sshd = start_sshd(port)
    if sshd is None:
        return NOT_FOUND
    expected = ranks_here(relay)
    while len(come := arrived(directory)) < len(expected):
        if signals or sshd.poll() is not None:
            print(
                "assay: sshd ended before mpirun connected" if not signals else "assay: cancelled", flush=True
            )
            sshd.kill()
            return CANCELLED if signals else 1
        time.sleep(LOOK_EVERY_S)
    if come != expected:
        print(f"assay: mpirun started ranks {come} here; expected {expected}", flush=True)
        return 1
    program = str(Path(__file__).with_name("relay.py"))
    running.append(subprocess.Popen([sys.executable, "-I", "-S", program, *relay]))
    if signals:  # just before it was started
        running[0].send_signal(signals[0])
    code = running[0].wait()
    while children(sshd.pid) and not signals:  # stand-ins report to mpirun how their ranks ended
        time.sleep(LOOK_EVERY_S)
    sshd.kill()
    return code if code >= 0 else 128 - code


def ranks_here(relay: list[str]) -> list[int]:
    """The ranks of this node, from the relay's arguments."""
    source, variable = (relay[relay.index(option) + 1] for option in ("--unpack", "--node-from"))
    ranks = json.loads(Path(source, "spec.json").read_bytes())["ranks"]
    first = int(os.environ[variable]) * ranks
    return list(range(first, first + ranks))


def arrived(directory: Path) -> list[int]:
    """The ranks whose stand-ins have arrived."""
    arrivals = (json.loads(path.read_bytes()) for path in (directory / "arrivals").glob("*.json"))
    return sorted(int(env["OMPI_COMM_WORLD_RANK"]) for env in arrivals)


def start_sshd(port: int) -> subprocess.Popen[bytes] | None:
    """Start sshd without the image's configuration; None, with a message, if it is missing."""
    sshd = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")
    if sshd is None:
        print(
            "assay: sshd: not found: the image has no ssh server, which mpirun needs to reach a worker",
            flush=True,
        )
        return None
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd run by root insists
    passed = (f'{name}="{os.environ[name]}"' for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ)
    settings = {
        "AuthorizedKeysFile": str(AUTH / "authorized_keys"),
        "HostKey": str(KEY),
        "LogLevel": "FATAL",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
        "SetEnv": " ".join(passed),
        "StrictModes": "no",
        "UsePAM": "no",
    }
    options = chain.from_iterable(("-o", f"{name}={value}") for name, value in settings.items())
    return subprocess.Popen([sshd, "-D", "-e", "-f", "/dev/null", "-p", str(port), *options])


def copy_key() -> None:
    """The private key as a file that only this user can read, which ssh and sshd require."""
    KEY.touch(mode=0o600)
    KEY.write_bytes((AUTH / "id_rsa").read_bytes())


def arrive(directory: Path) -> int:
    """Record mpirun's variables, and wait for the rank's end; returns its exit code."""
    arrivals = directory / "arrivals"
    arrivals.mkdir(exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if name.startswith(TOLD)}
    beside = arrivals / f"{variables['OMPI_COMM_WORLD_LOCAL_RANK']}.part"
    beside.write_text(json.dumps(variables))
    beside.replace(beside.with_suffix(".json"))
    signal.signal(signal.SIGTERM, lambda *_: end_keeper(directory))
    while (ended := kept(directory, "ended.json")) is None:
        time.sleep(LOOK_EVERY_S)
    rank = int(variables["OMPI_COMM_WORLD_RANK"])
    end = next((end for end in ended["exits"] if end["rank"] == rank), None)
    if end is None:
        return 1
    code: int | None = end["exit_code"]
    return 128 + getattr(signal, end["signal"], 0) if code is None else code


def end_keeper(directory: Path) -> None:
    """End the ranks, since mpirun has just asked a stand-in to end."""
    claim = kept(directory, "claim.json")
    if claim is not None and kept(directory, "ended.json") is None:
        os.kill(claim["pid"], signal.SIGTERM)


def kept(directory: Path, name: str) -> dict[str, Any] | None:
    """What the node's keeper wrote; None until it has."""
    for path in chain(directory.glob(name), directory.glob(f"node-*/{name}")):
        value: dict[str, Any] = json.loads(path.read_bytes())
        return value
    return None


def children(pid: int) -> list[int]:
    """Processes whose parent is this one."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == pid and state != "Z":
            pids.append(int(entry.parent.name))
    return pids


def command_line() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs what mpirun needs in a pod.")
    roles = parser.add_subparsers(dest="role", required=True)
    for role, operands in (("launch", ()), ("serve", ("directory", "port"))):
        role_parser = roles.add_parser(role)
        for operand in operands:
            role_parser.add_argument(operand, type=Path if operand == "directory" else int)
        role_parser.add_argument("command", nargs="+")
    roles.add_parser("arrive").add_argument("directory", type=Path)
    return parser.parse_args()


def main(args: argparse.Namespace) -> int:
    """Perform the role; returns the exit code."""
    if args.role == "launch":
        launch(args.command)
    return arrive(args.directory) if args.role == "arrive" else serve(args.directory, args.port, args.command)


if __name__ == "__main__":
    sys.exit(main(command_line()))
