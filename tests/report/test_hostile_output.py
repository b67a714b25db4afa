"""What is printed where there is no room or no reader, and what a log or a file may do to a terminal."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import durable
from assay.cli import assay
from assay.errors import EXIT_ENVIRONMENT, EXIT_INPUT, EXIT_READER_GONE, HostError
from conftest import require

ASSAY = Path(sys.executable).with_name("assay")
FULL = Path("/dev/full")
TABLE = "system,benchmark,metric,value,unit,better,run\n" + "".join(
    f"{system},train,throughput,{value},images/s,higher,{run}\n"
    for system, values in (("a", (100, 101, 102)), ("b", (113, 114, 115)))
    for run, value in enumerate(values)
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(TABLE)
    return imported(tmp_path)


def imported(directory: Path) -> Path:
    runs = directory / "runs"
    done = CliRunner().invoke(assay, ["import", str(directory / "table.csv"), "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    return runs


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("compare", "table"), ("export", "table")])
def test_output_that_finds_no_room_is_an_error_and_no_answer(runs: Path, words: tuple[str, ...]) -> None:
    require("/dev/full", FULL.is_char_device(), "no device that is always full")
    with FULL.open("w") as full:
        done = subprocess.run(
            [ASSAY, *words, "--runs", str(runs)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == EXIT_ENVIRONMENT, done.stderr
    assert done.stderr == (
        "assay: output can't be written: No space left on device; make room or name another place\n"
    )


def test_a_reader_that_left_is_told_by_the_code_and_closed_output_harms_nobody(runs: Path) -> None:
    command = f"{ASSAY} list --runs {runs}"
    gone = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (gone.returncode, gone.stderr) == (EXIT_READER_GONE, "")
    closed = subprocess.run(["bash", "-c", f"{command} >&-"], capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_no_terminal_is_too_narrow_to_say_anything(runs: Path) -> None:
    done = subprocess.run(
        [ASSAY, "compare", "table", "--runs", str(runs)],
        env={"COLUMNS": "0", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "faster" in done.stdout, done.stdout + done.stderr


def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    require("/dev/full", FULL.is_char_device(), "no device that is always full")
    with pytest.raises(HostError, match="No space left"):
        durable.deliver(FULL, b"page")
    assert FULL.is_char_device()
    durable.deliver(tmp_path / "new" / "page.html", b"page")
    assert (tmp_path / "new" / "page.html").read_bytes() == b"page"


def test_names_in_files_send_no_command_to_the_terminal(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text('"\\e[2Jgone\\u202e": 1\nsuite: x\n')
    done = subprocess.run([ASSAY, "plan", str(suite)], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_INPUT
    assert "gone" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


def test_what_a_killed_import_left_is_not_judged_until_it_is_whole(runs: Path, tmp_path: Path) -> None:
    [header] = runs.glob("table/*/session.json")
    header.write_text(json.dumps(json.loads(header.read_text()) | {"finished_at": None}))
    shutil.rmtree(next(path for path in header.parent.iterdir() if path.is_dir()))
    for words in (("compare", "table"), ("show", "table"), ("report", "table"), ("export", "table")):
        told = CliRunner().invoke(assay, [*words, "--runs", str(runs)])
        assert "its import was cut short, 5 of 6 runs are here" in str(told.exception), words
    imported(tmp_path)
    whole = CliRunner().invoke(assay, ["compare", "table", "--runs", str(runs)])
    assert "faster" in whole.output
