"""Trials at the same time: never two on one node, never more nodes than allowed, round after round."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from assay.errors import LaunchError
from assay.records import Shape, Trial
from assay.run.concurrency import Concurrency, run_stretch
from assay.run.drive import CompletedSession, run_suite
from assay.run.progress import Silence
from assay.run.request import RunRequest
from assay.rundir.session import sessions


def trial(system: str, block: int = 1) -> Trial:
    return Trial(
        f"b-{system}-r{block}", "s", "b", "command", system, Shape(1, 1), {}, {}, block, 0, 1.0, 0, ""
    )


@dataclass
class Seen:
    """What ran, and what ran beside it."""

    how: Concurrency
    running: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    most_nodes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, one: Trial) -> None:
        with self.lock:
            nodes = self.how.nodes_of(one)
            assert not any(nodes & self.how.nodes[system] for system in self.running)
            self.running.add(one.system)
            self.order.append(one.system)
            busy = {node for system in self.running for node in self.how.nodes[system]}
            self.most_nodes = max(self.most_nodes, len(busy))
        time.sleep(0.02)
        with self.lock:
            self.running.remove(one.system)


PAIRS = {f"{a}{b}": frozenset((a, b)) for a, b in ("ab", "cd", "ef", "bc", "de", "fa")}


@pytest.mark.parametrize(("most", "reached"), [(1, 2), (2, 2), (5, 4), (6, 6)])
def test_no_two_jobs_share_a_node_and_no_more_nodes_are_busy_than_allowed(most: int, reached: int) -> None:
    seen = Seen(Concurrency(PAIRS, most))
    run_stretch([trial(name) for name in PAIRS], [], seen.how, seen.run)
    assert sorted(seen.order) == sorted(PAIRS)
    assert seen.most_nodes == reached, "a job that is larger than what is allowed runs, alone"


def test_a_round_is_over_before_the_next_begins_and_a_block_before_its_repeats() -> None:
    how = Concurrency(PAIRS, 6, rounds={"ab": 0, "cd": 0, "ef": 0, "bc": 1, "de": 1, "fa": 1})
    trials = [trial(name, block) for block in (1, 2) for name in reversed(PAIRS)]
    found = [{(one.block, one.system) for one in stretch} for stretch in how.stretches(trials)]
    rounds = ("ab", "cd", "ef"), ("bc", "de", "fa")
    assert found == [{(block, name) for name in one} for block in (1, 2) for one in rounds]


def test_nodes_that_are_away_wait_and_what_was_begun_there_does_not() -> None:
    asked: list[str] = []

    def away() -> Mapping[str, str]:
        asked.extend(seen.order)
        return {"a": "in use"}

    seen = Seen(Concurrency(PAIRS, 6, away=away))
    run_stretch([trial("fa"), trial("bc")], [trial("ab")], seen.how, seen.run)
    assert seen.order == ["ab", "bc"]
    assert asked == ["ab"], "asked when what was begun before is over: it may have been what was in use"


def test_after_its_time_only_what_was_begun_is_brought_in() -> None:
    seen = Seen(Concurrency(PAIRS, 6, begin_until=time.monotonic() - 1))
    run_stretch([trial("bc")], [trial("ab")], seen.how, seen.run)
    assert seen.order == ["ab"]


def test_where_one_fails_none_is_begun_any_more_and_the_error_comes_out() -> None:
    done: list[str] = []

    def run(one: Trial) -> None:
        if one.system == "ab":
            raise LaunchError("the disk is full")
        time.sleep(0.05)
        done.append(one.system)

    with pytest.raises(LaunchError, match="the disk is full"):
        run_stretch([trial(name) for name in PAIRS], [], Concurrency(PAIRS, 6), run)
    assert sorted(done) == ["cd", "ef"], "those that ran beside it end, the others are never begun"


NODES = ("a", "b", "c", "d")


def written(folder: Path, *, seconds: float = 0.0) -> Path:
    program = folder / "program.py"
    program.write_text(f"import time; time.sleep({seconds}); print('value 5')\n")
    metrics = {"value": {"pattern": "value (?P<value>[0-9]+)", "better": "higher"}}
    suite: dict[str, Any] = {"suite": "side", "workload": "command", "repeats": 2, "systems": [*NODES]}
    suite["params"] = {"argv": ["{python}", "-I", "-S", str(program)], "metrics": metrics}
    (folder / "suite.yaml").write_text(json.dumps(suite))
    (folder / "systems.yaml").write_text(json.dumps({name: {"launcher": "local"} for name in NODES}))
    return folder / "suite.yaml"


def ran(suite: Path, **how: Any) -> CompletedSession:
    together = Concurrency({name: frozenset(name) for name in NODES}, **{"most_nodes": 4, **how})
    return run_suite(RunRequest(suite, suite.parent / "runs", together=together), Silence)


def of_systems(trials: Sequence[Any]) -> list[str]:
    return sorted(one.system for one in trials)


def test_what_was_left_is_done_by_the_next_call_in_the_same_session(tmp_path: Path) -> None:
    suite = written(tmp_path)
    first = ran(suite, away=lambda: {"b": "in use"})
    assert of_systems(first.unbegun) == ["b", "b"]
    assert (first.failures, len(first.results)) == ((), 6)
    second = ran(suite)
    assert second.session.id == first.session.id
    assert (second.unbegun, second.failures, len(second.results)) == ((), (), 8)
    assert [of.run().attempt for of in second.session.attempts()] == [1] * 8
    again = ran(suite)
    assert again.session.id == first.session.id, "who runs several sessions says when they are finished"


def states(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["state"] for path in folder.glob("runs/side/*/*/attempt-*/run.json")]


@pytest.mark.long
def test_jobs_of_a_killed_assay_are_all_taken_over(tmp_path: Path) -> None:
    suite = written(tmp_path, seconds=3.0)
    program = "import sys, test_concurrency as t; from pathlib import Path; t.ran(Path(sys.argv[1]))"
    here = str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", program, str(suite)], cwd=here) as assay:
        give_up = time.monotonic() + 60
        while (running := states(tmp_path).count("running")) < len(NODES):
            assert time.monotonic() < give_up, running
            time.sleep(0.05)
        assay.send_signal(signal.SIGKILL)
    completed = ran(suite)
    assert completed.failures == ()
    assert len([*sessions(tmp_path / "runs")]) == 1
    adopted = [result.run.adopted for result in completed.results]
    assert sorted(adopted) == [False] * 4 + [True] * 4
    assert not [*tmp_path.glob("runs/side/*/jobs/*")]
