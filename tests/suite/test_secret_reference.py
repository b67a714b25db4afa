"""Variables whose values are named by where they are: found when a job is sent, and written nowhere."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

from assay import secret_reference
from assay.errors import InputError
from assay.records import SecretReference
from command_line import assay

PROGRAM = """\
import os, pathlib
value = os.environ["TOKEN"]
print("got", len(value), "characters", value if os.environ.get("TELL") else "")
print("seconds: 1.0")
"""
SUITE = """\
suite: kept
workload: command
params:
  argv: ["{{python}}", program.py]
  files: [program.py]
  env: {env}
  metrics: {{seconds: {{pattern: 'seconds: (?P<value>[0-9.]+)', unit: s, better: lower}}}}
repeats: 1
timeout: 2min
"""


def write(directory: Path, env: str, systems: str = "here: {launcher: local}\n") -> None:
    (directory / "program.py").write_text(PROGRAM)
    (directory / "suite.yaml").write_text(SUITE.format(env=env))
    (directory / "systems.yaml").write_text(systems)


def holding(directory: Path, value: str, *, but: Sequence[str] = ()) -> list[str]:
    """Files below a directory whose bytes hold the value."""
    return [
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and path.name not in but and value.encode() in path.read_bytes()
    ]


@pytest.fixture
def value() -> str:
    return f"planted-{secrets.token_hex(12)}"


def test_a_reference_is_one_of_three_forms() -> None:
    assert secret_reference.parse({"from_env": "TOKEN"}) == SecretReference("from_env", "TOKEN")
    assert secret_reference.parse({"from_file": "~/token"}) == SecretReference("from_file", "~/token")
    found = secret_reference.parse({"from_kubernetes_secret": {"name": "hub", "key": "token"}})
    assert found == SecretReference("from_kubernetes_secret", "hub", "token")
    assert found.written == {"from_kubernetes_secret": {"name": "hub", "key": "token"}}


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"from_env": ""},
        {"from_env": 1},
        {"from_envv": "X"},
        {"from_env": "X", "from_file": "/x"},
        {"from_kubernetes_secret": "hub/token"},
        {"from_kubernetes_secret": {"name": "hub"}},
        {"from_kubernetes_secret": {"name": "hub", "key": "token", "more": 1}},
        {"from_file": "token"},
    ],
)
def test_anything_else_is_refused_and_shows_no_value(written: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        secret_reference.parse(written)


def test_a_file_gives_its_text_less_the_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\nsecond\n")
    wanted = {"TOKEN": SecretReference("from_file", str(tmp_path / "token"))}
    assert secret_reference.values(wanted) == {"TOKEN": "first\nsecond"}


def test_every_reference_that_has_no_value_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    (tmp_path / "empty").write_text("\n")
    wanted = {
        "A": SecretReference("from_env", "NOT_SET_ANYWHERE"),
        "B": SecretReference("from_file", str(tmp_path / "missing")),
        "C": SecretReference("from_file", str(tmp_path / "empty")),
    }
    with pytest.raises(InputError) as error:
        secret_reference.values(wanted)
    told = str(error.value).splitlines()
    assert [line.split(": ")[1] for line in told] == ["A", "B", "C"]
    assert "not set here" in told[0]
    assert "can't be read" in told[1]


@pytest.mark.parametrize("told", [False, True], ids=["kept", "printed by the program"])
def test_a_run_has_the_value_and_leaves_it_in_no_file_but_the_log(
    tmp_path: Path, value: str, told: bool
) -> None:
    write(tmp_path, '{TOKEN: {from_env: HUB_TOKEN}, TELL: "' + ("yes" if told else "") + '"}')
    done = assay(tmp_path, "run", "suite.yaml", "--report", "page.html", env={"HUB_TOKEN": value})
    assert done.returncode == 0, done.stderr
    log = next(tmp_path.glob("runs/kept/*/*/attempt-1/logs/rank-0.log"))
    assert f"got {len(value)} characters" in log.read_text()
    assert (value in log.read_text()) is told
    assert holding(tmp_path, value, but=["rank-0.log"]) == []
    assert value not in done.stdout + done.stderr
    run = json.loads((log.parents[1] / "run.json").read_text())
    assert bool(run["secrets"]) is told


def test_what_is_shown_names_the_reference_in_place_of_the_value(tmp_path: Path, value: str) -> None:
    write(tmp_path, "{TOKEN: {from_env: HUB_TOKEN}}")
    shown = assay(tmp_path, "plan", "suite.yaml", "--show", "command-1x1-r01", env={"HUB_TOKEN": value})
    assert "TOKEN='<{from_env: HUB_TOKEN}>'" in shown.stdout
    assert value not in shown.stdout


def test_a_reference_without_a_value_is_reported_before_anything_starts(tmp_path: Path) -> None:
    write(tmp_path, "{TOKEN: {from_env: NOT_SET_ANYWHERE}}")
    done = assay(tmp_path, "run", "suite.yaml")
    assert done.returncode == 4
    assert (
        "suite.yaml:6: env: TOKEN: {from_env: NOT_SET_ANYWHERE}: the variable is not set here" in done.stderr
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("env", "systems", "said"),
    [
        (
            "{TOKEN: {from_kubernetes_secret: {name: a, key: b}}}",
            "here: {launcher: local}",
            "can't read Secrets",
        ),
        (
            "{TOKEN: {from_env: HOME}}",
            "there: {launcher: kubernetes, image: python, kind: job}",
            "kubectl create secret",
        ),
    ],
)
def test_a_launcher_that_can_t_pass_it_says_so_at_plan_time(
    tmp_path: Path, env: str, systems: str, said: str
) -> None:
    write(tmp_path, env, systems)
    done = assay(tmp_path, "plan", "suite.yaml", "--show", "command-1x1-r01")
    assert done.returncode == 4
    assert said in done.stderr


def test_a_cluster_s_secret_is_named_in_the_pod(tmp_path: Path) -> None:
    write(
        tmp_path,
        "{TOKEN: {from_kubernetes_secret: {name: hub, key: token}}}",
        "there: {launcher: kubernetes, image: python, kind: job}",
    )
    done = assay(tmp_path, "plan", "suite.yaml", "--show", "command-1x1-r01")
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("secretKeyRef:")
    assert lines[at - 2 : at] == ["- name: TOKEN", "valueFrom:"]
    assert set(lines[at + 1 : at + 3]) == {"name: hub", "key: token"}
