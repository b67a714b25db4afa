"""The fixed cost of a suite of trivial trials: Assay beside ReFrame and torchx on the same command.

The peers are looked for in the environment that ASSAY_PEERS names (a virtual environment made with
`pip install reframe-hpc torchx setuptools`), else in this one; a peer that is not there is left out and said.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from options import absent, parse, sized
from paired import in_turn, ratio, wall_s

TRIALS = 10
PAIRS = 7
ASSAY = str(Path(sys.executable).with_name("assay"))
PEERS = Path(os.environ.get("ASSAY_PEERS", sys.prefix)) / "bin"

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
    """Print wall time a trial for each, and the ratios."""
    options = parse(sized(__doc__, pairs=(PAIRS, 2, "times that each runs")))
    if not any((PEERS / peer).exists() for peer in ("reframe", "torchx")):
        absent(f"ReFrame and torchx in {PEERS.parent}: pip install reframe-hpc torchx setuptools")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "suite.yaml").write_text(SUITE)
        (folder / "trivial.py").write_text(REFRAME)
        (folder / "with_torchx.py").write_text(TORCHX)
        ours = [ASSAY, "run", "suite.yaml", "--quiet"]
        peers = {
            "reframe": [str(PEERS / "reframe"), "-c", "trivial.py", "-r", "--exec-policy=serial"],
            "torchx": [str(PEERS / "python"), "with_torchx.py"],
        }
        for peer, argv in peers.items():
            if not (PEERS / peer).exists():
                print(f"{peer:8}  not installed in {PEERS.parent}: pip install reframe-hpc torchx setuptools")
                continue
            a, b = in_turn(
                partial(wall_s, ours, cwd=folder), partial(wall_s, argv, cwd=folder), options.pairs
            )
            print(
                f"{peer:8}  assay {statistics.median(a) / TRIALS * 1e3:.0f} ms a trial, "
                f"{peer} {statistics.median(b) / TRIALS * 1e3:.0f} ms; ratio {ratio(a, b)}"
            )


if __name__ == "__main__":
    main()
