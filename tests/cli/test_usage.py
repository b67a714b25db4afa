"""A command line that lacks something says what, with an example that can be copied, and exits 2."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from assay import cli, errors
from assay.cli import assay
from assay.cli.commands import COMMANDS


@pytest.mark.parametrize(
    ("words", "missing", "example"),
    [
        ("gate", "--baseline B [OPTIONS] A", "assay gate nightly --baseline nightly/2026-03-01T021500Z"),
        ("gate nightly", "Missing option '--baseline'", "assay gate nightly --baseline nightly/"),
        ("history", "Missing argument 'METRIC'", "assay history throughput --suite nightly"),
        ("stack", "containerfile", "assay stack containerfile resnet50 --accelerator cuda"),
        ("stack containerfile", "WORKLOAD", "assay stack containerfile resnet50 --accelerator cuda"),
    ],
)
def test_what_a_command_needs_is_shown_with_an_example(
    words: str,
    missing: str,
    example: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["assay", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert missing in said.err
    assert example in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "x", "-o", "x.pdf"], "x.pdf: .pdf can't be written; write .html or .md"),
        (["export", "x", "-o", "x.xlsx"], "x.xlsx: .xlsx can't be written; write .csv or .parquet or .json"),
        (["compare", "a", "b", "--margin", "5"], "5 is 500 %; write 5% or 0.05"),
        (["repotr"], "No such command 'repotr'; did you mean report?"),
        (["frobnicate"], "`assay --help` lists them"),
        (["list"], "No such command 'list'; did you mean show?"),
        (["top"], "No such command 'top'; did you mean watch?"),
        (["schema", "suite"], "No such command 'schema'; did you mean init --schema?"),
        (["show", "x", "--state", "failed"], "--state: for a list of runs, without RUN"),
        (["init", "here", "--schema", "suite"], "--schema only prints: leave out DIRECTORY and --force"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_what_to_write(words: list[str], said: str) -> None:
    result = CliRunner().invoke(assay, words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("\u2502", " ").split())


def test_no_help_shows_a_marker_of_its_layout() -> None:
    for name in COMMANDS:
        assert "\\b" not in CliRunner().invoke(assay, [name, "--help"]).output


def test_the_help_names_every_exit_code() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    listed = CliRunner().invoke(assay, ["--help"]).output.partition("Exit codes:")[2].partition(".")[0]
    assert {int(word) for word in re.findall(r"(?:^|; *)\s*(\d+) ", listed)} == codes


@pytest.mark.parametrize(("library", "frozen"), [("torch", False), ("html", True)])
def test_a_command_that_used_torch_leaves_nothing_that_its_libraries_call_leaked(
    library: str, frozen: bool
) -> None:
    code = (
        "import atexit, gc, sys, types; from assay.cli import _leave\n"
        f"sys.modules[{library!r}] = types.ModuleType({library!r})\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "_leave(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{frozen}\n"
