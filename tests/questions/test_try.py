"""`assay try` compares commands by any figure, ends at the first failure, and leaves ordinary runs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.analyse.points import encounters
from assay.errors import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError
from assay.launch import processes
from assay.questions import printed_figures, try_runs
from assay.questions.printed_figures import WALL_TIME
from assay.questions.printed_figures import printed_figures as figures_in
from assay.questions.try_commands import suite_name, variants_of
from command_line import assay

# prints a rate near its argument; the digits differ from run to run
BENCH = 'echo "loss 0.0$((1 + $$ % 9)) | $1$((100 + $$ % 100)).5 samples/s"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a benchmark, on a machine that nobody else uses."""
    (tmp_path / "bench.sh").write_text(BENCH)
    monkeypatch.setattr(encounters, "lost_to_others", lambda _results, _margin: 0.0)
    return tmp_path


@pytest.mark.parametrize(
    ("commands", "labels"),
    [
        (["python t.py --batch {16,64}"], ["--batch 16", "--batch 64"]),
        (["t.py --batch={1,2} --lr {3,4} -q"], [f"--batch={b} --lr {r}" for b in (1, 2) for r in (3, 4)]),
        (["t {1,{2,3}}"], ["1", "2", "3"]),
        (["p --n=1 {a,b}"], ["a", "b"]),
        (["p", "p --fast"], ["without --fast", "--fast"]),
        (["p a", "p a"], ["p", "p again"]),
        (["python a.py", "ruby b.rb"], ["python a.py", "ruby b.rb"]),
        (["sh -c 'echo {1,2}' {x,y}"], ["x", "y"]),
        ([r"p \{1,2\} {3,4}"], ["3", "4"]),
    ],
)
def test_variants_are_named_by_what_differs(commands: list[str], labels: list[str]) -> None:
    assert [variant.label for variant in variants_of(commands)] == labels
    names = [variant.name for variant in variants_of(commands)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("commands", "why"),
    [
        (["train.py"], "nothing to compare it with"),
        (["sh -c 'echo {1,2}'"], "nothing to compare it with"),
        (["echo 'x {1,2}"], "No closing quotation"),
        (["a {1,2,3}{1,2,3}{1,2,3}"], "make 27 commands"),
        (["a " + "{1,2}" * 40], "more than 1000 commands"),
        (["", "a"], "is empty"),
        (["a ''", "a"], "an argument is empty"),
    ],
)
def test_commands_that_can_not_be_compared_say_why(commands: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        variants_of(commands)


def test_a_suite_is_named_by_its_program() -> None:
    commands = ("python x/train.py -b 1", "python -m pkg.work", "/bin/fio job")
    assert [suite_name(text.split()) for text in commands] == ["try-train", "try-work", "try-fio"]


@pytest.mark.parametrize(
    ("text", "name", "better", "values"),
    [
        ("samples/s: 9,477.7", "samples/s", "higher", (9477.7,)),
        ("[step 1/9] loss 0.06 | 9,477.7 samples/s", "samples/s", "higher", (9477.7,)),
        ("throughput = 812 images/sec (1 GPU)", "throughput", "higher", (812.0,)),
        ("epoch 3 took 3.25 s", "took", "lower", (3.25,)),
        ("step time: 12.5ms", "step time", "lower", (12.5,)),
        ("val accuracy: 0.91\nepoch: 3", "val accuracy", "higher", (0.91,)),
        ("100%|##| 300/300 [00:12<00:00, 24.3it/s]", "it/s", "higher", (24.3,)),
        ("5 s/it\r6 s/it\n", "s/it", "lower", (5.0, 6.0)),
        ("tokens/s: 1,002 loss: 4", "tokens/s", "higher", (1002.0,)),
    ],
)
def test_a_figure_is_found_in_a_line(
    tmp_path: Path, text: str, name: str, better: str, values: tuple[float, ...]
) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text(text)
    figure = figures_in(log)[0]
    assert (figure.name, figure.better, figure.values) == (name, better, values)
    first = try_runs.FirstRun("a", log, 1.0)
    try_runs.check_figure(figure, [first])  # as every later run reads it


@pytest.mark.parametrize(
    "text", ["", "x: 3", "2026-11-28 11:12:13 v1.2.3 ready", "at 0:12.5", "3.4k images/s"]
)
def test_what_may_be_anything_is_not_chosen(tmp_path: Path, text: str) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text(text)
    assert printed_figures.chosen([figures_in(log)], None) is WALL_TIME


def test_a_figure_that_only_some_commands_print_is_not_replaced_by_another(tmp_path: Path) -> None:
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_text("samples/s: 100\n")
    other.write_text("hello\n")
    printed = [figures_in(one), figures_in(other)]
    for order in (printed, printed[::-1]):
        with pytest.raises(InputError, match="only some of the commands print samples/s"):
            printed_figures.chosen(order, None)
        assert printed_figures.chosen(order, "wall_time") is WALL_TIME


def test_figures_of_json_lines_are_found(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text('{"step": 1, "throughput": 120.5}\n{"step": 2, "throughput": 121.5}\n')
    figure = printed_figures.chosen([figures_in(log)], None)
    assert (figure.name, figure.values) == ("throughput", (120.5, 121.5))
    try_runs.check_figure(figure, [try_runs.FirstRun("x", log, 1.0)])


def test_several_equal_figures_are_shown_with_how_to_choose(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text("tokens/s: 12 images/s: 14\n")
    with pytest.raises(
        InputError, match=r"(?s)--figure tokens/s   tokens/s: 12 images/s: 14.*--figure wall_time.*--pattern"
    ):
        printed_figures.chosen([figures_in(log)], None)
    assert printed_figures.chosen([figures_in(log)], "IMAGES/S").name == "images/s"
    with pytest.raises(InputError, match="no such figure"):
        printed_figures.chosen([figures_in(log)], "x")


def test_a_known_program_is_read_by_its_format(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text("Iter #0: 118.9 img/sec per CPU\nTotal img/sec on 2 CPU(s): 241.1 +-8.7\n")
    figures = figures_in(log)
    assert figures[0].better == "higher"


def try_(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return assay(folder, "try", *words)


def test_the_faster_command_is_named_in_its_own_words(folder: Path) -> None:
    done = try_(folder, "sh bench.sh {2,3}", "--save", "kept")
    assert done.returncode == EXIT_OK, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("3 is ")
    assert " faster than 2 (" in lines[0]
    assert "samples/s" in done.stdout
    assert len(lines) <= 12
    (session,) = (folder / "runs" / "try-bench").glob("*Z")
    assert not list((folder / "runs" / ".try" / "try-bench").glob("*Z"))
    compared = assay(folder, "compare", f"try-bench/{session.name}", "--json")
    document = json.loads(compared.stdout)
    (primary,) = (c for c in document["comparisons"] if c["primary"])
    assert (primary["a"], primary["b"], primary["verdict"]) == ("2", "3", "faster")
    assert "different-parameters" not in {doubt["code"] for doubt in primary["doubts"]}
    assert assay(folder, "show", f"try-bench/{session.name}").returncode == EXIT_OK
    ran = assay(folder, "run", "kept/suite.yaml", "--quiet")
    assert ran.returncode == EXIT_OK, ran.stderr
    again = try_(folder, "sh bench.sh {2,3}", "--save", "kept")
    assert (again.returncode, "already there" in again.stderr) == (EXIT_INPUT, True)


def test_a_secret_argument_is_not_saved(folder: Path) -> None:
    done = try_(folder, "sh bench.sh {2,3} --password=hunter2-hunter2", "--save", "kept")
    assert done.returncode == EXIT_INPUT
    assert "--save: --password=(redacted) is secret" in done.stderr
    assert not (folder / "kept").exists()


def test_what_a_killed_first_run_left_is_found_and_removed(folder: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "assay",
        "try",
        "python3 -c 'import time; time.sleep(3)' --password=hunter2-hunter2",
        "--vs",
        "true",
    ]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        job = appeared(folder, "started.json").parent
        killed.kill()
    appeared(folder, "ended.json")
    left = assay(folder, "clean").stdout
    (command,) = [line.partition(": assay ")[2] for line in left.splitlines() if ": assay clean" in line]
    assert assay(folder, *shlex.split(command), "--yes").returncode == EXIT_OK
    assert not job.exists()


def appeared(folder: Path, name: str) -> Path:
    """This file of the directory of a first run's job, once it is there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for file in (folder / "runs" / ".try").rglob(name):
            return file
        time.sleep(0.05)
    raise TimeoutError(name)


def test_json_has_the_figure_the_commands_and_the_comparison(folder: Path) -> None:
    done = try_(folder, "sh bench.sh 1", "--vs", "sh bench.sh 1", "--margin", "90%", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == EXIT_OK
    assert document["schema"] == "assay.try/1"
    assert document["figure"]["name"] == "samples/s"
    assert [v["label"] for v in document["variants"]] == ["bench.sh", "bench.sh again"]
    assert document["ended"] == "decided"
    assert [c["verdict"] for c in document["comparisons"]] == ["equivalent"]


def test_the_time_counts_if_nothing_is_printed(folder: Path) -> None:
    done = try_(folder, "sleep {0.05,0.3}", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == EXIT_OK, done.stderr
    assert document["figure"]["name"] == "wall_time"
    (comparison,) = document["comparisons"]
    assert comparison["verdict"] == "slower"
    assert document["headline"].startswith("0.3 is ")


def test_a_busy_machine_is_named_as_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encounters, "lost_to_others", lambda _results, _margin: 0.5)
    done = try_(folder, "sh bench.sh {2,3}")
    assert done.returncode == EXIT_UNDECIDED
    assert "others used the machine" in done.stdout
    assert "an idle machine will" in done.stdout


@pytest.mark.parametrize(
    ("commands", "code", "why"),
    [
        (["sh -c 'echo bad luck; exit $0' {0,3}"], EXIT_WORSE, "3 failed in its first run"),
        (["sh -c 'test -t 0 || { echo no terminal; exit 1; }' {a,b}"], EXIT_WORSE, "| no terminal"),
        (["./nosuch {a,b}"], EXIT_INPUT, "found ./nosuch; this program does not exist"),
        (["nosuchshell -c {a,b}"], EXIT_INPUT, "found nosuchshell"),
        (["echo samples/s: {0,1}"], EXIT_INPUT, "samples/s is 0"),
        (["echo samples/s: {1,-1}"], EXIT_INPUT, "samples/s is -1"),
        (["echo samples/s: {1,nan}"], EXIT_INPUT, "not a finite number"),
        (["echo x: {1,2}", "--figure", "x"], EXIT_INPUT, "--better higher or --better lower"),
        (["echo x: {1,2}", "--pattern", "y: {value}"], EXIT_INPUT, "no line of rank 0 matches"),
        (["echo x: {1,2}", "--pattern", "x: 1"], EXIT_INPUT, "write the line with {value}"),
        (
            ["echo x: {1,2}", "--pattern", "(?P<value>[", "--better", "lower"],
            EXIT_INPUT,
            "regular expression",
        ),
        (["echo {1,2}", "--on", "lab"], EXIT_INPUT, '"lab" is not a system'),
        (["echo {1,2}", "--max-time", "0"], EXIT_INPUT, "must be more than 0"),
        (["sleep {600,601}", "--max-time", "1s"], EXIT_WORSE, "time limit of 1 s"),
    ],
)
def test_what_can_not_be_compared_ends_at_once_with_the_reason(
    folder: Path, commands: list[str], code: int, why: str
) -> None:
    done = try_(folder, *commands)
    assert why in done.stderr
    assert done.returncode == code
    assert not (folder / "runs" / "try-sh").exists()


def test_a_command_that_reads_standard_input_finds_its_end(folder: Path) -> None:
    (folder / "bench.sh").write_text(f"cat\n{BENCH}")
    assert try_(folder, "sh bench.sh {1,2}").returncode == EXIT_OK


def test_what_a_command_leaves_in_the_background_is_ended(folder: Path) -> None:
    (folder / "bench.sh").write_text(f"sleep 613.25 &\n{BENCH}")
    assert try_(folder, "sh bench.sh {1,2}").returncode == EXIT_OK
    running = [Path(f"/proc/{pid}/cmdline") for pid in processes.values_of("ASSAY_TOKEN")]
    assert not [path for path in running if path.exists() and b"613.25" in path.read_bytes()]


def test_a_command_that_prints_without_end_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(try_runs, "LONGEST_OUTPUT", "1 MB")
    done = try_(folder, "sh -c yes {a,b}")
    assert done.returncode == EXIT_WORSE
    assert "max_output" in done.stderr
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 20e6


def test_a_figure_that_later_runs_lack_ends_the_rounds(folder: Path) -> None:
    (folder / "bench.sh").write_text(f'test -e "seen$1" && exit 0; touch "seen$1"\n{BENCH}')
    done = try_(folder, "sh bench.sh {1,2}")
    assert done.returncode == EXIT_WORSE
    assert "failed in its run of round 1: no figure for samples/s" in done.stderr
    (session,) = (folder / "runs" / "try-bench").glob("*Z")
    assert len(list(session.glob("*/attempt-1"))) == 1


def test_after_ctrl_c_the_same_command_resumes(folder: Path) -> None:
    (folder / "bench.sh").write_text(f"sleep 0.2\n{BENCH}")
    command = [sys.executable, "-m", "assay", "try", "sh bench.sh {1,1,1}", "--margin", "90%"]
    started = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 120
    while not list((folder / "runs").glob("try-bench/*/*-r02")) and time.monotonic() < give_up:
        time.sleep(0.02)
    os.kill(started.pid, signal.SIGINT)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == EXIT_INTERRUPTED
    assert "The same command resumes" in errors
    done = try_(folder, "sh bench.sh {1,1,1}", "--margin", "90%", "--json")
    sessions = [path.name for path in (folder / "runs" / "try-bench").glob("*Z")]
    assert [f"try-bench/{name}" for name in sessions] == [json.loads(done.stdout)["session"]]
