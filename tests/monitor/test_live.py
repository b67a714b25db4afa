"""What runs now is shown from the files of a real running session, and what is off is named."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from assay import api
from assay.errors import InputError
from assay.monitor.live import LiveRun
from assay.view.blocks import Paragraph
from assay.web import live as live_page

PROGRAM = """
import json, os, sys, time
rank = int(os.environ["RANK"])
for step in range(1, 6000):
    about = {"step": step, "rank": rank}
    line = {"namespace": "", "time_ms": time.time_ns() // 10**6, "event_type": "POINT_IN_TIME"}
    print(":::MLLOG " + json.dumps({**line, "key": "loss", "value": 1 / step, "metadata": about}), flush=True)
    time.sleep(0.06 if rank == SLOW else 0.02)
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of the runs in which a job of three ranks runs, of which rank 1 is slow."""
    tmp_path = tmp_path_factory.mktemp("live")
    (tmp_path / "job.py").write_text(PROGRAM.replace("SLOW", "1"))
    (tmp_path / "suite.yaml").write_text(
        "suite: steps\nworkload: command\nparams:\n"
        f"  argv: [{sys.executable}, {tmp_path / 'job.py'}]\n"
        "  metrics: {value: {pattern: 'value: (?P<value>[0-9]+)', unit: \"\"}}\n"
        "shapes: [1x3]\nrepeats: 1\nsample_every: 100ms\nsystems: [local]\n"
    )
    argv = [sys.executable, "-m", "assay", "run", "suite.yaml", "--quiet"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as assay:
        try:
            yield tmp_path / "runs"
        finally:
            assay.terminate()


def shown(runs: Path) -> LiveRun:
    """The running trial, once a rank is named as slow and the node was sampled."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        for live in api.running_trials(runs=runs).running:
            named = len(live.ranks) == 3 and any(rank.off for rank in live.ranks)
            if named and live.nodes and live.nodes[0].speeds:
                return live
        time.sleep(0.1)
    raise TimeoutError("nothing was shown")


def test_a_slow_rank_of_a_real_run_comes_first_and_is_named(running: Path) -> None:
    live = shown(running)
    assert [rank.rank for rank in live.ranks] == [1, 0, 2]
    assert re.match(r"[0-9.]+ times the others' step time \(", live.ranks[0].off)
    assert not live.ranks[1].off
    assert (live.done, live.trials, live.run.trial.system) == (0, 1, "local")
    (node,) = live.nodes
    assert node.sampled_at is not None
    assert abs(time.time() - node.sampled_at) < 5
    assert node.values["job_processes"] >= 3
    assert node.speeds["job_cpu_seconds"] >= 0
    assert [one.run.id for one in api.running_trials("steps", runs=running).running] == [live.run.id]
    with pytest.raises(InputError, match="other: no session below"):
        api.running_trials("other", runs=running)


GPU = ("utilization_percent", "power_watts", "sm_clock_hertz", "clock_reasons")
HEALTHY = "98 400 1700000000 0"


@pytest.mark.parametrize(
    ("values", "off"),
    [
        ("99 120 1700000000 0", "full use at 120 W, others 400 W: it may be stuck"),
        ("0 80 1700000000 1", "idle while others work (98 %)"),
        ("97 390 900000000 64", "throttled; SM clock 900 MHz, others 1700 MHz"),
        ("96 360 1650000000 4", ""),
        ("- - - -", ""),
    ],
)
def test_a_gpu_unlike_the_others_is_named(running: Path, values: str, off: str) -> None:
    live = shown(running)
    header = {
        "version": 1, "started_at": time.time(), "period_s": 1.0, "node": ["memory_available_bytes"],
        "gpu": GPU, "gpus": [{"index": number} for number in range(4)],
    }  # fmt: skip
    rows = [f"g 1 {gpu} {values if gpu == 2 else HEALTHY} ." for gpu in range(4)]
    text = (
        "\n".join([f":::ASSAY-TELEMETRY {json.dumps(header)}", "n 1 5 .", *rows]) + "\nx 1.2 2 79 .\ng 2 0 9"
    )
    log = running / live.run.id / "attempt-1/logs/telemetry-7.log"
    log.write_text(text)
    (again,) = api.running_trials(runs=running).running
    log.unlink()
    node = next(node for node in again.nodes if node.node == 7)
    assert {gpu.index: gpu.off for gpu in node.gpus} == {0: "", 1: "", 2: off, 3: ""}
    assert node.gpus[0].index == (2 if off else 0)
    assert node.off == (f"GPU 2: {off}" if off else "")
    assert node.events == ("GPU 2: Xid 79",)


def test_the_time_left_follows_from_the_trials_that_are_done(tmp_path: Path) -> None:
    waits = f"test -e {tmp_path / 'once'} && sleep 60; touch {tmp_path / 'once'}; echo value: 1"
    (tmp_path / "suite.yaml").write_text(
        f'suite: three\nworkload: command\nparams:\n  argv: [sh, -c, "{waits}"]\n'
        "  metrics: {value: {pattern: 'value: (?P<value>[0-9]+)', unit: \"\"}}\n"
        "repeats: 3\nsystems: [local]\n"
    )
    argv = [sys.executable, "-m", "assay", "run", "suite.yaml", "--quiet"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as assay:
        try:
            give_up = time.monotonic() + 60
            while not (
                found := [one for one in api.running_trials(runs=tmp_path / "runs").running if one.done == 1]
            ):
                assert time.monotonic() < give_up
                time.sleep(0.1)
        finally:
            assay.terminate()
    assert found[0].trials == 3
    assert found[0].left_s is not None
    assert 0 <= found[0].left_s < 60
    assert re.fullmatch(r"about \d+ s left", found[0].left)


def test_nothing_runs_in_an_empty_directory(tmp_path: Path) -> None:
    assert api.running_trials(runs=tmp_path).running == ()


def test_the_screen_of_a_terminal_is_drawn_in_place_and_given_back(running: Path) -> None:
    live = shown(running)
    here, there = pty.openpty()
    argv = [sys.executable, "-m", "assay", "watch", "--every", "200ms"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(argv, cwd=running.parent, env=env, stdin=there, stdout=there, stderr=there) as top:
        os.close(there)
        text, asked = "", False
        while True:
            try:
                text += os.read(here, 1 << 16).decode()
            except OSError:  # the other end is closed
                break
            if not asked and text.count("\x1b[H") > 3:
                top.send_signal(signal.SIGINT)
                asked = True
        assert top.wait(30) == 130
    os.close(here)
    before, _, drawn = text.partition("\x1b[?1049h")
    assert not before.strip()
    screen, _, after = drawn.partition("\x1b[?1049l")
    assert live.run.trial.id in screen
    assert "rank" in screen
    assert "\N{MIDDLE DOT}" not in text
    assert "interrupted" in after


def test_the_page_hides_secrets_and_markup_of_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "trial", lambda _live: [Paragraph("<b>password=hunter2hunter2</b>")])
    [(_, shown)] = live_page.shown([cast(Any, None)])
    assert "hunter2hunter2" not in shown
    assert "<b>" not in shown
