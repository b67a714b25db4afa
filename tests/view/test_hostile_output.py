"""What is printed where there is no room or no reader, and what a log or a file may do to a terminal."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import durable
from assay.cli import assay
from assay.cli.commands import COMMANDS
from assay.errors import EXIT_ENVIRONMENT, EXIT_INPUT, EXIT_READER_GONE, HostError
from conftest import long_but, require

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


@pytest.mark.parametrize(
    "words", long_but(1, [("compare", "table"), ("show", "--json"), ("show",), ("export", "table")])
)
def test_output_that_finds_no_room_is_an_error_and_no_answer(runs: Path, words: tuple[str, ...]) -> None:
    require("/dev/full", FULL.is_char_device(), "no device that is always full")
    with FULL.open("w") as full:
        done = subprocess.run(
            [ASSAY, *words, "--runs", str(runs)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == EXIT_ENVIRONMENT, done.stderr
    assert done.stderr == (
        "assay: output can't be written: No space left on device; free some space or choose another place\n"
    )


def test_a_reader_that_left_is_told_by_the_code_and_closed_output_harms_nobody(runs: Path) -> None:
    command = f"{ASSAY} show --runs {runs}"
    gone = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (gone.returncode, gone.stderr) == (EXIT_READER_GONE, "")
    closed = subprocess.run(["bash", "-c", f"{command} >&-"], capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("export", "table", "-o", "/sys/table.csv"),
        pytest.param(("report", "table", "-o", "/sys/page.html"), marks=pytest.mark.long),
        pytest.param(
            ("gate", "table:b", "--baseline", "table:a", "--junit", "/sys/gate.xml"), marks=pytest.mark.long
        ),
    ],
)
def test_a_file_that_cannot_be_written_names_the_option_that_chooses_another(
    runs: Path, words: tuple[str, ...]
) -> None:
    require("/sys", Path("/sys/kernel").is_dir(), "no directory that nobody can write to")
    done = subprocess.run([ASSAY, *words, "--runs", str(runs)], capture_output=True, text=True, check=False)
    option, file = words[-2:]
    assert done.returncode == EXIT_ENVIRONMENT, done.stderr
    reason = next(why for why in ("Permission denied", "Read-only file system") if why in done.stderr)
    said = f"can't be written ({reason}); give yourself write access, or name another file with {option}"
    assert done.stderr == f"assay: {file}: {said}\n"


def test_an_export_creates_the_folder_of_its_file(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "table.csv"
    done = CliRunner().invoke(assay, ["export", "table", "-o", str(file), "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    assert len(file.read_text().splitlines()) == 7


def test_names_in_files_send_no_command_to_the_terminal(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text('"\\e[2Jgone\\u202e": 1\nsuite: x\n')
    done = subprocess.run([ASSAY, "plan", str(suite)], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_INPUT
    assert "gone" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


def test_no_escape_sequence_of_a_file_reaches_a_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2A\x1b[Kevil\r\x1b[1;31m\x1b]0;x\x07"
    table = TABLE.replace("b,train", f'"b{evil}",train')
    (tmp_path / "table.csv").write_text(table, newline="")
    entry = {"collective_seq_id": 1, "profiling_name": evil, "process_group": (evil, "y"), "state": "started"}
    entry |= {"time_created_ns": 1, "input_sizes": [[3]]}
    (tmp_path / "trace_rank_0").write_bytes(pickle.dumps({"entries": [entry]}))
    seen, colored = "", {**os.environ, "FORCE_COLOR": "1"}
    for words in (
        ("import", "table.csv"),
        ("show",),
        ("compare", "table"),
        ("show", "table"),
        ("watch", "--flight-recorder", "."),
    ):
        done = subprocess.run(
            [ASSAY, *words],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            env=colored,
        )
        seen += (done.stdout + done.stderr).decode()
    assert "evil" in seen
    assert "\r" not in seen
    assert set(re.findall(r"\x1b[^m]{0,8}", seen)) <= set(re.findall(r"\x1b\[[0-9;]*", seen))
    assert "\x1b[1;31m" not in seen


def test_what_a_killed_import_left_is_not_judged_until_it_is_whole(runs: Path, tmp_path: Path) -> None:
    [header] = runs.glob("table/*/session.json")
    header.write_text(json.dumps(json.loads(header.read_text()) | {"finished_at": None}))
    shutil.rmtree(next(path for path in header.parent.iterdir() if path.is_dir()))
    for words in (("compare", "table"), ("show", "table"), ("report", "table"), ("export", "table")):
        told = CliRunner().invoke(assay, [*words, "--runs", str(runs)])
        assert "its import was interrupted, 5 of 6 runs are here" in str(told.exception), words
    imported(tmp_path)
    whole = CliRunner().invoke(assay, ["compare", "table", "--runs", str(runs)])
    assert "faster" in whole.output


ENCODINGS = [
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
    {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]
NEXT = "--next"  # between the command lines that follow each other in one process
IN_TURN = f"""\
import sys
from assay.cli import main
words, streams = sys.argv[1:], (sys.stdout, sys.stderr)
while words:
    end = words.index({NEXT!r})
    sys.argv, words = ["assay", *words[:end]], words[end + 1 :]
    sys.stdout, sys.stderr = streams
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    for stream in streams:
        print({NEXT!r}, code, file=stream, flush=True)
