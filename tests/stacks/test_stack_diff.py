"""What differs between two stacks, and what runs say about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import cli, store
from assay.errors import InputError
from assay.records import Provenance
from assay.stacks.diff import diff_stacks
from assay.stacks.stack import Change, HardwareClass, Stack, changes, folded, hardware_of
from assay.stacks.uv import pinned_packages
from observed_stacks import MACHINE, NEW, OLD, failed, results

THREADS = {**OLD, "env.OMP_NUM_THREADS": "4"}


def assay_says(*words: object) -> Result:
    return CliRunner().invoke(cli.assay, ["stack", *map(str, words)])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> HardwareClass:
    """This machine is of the class that the made runs are from."""
    machine = hardware_of(Provenance((MACHINE,)))
    assert machine is not None
    monkeypatch.setattr("assay.stacks.diff.hardware_here", lambda: machine)
    return machine


def test_a_change_comes_with_its_effect_interval_sessions_and_dates(tmp_path: Path) -> None:
    store.update(tmp_path, results(speeds={"new": 1.04}))
    done = assay_says("diff", "stacks:old", "stacks:new", "--runs", tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("1 change: B is faster than A.")
    assert "torch 2.8.0 → 2.9.0 (with 1 library of it)" in done.stdout
    assert "torch 2.9.0 is faster than torch 2.8.0 at matmul" in done.stdout
    assert "on AMD EPYC 7763 64-Core Processor (8 CPUs); 2026-03-01 to 2026-03-03" in done.stdout
    assert "9 + 9 runs in 3 + 3 sessions, each counted once; paired by session" in done.stdout
    back = assay_says("diff", "stacks:new", "stacks:old", "--runs", tmp_path)
    assert (back.exit_code, back.stdout.partition("\n")[0]) == (1, "1 change: B is slower than A.")


def test_a_system_that_the_newest_edition_lacks_is_named_with_the_words_to_type(tmp_path: Path) -> None:
    made = results({"old": OLD, "new": NEW}, sessions=2)
    later = [
        type(one)(replace(one.run, suite_digest="another"), one.reading, one.provenance)
        for one in made[6:]
        if one.run.trial.system == "old"
    ]
    store.update(tmp_path, [*made[:6], *later])
    session = f"stacks/{made[0].run.session}"
    with pytest.raises(InputError, match=f"the newest that has is {session}:new"):
        diff_stacks("stacks:old", "stacks:new", runs=tmp_path)
    assert diff_stacks(f"{session}:old", f"{session}:new", runs=tmp_path).changes


def test_sessions_count_together_although_the_kernel_was_updated_between_them(tmp_path: Path) -> None:
    made = []
    for number, result in enumerate(results(speeds={"new": 1.04}, sessions=4)):
        node = {**(result.provenance or Provenance(())).nodes[0], "kernel": f"6.1.{number // 6}"}
        made.append(type(result)(result.run, result.reading, Provenance((node,))))
    store.update(tmp_path, made)
    found = diff_stacks("stacks:old", "stacks:new", runs=tmp_path)
    ((effect,),) = [one.effects for one in found.changes]
    assert effect.comparison.sessions == (4, 4)
    assert effect.comparison.replication == "sessions"


def test_figures_of_two_programs_are_no_pair_even_in_one_session(tmp_path: Path) -> None:
    made = [
        replace(one, run=replace(one.run, assay_version="0.0.9")) if one.run.trial.block > 1 else one
        for one in results(speeds={"new": 1.04})
    ]
    store.update(tmp_path, made)
    found = diff_stacks("stacks:old", "stacks:new", runs=tmp_path)
    ((effect,),) = [one.effects for one in found.changes]
    assert effect.comparison.n == (9, 9)


def test_what_changed_together_has_one_effect_and_says_so(tmp_path: Path) -> None:
    both = {**NEW, "package.numpy": "2.4.0"}
    store.update(tmp_path, results({"old": OLD, "new": both}, speeds={"new": 1.05}))
    done = assay_says("diff", "stacks:old", "stacks:new", "--runs", tmp_path)
    assert "2 changes: B is faster than A." in done.stdout
    assert "All changes together" in done.stdout
    text = " ".join(done.stdout.split())
    assert "confounded: the effect is of all these together: numpy 2.3.0 → 2.4.0" in text
    assert "confounded: the effect is of all these together: torch 2.8.0 → 2.9.0" in text


def test_a_change_that_was_also_measured_alone_is_shown_alone(tmp_path: Path) -> None:
    third = {**NEW, "package.numpy": "2.4.0"}
    store.update(tmp_path, results({"old": OLD, "new": NEW, "third": third}, speeds={"new": 1.05}))
    found = diff_stacks("stacks:old", "stacks:third", runs=tmp_path)
    by_name = {one.change.name: one.effects for one in found.changes}
    assert by_name.keys() == {"torch", "numpy"}
    assert all(effect.others == () for effects in by_name.values() for effect in effects)
    assert len(found.together) == 1


def test_what_was_never_measured_together_is_undecided_and_not_equal(tmp_path: Path) -> None:
    store.update(
        tmp_path, [*results({"old": OLD}), *results({"threads": THREADS}, suite="other", sessions=1)]
    )
    done = assay_says("diff", "stacks:old", "other:threads", "--runs", tmp_path)
    assert done.exit_code == 3, done.output
    assert done.stdout.startswith("1 change: whether B is as fast as A is undecided.")
    assert "how much a session shifts its figures is unknown" in done.stdout


def test_what_was_never_measured_is_unknown(tmp_path: Path, here: HardwareClass) -> None:
    store.update(tmp_path / "runs", results())
    for name, version in (("a.txt", "2.8.0"), ("b.txt", "2.7.0")):
        (tmp_path / name).write_text(f"torch=={version}\n")
    done = assay_says("diff", tmp_path / "a.txt", tmp_path / "b.txt", "--runs", tmp_path / "runs")
    assert done.exit_code == 3, done.output
    assert done.stdout.startswith("1 change: not measured on this hardware. To measure them here")
    assert "not measured: no session has both" in done.stdout


@pytest.mark.long
def test_stacks_of_different_sessions_are_compared_only_if_both_have_several(tmp_path: Path) -> None:
    other = {**NEW, "package.numpy": "2.4.0"}
    store.update(tmp_path, [*results({"old": OLD}), *results({"new": other}, suite="later", sessions=1)])
    found = diff_stacks("stacks:old", "later:new", runs=tmp_path)
    (effect,) = found.together
    assert effect.comparison.ratio.low is None
    assert "how much a session shifts its figures is unknown" in effect.comparison.reason
    assert found.verdict == "undecided"
    store.update(tmp_path, results({"new": other}, suite="later", sessions=3))
    (effect,) = diff_stacks("stacks:old", "later:new", runs=tmp_path).together
    assert (effect.comparison.method, effect.comparison.replication) == ("welch", "sessions")
    assert effect.comparison.ratio.low is not None


def test_a_pair_out_of_an_exploration_is_one_of_many_until_sessions_of_its_own_confirm_it(
    tmp_path: Path,
) -> None:
    many = {"new": NEW} | {f"s{at}": {**OLD, "package.torch": f"2.7.{at}"} for at in range(12)}
    store.update(
        tmp_path, results({"old": OLD, **many}, suite="many", sessions=1, speeds={"new": 1.01}, blocks=4)
    )
    found = diff_stacks("many:old", "many:new", margin=0.001, runs=tmp_path)
    (effect,) = found.deciding
    assert (found.verdict, effect.rivals, effect.set_aside) == ("undecided", 13, 0)
    assert effect.comparison.family is not None
    assert effect.comparison.family.alone == "faster"
    assert "one of 13 comparisons" in effect.comparison.reason
    assert effect.comparison.runs_needed is not None
    store.update(tmp_path, results({"old": OLD, "new": NEW}, suite="later", sessions=4, speeds={"new": 1.04}))
    (confirmed,) = diff_stacks("many:old", "many:new", runs=tmp_path).deciding
    assert (confirmed.rivals, confirmed.set_aside) == (1, 1)
    assert (confirmed.comparison.verdict, confirmed.comparison.sessions) == ("faster", (4, 4))
    assert (
        "not used: 1 session that measured more stacks"
        in assay_says("diff", "many:old", "many:new", "--runs", tmp_path).stdout
    )


def test_a_known_failure_comes_first(tmp_path: Path) -> None:
    made = results(sessions=1)
    made[1] = failed(made[1], "rank 0 exited 1: ImportError: libnccl.so.2: undefined symbol")
    store.update(tmp_path, made)
    done = assay_says("diff", "stacks:old", "stacks:new", "--runs", tmp_path)
    assert done.exit_code == 1, done.output
    assert done.stdout.startswith("1 change: B is known to fail.")
    assert "does not import (matmul 1x1)" in done.stdout


def test_requirement_files_are_compared_by_what_runs_know_of_their_packages(
    tmp_path: Path, here: HardwareClass
) -> None:
    store.update(tmp_path / "runs", results(speeds={"new": 1.04}))
    old, new = tmp_path / "requirements.txt", tmp_path / "pylock.toml"
    old.write_text(
        "torch==2.8.0 \\\n    --hash=sha256:00\nnumpy==2.3.0  # fast\n-i https://index.lab/simple\n"
    )
    new.write_text('lock-version = "1.0"\n[[packages]]\nname = "torch"\nversion = "2.9.0"\n'
                   '[[packages]]\nname = "numpy"\nversion = "2.3.0"\n')  # fmt: skip
    done = assay_says("diff", old, new, "--runs", tmp_path / "runs")
    assert done.exit_code == 0, done.output
    assert "torch 2.9.0 is faster than torch 2.8.0" in done.stdout


def test_effects_on_other_hardware_are_shown_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.stacks.diff.hardware_here", lambda: HardwareClass("another CPU"))
    store.update(tmp_path / "runs", results(speeds={"new": 1.04}))
    for name, version in (("a.txt", "2.8.0"), ("b.txt", "2.9.0")):
        (tmp_path / name).write_text(f"torch=={version}\n")
    done = assay_says("diff", tmp_path / "a.txt", tmp_path / "b.txt", "--runs", tmp_path / "runs")
    assert done.exit_code == 3
    assert "(other hardware: not used)" in done.stdout


@pytest.mark.parametrize(
    ("name", "command"),
    [("uv.lock", "uv export --format pylock.toml"), ("poetry.lock", "poetry export -o requirements.txt")],
)
def test_the_lock_of_another_tool_is_an_error_with_the_command_that_exports_it(
    tmp_path: Path, name: str, command: str
) -> None:
    store.update(tmp_path / "runs", results(speeds={"new": 1.04}))
    for file in (name, "requirements.txt"):
        (tmp_path / file).write_text("torch==2.8.0\n")
    done = assay_says("diff", tmp_path / name, tmp_path / "requirements.txt", "--runs", tmp_path / "runs")
    assert done.exit_code != 0
    assert command in str(done.exception) + done.output


def test_every_line_of_a_file_that_is_not_pinned_is_an_error_at_once(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("torch>=2.8\nnumpy==2.3.*\n???\n-e .\nok==1.0\nleft-out==1; python_version < '3'\n")
    with pytest.raises(InputError) as error:
        pinned_packages(path)
    assert [problem.where.rpartition(":")[2] for problem in error.value.problems] == ["1", "2", "3", "4"]
    path.write_text("not toml")
    with pytest.raises(InputError, match="not TOML"):
        pinned_packages(path.rename(tmp_path / "pylock.toml"))


def test_equal_stacks_have_no_change(tmp_path: Path) -> None:
    store.update(tmp_path, results())
    done = assay_says("diff", "stacks:old", "stacks:old", "--runs", tmp_path, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["changes"] == []


def test_another_build_is_a_change_unless_the_version_changed_too_or_one_side_does_not_know() -> None:
    wheel = Stack({}, {"numpy": "2.3.0"}, {"numpy": "manylinux_2_28_x86_64"})
    built = Stack({}, {"numpy": "2.3.0"}, {"numpy": "linux_x86_64"})
    newer = Stack({}, {"numpy": "2.4.0"}, {"numpy": "linux_x86_64"})
    assert changes(wheel, built) == (Change("build", "numpy", "manylinux_2_28_x86_64", "linux_x86_64"),)
    assert [change.kind for change in changes(wheel, newer)] == ["package"]
    assert changes(wheel, Stack({}, {"numpy": "2.3.0"})) == ()


def test_libraries_that_come_with_a_package_are_part_of_its_change() -> None:
    old, new = (
        Stack({}, {name.removeprefix("package."): str(value) for name, value in of.items()})
        for of in (OLD, NEW)
    )
    assert [change.name for change in folded(changes(old, new))] == ["torch"]
    only = Stack({}, {**old.packages, "nvidia-nccl-cu12": "2.28.0"})
    assert [change.name for change in folded(changes(old, only))] == ["nvidia-nccl-cu12"]
