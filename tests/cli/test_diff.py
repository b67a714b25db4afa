"""`assay diff` over runs that were really made on this machine, and over made-up sides."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import provenance
from assay.cli import assay
from assay.provenance import Fact
from assay.questions.diff import Differences, RunMachines, texts
from assay.records import Provenance
from assay_payloads.probing import probe

SUITE = """\
suite: tiny
systems: [plain, loud]
repeats: 1
workload: command
params:
  argv: ["{python}", "-c", "print('rate: 5')"]
  metrics: {rate: {pattern: 'rate: (?P<value>[0-9]+)'}}
shapes: [1x1]
"""
SYSTEMS = """\
plain: {launcher: local}
loud: {launcher: local, env: {NCCL_DEBUG: INFO, NCCL_TOKEN: hunter2hunter2}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of runs of two systems that differ in two variables."""
    folder = tmp_path_factory.mktemp("diff")
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "systems.yaml").write_text(SYSTEMS)
    done = assay_says("run", str(folder / "suite.yaml"), "--quiet", "--runs", str(folder / "runs"))
    assert "Stored in" in done.stdout, done.output
    return folder / "runs"


def assay_says(*words: str) -> Result:
    return CliRunner().invoke(assay, words)


def test_what_differs_is_shown_and_the_exit_code_says_so(runs: Path) -> None:
    done = assay_says("diff", "tiny:plain", "tiny:loud", "--runs", str(runs))
    assert done.exit_code == 1, done.output
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["env.NCCL_DEBUG", "–", "INFO"] in rows
    assert ["env.NCCL_TOKEN", "–", "(redacted)"] in rows
    assert "2 facts differ" in done.stdout
    assert "cpu.model" not in done.stdout


def test_a_system_does_not_differ_from_itself(runs: Path) -> None:
    done = assay_says("diff", "tiny:plain", "tiny:plain", "--runs", str(runs))
    assert done.exit_code == 0, done.output
    assert "No relevant difference" in done.stdout


def test_all_facts_are_shown_on_request(runs: Path) -> None:
    done = assay_says("diff", "tiny:plain", "tiny:plain", "--all", "--runs", str(runs))
    assert done.exit_code == 0
    for name in ("cpu.logical", "memory.total_bytes", "package.click", "load.1min"):
        assert name in done.stdout


def test_json_has_the_facts_that_differ_with_what_they_are(runs: Path) -> None:
    done = assay_says("diff", "tiny:plain", "tiny:loud", "--json", "--runs", str(runs))
    document = json.loads(done.stdout)
    assert document["schema"] == "assay.diff/1"
    assert document["differs"] is True
    assert document["b"] == {"reference": "tiny:loud", "runs": 1, "runs_known": 1}
    assert {
        "name": "env.NCCL_DEBUG",
        "group": "declared",
        "a": [None],
        "b": ["INFO"],
        "matters": True,
    } in document["facts"]
    assert all(fact["a"] != fact["b"] for fact in document["facts"])


SET_UP = """\
small: {launcher: local, env: {BATCH: "4", API_TOKEN: hunter2hunter2}, price: 1 EUR/node-hour}
large: {launcher: local, env: {BATCH: "32", API_TOKEN: hunter2hunter2}, price: 2 EUR/node-hour}
"""


@pytest.mark.long
def test_what_only_the_systems_set_is_a_difference_and_comes_first(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE.replace("[plain, loud]", "[small, large]"))
    (tmp_path / "systems.yaml").write_text(SET_UP)
    runs = str(tmp_path / "runs")
    done = assay_says("run", str(tmp_path / "suite.yaml"), "--quiet", "--runs", runs)
    assert "Stored in" in done.stdout, done.output
    done = assay_says("diff", "tiny:small", "tiny:large", "--all", "--runs", runs)
    assert done.exit_code == 1, done.output
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert rows.index(["env.BATCH", "4", "32"]) < rows.index(["launcher", "local", "local"])
    assert rows[3][:4] == ["Set", "by", "the", "systems"]
    assert "1 fact differs" in done.stdout
    assert "hunter2" not in done.output
    assert "price" not in done.stdout


def test_what_the_systems_set_is_shown_even_if_nothing_is_known_of_the_machines(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "known", lambda _: False)
    done = assay_says("diff", "tiny:plain", "tiny:loud", "--runs", str(runs))
    assert done.exit_code == 3
    assert ["env.NCCL_DEBUG", "–", "INFO"] in [line.split() for line in done.stdout.splitlines()]


@pytest.mark.long
def test_parameters_that_the_suite_changed_are_a_difference(tmp_path: Path) -> None:
    runs, sessions = tmp_path / "runs", []
    for rate in ("5", "6"):
        text = SUITE.replace("rate: 5", f"rate: {rate}").replace("[plain, loud]", "[local]")
        (tmp_path / "suite.yaml").write_text(text)
        done = assay_says("run", str(tmp_path / "suite.yaml"), "--quiet", "--runs", str(runs))
        assert "Stored in" in done.stdout, done.output
        [session] = [path.name for path in (runs / "tiny").glob("2*") if path.name not in sessions]
        sessions.append(session)
    done = assay_says("diff", *(f"tiny/{name}" for name in sessions), "--json", "--runs", str(runs))
    assert done.exit_code == 1, done.output
    facts = {fact["name"]: fact for fact in json.loads(done.stdout)["facts"] if fact["matters"]}
    assert list(facts) == ["command.argv"]
    assert "rate: 5" in facts["command.argv"]["a"][0]
    assert "rate: 6" in facts["command.argv"]["b"][0]


def test_a_script_that_was_edited_is_a_difference(tmp_path: Path) -> None:
    runs, script = str(tmp_path / "runs"), tmp_path / "rate.py"
    argv = f'["{{python}}", {script}]'
    text = SUITE.replace("[plain, loud]", "[local]")
    (tmp_path / "suite.yaml").write_text(re.sub("argv: .*", f"argv: {argv}", text))
    for rate in ("5", "6"):
        script.write_text(f"print('rate: {rate}')")
        done = assay_says("run", str(tmp_path / "suite.yaml"), "--new", "--quiet", "--runs", runs)
        assert "Stored in" in done.stdout, done.output
    a, b = sorted(path.name for path in (tmp_path / "runs/tiny").glob("2*"))
    done = assay_says("diff", f"tiny/{a}", f"tiny/{b}", "--json", "--runs", runs)
    assert [f["name"] for f in json.loads(done.stdout)["facts"] if f["matters"]] == ["./rate.py"]
    assert done.exit_code == 1


def test_a_secret_of_a_system_is_in_no_file_of_its_runs(runs: Path) -> None:
    files = [path for path in runs.rglob("*") if path.is_file()]
    assert any(path.name == "probe-0.log" for path in files)
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []


def side(reference: str, *nodes: dict[str, object], runs: int = 1) -> RunMachines:
    text = [probe.MARK + json.dumps({"probe.version": 1, **node}) for node in nodes]
    return RunMachines(reference, runs, (provenance.parse(text),) if nodes else ())


def shown(a: RunMachines, b: RunMachines) -> str:
    return "\n".join(line.rstrip() for line in str(Differences(a, b)).splitlines())


def test_a_side_that_says_nothing_of_its_machine_is_not_known_rather_than_different() -> None:
    text = shown(side("here", {"kernel": "6.1"}), side("imported", runs=5))
    assert "B  imported  (5 runs)" in text
    assert "Unknown: no run of B describes the machine it ran on." in text
    assert "kernel" not in text


def test_what_is_unknown_ends_with_its_own_exit_code(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "known", lambda _: False)
    done = assay_says("diff", "tiny:plain", "tiny:loud", "--json", "--runs", str(runs))
    assert done.exit_code == 3
    assert json.loads(done.stdout)["differs"] is None


def test_which_machine_it_was_is_shown_but_does_not_count() -> None:
    text = shown(side("a", {"host": "n1", "load.1min": 1}), side("b", {"host": "n2", "load.1min": 2}))
    assert "host" in text
    assert "load" not in text
    assert "No relevant difference, 1 are equal, 1 differ only momentarily" in text


def test_nodes_of_a_side_that_are_not_alike_are_said_to_vary() -> None:
    text = shown(side("a", {"kernel": "6.1"}), side("b", {"kernel": "6.1"}, {"kernel": "6.8"}))
    assert "B  b  (1 run, 2 nodes each)" in text
    assert "varies: 6.1 | 6.8" in text


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("memory.limit_bytes", 2 * 10**9, 4 * 10**9, ("2 GB", "4 GB")),
        ("memory.limit_bytes", 2 * 10**9, 2 * 10**9 + 1, ("2000000000", "2000000001")),
        ("net.eth0.mtu_bytes", 1500, 9000, ("1500", "9000")),
        ("gpu.*.clock_max_hz", 1980 * 10**6, None, ("1.98 GHz", "–")),
        ("cpu.smt", True, False, ("yes", "no")),
    ],
)
def test_values_are_written_for_people_and_never_look_equal_when_they_are_not(
    name: str, a: object, b: object, expected: tuple[str, str]
) -> None:
    assert texts(Fact(name, "hardware", (a,), (b,))) == expected  # type: ignore[arg-type]


def test_equal_machines_whose_kernels_kept_a_little_more_memory_are_equal() -> None:
    a, b = (
        [Provenance(({"probe.version": 1, "memory.total_bytes": size},))]
        for size in (25276514304, 25276518400)
    )
    assert provenance.differences(a, b) == ()
    assert provenance.digest(a[0]) == provenance.digest(b[0])
