"""Make the environment that demo, test, check and bench use: `make_env.py VENV TORCH_CPU_INDEX`.

torch comes as the small CPU build where this machine has no NVIDIA GPU and the given index answers, else as
the default build, which brings its CUDA libraries along.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

NEEDED = (3, 11)


def answers(index: str) -> bool:
    """Whether a package index can be reached within a few seconds."""
    try:
        with urllib.request.urlopen(index.rstrip("/") + "/torch/", timeout=5) as reply:  # noqa: S310 (https given)
            return bool(reply.status == 200)
    except OSError:
        return False


def main() -> None:
    """Create the environment if there is none, then install Assay with its extras into it."""
    if sys.version_info < NEEDED:
        sys.exit(
            f"Assay needs Python {NEEDED[0]}.{NEEDED[1]} or newer, this is {sys.version.split()[0]}; "
            "say which to use: make PYTHON=python3.12 demo"
        )
    root, index = Path(sys.argv[1]), sys.argv[2]
    python = root / "bin" / "python"
    if not python.exists():
        print(f"making {root}", flush=True)
        venv.create(root, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    if shutil.which("nvidia-smi") is None and answers(index):
        print("installing torch, the CPU build", flush=True)
        subprocess.run([*pip, "--index-url", index, "torch", "torchvision"], check=True)
    print("installing Assay, its extras and what the tests need (a few minutes the first time)", flush=True)
    subprocess.run([*pip, "--editable", ".[training,inference,mpi,kubernetes,test,check]"], check=True)


if __name__ == "__main__":
    main()
