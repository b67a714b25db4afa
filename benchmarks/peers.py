"""The fixed cost of a suite of trivial trials: Assay next to ReFrame and torchx on the same command.

The peers are installed, at these versions, into a virtual environment in the user's cache directory, the
first time that this runs. If they can't be installed, pip's last line says why.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import venv
from functools import partial
from pathlib import Path

from options import absent, parse, sized
from paired import in_turn, ratio, wall_s

TRIALS = 10
PAIRS = 7
ASSAY = str(Path(sys.executable).with_name("assay"))
PINNED = ("reframe-hpc==4.10.4", "torchx==0.7.0", "setuptools==80.9.0")

SUITE = f"""\
suite: trivial
workload: command
params:
  argv: [echo, "value: 1"]
  metrics: {{value: {{pattern: 'value: (?P<value>[0-9]+)', unit: ""}}}}
repeats: {TRIALS}
systems: [local]
"""
REFRAME = f"""\
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Trivial(rfm.RunOnlyRegressionTest):
    number = parameter(range({TRIALS}))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo"
    executable_opts = ["value: 1"]

    @sanity_function
    def printed(self):
        return sn.assert_found(r"value: 1", self.stdout)
"""
TORCHX = f"""\
from torchx.runner import get_runner

with get_runner() as runner:
    for _ in range({TRIALS}):
        handle = runner.run_component("utils.sh", ["echo", "value: 1"], scheduler="local_cwd")
        assert runner.wait(handle, wait_interval=0.02).state.name == "SUCCEEDED"
"""


def main() -> None:
    """Print the wall time per trial for each, and the ratios."""
    options = parse(sized(__doc__, pairs=(PAIRS, 2, "times that each runs")))
    peers_bin = installed_peers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "suite.yaml").write_text(SUITE)
        (folder / "trivial.py").write_text(REFRAME)
        (folder / "with_torchx.py").write_text(TORCHX)
        ours = [ASSAY, "run", "suite.yaml", "--quiet"]
        peers = {
            "reframe": [str(peers_bin / "reframe"), "-c", "trivial.py", "-r", "--exec-policy=serial"],
            "torchx": [str(peers_bin / "python"), "with_torchx.py"],
        }
        for peer, argv in peers.items():
            a, b = in_turn(
                partial(wall_s, ours, cwd=folder), partial(wall_s, argv, cwd=folder), options.pairs
            )
            print(
                f"{peer:8}  assay {statistics.median(a) / TRIALS * 1e3:.0f} ms a trial, "
                f"{peer} {statistics.median(b) / TRIALS * 1e3:.0f} ms; ratio {ratio(a, b)}"
            )


def installed_peers() -> Path:
    """The programs of an environment with the pinned peers, created if it does not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay-benchmarks"
    environment = cache / "-".join(["peers", *(pinned.replace("==", "-") for pinned in PINNED)])
    complete = environment / "complete"
    if not complete.exists():
        print(f"installing {', '.join(PINNED)} into {environment}", file=sys.stderr)
        venv.create(environment, clear=True, with_pip=True)
        pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", *PINNED]
        done = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            absent(f"ReFrame and torchx, which pip can't install: {done.stdout.strip().splitlines()[-1]}")
        complete.touch()
    return environment / "bin"


if __name__ == "__main__":
    main()
