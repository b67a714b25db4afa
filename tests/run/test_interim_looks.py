"""Running until decided stops at the first planned look that decides, and allows for the looks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assay.analyse.comparison import compare
from assay.analyse.statistics.sequential import nominal_p
from assay.run.interim_looks import Limits, overrun
from assay.rundir import session as rundir
from command_line import assay

pytestmark = pytest.mark.usefixtures("no_neighbours")  # PROGRAM's figure does not depend on load
UNDECIDED = 3  # a seed whose five blocks leave it open at a spread of 20 %
# A figure that depends on the block's seed and the system alone: with it the whole run is the same each time.
PROGRAM = """\
import os, random
luck = random.Random(os.environ["ASSAY_SEED"] + os.environ["SIDE"])
print("rate", 100 * float(os.environ["FACTOR"]) * (1 + luck.gauss(0, float(os.environ["NOISE"]))))
"""


def site(
    directory: Path, *, factor: float = 1.0, noise: float = 0.004, margin: str = "2%", **more: Any
) -> Path:
    """A suite of a trivial program on two systems, one of them `factor` as fast."""
    (directory / "bench.py").write_text(PROGRAM)
    for side in ("a", "b"):
        env = {"SIDE": side, "FACTOR": str(factor if side == "b" else 1.0), "NOISE": str(noise)}
        with (directory / "systems.yaml").open("a") as file:
            file.write(f"{side}: {json.dumps({'launcher': 'local', 'env': env})}\n")
    metric = {"pattern": "rate (?P<value>[0-9.]+)", "unit": "x/s", "better": "higher"}
    suite = {
        "suite": "demo",
        "workload": "command",
        "params": {"argv": [sys.executable, str(directory / "bench.py")], "metrics": {"rate": metric}},
        "systems": ["a", "b"],
        "baseline": "a",
        "margin": margin,
        **more,
    }
    (directory / "suite.yaml").write_text(json.dumps(suite))
    return directory


def until(directory: Path, *words: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    said = assay(directory, "run", "suite.yaml", "--until", "decided", "--json", *words)
    return json.loads(said.stdout) if said.stdout else {}, said


@pytest.mark.long
def test_a_large_difference_is_decided_at_the_first_look(tmp_path: Path) -> None:
    document, said = until(site(tmp_path, factor=0.8))
    assert said.returncode == 0, said.stderr
    assert document["until"] == {
        "blocks": 3,
        "max_repeats": 20,
        "looks": [3, 5, 8, 12, 20],
        "ended": "decided",
        "open": [],
    }
    assert len(document["trials"]) == 6
    [comparison] = document["comparisons"]
    assert comparison["verdict"] == "slower"
    assert comparison["ratio"]["confidence"] == pytest.approx(1 - nominal_p(20, paired=True))
    assert "checked after 3, 5, 8, 12, 20 blocks" in said.stderr
    assert "After 3 of at most 20 blocks: every primary comparison is decided" in said.stderr
    # what is read from the index later allows for the looks, too, and says so
    later = json.loads(assay(tmp_path, "compare", "demo", "--json").stdout)["comparisons"][0]
    assert later["ratio"]["confidence"] == comparison["ratio"]["confidence"]
    assert later["ratio"]["low"] == comparison["ratio"]["low"]
    assert "over all looks, at 3, 5, 8, 12 and 20 runs" in later["reason"]
    page = assay(tmp_path, "report", "demo", "--format", "markdown", "-o", "-").stdout
    assert "98.7 % intervals, so that 95 % hold over all planned looks" in page
    assert "98.7 % intervals" in " ".join(assay(tmp_path, "compare", "demo").stdout.split())
    [point, _] = json.loads(assay(tmp_path, "show", "demo", "--json").stdout)["points"]
    assert point["estimate"]["confidence"] == comparison["ratio"]["confidence"]


def test_the_plan_shows_what_a_run_with_the_same_options_does(tmp_path: Path) -> None:
    options = ("--until", "decided", "--max-repeats", "4", "--max-time", "1h")
    shown = json.loads(assay(site(tmp_path, factor=0.8), "plan", "suite.yaml", *options, "--json").stdout)
    document, _ = until(tmp_path, *options[2:])
    [session] = rundir.sessions(tmp_path / "runs")
    kept = session.plan()
    assert (shown["digest"], shown["looks"]) == (kept.digest, [3, 4])
    assert session.header.plan_digest == shown["digest"]
    assert {a.run().declared_env for a in session.attempts()} == {("FACTOR", "NOISE", "SIDE")}
    assert [trial["id"] for trial in shown["trials"]] == [trial.id for trial in kept.trials]
    assert shown["until"]["looks"] == document["until"]["looks"]
    assert shown["until"]["confidence"] == document["comparisons"][0]["ratio"]["confidence"]
    assert (shown["until"]["nominal_p"], shown["until"]["max_time_s"]) == (0.0281, 3600)
    text = assay(tmp_path, "plan", "suite.yaml", *options).stdout
    assert "at most 4 blocks" in text
    assert (
        "looks after 3, 4 blocks, ends at the first look that leaves no primary comparison undecided" in text
    )
    assert "no block starts after 60 min of trials" in text
    assert "97.19 % intervals at each look (p 0.0281), so that 95 % hold at all looks jointly" in text


def test_a_requirement_is_held_by_intervals_that_allow_for_the_looks_and_says_so(tmp_path: Path) -> None:
    document, said = until(site(tmp_path, factor=0.8, expect={"rate": ">= 70 x/s"}))
    assert said.returncode == 0, said.stderr
    level = 1 - nominal_p(20, paired=True)
    assert [r["estimate"]["confidence"] for r in document["requirements"]] == [level, level]
    for requirement in document["requirements"]:
        assert requirement["verdict"] == "holds"
        assert "over all looks, at 3, 5, 8, 12 and 20 runs" in requirement["reason"]
    page = assay(tmp_path, "report", "demo", "--format", "markdown", "-o", "-").stdout
    assert "each by its one-sided 95 % bound; checked while running: 98.7 % intervals" in page


@pytest.mark.long
def test_what_stays_open_ends_at_the_most_and_a_larger_most_is_a_new_test(tmp_path: Path) -> None:
    document, said = until(site(tmp_path, noise=0.2, seed=UNDECIDED), "--max-repeats", "4")
    assert said.returncode == 3, said.stderr
    assert (document["until"]["looks"], document["until"]["ended"]) == ([3, 4], "most blocks")
    assert len(document["until"]["open"]) == 1
    assert "a larger --max-repeats is a new test" in said.stderr
    more, said = until(tmp_path, "--max-repeats", "5")
    assert more["session"] != document["session"]
    assert f"{document['session']} was a test with at most 4 blocks; at most 5 is a new test" in said.stderr
    assert len(more["trials"]) == 10
    assert len(list(rundir.sessions(tmp_path / "runs"))) == 2


@pytest.mark.long
def test_a_run_that_was_killed_goes_on_and_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole, _ = until(site(tmp_path / "whole", noise=0.01))
    assert whole["until"]["ended"] == "decided"
    assert whole["until"]["blocks"] > 3  # otherwise the kill below comes after the decision
    cut = site(tmp_path / "cut", noise=0.01)
    alone = (
        "from assay.analyse.points import encounters; "
        "encounters.lost_to_others = lambda results, margin: 0.0; from assay.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", alone, "run", "suite.yaml", "--until", "decided", "--quiet"],
        cwd=cut,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while len(list(cut.glob("runs/demo/*/command-*/attempt-1/run.json"))) < 5:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    document, said = until(cut)
    assert "done: resuming" in said.stderr
    assert document["until"] == whole["until"]
    assert document["comparisons"][0]["ratio"] == whole["comparisons"][0]["ratio"]
    assert len(list(rundir.sessions(cut / "runs"))) == 1


@pytest.mark.long
def test_when_the_time_is_up_no_block_begins_and_more_time_goes_on(tmp_path: Path) -> None:
    document, said = until(
        site(tmp_path, noise=0.2, seed=UNDECIDED), "--max-repeats", "4", "--max-time", "0.001s"
    )
    assert said.returncode == 3, said.stderr
    assert (document["until"]["ended"], document["until"]["blocks"]) == ("time is up", 1)
    again, _ = until(tmp_path, "--max-repeats", "4", "--max-time", "0.001s")
    assert (again["session"], again["until"]["blocks"]) == (document["session"], 1)
    more, _ = until(tmp_path, "--max-repeats", "4")
    assert (more["session"], more["until"]["ended"]) == (document["session"], "most blocks")


@pytest.mark.long
def test_a_load_that_forbids_verdicts_ends_it_at_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as loaded:
        loaded.setattr(compare, "lost_by_sides", lambda *_: (0.5, 0.4))
        document, said = until(site(tmp_path, factor=0.8))
    assert said.returncode == 3, said.stderr
    assert (document["until"]["ended"], document["until"]["blocks"]) == ("more runs decide nothing", 3)
    assert (
        "After 3 of at most 20 blocks: 1 primary comparison is open; more runs like these would decide"
        in said.stderr
    )
    assert "above 20 % there is no verdict: run again on an idle machine" in said.stderr
    again, _ = until(tmp_path)
    assert again["session"] != document["session"]


@pytest.mark.long
def test_a_finished_one_is_not_gone_on_with_unless_a_run_was_removed(tmp_path: Path) -> None:
    first, _ = until(site(tmp_path, factor=0.8))
    shutil.rmtree(tmp_path / first["path"] / first["trials"][0]["trial"])
    mended, _ = until(tmp_path)
    assert (mended["session"], len(mended["trials"])) == (first["session"], 6)
    again, _ = until(tmp_path)
    assert again["session"] != first["session"]


def test_a_side_without_results_is_open_and_not_forgotten(tmp_path: Path) -> None:
    site(tmp_path)
    systems = (tmp_path / "systems.yaml").read_text().replace('"FACTOR": "1.0"', '"FACTOR": "none"', 1)
    (tmp_path / "systems.yaml").write_text(systems)
    document, said = until(tmp_path, "--max-repeats", "3")
    assert said.returncode == 1
    assert document["until"]["open"] == [
        "command, b and a: not compared: rate was measured on one side only; "
        "a: 3 of 3 runs gave no result (rank 0 exited 1)"
    ]


@pytest.mark.parametrize(
    ("more", "words", "message"),
    [
        ({"order": "sequential"}, (), "until decided needs interleaved blocks"),
        ({}, ("--system", "a"), "no comparison to decide"),
    ],
)
def test_a_suite_that_can_not_be_decided_so_is_refused(
    tmp_path: Path, more: dict[str, Any], words: tuple[str, ...], message: str
) -> None:
    site(tmp_path, **more)
    for command in ("run", "plan"):
        said = assay(tmp_path, command, "suite.yaml", "--until", "decided", *words)
        assert said.returncode == 4
        assert "suite.yaml:" in said.stderr
        assert message in said.stderr


@pytest.mark.parametrize("command", ["run", "plan"])
def test_limits_without_until_are_refused(tmp_path: Path, command: str) -> None:
    said = assay(site(tmp_path), command, "suite.yaml", "--max-repeats", "8")
    assert said.returncode == 2
    assert "--until decided" in said.stderr


def test_a_block_that_will_end_after_the_time_limit_is_announced() -> None:
    limits = Limits(max_time_s=540.0)
    assert overrun(1, 0.0, limits) == ""  # nobody knows how long the first takes
    assert overrun(2, 250.0, limits) == ""
    assert overrun(2, 500.0, Limits()) == ""
    assert overrun(2, 510.0, limits) == (
        "Block 2 will be completed after about 17 min of trials, although --max-time is 9 min: a part of a "
        "block compares nothing"
    )
