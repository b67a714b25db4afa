"""What `assay stack explore` and `bisect` say where others used the CPUs: no verdict, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from assay.records import Comparison, Doubt, Point
from assay.stacks.bisect_result import BisectedLine, BisectionResult, BisectPlan
from assay.stacks.bisect_search import Culprit, Search, Settings, SpeedEffect
from assay.stacks.explore import ExplorationResult, ExploredStack
from assay.stacks.explore_spec import StackChoice
from assay.stacks.measuring import CandidateBlocks, comparison, verdicts

RATE = Point("command", "1x1", "rate", "1/s", "higher", {})
BUSY = Doubt("busy-neighbours", "incumbent: others used 65 % of the CPUs", "Run again.")


def compared(name: str, lost: float) -> Comparison:
    values = tuple((100.0 + block / 10, 112.0 + block / 10) for block in range(5))
    found = comparison(CandidateBlocks(name, values, (lost, lost)), RATE, "incumbent", 0.02, 5)
    return replace(found, doubts=(BUSY,) if lost else ())


def explored(lost: float) -> ExplorationResult:
    claimed = verdicts({name: compared(name, lost) for name in ("s01", "s02")})
    choice = StackChoice((("numpy", "2.3.5"),))
    candidates = tuple(ExploredStack(name, choice, choice.values, c, 5) for name, c in claimed.items())
    best = candidates[0] if candidates[0].comparison.verdict == "faster" else None  # type: ignore[union-attr]
    return ExplorationResult(
        "e", "numpy 2.2.6", candidates, best, 9, 60.0, "most stacks", 0.02, Path("runs"), ()
    )


def test_an_exploration_without_a_verdict_says_why_and_what_to_do() -> None:
    found = explored(0.65)
    said = str(found)
    assert said.startswith("No candidate is shown to be better than the incumbent beyond the margin of 0.02.")
    assert "run it again on an idle machine, under another name" in said
    assert (
        "s01  undecided: claimed jointly with 1 others (Bonferroni), others on its CPUs may have held "
        "incumbent back by 65 %" in said
    )
    assert said.count("doubt busy-neighbours") == 1


def test_an_exploration_with_a_verdict_has_no_reservations() -> None:
    found = explored(0.0)
    said = str(found)
    assert said.startswith("Use s01 (numpy 2.3.5): rate × 1.1")
    assert "undecided" not in said
    assert "doubt" not in said


def bisected(lost: float) -> BisectionResult:
    search = Search((0, 1), Settings())
    search.kind, search.ended = "slower", "found"
    search.culprits = [Culprit((1,), 0.9999, frozenset({1}), explains=True)]
    search.whole = SpeedEffect(-0.1, -0.12, -0.08)
    line = BisectedLine("packages", ("a 1 → 2", "b 1 → 2"), search, compared("bad", lost), 3, ())
    plan = BisectPlan("b", "packages", line.names, (), 3, Path("runs"))
    return BisectionResult(plan, (line,), 60.0, 0.05, ())


def test_a_bisection_on_a_busy_machine_names_nothing_for_certain() -> None:
    found = bisected(0.65)
    assert not found.decided
    said = str(found)
    assert said.startswith("No verdict: others on its CPUs may have held GOOD back by 65 %")
    assert "b 1 → 2 may make it slower" in said
    assert "another --name" in said


def test_a_bisection_on_an_idle_machine_names_the_change() -> None:
    found = bisected(0.0)
    assert found.decided
    assert str(found).startswith("b 1 → 2 makes it slower (more than 99.9 %)\n")
