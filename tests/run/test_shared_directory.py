"""A runs directory that several users share: what one of them may not read or replace stops nobody."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay.cli import assay
from assay.questions.evidence import runs_directory
from assay.rundir.session import all_of, sessions
from assay.store import layout
from conftest import require

NOBODY = 65534


@contextmanager
def another_user() -> Iterator[None]:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def call(*words: str) -> Result:
    said = CliRunner().invoke(assay, list(words))
    assert said.exception is None or isinstance(said.exception, SystemExit), said.exception
    return said


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Root's runs directory, in which everybody may write, with the sets `one` and `other`."""
    require("root", os.geteuid() == 0, "only root can be somebody else")
    monkeypatch.setattr(layout, "_with_own_index", set())
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        root.chmod(0o755)
        before = os.umask(0)
        monkeypatch.chdir(root)
        Path("runs").mkdir()
        Path("runs").chmod(0o1777)
        for name in ("one", "other"):
            rows = "".join(f"s,rate,{n},{n + 10}.5\n" for n in range(5))
            Path(f"{name}.csv").write_text(f"system,metric,run,value\n{rows}")
            assert call("import", f"{name}.csv", "--name", name, "--runs", "runs").exit_code == 0
        for words in (("show",), ("show", "one"), ("compare", "one", "other")):
            call(*words, "--runs", "runs")  # a user who may not read Python's files can't import more of it
        yield runs_directory("runs")
        os.umask(before)


@pytest.mark.parametrize("private", ["runs/other", "session"])
def test_what_a_user_may_not_read_is_named_and_the_rest_answers(
    shared: Path, private: str, caplog: pytest.LogCaptureFixture
) -> None:
    hidden = Path(private) if private != "session" else all_of(shared, "other")[0].path
    hidden.chmod(0o700)
    with another_user():
        listed, shown = call("show", "--runs", "runs"), call("show", "one", "--runs", "runs")
        assert [session.loss is None for session in sessions(shared)] == [True, False]
    assert listed.exit_code == shown.exit_code == 0
    assert "one" in listed.stdout
    assert "5 runs" in shown.stdout
    assert "this user may not read it, so its runs are left out" in caplog.text


def test_an_index_that_only_its_owner_may_replace_is_copied_for_the_process(shared: Path) -> None:
    with another_user():
        added = call("import", "other.csv", "--name", "third", "--runs", "runs")
        shown = call("show", "third", "--runs", "runs")
    assert added.exit_code == shown.exit_code == 0
    assert "5 runs" in shown.stdout
    assert not (shared / ".index.duckdb.new").exists()
    assert call("index", "--runs", "runs").exit_code == 0
