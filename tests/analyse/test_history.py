"""`assay history`: sessions in order, their steps and drifts, and what changed there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import cli
from conftest import long_but


def assay(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.assay, list(map(str, words)))


PROGRAM = """\
import os, random
luck = random.Random(os.environ["ASSAY_SEED"] + os.environ["DAY"])
print("rate", float(os.environ["LEVEL"]) * (1 + luck.gauss(0, 0.002)))
"""


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight sessions of two real runs each; the last four slower, with another setting."""
    directory = tmp_path_factory.mktemp("nightly")
    program = directory / "bench.py"
    program.write_text(PROGRAM)
    metric = {"pattern": "rate (?P<value>[0-9.]+)", "unit": "x/s", "better": "higher"}
    suite = {
        "suite": "nightly",
        "workload": "command",
        "params": {"argv": ["{python}", str(program)], "metrics": {"rate": metric}},
        "systems": ["dgx"],
        "repeats": 2,
    }
    (directory / "suite.yaml").write_text(json.dumps(suite))
    for day in range(8):
        setting, level = ("WARN", "100") if day < 4 else ("INFO", "90")
        env = {"DAY": str(day), "LEVEL": level, "NCCL_DEBUG": setting}
        systems = {"dgx": {"launcher": "local", "env": env}}
        (directory / "systems.yaml").write_text(json.dumps(systems))
        said = assay("run", directory / "suite.yaml", "--quiet", "--runs", directory / "runs")
        assert said.exit_code == 0, said.output
    return directory / "runs"


@pytest.mark.long
def test_the_command_shows_the_step_and_what_changed_there(nightly: Path) -> None:
    said = assay("history", "rate", "--runs", nightly)
    assert said.exit_code == 0, said.output
    assert "8 sessions, 1 step" in said.stdout
    assert "worse" in said.stdout
    assert "env.NCCL_DEBUG WARN → INFO" in said.stdout
    [history] = json.loads(assay("history", "rate", "--runs", nightly, "--json").stdout)["histories"]
    [step] = history["steps"]
    assert step["before"] == history["sessions"][4]["session"]
    assert step["ratio"]["low"] < 0.9 < step["ratio"]["high"]
    assert step["better"] is False
    assert "env.NCCL_DEBUG WARN → INFO" in step["changes"]
    assert [len(session["runs"]) for session in history["sessions"]] == [2] * 8
    assert history["levels"][0]["sessions"] == 4


@pytest.mark.long
def test_the_command_writes_a_page_that_names_the_step_and_what_changed(
    nightly: Path, tmp_path: Path
) -> None:
    page = tmp_path / "rate.html"
    said = assay("history", "rate", "--runs", nightly, "--report", page)
    assert said.exit_code == 0, said.output
    assert f"Report: {page}" in said.stderr
    text = page.read_text()
    assert "On dgx command rate on 1 worker changed by −" in text
    assert "env.NCCL_DEBUG WARN → INFO" in text


def test_since_keeps_the_sessions_that_began_since_then(nightly: Path) -> None:
    def sessions(since: str) -> list[str]:
        said = assay("history", "rate", "--runs", nightly, "--json", "--since", since)
        [history] = json.loads(said.stdout)["histories"]
        return [session["session"] for session in history["sessions"]]

    every = sessions("1d")
    assert len(every) == 8
    files = (nightly / "nightly" / every[2]).glob("*/*/run.json")
    begun = sorted(json.loads(file.read_text())["created_at"] for file in files)
    first, second = (datetime.fromtimestamp(at - 1e-5, UTC).isoformat() for at in begun)
    assert sessions(first) == every[2:]
    assert sessions(second) == every[3:]  # no session counts with a part of its runs
    future = assay("history", "rate", "--runs", nightly, "--since", "2999-01-01")
    assert "no session started after 2999-01-01 00:00 UTC; the newest started" in str(future.exception)
    assert assay("history", "rate", "--runs", nightly, "--since", "soon").exit_code == 2


def test_what_nobody_reports_is_answered_with_the_nearest_metric(nightly: Path) -> None:
    said = assay("history", "rat", "--runs", nightly)
    assert "available: rate" in str(said.exception)
    other = assay("history", "rate", "--suite", "other", "--runs", nightly)
    assert "no matching run has any measurement" in str(other.exception)


