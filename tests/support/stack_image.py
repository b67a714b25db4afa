"""An image built from what `assay stack` prints, on a base that lies here: no registry is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from assay.stacks.containerfile import container_file_text
from assay.stacks.image import choose, closure
from conftest import require
from containers import ULIMITS

BASE = "localhost/assay-test/base:1"  # Debian 12's packages; podman import ROOTFS.tar BASE
ARCHIVE = "http://deb.debian.org/debian/dists/bookworm/Release"
CERTIFICATES = "/run/certificates.pem"
LIMITS = [f"--ulimit={name}={limit}" for name, limit in ULIMITS.items()]
ANYBODY = "1000660000:0"  # a user id as OpenShift gives one
# Where the workload `command` has a program of the user's own, a package that it imports.
PACKAGES = ("numpy",)


def podman(*words: str | Path) -> str:
    """What podman says; the test fails where it fails."""
    done = subprocess.run(["podman", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"podman {' '.join(map(str, words))}:\n{done.stdout[-3000:]}{done.stderr}"
    return done.stdout


def build(folder: Path, tag: str, *flags: str) -> None:
    """Build it with Open MPI, sshd and NumPy. Skips where there is no base or no archive of packages."""
    need_base()
    need_archive()
    stack = choose("command", base=f"debian12={BASE}", mpi=True)
    with_numpy = replace(stack, packages=closure(PACKAGES), modules=PACKAGES)
    file = folder / "Containerfile"
    file.write_text(container_file_text(with_numpy, "a test"))
    context = folder / "empty"
    context.mkdir()
    podman(
        "build",
        "--network=host",
        *LIMITS,
        *index_flags(folder),
        *flags,
        "--tag",
        tag,
        "--file",
        file,
        context,
    )


@contextmanager
def engines_here(folder: Path) -> Iterator[None]:
    """podman and buildah as this machine can run them, and the base. Skips where they are missing."""
    need_base()
    config = folder / "containers.conf"
    limits = ", ".join(f'"{name}={limit}:{limit}"' for name, limit in ULIMITS.items())
    config.write_text(f"[containers]\ndefault_ulimits = [{limits}]\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(config))
        yield


def need_base() -> None:
    """Skip where there is no podman or no base."""
    require("podman", shutil.which("podman") is not None, "podman is not installed")
    there = subprocess.run(["podman", "image", "exists", BASE], check=False).returncode == 0
    require("stack-base", there, f"no image {BASE} of Debian 12; podman import makes one")


def need_archive() -> None:
    """Skip where packages of Debian can't be fetched."""
    require("debian-archive", _answers(ARCHIVE), f"{ARCHIVE} does not answer")


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def index_flags(folder: Path) -> list[str]:
    """What pip is told here about its index, pip is told in the build, too."""
    known = {name: os.environ.get(f"PIP_{name.upper().replace('-', '_')}") for name in ("index-url", "cert")}
    mounted = [] if known["cert"] is None else [f"--volume={known['cert']}:{CERTIFICATES}:ro"]
    said = {"index-url": known["index-url"], "cert": CERTIFICATES if mounted else None, "timeout": "60"}
    config = folder / "pip.conf"
    config.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in said.items() if value))
    return [*mounted, f"--volume={config}:/etc/pip.conf:ro"]
