"""A sweep binds each job to its nodes, is an ordinary session, and finds the node that was slowed."""

from __future__ import annotations

import doctest
import json
import re
import sys
import tempfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from assay import cli
from assay import node_sweep as sweep
from assay.analyse.sweeps.verdicts import (
    SweepFigure,
    SweepSession,
    SweepVerdicts,
    judged_nodes,
    judged_pairs,
)
from assay.errors import EXIT_UNDECIDED, InputError
from assay.launch import SYSTEM_MODELS
from assay.launch.local import LocalSystem
from assay.launch.ssh import SshSystem
from assay.node_sweep import Group, each_alone, member_list, pair_rounds
from assay.questions.sweep_runs import by_reason
from assay.records import Point
from assay.suite.model import NAME_PATTERN
from assay.view import terminal
from assay.view.sweep import findings
from ssh_hosts import hosts

DEFINITION = {"launcher": "ssh", "hosts": ["a", "root@b", "c"], "master_address": "10.0.0.1", "user": "bench"}


def test_each_group_of_hosts_is_a_system_of_its_own() -> None:
    made = sweep.systems(DEFINITION, [("a",), ("a", "c")])
    assert made == {
        "a": {"launcher": "ssh", "hosts": ["a"], "user": "bench"},
        "a--c": {"launcher": "ssh", "hosts": ["a", "c"], "user": "bench"},
    }


@pytest.mark.parametrize("host", ["ip-10-0-0-1.eu-central-1.compute.internal", "root@b", "_a", "[::1]"])
def test_a_host_whose_name_no_system_can_have_keeps_one_that_is_its_own(host: str) -> None:
    (alone,) = sweep.systems(DEFINITION, [(host,)])
    name, _, other = sweep.systems(DEFINITION, [("x",), (host,), (host + "2",)])
    assert re.fullmatch(NAME_PATTERN, alone)
    assert alone != other
    assert [*sweep.systems(DEFINITION, [("x",), (host,)])] == [name, alone]


@pytest.mark.parametrize(
    ("definition", "option", "pair"),
    [
        ({"launcher": "kubernetes", "namespace": "bench"}, "nodes", ["a", "b"]),
        ({"launcher": "slurm", "partition": "batch"}, "nodelist", "a,b"),
        ({"launcher": "lsf", "queue": "gpu"}, "hosts", ["a", "b"]),
        ({"launcher": "ssh", "user": "bench"}, "hosts", ["a", "b"]),
    ],
)
def test_a_bound_system_is_one_of_its_launcher_and_tells_its_nodes(
    definition: dict[str, Any], option: str, pair: Any
) -> None:
    ((name, made),) = sweep.systems(definition, [("a", "b")]).items()
    assert (name, made[option], sweep.bound(made)) == ("a--b", pair, ("a", "b"))
    launcher = made.pop("launcher")
    assert getattr(SYSTEM_MODELS[launcher].model_validate(made), "max_nodes", None) in (2, None)


def test_a_system_of_one_machine_is_refused() -> None:
    with pytest.raises(InputError, match="this system is one machine; list several as `hosts`"):
        member_list("local", LocalSystem())


def test_hosts_by_ssh_tell_nobody_who_uses_them() -> None:
    with pytest.raises(InputError, match="--idle: hosts over ssh"):
        member_list("ssh", SshSystem(hosts=("a", "b")), idle=True)()
    with pytest.raises(InputError, match="the system has no node x; it has a, b"):
        member_list("ssh", SshSystem(hosts=("a", "b")), named=["b", "x"])()
    assert [member.name for member in member_list("ssh", SshSystem(hosts=("a", "b")), named=["b"])()] == ["b"]


