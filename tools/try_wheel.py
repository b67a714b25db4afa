"""Build the wheel and the source archive into dist/, then use the wheel as a new user would.

    python tools/try_wheel.py

The wheel and its requirements are installed into an empty environment. In an empty directory, `assay` then
writes and plans a starter suite, runs a small suite, and writes a page; it uses what `examples/plugin` adds,
which is installed as well. The last line states the size.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SUITE = """\
suite: tried
workload: command
params:
  argv: ["{python}", -c, "print('rate 5')"]
  metrics: {rate: {pattern: 'rate (?P<value>[0-9]+)', unit: 1/s, better: higher}}
repeats: 2
systems: [local]
"""


def environment(place: Path, *requirements: str | Path) -> Path:
    """The programs of a new environment with these packages."""
    venv.create(place, with_pip=True)
    pip = [place / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, *requirements], check=True)
    return place / "bin"


def main() -> None:
    """Raises CalledProcessError at the first step that fails."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        builder = environment(scratch / "builder", "build", "twine")
        subprocess.run([builder / "python", "-m", "build", "--outdir", DIST, ROOT], check=True)
        subprocess.run([builder / "twine", "check", "--strict", *DIST.iterdir()], check=True)
        [wheel] = DIST.glob("*.whl")
        plugin = shutil.copytree(ROOT / "examples" / "plugin", scratch / "plugin")
        programs = environment(scratch / "user", wheel, plugin)
        work = scratch / "work"
        work.mkdir()
        (work / "suite.yaml").write_text(SUITE)
        (work / "home").mkdir()
        outside = {"PATH": os.environ["PATH"], "HOME": str(work / "home")}
        for words in (
            "--version",
            "init starter",
            "plan starter/suite.yaml",
            "run suite.yaml --report page.html",
            "run ../plugin/suite.yaml",
            "spread primes",  # of a plug-in, as is the workload before
        ):
            print(f"$ assay {words}", flush=True)
            subprocess.run([programs / "assay", *words.split()], cwd=work, env=outside, check=True)
        if not (work / "page.html").read_text().startswith("<!doctype html>"):
            sys.exit("page.html is not a page")
        installed = [path for path in (scratch / "user").rglob("*") if path.is_file()]
        print(
            f"{sum(path.stat().st_size for path in installed) / 1e6:.0f} MB in the environment, including pip"
        )


if __name__ == "__main__":
    main()
