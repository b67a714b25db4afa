"""An image without software of its own: this machine's is mounted, so that a container runs the very same."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from conftest import require

IMAGE = "localhost/assay-test/this-machine:1"
# podman asks for more files and processes than a machine may allow, where root lacks CAP_SYS_RESOURCE
ULIMITS = {"nofile": 16384, "nproc": 16384}


def this_machine(image: str = IMAGE) -> dict[str, Any]:
    """Options of a system whose containers run this machine's software with this interpreter."""
    places = {"/usr", sys.prefix, sys.base_prefix}
    volumes = sorted(p for p in places if not any(p != q and Path(p).is_relative_to(q) for q in places))
    return {"image": image, "python": sys.executable, "volumes": volumes, "ulimits": ULIMITS}


def need_podman(image: str = IMAGE) -> None:
    """Skip where podman can't run a container; make the image where it can."""
    require("podman", shutil.which("podman") is not None, "podman is not installed")
    if subprocess.run(["podman", "image", "exists", image], check=False).returncode != 0:
        make = ["podman", "import", "--quiet", "-", image]
        subprocess.run(make, input=_bare_root(), capture_output=True, check=False)
    limits = [f"--ulimit={name}={limit}" for name, limit in ULIMITS.items()]
    argv = [
        "podman",
        "run",
        "--rm",
        "--network=host",
        *limits,
        "--volume=/usr:/usr:ro",
        image,
        "/usr/bin/env",
    ]
    tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    require("podman", tried.returncode == 0, tried.stderr)


def _bare_root() -> bytes:
    """An archive of the directories that a container needs, and of links to where this machine's lie."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "run", "root"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path("/", name).is_symlink():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
                archive.addfile(entry)
    return buffer.getvalue()
