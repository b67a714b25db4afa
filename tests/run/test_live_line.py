"""The live line of a run in a real terminal, which becomes narrower while it is shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, require

SHOW = """
import sys
import time
from dataclasses import replace
from pathlib import Path
from assay.cli.progress import ProgressScreen
from assay.rundir import session as rundir
from test_rundir import header, plan, trial

session = rundir.create(Path(sys.argv[1]), header(), plan(), {})
screen = ProgressScreen(session, plan(), [], stream=sys.stderr)
for number in range(8):
    screen.say(f"line {number}")
long = replace(trial(), workload="matmul", params={}, id="training-batch_size32-image_size224-2x1-here-r01")
screen.trial_began(long, 1, adopted=False)
while not Path(sys.argv[1], "stop").exists():
    time.sleep(0.02)
screen.say("the last line")
screen.close()
time.sleep(600)
"""
PATIENCE_S = 60.0


@pytest.fixture
def terminal() -> Iterator[list[str]]:
    """The command line of a tmux server of its own."""
    require("tmux", shutil.which("tmux") is not None, "no `tmux`, whose terminal can be made narrower")
    tmux = ["tmux", "-f", "/dev/null", "-L", f"assay-{uuid.uuid4().hex[:8]}"]
    yield tmux
    subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def test_a_narrower_terminal_leaves_no_fragments_of_the_live_line(
    terminal: list[str], tmp_path: Path
) -> None:
    def shown() -> list[str]:
        said = subprocess.run(
            [*terminal, "capture-pane", "-p", "-S", "-20"], capture_output=True, text=True, check=True
        )
        return [line for line in said.stdout.splitlines() if line]

    def wait_for(last: str) -> list[str]:
        give_up = time.monotonic() + PATIENCE_S
        while not (lines := shown()) or not lines[-1].endswith(last):
            assert time.monotonic() < give_up, "\n".join(lines)
            time.sleep(0.05)
        return lines

    paths = [ROOT / "src", Path(__file__).parent, ROOT / "tests"]
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    (tmp_path / "show.py").write_text(SHOW)
    subprocess.run(
        [
            *terminal,
            "new-session",
            "-d",
            "-x",
            "110",
            "-y",
            "20",
            sys.executable,
            tmp_path / "show.py",
            tmp_path,
        ],
        env={**env, "PYTHONPATH": ":".join(map(str, paths)), "TERM": "xterm"},
        check=True,
    )
    wait_for("in all")
    for width in (60, 40, 25):
        subprocess.run([*terminal, "resize-window", "-x", str(width)], check=True)
        wait_for("…")
        time.sleep(0.6)  # two more times that it is drawn
        give_up = time.monotonic() + PATIENCE_S
        while sum(line.startswith("[1/1] block 1 ") for line in shown()) != 1:
            assert time.monotonic() < give_up, shown()
            time.sleep(0.2)
    (tmp_path / "stop").touch()
    lines = wait_for("the last line")
    assert lines[-9:] == [*(f"line {number}" for number in range(8)), "the last line"]