def test_a_margin_that_is_none_is_refused_before_anything_runs(tmp_path: Path) -> None:
    systems = tmp_path / "systems.yaml"
    systems.write_text(json.dumps({"lab": {"launcher": "ssh", "hosts": ["a", "b"]}}))
    words = ["sweep", "lab", "--systems", str(systems), "--margin", "0", "--runs", str(tmp_path / "runs")]
    result = CliRunner().invoke(cli.assay, words)
    assert result.exit_code == 2
    assert "write it as 2%" in result.output
    assert not (tmp_path / "runs").exists()


def swept(tmp_path: Path, *words: str, hosts: int = 12, **options: Any) -> tuple[int, Any, str]:
    """A sweep of hosts that nothing is begun on: its time is up at once."""
    systems = tmp_path / "systems.yaml"
    names = [f"host.invalid{at}" for at in range(hosts)]
    systems.write_text(json.dumps({"lab": {"launcher": "ssh", "hosts": names, **options}}))
    asked = ["sweep", "lab", "--systems", str(systems), "--runs", str(tmp_path / "runs"), "--json"]
    said = CliRunner().invoke(cli.assay, [*asked, "--for", "0.001s", *words])
    if isinstance(said.exception, InputError):
        raise said.exception
    return said.exit_code, json.loads(said.stdout) if said.stdout else None, said.stderr


def test_a_sweep_without_time_begins_nothing_and_the_next_call_goes_on_in_its_session(tmp_path: Path) -> None:
    code, found, said = swept(tmp_path)
    assert (code, found["complete"], found["nodes"], found["pairs"]) == (EXIT_UNDECIDED, False, [], None)
    assert "lab: 12 nodes, at most 3 busy at once (--share 25%)" in said
    again, of_share = swept(tmp_path, "--share", "50%"), swept(tmp_path, "--share", "1%")
    assert again[1]["sessions"] == of_share[1]["sessions"] == found["sessions"]
    assert "at most 1 busy at once, a pair alone (--share 1%)" in of_share[2]
    assert swept(tmp_path, "--new")[1]["sessions"] != found["sessions"]
    assert swept(tmp_path, "--repeats", "1")[1]["sessions"] != found["sessions"], "that is another sweep"


def test_a_sweep_goes_on_only_with_the_nodes_that_are_named(tmp_path: Path) -> None:
    _, found, said = swept(tmp_path, "--nodes", "host.invalid3,host.invalid1")
    assert "lab: 2 nodes" in said
    assert swept(tmp_path, "--nodes", "host.invalid1,host.invalid3")[1]["sessions"] == found["sessions"]
    assert swept(tmp_path, "--nodes", "host.invalid1")[1]["sessions"] != found["sessions"]


def test_a_node_that_joined_is_left_out_of_the_sweep_that_is_gone_on_with(tmp_path: Path) -> None:
    _, found, _ = swept(tmp_path, hosts=12)
    _, more, _ = swept(tmp_path, hosts=13)
    assert more["sessions"] == found["sessions"]
    assert more["left_out"] == [{"node": "host.invalid12", "why": "not there when this sweep began"}]
    assert len(swept(tmp_path, "--new", hosts=13)[1]["sessions"]) == 1


def test_many_nodes_that_are_left_out_are_told_by_their_reason() -> None:
    why = {f"n{at:02}": "not ready" for at in range(10)} | {"m": "cordoned"}
    assert by_reason(why) == ["cordoned: m", "not ready: n00, n01, n02, n03, n04, n05, n06, n07 and 2 more"]


def test_somebodys_own_suite_of_the_same_name_is_not_gone_on_with(tmp_path: Path) -> None:
    _, found, _ = swept(tmp_path)
    for path in tmp_path.glob("runs/sweep-nodes/*/systems.yaml"):
        path.write_text("own: {launcher: local}\n")
    assert swept(tmp_path, hosts=5)[1]["sessions"] != found["sessions"]


