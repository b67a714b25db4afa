"""The page and the terminal tell of a sweep who is slow, and stay readable however many nodes there are."""

from __future__ import annotations

import io
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import stated_runs
from assay.analyse.sweeps.nodes import BaselineChange
from assay.analyse.sweeps.slow_parts import Blame, SlowPart
from assay.analyse.sweeps.verdicts import Pairs, Suspect, SweepVerdicts
from assay.errors import InputError
from assay.node_sweep import GROUPS_FILE, PAIRS, pair_rounds, systems
from assay.questions.evidence import RunSet
from assay.questions.sweep_pages import sweep_of
from assay.records import Estimate
from assay.view.charts import sweep as charts
from assay.view.sentences import sweep as sweep_words
from assay.view.sweep import SweepReport, findings
from assay.view.terminal import shown
from made_sweeps import sweep

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def terminal(count: int, *, colour: bool, width: int = 80) -> str:
    made = sweep(count)
    assert made.verdicts.pairs is not None
    written = io.StringIO()
    console = Console(file=written, width=width, force_terminal=True, no_color=not colour)
    console.print(shown(findings(made.verdicts)))
    return written.getvalue()


def test_the_page_names_the_slow_node_and_the_slow_link_and_tells_them_apart() -> None:
    made = sweep(16)
    assert made.verdicts.pairs is not None
    (link,) = made.verdicts.pairs.blame.links
    a, b = link.who
    met = f"{a} is slow with 1 of its 5 partners, {b} with 1 of 5"
    found = {(a["verdict"], a["sentence"]) for a in made.plain()["answers"]}
    assert found == {
        (
            "slow node",
            f"gpu-2: slow alone (matmul at {made.verdicts.suspects[0].alone['matmul']:.2f}), "
            "but not in its pairs: the network is not the cause",
        ),
        ("slow link", f"{a} – {b}: {link.ratio:.2f} of comparable ones; {met}"),
    }
    page = made.html_page()
    assert f"gpu-2 is slow. The link {a} – {b} is slow: {link.ratio:.2f} of comparable ones." in page
    assert "kubectl taint node gpu-2" in page
    assert "Assay ran none of these commands." in page


def test_a_healthy_sweep_names_nobody_and_has_nothing_to_apply() -> None:
    page = sweep(16, faults=False).html_page()
    assert "Nothing is slow." in page
    assert "How to keep jobs off" not in page


def test_too_few_nodes_to_judge_are_called_neither_slow_nor_healthy() -> None:
    page = sweep(3, faults=False).html_page()
    assert "Too little was measured to call anything slow or healthy." in page


def test_a_node_slow_with_every_partner_is_told_from_one_that_is_slow_alone_too() -> None:
    assert "its connection to the network" in sweep_words.locate_slowness(
        Suspect("a", {}, 0.5, (5, 5)), alone=True, together=True
    )
    assert "the node itself" in sweep_words.locate_slowness(
        Suspect("a", {"matmul": 0.6}, 0.5, (5, 5)), alone=True, together=True
    )


@pytest.mark.long
@pytest.mark.parametrize("count", [24, 1_000])
def test_a_page_of_a_thousand_nodes_has_a_few_thousand_cells_and_every_slow_one(count: int) -> None:
    made = sweep(count)
    assert made.verdicts.pairs is not None
    drawn = charts.pairs(made.verdicts.pairs.ratios, made.verdicts.pairs.blame, "the median pair")
    cells = [cell for chart in drawn for cell in chart.spec["datasets"]["cells"]]
    assert len(cells) < 1_500
    ((a, b),) = (slow.who for slow in made.verdicts.pairs.blame.links)
    slow = [cell for cell in cells if cell["text"].startswith(("0.4", "0.5"))]
    assert {a, b} <= {word for cell in slow for word in (cell["row"], cell["column"], *cell["told"].split())}
    assert all(a in chart.words for chart in drawn)
    assert len(made.html_page()) < 2_000_000


def test_names_are_in_the_order_in_which_people_count() -> None:
    assert sweep_words.in_order(["n10", "n2", "a", "10", "9", "n2b"]) == ["9", "10", "a", "n2", "n2b", "n10"]


def test_the_terminal_shows_ten_nodes_with_decimals_and_twenty_four_in_eighty_characters() -> None:
    few = ESCAPES.sub("", terminal(6, colour=True))
    assert re.search(r"gpu-1 +· +\d\.\d{3}", few)
    many = ESCAPES.sub("", terminal(24, colour=True)).splitlines()
    rows = [line for line in many if re.match(r" *\d+ .*gpu-\d+ *$", line)]
    assert [len(line.split()) for line in rows] == [*range(2, 26)]  # its number, those before it, its name
    assert all(len(line) <= 80 for line in many)
    assert "gpu" not in "".join(ESCAPES.sub("", terminal(25, colour=True)).partition("slow")[0])


def test_without_colour_no_cell_has_one_and_the_figures_stay() -> None:
    assert re.search(r"\x1b\[[0-9;]*3\d", terminal(6, colour=True))
    assert not re.search(r"\x1b\[[0-9;]*3\d", terminal(6, colour=False))
    assert ESCAPES.sub("", terminal(6, colour=True)) == ESCAPES.sub("", terminal(6, colour=False))


