"""Logs of a running job that grow: steps of every known format, of a given pattern, and when they stop."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from subprocess import Popen

import pytest

from assay.errors import InputError
from assay.monitor.stragglers import STEPS_KEPT, Steps
from assay.monitor.watching_logs import BY_PATTERN, WatchedLogs, watch, watched_logs
from command_line import assay as typed

PATTERN = r"iteration +(?P<step>\d+)/.*elapsed \(ms\): (?P<milliseconds>[0-9.]+).*loss: (?P<loss>\S+)"
NOW = 1_800_000_000.0


def iteration(step: int, milliseconds: float) -> str:
    return f" iteration {step:8}/ 5000 | elapsed (ms): {milliseconds:.1f} | lm loss: {8 / (1 + step):.6E} |\n"


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def looked(logs: WatchedLogs, at: float) -> WatchedLogs:
    for log in logs.logs:
        os.utime(log.path, (at, at))
    logs.look(at)
    return logs


def test_steps_of_an_unknown_program_are_read_by_a_pattern_as_they_come(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("loading\n" + iteration(1, 250) + iteration(2, 260)[:20])
    logs = looked(watched_logs([log], PATTERN), NOW)
    (watched,) = logs.logs
    assert (watched.format, watched.steps.newest) == (BY_PATTERN, 1)
    assert watched.steps.figures == {"step": 1, "loss": 4.0, "step_time": 0.25}
    assert watched.steps.taken == {}  # it was there before: nobody knows when
    add(log, iteration(2, 260)[20:])
    looked(logs, NOW + 10)
    assert watched.steps.newest == 2
    assert watched.steps.taken == {2: NOW + 10}
    log.write_text(iteration(1, 100))  # begun again
    looked(logs, NOW + 20)
    assert watched.steps.newest == 1
    assert watched.steps.seconds == {1: 0.1}


def test_the_slower_rank_is_named_by_the_times_of_its_own_and_none_of_equal_ones(tmp_path: Path) -> None:
    rng = random.Random(7)
    for slow, expected in ((1.2, [2]), (1.0, [])):
        paths = [tmp_path / f"{slow}-{rank}.log" for rank in range(4)]
        for rank, path in enumerate(paths):
            times = [250 * rng.lognormvariate(0, 0.03) * (slow if rank == 2 else 1) for _ in range(200)]
            path.write_text("".join(iteration(step, time) for step, time in enumerate(times, 1)))
        logs = looked(watched_logs(paths, PATTERN), NOW)
        assert [one.rank for one in logs.ranks.slow] == expected
        assert [at for at, log in enumerate(logs.logs) if log.off] == expected
        assert logs.names_a_rank is bool(expected)


def test_a_job_that_takes_no_step_any_more_is_named_and_one_in_a_pause_is_not(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(iteration(step, 250) for step in range(100)))
    logs = looked(watched_logs([log], PATTERN), NOW)
    looked(logs, NOW + 3600)
    assert logs.stop is None  # of these steps nobody saw how far apart they were
    at = NOW + 3600
    for step in range(100, 130):
        at += 30
        add(log, iteration(step, 250))
        looked(logs, at)
    looked(logs, at + 200)
    assert logs.stop is None
    looked(logs, at + 300)
    assert logs.stop is not None
    assert logs.stop.step == 129
    assert logs.stop.silent_s == pytest.approx(300)


def test_logs_in_known_formats_need_no_pattern(tmp_path: Path) -> None:
    ours, timm, cut = tmp_path / "ours.log", tmp_path / "timm.log", tmp_path / "young.log"
    events = [
        {
            "namespace": "",
            "time_ms": int(NOW * 1000) + 250 * step,
            "event_type": "POINT_IN_TIME",
            "key": "tracked_stats",
            "value": {"throughput": 128.0, "loss": 2.5},
            "metadata": {"step": step, "file": "t.py", "lineno": 1},
        }
        for step in range(40)
    ]
    ours.write_text("".join(f":::MLLOG {json.dumps(event)}\n" for event in events))
    line = "Train: 0 [{:4}/1251 ( {:2}%)]  Loss: 6.91 (6.93)  Time: 0.161s, 6350.47/s  (0.245s, 4182.5/s)\n"
    timm.write_text(line.format(50, 4) + line.format(100, 8))
    cut.write_text("starting\n")
    logs = watched_logs([ours, timm, cut])
    logs.look(NOW + 10)
    first, second, third = logs.logs
    assert (first.format, first.steps.newest, first.steps.figures["loss"]) == ("mlperf", 39, 2.5)
    assert first.steps.seconds[39] == pytest.approx(0.25)
    assert (second.format, second.steps.newest) == ("timm", 100)
    assert second.steps.figures["interval_throughput"] == 6350.47
    assert second.units["interval_throughput"] == "samples/s"
    assert (third.format, third.steps.newest) == ("", None)


def test_memory_is_bounded_and_a_restart_begins_anew() -> None:
    steps = Steps()
    for step in range(5 * STEPS_KEPT):
        steps.take(step, NOW + step, 1.0)
    assert max(len(steps.taken), len(steps.seconds)) <= 2 * STEPS_KEPT
    assert steps.newest == 5 * STEPS_KEPT - 1
    steps.take(10, NOW, 1.0)
    assert (steps.newest, steps.taken) == (10, {10: NOW})


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("step ([0-9]+)", "without a group `step`"),
        ("(?P<step>[0-9]+", "not a regular expression"),
        (r"(?P<step>\d+)(?=x)", "lookaround"),
    ],
)
def test_a_pattern_without_a_step_is_refused(tmp_path: Path, pattern: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        watched_logs([tmp_path / "a.log"], pattern)


def test_what_cannot_be_read_is_named_with_every_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.log.*\n.*b\.log"):
        next(watch(watched_logs([tmp_path / "a.log", tmp_path / "b.log"]), 1.0))
    with pytest.raises(InputError, match="named twice"):
        watched_logs([tmp_path / "a.log"] * 2)


def test_damaged_bytes_long_lines_and_wild_numbers_are_no_steps(tmp_path: Path) -> None:
    log = tmp_path / "wild.log"
    log.write_bytes(
        b"\xff\xfe step 1e400 nan\n"
        + b"x" * (3 << 20)
        + b"\nstep -4 \nstep 7.5 \nstep 12 inf\nstep "
        + b"9" * 400
    )
    logs = looked(watched_logs([log], r"step (?P<step>[-0-9.e]+)(?: (?P<seconds>\S+))?"), NOW)
    assert logs.logs[0].steps.newest == 12
    assert logs.logs[0].steps.seconds == {}


@pytest.mark.long
def test_typed_next_to_a_process_that_ends(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.touch()
    program = (
        "import time\n"
        "for step in range(1, 13):\n"
        "    time.sleep(0.25)\n"
        f"    with open({str(log)!r}, 'a') as file:\n"
        "        print(f'step {step} loss {1 / step}', file=file)\n"
    )
    pattern = r"step (?P<step>\d+) loss (?P<loss>\S+)"
    with Popen([sys.executable, "-c", program]) as job:
        options = ("--log", str(log), "--step-pattern", pattern, "--every", "200ms")
        done = typed(tmp_path, "watch", "--pid", str(job.pid), *options)
        assert done.returncode == 0, done.stderr
    assert "watched for" in done.stdout
    shown = [line for line in done.stdout.splitlines() if line.startswith(str(log))]
    assert any("step 2 " in line and "loss 0.5" in line for line in shown)
    done = typed(tmp_path, "watch", *options, "--for", "300ms", "--json")
    assert done.returncode == 0
    last = json.loads(done.stdout.splitlines()[-1])["logs"][0]
    assert (last["step"], last["format"]) == (12, BY_PATTERN)
    done = typed(tmp_path, "watch", "--log", str(log), "--for", "200ms")
    assert "is not a log in a known format" in done.stderr
    for wrong in (("--step-pattern", "x", "--pid", "1"), ("--log", "x", "--nccl-ras", "a:1")):
        assert typed(tmp_path, "watch", *wrong).returncode == 2