@pytest.mark.long
def test_a_thousand_nodes_with_long_names_and_a_secret_are_planned_and_gone_on_with(tmp_path: Path) -> None:
    secret = {"env": {"HF_TOKEN": "hf_secret", "NCCL_DEBUG": "INFO"}, "user": "u" * 100}
    _, found, said = swept(tmp_path, hosts=1_000, **secret)
    assert "lab: 1000 nodes, at most 250 busy at once" in said
    assert swept(tmp_path, hosts=1_000, **secret)[1]["sessions"] == found["sessions"]
    (kept,) = tmp_path.glob("runs/sweep-nodes/*/systems.yaml")
    assert "hf_secret" not in kept.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--share", "0"), "0 is not above 0 and up to 100 %"),
        (("--share", "2GB"), "is not a share; write it as"),
        (("--for", "soon"), "soon"),
    ],
)
def test_options_that_can_not_be_read_are_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    code, _, error = swept(tmp_path, *words)
    assert (code, said in error) == (2, True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--idle",), "--idle: hosts over ssh report neither"),
        (("--by", "rack"), "--by: hosts over ssh"),
        (("--nodes", "nowhere"), "--nodes: the system has no node nowhere; it has host.invalid0"),
    ],
)
def test_what_a_platform_can_not_tell_is_refused_before_anything_runs(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        swept(tmp_path, *words)
    assert not (tmp_path / "runs").exists()


POINT = Point("matmul", "1x1", "flop_rate", "FLOP/s", "higher", {})


def measured(values: dict[str, list[float]], groups: dict[str, Group] | None = None) -> SweepSession:
    figure = SweepFigure(POINT, "higher", values)
    return SweepSession("now", {"matmul": figure}, groups or {node: (node,) for node in values})


def shown(verdicts: SweepVerdicts) -> str:
    return terminal.plain(terminal.shown(findings(verdicts)))


def test_of_two_hosts_the_one_that_lost_a_third_is_found_against_its_baseline() -> None:
    before = measured({"a": [100.0, 101.0, 99.0], "b": [100.0, 102.0, 101.0]})
    now = measured({"a": [99.0, 101.0, 100.0], "b": [67.0, 66.0, 68.0]})
    (alone,) = judged_nodes(now, None, 0.05)
    assert (alone.slow, alone.judged) == ([], False)
    (held,) = judged_nodes(now, before.figures, 0.05)
    assert (held.slow, held.judged) == (["b"], True)
    said = shown(SweepVerdicts([held], None, (), 0.05, {"a": ("a",), "b": ("b",)}))
    assert re.search(r"b +\S+ +3 +0\.663 \(0\.643 to 0\.684\) +▼ slower", said)


def test_eight_hosts_are_held_against_each_other_and_the_loss_that_is_named_is_said() -> None:
    values = {f"n{at}": [100 + speed] for at, speed in enumerate([-1.2, -0.7, -0.4, 0.1, 0.3, 0, 0.8, 1.1])}
    (one,) = judged_nodes(measured(values | {"n5": [50.0]}), None, 0.05)
    assert (one.slow, one.judged, one.changes) == (["n5"], True, ())
    said = shown(SweepVerdicts([one], None, (), 0.05, {name: (name,) for name in values}))
    assert re.search(r"n5 +0\.500 +1 +▼ slower", said)
    assert "is found in 80 of 100 cases; 5 % of sweeps report a false one" in " ".join(said.split())


def test_a_baseline_of_other_nodes_is_told_with_theirs() -> None:
    before = measured({"x": [1.0, 1.1, 1.2]})
    with pytest.raises(InputError, match="none of the nodes a, b; it has x"):
        judged_nodes(measured({"a": [1.0], "b": [1.0]}), before.figures, 0.05)


def test_a_baseline_measured_otherwise_is_refused() -> None:
    other = {"matmul": SweepFigure(replace(POINT, labels={"size": 512}), "higher", {"a": [1.0]})}
    with pytest.raises(InputError, match="the baseline has no matmul measured like this"):
        judged_nodes(measured({"a": [1.0]}), other, 0.05)


def test_pairs_are_shown_as_a_matrix_with_what_they_cannot_tell() -> None:
    together = measured(
        {"one": [80.0], "two": [100.0], "three": [90.0]},
        {"one": ("a", "b"), "two": ("b", "c"), "three": ("a", "c")},
    )
    pairs = judged_pairs(together)
    assert pairs is not None
    said = shown(SweepVerdicts([], pairs, (), 0.05, {}))
    assert re.search(r"a +· +0\.889 +1\.000", said)
    assert "pairs: pairs: there are 3; from 8 on" in " ".join(said.split())


@pytest.mark.slow
@pytest.mark.ssh
@pytest.mark.torch
@pytest.mark.long
def test_two_hosts_are_measured_alone_and_together_and_are_too_few_to_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    with hosts(2) as made, tempfile.TemporaryDirectory(prefix="assay-ssh-run-") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        own: dict[str, Any] = {"python": sys.executable, "env": {"GLOO_SOCKET_IFNAME": "eth0"}}
        lab = {"launcher": "ssh", "hosts": made.names, "config": made.config, **own}
        systems = tmp_path / "systems.yaml"
        systems.write_text(json.dumps({"lab": {**lab, "directory": str(tmp_path / "remote")}}))
        words = ["sweep", "lab", "--systems", str(systems), "--runs", str(runs), "--seconds", "0.1", "--json"]
        result = CliRunner().invoke(cli.assay, [*words, "--repeats", "1", "--quiet"])
    assert result.exit_code == EXIT_UNDECIDED, result.output
    found = json.loads(result.stdout)
    assert found["failures"] == []
    assert [(one["benchmark"], one["judged"], one["slow"]) for one in found["nodes"]] == [
        ("matmul", False, []),
        ("membw", False, []),
    ]
    assert {standing["node"] for standing in found["nodes"][0]["crowd"]["standings"]} == {*made.names}
    (pair,) = found["pairs"]["ratios"]
    assert (sorted(pair["nodes"]), pair["ratio"]) == (made.names, 1.0)
    assert sorted(path.name for path in runs.iterdir() if path.is_dir()) == ["sweep-nodes", "sweep-pairs"]


names = st.lists(st.text(min_size=1, max_size=3), unique=True, max_size=30)


@given(names, st.integers(0, 5))
def test_every_two_nodes_meet_once_and_nobody_has_two_partners_at_a_time(nodes: list[str], seed: int) -> None:
    met: list[frozenset[str]] = []
    for one in pair_rounds(nodes, seed=seed):
        busy = [node for pair in one for node in pair]
        assert len(busy) == len(set(busy))
        assert len(nodes) - len(busy) <= 1
        met += map(frozenset, one)
    assert sorted(map(sorted, met)) == sorted(sorted(pair) for pair in combinations(nodes, 2))


@given(st.integers(0, 9))
def test_an_odd_one_rests_and_never_the_same_twice(seed: int) -> None:
    nodes = ["a", "b", "c", "d", "e"]
    resting = [set(nodes) - {n for pair in one for n in pair} for one in pair_rounds(nodes, seed=seed)]
    assert sorted(min(rest) for rest in resting) == nodes


def test_the_same_seed_gives_the_same_rounds_and_another_gives_others() -> None:
    nodes = [f"node-{number}" for number in range(100)]
    first = [*pair_rounds(nodes, 3, seed=1)]
    assert first == [*pair_rounds(nodes, 3, seed=1)]
    assert first != [*pair_rounds(nodes, 3, seed=2)]


def test_more_rounds_than_there_are_and_a_node_named_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 3 rounds"):
        pair_rounds(["a", "b", "c", "d"], 4)
    with pytest.raises(ValueError, match="listed twice: a"):
        each_alone(["a", "b", "a"])


def test_the_examples_hold() -> None:
    assert doctest.testmod(sweep).failed == 0