def test_two_nodes_against_their_baseline_show_what_they_lost_and_not_the_median_of_one_pair() -> None:
    made = sweep(2, faults=False)
    assert made.verdicts.pairs is not None
    lost = replace(
        made.verdicts.pairs,
        changes=(BaselineChange("gpu-1 – gpu-2", Estimate(0.5, 0.4, 0.6, 3, ""), True, ""),),
    )
    if [*made.verdicts.pairs.ratios] == [("gpu-2", "gpu-1")]:
        lost = replace(lost, ratios={("gpu-1", "gpu-2"): 1.0})
    page = replace(made, verdicts=replace(made.verdicts, pairs=lost)).html_page()
    assert "Each measured pair, relative to its own baseline" in page
    assert "gpu-1 with gpu-2 0.500" in page
    assert "pairs: each compared with its baseline; slower: by more than 5 %" in page


def test_a_slow_node_in_a_pair_that_may_be_slow_by_it_is_not_said_to_have_a_sound_network() -> None:
    made = sweep(16)
    assert made.verdicts.pairs is not None
    (slow,) = made.verdicts.suspects
    open_pair = replace(made.verdicts.pairs.blame, pairs=(SlowPart((slow.node, "gpu-9"), 0.5),))
    pairs = replace(made.verdicts.pairs, blame=open_pair)
    told = replace(made, verdicts=replace(made.verdicts, pairs=pairs)).plain()["answers"]
    assert told[0]["sentence"] == f"{slow.node}: slow alone (matmul at {slow.alone['matmul']:.2f})"


def test_every_kind_of_blame_is_told() -> None:
    open_pair = SlowPart(("a", "b"), 0.6, one_of=("a",))
    found = Blame(
        groups=(SlowPart(("rack1",), 0.7), SlowPart(("rack2", "rack3"), 0.8)),
        together=(SlowPart(("n9", "n10"), 0.5),),
        pairs=(open_pair,),
    )
    pairs = Pairs({("a", "b"): 0.6, ("b", "c"): 1.0, ("b", "d"): 0.7}, found)
    partly = SlowPart(("n9", "n10", "n11"), 0.5, one_of=("n11",))
    assert sweep_words.details("set of nodes", partly, pairs) == (
        "0.50 of comparable ones with all others, but not with each other: something that they share; "
        "n11: or the node itself, for it was measured with none of the others here"
    )
    apart = SlowPart(("n1", "n2", "n3", "n4"), 0.5, one_of=("n1", "n2", "n3", "n4"))
    assert sweep_words.details("set of nodes", apart, pairs) == (
        "0.50 of comparable ones with all others: something that they share, or each of them; "
        "no two of them were measured together"
    )
    said = {
        f"{kind} {sweep_words.name(kind, slow)}: {sweep_words.details(kind, slow, pairs)}"
        for kind, slow in sweep_words.blamed(found)
    }
    assert said == {
        "group rack1: 0.70 of comparable ones, towards all other groups",
        "group rack2 – rack3: 0.80 of comparable ones, between the two",
        "set of nodes n9, n10: 0.50 of comparable ones with all others, but not with each other: "
        "something that they share",
        "pair a – b: 0.60 of comparable ones; one of these is slow: a, or the link between a and b; "
        "a is slow with the only partner, b with 2 of 3",
    }
    verdicts = SweepVerdicts([], Pairs({}, Blame(pairs=(open_pair,))), (), 0.05, {})
    assert sweep_words.lead(verdicts, judged=True) == ("The pair a – b is slow: 0.60 of comparable ones.")


def test_a_node_is_said_to_be_slow_with_as_many_partners_as_it_is() -> None:
    node = Suspect("a", {}, 0.5, (9, 10))
    assert sweep_words.locate_slowness(node, alone=True, together=True) == (
        "slow with 9 of its 10 partners (0.50), but not alone: its connection to the network"
    )


def test_a_report_blames_the_rack_that_the_sweep_was_told_of(tmp_path: Path) -> None:
    names = [f"gpu-{at}" for at in range(16)]
    racks = {name: f"rack-{at // 4}" for at, name in enumerate(names)}
    pairs = [pair for one in pair_rounds(names, 9) for pair in one]
    made = systems({"launcher": "slurm"}, pairs)
    dice = random.Random(1)
    results = []
    for name, pair in zip(made, pairs, strict=True):
        leaves_first_rack = sum(racks[node] == "rack-0" for node in pair) == 1
        speed = (0.5 if leaves_first_rack else 1.0) * dice.lognormvariate(0, 0.01)
        found = stated_runs.result(
            1e9 * speed,
            system=name,
            suite=PAIRS,
            benchmark="allreduce",
            shape="2x1x2",
            metric="busbw",
            unit="B/s",
        )
        trial = replace(found.run.trial, workload="allreduce", params={})
        results.append(replace(found, run=replace(found.run, trial=trial)))
    kept = tmp_path / PAIRS / results[0].run.session
    kept.mkdir(parents=True)
    (kept / "systems.yaml").write_text(json.dumps(made))
    named = [RunSet(PAIRS, tuple(results), None)]
    assert not {"slow rack-0"} & blamed(sweep_of(named, tmp_path, None, ()))
    (kept / GROUPS_FILE).write_text(json.dumps(racks))
    assert blamed(sweep_of(named, tmp_path, None, ())) == {"slow group: rack-0"}
    for damaged, message in (("{", "not JSON"), ("[]", "not what `assay sweep` writes")):
        (kept / GROUPS_FILE).write_text(damaged)
        with pytest.raises(InputError, match=rf"groups\.json.*{message}"):
            sweep_of(named, tmp_path, None, ())


def blamed(swept: SweepReport) -> set[str]:
    answers = swept.plain()["answers"]
    return {f"{answer['verdict']}: {answer['sentence'].partition(':')[0]}" for answer in answers}
