"""Files that others made: only plain ones are opened, and no line fills the memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli import assay
from assay.errors import InputError
from assay.formats.nccl_debug import transports
from assay.formats.tf_cnn_benchmarks import cnn_run
from assay.formats.tools import tools_of
from assay.inputs import LONGEST_LINE, Log, from_home, read_json, read_whole
from assay.workloads import WORKLOADS

LONG = LONGEST_LINE + 1


def log(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    return path


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 22])
def test_a_log_is_read_alike_whatever_the_blocks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("assay.inputs.BLOCK_BYTES", block)
    text = b"one\r\n\ntwo\rthree\rfo" + b"u" * 40 + b"r\nfive" + b"!" * 50 + b"\rsix\n" + b"seven" * 9
    read = Log(log(tmp_path / "a.log", text), longest=10)
    assert [*read.lines()] == [
        *((1, b"one"), (2, b""), (3, b"two"), (3, b"three"), (3, b"fouuuuuuuu")),
        *((4, b"five!!!!!!"), (4, b"six"), (5, b"sevenseven")),
    ]
    assert read.cut == 3


def test_lines_that_were_cut_are_counted_in_the_reading(tmp_path: Path) -> None:
    path = log(tmp_path / "rank-0.log", b"t=1\n" + b"x" * LONG + b"t=2\n" + b"y" * LONG)
    asked = {"argv": ["x"], "metrics": {"t": {"pattern": r"t=(?P<value>\d+)", "unit": "s"}}}
    workload = WORKLOADS["command"]
    reading = workload.reader.read({path.name: path}, workload.params(**asked))
    assert [m.value for m in reading.measurements] == [1.0]
    assert reading.cut_lines == 2


@pytest.mark.parametrize("text", [b"t=1\n", b"t=1,5\n"])
def test_a_flood_of_figures_is_a_problem_with_the_line_where_it_was_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    monkeypatch.setattr("assay.formats.figures.MOST_FIGURES", 100)
    path = log(tmp_path / "rank-0.log", text * 101)
    workload = WORKLOADS["command"]
    asked = workload.params(argv=["x"], metrics={"t": {"pattern": "t=(?P<value>[0-9.]+)"}})
    with pytest.raises(InputError, match=r"rank-0\.log:101: more than 100 figures"):
        workload.reader.read({"rank-0.log": path}, asked)
    assert workload.reader.read({"rank-0.log": log(path, b"t=1\n" * 100)}, asked).problems == ()


def test_a_figure_that_a_cut_line_may_hold_is_missed_with_that_word(tmp_path: Path) -> None:
    path = log(tmp_path / "rank-0.log", b"x" * LONG + b"t=2\n")
    asked = {"argv": ["x"], "metrics": {"t": {"pattern": r"t=(?P<value>\d+)", "unit": "s"}}}
    workload = WORKLOADS["command"]
    [problem] = workload.reader.read({path.name: path}, workload.params(**asked)).problems
    assert problem.endswith("; 1 line is longer than 2000 bytes and was searched that far")


_READ = """
import resource, sys
from pathlib import Path
from assay.cli import assay
from assay.formats import mllog, mlperf, tf_cnn_benchmarks, nccl_tests, nccl_debug, tools, timm, horovod
from assay.records import JobState, Output
from assay.run.progress import LastFigure
from assay.workloads import WORKLOADS
path = Path(sys.argv[1])
metrics = {"t": {"pattern": r"t=(?P<value>\\d+)"}, "k": {"reader": "mllog"}}
command = WORKLOADS["command"]
tools.tools_of(path), list(mllog.EventReader(path)), nccl_debug.transports([path])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reading = command.reader.read({"rank-0.log": path}, command.params(argv=["x"], metrics=metrics))
tools.tools_of(path), tf_cnn_benchmarks.cnn_run(path), nccl_tests.nccl_test(path)
mlperf.training_run(path), timm.timm(path), horovod.TOOL.read(path)
list(mllog.EventReader(path)), nccl_debug.transports([path])
figure = LastFigure("t", "s")
with path.open("rb") as file:
    while data := file.read(1 << 20):
        figure.feed(Output("rank-0", data))
print(reading.cut_lines, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_a_line_of_300_megabytes_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    small = log(tmp_path / "small.log", b"t=1\n" * 3)
    with path.open("wb") as file:  # zeros that take no disk
        file.write(b"t=1\n:::MLLOG {")
        file.truncate(300_000_000)
    kib = {}
    for one in (small, path):
        done = subprocess.run(
            [sys.executable, "-c", _READ, str(one)], check=True, capture_output=True, text=True
        )
        cut, more = map(int, done.stdout.split())
        assert cut == (one is path)
        kib[one] = more
    assert kib[path] < kib[small] + 60_000  # KiB: blocks of a few MB, a fifth of the line at most


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device", "directory"])
def test_what_is_no_plain_file_is_never_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("set/result_0.txt")
    path.parent.mkdir()
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, 0o140644)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    for read in (read_whole, read_json, cnn_run, tools_of, lambda p: transports([p])):
        with pytest.raises(InputError, match=f"it is a {kind}, not a plain file"):
            read(path)
    said = CliRunner().invoke(assay, ["score", "set", "--json"])
    [one] = json.loads(said.stdout)["sets"]
    assert f"it is a {kind}, not a plain file" in json.dumps(one)
    named = [] if kind == "directory" else [[str(path)], ["--format", "tf-cnn-benchmarks", str(path)]]
    for words in (["set"], *named):
        said = CliRunner().invoke(assay, ["import", "--name", "x", *words])
        assert said.exception is None or isinstance(said.exception, InputError | SystemExit), said.exception
        assert "plain file" in said.output + str(said.exception)


def test_a_json_file_that_is_nested_too_deeply_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = log(tmp_path / "deep.json", b"[" * 200_000)
    with pytest.raises(InputError, match=r"deep\.json: not JSON \(it is nested too deeply"):
        read_json(path)
    path = log(tmp_path / "half.json", b'{"a": 1,\n')
    with pytest.raises(InputError, match=r"half\.json:2: not JSON"):
        read_json(path)


def test_a_file_beyond_the_limit_is_refused_before_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="larger than 1 MB"):
        read_whole(path, 1_000_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 50_000


def test_a_user_without_a_home_directory_keeps_the_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_user: int) -> None:
        raise KeyError

    assert from_home("~/suite.yaml") == Path.home() / "suite.yaml"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert from_home("~/suite.yaml") == Path("~/suite.yaml")
