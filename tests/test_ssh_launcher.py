"""Jobs over ssh: the contract with real servers, and what a network can do to them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import launch
from assay.launch import processes
from assay.launch.launcher import Launcher
from assay.launch.ssh.options import SshSystem
from launcher_contract import LauncherContract
from ssh_hosts import Hosts, hosts

pytestmark = [pytest.mark.ssh, pytest.mark.usefixtures("servers")]
SERVERS: list[Hosts] = []
SLEEP = "import time; print('up', flush=True); time.sleep(60)"


@pytest.fixture(scope="module")
def servers() -> Iterator[Hosts]:
    with hosts(3) as made, tempfile.TemporaryDirectory(prefix="assay-ssh-run-") as runtime:
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = runtime
        SERVERS.append(made)
        yield made
        SERVERS.remove(made)
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before


def system(directory: Path, **more: object) -> SshSystem:
    (made,) = SERVERS
    common = {"hosts": made.names, "config": made.config, "python": sys.executable}
    return SshSystem.model_validate({**common, "directory": str(directory), "grace": 0.5, **more})


class TestSshLauncher(LauncherContract):
    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return launch.make("ssh", system(spool / "remote", grace=grace_s), spool=spool)

    def left(self, token: str) -> list[str]:
        return [str(pid) for pid in processes.with_variable("ASSAY_TOKEN", token)]
