"""A Ray cluster of one node on this machine, as a site's own: started with `ray start --head`."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import s3_server

PATIENT = {"RAY_raylet_start_wait_time_s": "300", "RAY_USAGE_STATS_ENABLED": "0"}  # a busy machine


@dataclass(frozen=True)
class RayCluster:
    """Its address, and the variables of a program that may use it."""

    address: str
    environment: Mapping[str, str]

    def assay(self, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """What `assay … --ray ADDRESS` does there, in a process of its own: Ray keeps how it connected."""
        argv = [sys.executable, "-m", "assay", *words, "--ray", self.address]
        return subprocess.run(
            argv, cwd=directory, env=self.environment, capture_output=True, text=True, check=False
        )


@contextmanager
def cluster(directory: Path) -> Iterator[RayCluster]:
    """A cluster with two CPUs, until the end of the block; `directory` holds its session."""
    environment = {**os.environ, **PATIENT, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    port = s3_server.free_port()
    head = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--port={port}"]
    head += ["--num-cpus=2", "--include-dashboard=false", "--object-store-memory=100000000"]
    with subprocess.Popen(
        [*head, f"--temp-dir={directory}"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        try:
            assert started.stdout is not None
            assert any("Ray runtime started" in line for line in started.stdout)
            yield RayCluster(f"127.0.0.1:{port}", environment)
        finally:
            started.terminate()
