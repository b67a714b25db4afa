"""Hosts to log in to: real ssh servers, each in a network namespace of this machine, with an own address.

They share this machine's files and processes, not its network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from conftest import require

SSHD = "/usr/sbin/sshd"
SERVER = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
"""
CLIENT = """
Host *
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""
ALIAS = "\nHost {name}\n  HostName {address}\n  HostKeyAlias any\n"


@dataclass
class Hosts:
    """The servers, by the names that the ssh config gives them; `folder/full` is a disk of 16 KiB there."""

    folder: Path
    names: list[str]
    bridge: str
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def config(self) -> str:
        return str(self.folder / "config")

    def address(self, number: int) -> str:
        return f"{_net()}.{10 + number}"

    def namespace(self, name: str) -> str:
        return f"{self.bridge}-{name}"

    def serve(self, name: str) -> None:
        argv = [
            "ip",
            "netns",
            "exec",
            self.namespace(name),
            SSHD,
            "-D",
            "-e",
            "-f",
            str(self.folder / "sshd"),
        ]
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            self.servers[name] = subprocess.Popen(argv, stderr=log)
        argv = ["ssh", "-F", self.config, "-o", "BatchMode=yes", name, "true"]
        give_up = time.monotonic() + 20
        while run(*argv, check=False).returncode:
            assert time.monotonic() < give_up, (self.folder / f"{name}.log").read_text()
            time.sleep(0.05)

    def stop(self, name: str) -> None:
        """The server and each of its connections, as when the host's network goes."""
        server = self.servers.pop(name)
        for pid in reversed(below(server.pid)):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        server.wait()

    def unplug(self, name: str, *, plugged: bool = False) -> None:
        """Cut the host's network, or mend it."""
        number = self.names.index(name)
        run("ip", "link", "set", f"{self.bridge}v{number}", "up" if plugged else "down")


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """So many servers; skips where there can be none."""
    able = os.geteuid() == 0 and shutil.which("ip") is not None and Path(SSHD).exists()
    require("ssh", able, "needs root, iproute2 and openssh-server")
    bridge = f"as{os.getpid() % 100000}"
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="assay-ssh-")))
        made = Hosts(folder, [f"host{number}" for number in range(count)], bridge)
        _write_keys(made)
        (folder / "full").mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder / "full"))
        held.callback(run, "umount", str(folder / "full"))
        tried = run("ip", "link", "add", bridge, "type", "bridge", check=False)
        require("ssh", tried.returncode == 0, f"no network namespaces: {tried.stderr!r}")
        held.callback(run, "ip", "link", "delete", bridge, check=False)
        run("ip", "address", "add", f"{_net()}.1/24", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
        for number, name in enumerate(made.names):
            _connect(made, number, name, held)
            made.serve(name)
        yield made
        for name in list(made.servers):
            made.stop(name)


def _net() -> str:
    return f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"


def _write_keys(made: Hosts) -> None:
    folder = made.folder
    for name in ("key", "host_key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    (folder / "sshd").write_text(SERVER.format(folder=folder))
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"any {public}")
    aliases = (ALIAS.format(name=n, address=f"{_net()}.{10 + i}") for i, n in enumerate(made.names))
    (folder / "config").write_text("".join(aliases) + CLIENT.format(folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)


def _connect(made: Hosts, number: int, name: str, held: ExitStack) -> None:
    space, outer = made.namespace(name), f"{made.bridge}v{number}"
    run("ip", "netns", "add", space)
    held.callback(run, "ip", "netns", "delete", space, check=False)
    run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
    # a process that is left in the namespace would keep both ends, and with them the name, for the next hosts
    held.callback(run, "ip", "link", "delete", outer, check=False)
    run("ip", "link", "set", outer, "master", made.bridge, "up")
    inside = ("ip", "-n", space)
    run(*inside, "address", "add", f"{_net()}.{10 + number}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        run(*inside, "link", "set", device, "up")


def below(pid: int) -> list[int]:
    """A process and its descendants, parents first; a server's sessions outlive it otherwise."""
    children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(found for child in children for found in below(child))]


def run(*argv: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, check=check, capture_output=True, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr.decode(errors="replace"))
        raise
