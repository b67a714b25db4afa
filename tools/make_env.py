"""Install what a Makefile target needs into its environment: `make_env.py VENV KIND TORCH_CPU_INDEX`.

Installed packages stay, so one environment grows from `demo` to `all`. uv installs them: it downloads in
parallel and keeps a cache. If it is not on the path, its wheel is installed first.

An environment that was left half made, by a kill or a full disk, is made again: a package of which uv wrote
only a part counts as installed. So is one that was made elsewhere, because its programs contain its path.

torch is installed as the small CPU build if this machine has no NVIDIA GPU and the given index responds,
otherwise as the default build, which includes its CUDA libraries.
"""

from __future__ import annotations

import configparser
import fcntl
import json
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
    "demo": (),
    "quickstart": ("torch", "serve"),
    "check": ("kubernetes", "check"),
    "test": ("training", "inference", "mpi", "kubernetes", "data", "s3", "ray", "explore", "serve", "test"),
    "all": (
        "training",
        "inference",
        "mpi",
        "kubernetes",
        "data",
        "s3",
        "ray",
        "explore",
        "serve",
        "test",
        "check",
    ),
}
WITH_TORCH = {"torch", "training", "inference", "mpi"}
STATE = ".made.json"  # in the environment: where it was made, and whether an installation is under way


def answers(index: str) -> bool:
    """Whether a package index responds within a few seconds."""
    try:
        with urllib.request.urlopen(index.rstrip("/") + "/torch/", timeout=5) as reply:  # noqa: S310 (https given)
            return bool(reply.status == 200)
    except OSError:
        return False


def is_whole(root: Path) -> bool:
    """Whether the environment was made at this place, completely, and its interpreter still exists."""
    try:
        state = json.loads((root / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return state == {"place": str(root.resolve()), "under_way": False} and (root / "bin" / "python").exists()


def note(root: Path, *, under_way: bool) -> None:
    """Write down where the environment is, and whether an installation is under way."""
    state = {"place": str(root.resolve()), "under_way": under_way}
    (root / STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")


def make(root: Path) -> None:
    """Create the environment, with nothing but pip, in place of whatever is there."""
    print(f"creating {root}", flush=True)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    note(root, under_way=True)
    try:
        venv.create(root, with_pip=True)
    except subprocess.CalledProcessError as error:  # Debian's python3 comes without ensurepip
        said = (error.output or b"").decode(errors="replace").strip().splitlines()
        sys.exit(
            f"{sys.executable} can't create an environment with pip ({said[-1] if said else error}); "
            "on Debian: apt install python3-venv"
        )


def installed(argv: list[str], environment: dict[str, str]) -> None:
    """Run an installer; if it fails, exit with its code: it has said why."""
    code = subprocess.run(argv, env=environment, check=False).returncode
    if code:
        sys.exit(f"{' '.join(argv[:3])} … failed with exit code {code}; the same make target starts again")


def uv_of(root: Path) -> str:
    """The path of uv, which is installed into the environment if this machine has none."""
    found = shutil.which("uv") or shutil.which("uv", path=root / "bin")
    if found is None:
        pip = [str(root / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        ours = {name: value for name, value in os.environ.items() if name not in ("PIP_USER", "PIP_TARGET")}
        installed([*pip, "uv>=0.5"], ours)
    return found or str(root / "bin" / "uv")


def settings_of_pip(python: Path) -> dict[str, str]:
    """The package index and the certificates that pip is configured to use, for uv."""
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "cert": "SSL_CERT_FILE",
        "trusted-host": "UV_INSECURE_HOST",
    }
    said = subprocess.run(
        [str(python), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=False)
    parser.read_string("[pip]\n" + said)
    keys = {(*key.partition(".")[::2], quoted) for key, quoted in parser["pip"].items()}
    return {
        names[name]: " ".join(quoted.strip("'\"").replace("\\n", " ").split())
        for last in ("global", "install", ":env:")  # as for pip, a later one wins
        for section, name, quoted in keys
        if section == last and name in names
    }


def main() -> None:
    """Create the environment if it is not whole, then install Assay with the extras of the kind."""
    if sys.version_info < NEEDED:
        sys.exit(
            f"Assay needs Python {NEEDED[0]}.{NEEDED[1]} or newer, but this is {sys.version.split()[0]}; "
            "choose another one: make PYTHON=python3.12 demo"
        )
    root, kind, index = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two targets at once, the second waits
        if not is_whole(root):
            make(root)
        note(root, under_way=True)
        python = root / "bin" / "python"
        environment = settings_of_pip(python) | os.environ
        install = [uv_of(root), "pip", "install", "--quiet", "--python", str(python)]
        if {*KINDS[kind]} & WITH_TORCH and shutil.which("nvidia-smi") is None and answers(index):
            print("installing torch, the CPU build", flush=True)
            installed([*install, "--index-url", index, "torch", "torchvision"], environment)
        extras = ",".join(KINDS[kind])
        its = f" and its extras {extras} (a few minutes the first time)" if extras else ""
        print(f"installing Assay{its}", flush=True)
        installed([*install, "--editable", f".[{extras}]" if extras else "."], environment)
        note(root, under_way=False)


if __name__ == "__main__":
    main()
