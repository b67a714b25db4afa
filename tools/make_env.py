"""Install what a Makefile target needs into its environment: `make_env.py VENV KIND TORCH_CPU_INDEX`.

Installed packages stay, so one environment grows from `demo` to `all`. uv installs them: it downloads in
parallel and keeps a cache. If it is not on the path, its wheel is installed first.

torch is installed as the small CPU build if this machine has no NVIDIA GPU and the given index responds,
otherwise as the default build, which includes its CUDA libraries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

NEEDED = (3, 11)
# Kind of environment → extras of pyproject.toml.
KINDS = {
    "demo": ("torch",),
    "check": ("kubernetes", "check"),
    "test": ("training", "inference", "mpi", "kubernetes", "test"),
    "all": ("training", "inference", "mpi", "kubernetes", "test", "check"),
}
WITH_TORCH = {"torch", "training", "inference", "mpi"}


def answers(index: str) -> bool:
    """Whether a package index responds within a few seconds."""
    try:
        with urllib.request.urlopen(index.rstrip("/") + "/torch/", timeout=5) as reply:  # noqa: S310 (https given)
            return bool(reply.status == 200)
    except OSError:
        return False


def make(root: Path) -> None:
    """Create the environment, with nothing but pip."""
    print(f"creating {root}", flush=True)
    try:
        venv.create(root, with_pip=True)
    except subprocess.CalledProcessError:  # Debian's python3 comes without ensurepip
        shutil.rmtree(root)
        sys.exit(
            f"{sys.executable} can't create an environment with pip; on Debian: apt install python3-venv"
        )


def uv_of(root: Path) -> str:
    """The path of uv, which is installed into the environment if this machine has none."""
    found = shutil.which("uv") or shutil.which("uv", path=root / "bin")
    if found is None:
        pip = [str(root / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "uv>=0.5"], check=True)
    return found or str(root / "bin" / "uv")


def settings_of_pip() -> dict[str, str]:
    """The package index and the certificates that pip is configured to use, for uv."""
    names = {"UV_DEFAULT_INDEX": "PIP_INDEX_URL", "SSL_CERT_FILE": "PIP_CERT"}
    return {ours: os.environ[pips] for ours, pips in names.items() if pips in os.environ}


def main() -> None:
    """Create the environment if it does not exist, then install Assay with the extras of the kind."""
    if sys.version_info < NEEDED:
        sys.exit(
            f"Assay needs Python {NEEDED[0]}.{NEEDED[1]} or newer, but this is {sys.version.split()[0]}; "
            "choose another one: make PYTHON=python3.12 demo"
        )
    root, kind, index = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    python = root / "bin" / "python"
    if not python.exists():
        make(root)
    install = [uv_of(root), "pip", "install", "--quiet", "--python", str(python)]
    environment = settings_of_pip() | os.environ
    if {*KINDS[kind]} & WITH_TORCH and shutil.which("nvidia-smi") is None and answers(index):
        print("installing torch, the CPU build", flush=True)
        subprocess.run([*install, "--index-url", index, "torch", "torchvision"], env=environment, check=True)
    extras = ",".join(KINDS[kind])
    print(f"installing Assay and its extras {extras} (a few minutes the first time)", flush=True)
    subprocess.run([*install, "--editable", f".[{extras}]"], env=environment, check=True)


if __name__ == "__main__":
    main()
