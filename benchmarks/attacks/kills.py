"""`assay run` killed at random moments and run again: no trial is lost or done twice."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path

from attacks.command import Check, assay, start, write_suite

TRIALS = 6
PROGRAM = """
import os, time
def note(what):
    with open("{notes}", "a") as file:
        file.write(what + " " + os.environ["ASSAY_TOKEN"] + "\\n")
note("began")
time.sleep(0.2)
print("value 5", flush=True)
note("ended")
"""


def kills(folder: Path, count: int, draw: random.Random) -> list[Check]:
    """Kill runs, over as many sessions of six trials as needed."""
    whole = Check("a killed run is resumed: every trial has its result")
    once = Check("a killed run is resumed: no trial was done twice")
    number, session = 0, 0
    while number < count:
        own = folder / str(session)
        write_suite(own, PROGRAM.format(notes=own / "notes"), repeats=TRIALS)
        was_done = False
        while number < count and not was_done:
            running = start(own, "run", "suite.yaml", "--quiet")
            was_done = running.ends_within(draw.choice([draw.uniform(0.05, 1.2), draw.uniform(0.5, 6)]))
            if not was_done:
                running.kill()
                number += 1
            running.end()
            time.sleep(draw.choice([0, draw.uniform(0, 0.6)]))
        _judge(own, whole, once)
        session += 1
    return [whole, once]


def two_at_once(folder: Path, count: int, draw: random.Random) -> list[Check]:
    """Two runs of one suite, started at almost the same time."""
    whole = Check("two concurrent runs: every trial has its result")
    once = Check("two concurrent runs: no trial was done twice")
    codes = Check("two concurrent runs: one works, the other reports that the session is busy")
    for number in range(count):
        own = folder / str(number)
        write_suite(own, PROGRAM.format(notes=own / "notes"), repeats=TRIALS)
        first = start(own, "run", "suite.yaml", "--quiet")
        time.sleep(draw.choice([0, draw.uniform(0, 1)]))
        second = start(own, "run", "suite.yaml", "--quiet")
        ended = [first.end(), second.end()]
        codes.expect(sorted((one.code or 0) for one in ended) == [0, 6], "; ".join(map(str, ended)))
        _judge(own, whole, once)
    return [codes, whole, once]


def _judge(folder: Path, whole: Check, once: Check) -> None:
    """Complete an open session, then compare what the trials recorded with what Assay stored."""
    last = ""
    if len(_finished(folder)) % TRIALS or not _finished(folder):
        last = str(assay(folder, "run", "suite.yaml", "--quiet"))
    trials = _finished(folder)
    sessions = len(list((folder / "runs").glob("attack/*/")))
    expected = TRIALS * sessions
    whole.expect(len(trials) == expected, f"{folder}: {len(trials)} of {expected} trials finished; {last}")
    noted = Counter((folder / "notes").read_text().splitlines())
    twice = [line for line, times in noted.items() if times > 1]
    ended = sum(line.startswith("ended") for line in noted)
    once.expect(not twice and ended == expected, f"{folder}: {ended} executions, twice: {twice}")


def _finished(folder: Path) -> list[str]:
    """The trials of all sessions that have their result."""
    files = (folder / "runs").glob("attack/*/*/attempt-*/run.json")
    runs = [json.loads(file.read_text()) for file in files]
    return [run["trial"]["id"] for run in runs if run["state"] == "finished"]