"""


def said_in_turn(
    lines: list[list[str | Path]], terminal: Mapping[str, str]
) -> Iterator[tuple[int, str, str]]:
    """Exit code, output and error of each command line: one process of that encoding runs them all."""
    words = [word for line in lines for word in (*line, NEXT)]
    _, *streams = said([sys.executable, "-c", IN_TURN, *words], terminal)
    outputs, errors = (re.split(rf"{NEXT} (\d+)\n", stream) for stream in streams)
    assert len(outputs) == len(errors) == 2 * len(lines) + 1, streams
    for output, code, error in zip(outputs[::2], outputs[1::2], errors[::2], strict=False):
        yield int(code), output, error


def said(words: list[str | Path], terminal: Mapping[str, str]) -> tuple[int, str, str]:
    """Exit code, output and error of a command on a terminal of that encoding."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(words, capture_output=True, env=clean | terminal, check=False)
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")


@pytest.mark.long
@pytest.mark.parametrize("terminal", long_but(1, ENCODINGS), ids=["latin-1", "ascii", "C"])
def test_what_the_terminal_can_not_show_is_replaced_and_ends_no_command(
    terminal: dict[str, str], tmp_path: Path
) -> None:
    header, *rows = TABLE.splitlines()
    table = "\n".join([f"{header},place", *(f"{row},λ × …" for row in rows)])
    (tmp_path / "table.csv").write_text(table, encoding="utf-8")
    runs = ["--runs", tmp_path / "runs"]
    shown: list[list[str | Path]] = [
        ["import", tmp_path / "table.csv", *runs],
        ["show", *runs],
        ["show", "table", *runs],
        ["compare", "table", *runs],
        ["report", "table", *runs, "-o", tmp_path / "page.html"],
        ["report", "table", *runs, "-o", tmp_path / "page.md"],
        ["export", "table", *runs],
        ["explain"],
        ["init", "--schema", "suite"],
        ["stack", "containerfile", "resnet50"],
    ]
    refused: list[list[str | Path]] = [
        ["compare", "λ …", "table", *runs],
        ["plan", tmp_path / "none λ.yaml"],
    ]
    help_of_each: list[list[str | Path]] = [[name, "--help"] for name in COMMANDS]
    lines = [*shown, *refused, *help_of_each]
    for words, (code, output, error) in zip(lines, said_in_turn(lines, terminal), strict=True):
        if words in refused:
            assert "UnicodeEncodeError" not in error, words
            continue
        assert code == 0, (words, error)
        assert "Error" not in error, words
        assert output or error, words
        assert words not in help_of_each or ("Usage:" in output and not error), words


@pytest.mark.long
@pytest.mark.parametrize("terminal", long_but(1, ENCODINGS), ids=["latin-1", "ascii", "C"])
def test_what_the_doctor_says_is_shown_on_any_terminal(terminal: dict[str, str]) -> None:
    _, output, error = said([ASSAY, "doctor"], terminal)
    assert output
    assert "UnicodeEncodeError" not in error


@pytest.mark.long
@pytest.mark.parametrize("terminal", long_but(1, ENCODINGS), ids=["latin-1", "ascii", "C"])
def test_json_is_whole_on_any_terminal(terminal: dict[str, str], tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(TABLE.replace("images/s", "λ/s"), encoding="utf-8")
    runs = imported(tmp_path)
    code, output, error = said([ASSAY, "show", "table", "--json", "--runs", runs], terminal)
    assert code == 0, error
    assert '"unit": "λ/s"' in json.dumps(json.loads(output), ensure_ascii=False)


@pytest.mark.parametrize("terminal", long_but(1, ENCODINGS), ids=["latin-1", "ascii", "C"])
def test_no_encoding_of_the_terminal_brings_secrets_or_controls_to_it(terminal: dict[str, str]) -> None:
    token = "hf_" + "aB3" * 12
    code, output, error = said([ASSAY, "explain", f"{token}\x1b[2J"], terminal)
    assert code == EXIT_INPUT
    assert token not in output + error
    assert "\x1b" not in output + error
    assert "(redacted)" in error