def test_a_suite_in_place_of_the_metric_is_answered_with_the_metrics_that_it_has(nightly: Path) -> None:
    said = assay("history", "nightly", "--runs", nightly)
    assert said.exit_code != 0
    assert "nightly is a suite; the metric is missing: choose from rate" in str(said.exception)
    assert "assay history rate --suite nightly" in str(said.exception)


@pytest.mark.usefixtures("no_neighbours")
def test_the_newest_session_is_gated_against_an_old_one(nightly: Path) -> None:
    sessions = sorted(path.name for path in (nightly / "nightly").iterdir() if path.name[0] != ".")
    first, last = f"nightly/{sessions[0]}", f"nightly/{sessions[-1]}"
    assert assay("gate", last, "--baseline", first, "--margin", "2%", "--runs", nightly).exit_code == 1
    assert assay("gate", first, "--baseline", last, "--margin", "2%", "--runs", nightly).exit_code == 0


def sheet(file: Path, order: list[int], *, dated: bool = True) -> Path:
    """Twelve sessions of two runs, half a month apart, that step by −10 % with the seventh; in this order."""
    rows = ["system,metric,unit,better,run,session" + ",started_at" * dated + ",value"]
    for at in order:
        level = 100 if at < 6 else 90
        for run in (1, 0):  # the second one first
            begun = f",2026-{1 + at // 2:02}-{1 + 14 * (at % 2):02}T10:0{run}:00" * dated
            rows.append(
                f"s,throughput,images/s,higher,{run},night-{at}{begun},{level + 0.1 * ((at + run) % 3)}"
            )
    file.write_text("\n".join(rows))
    return file


@pytest.mark.parametrize(
    "order", long_but(1, [[5, 11, 0, 7, 3, 10, 1, 8, 2, 9, 4, 6], [*range(12)], [*range(11, -1, -1)]])
)
def test_imported_sessions_are_in_the_order_and_at_the_dates_of_started_at(
    tmp_path: Path, order: list[int]
) -> None:
    runs = tmp_path / "runs"
    assert assay("import", sheet(tmp_path / "nights.csv", order), "--runs", runs).exit_code == 0
    words = ("history", "throughput", "--suite", "nights", "--runs", runs)
    said = assay(*words)
    assert "12 sessions, 1 step\n" in said.stdout
    assert said.stdout.index("2026-01-01 10:00") < said.stdout.index("2026-01-15 10:00")
    assert "worse" in said.stdout
    [found] = json.loads(assay(*words, "--json").stdout)["histories"]
    assert [one["session"] for one in found["sessions"]] == [f"night-{at}" for at in range(12)]
    assert found["undated"] == []
    assert found["steps"][0]["before"] == "night-6"
    [newer] = json.loads(assay(*words, "--json", "--since", "2026-04-10").stdout)["histories"]
    assert [one["session"] for one in newer["sessions"]] == [f"night-{at}" for at in range(7, 12)]


def test_sessions_of_which_nobody_says_when_they_were_made_are_in_no_known_order(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert (
        assay("import", sheet(tmp_path / "nights.csv", [*range(12)], dated=False), "--runs", runs).exit_code
        == 0
    )
    words = ("history", "throughput", "--suite", "nights", "--runs", runs)
    page = tmp_path / "page.html"
    said = assay(*words, "--report", page)
    assert "1 step, in an unknown order" in said.stdout
    assert "order-unknown: no date is known for these sessions" in said.stdout
    assert "no date" in said.stdout
    assert "order-unknown: no date is known for these sessions" in page.read_text()
    [found] = json.loads(assay(*words, "--json").stdout)["histories"]
    assert len(found["undated"]) == 12
    assert {one["at"] for one in found["sessions"]} == {None}
    refused = assay(*words, "--since", "2026-04-10")
    assert refused.exit_code != 0
    assert "the dates of nights/night-0" in str(refused.exception)


def test_a_session_whose_name_is_a_date_is_dated_by_it(tmp_path: Path) -> None:
    rows = ["system,metric,unit,better,run,session,value"]
    rows += [f"s,throughput,images/s,higher,1,2026-0{month}-01,100" for month in (3, 1, 2)]
    (tmp_path / "months.csv").write_text("\n".join(rows))
    assert assay("import", tmp_path / "months.csv", "--runs", tmp_path / "runs").exit_code == 0
    said = assay("history", "throughput", "--suite", "months", "--runs", tmp_path / "runs", "--json")
    [found] = json.loads(said.stdout)["histories"]
    assert [one["session"] for one in found["sessions"]] == ["2026-01-01", "2026-02-01", "2026-03-01"]
    assert found["undated"] == []
