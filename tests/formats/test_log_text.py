"""What others put around logs: taken off once, with a note, and only where it can't be part of the log."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import resource
import tarfile
from pathlib import Path

import pytest
import test_nvbandwidth
from click.testing import CliRunner

from assay.cli import assay
from assay.errors import InputError
from assay.formats.log_text import LogText, prefixes_of
from assay.formats.mllog import EventReader
from assay.formats.mlperf_inference import app_run, is_app_log
from assay.formats.tools import TOOLS, read_log, tools_of
from assay.formats.unpacked import form_of
from assay.testing.dressed_logs import OF_SEVERAL_LINES, SURE, TIME, behind, in_dockers_json

FAILING = Path(__file__).parents[3] / "shared" / "foreign-logs" / "failing"
given = pytest.mark.skipif(not FAILING.is_dir(), reason="logs of others are not here")


@pytest.mark.parametrize("dress", [*SURE, *OF_SEVERAL_LINES])
def test_lines_keep_their_numbers_without_what_was_put_before_them(tmp_path: Path, dress: str) -> None:
    text = "one 1\n\n  two 2\nthree 3\n\nfour 4 \nfive"
    path = tmp_path / "log"
    path.write_bytes({**SURE, **OF_SEVERAL_LINES}[dress](text))
    found = [(number, line.decode()) for number, line in LogText(path).lines()]
    assert found == [(number, line) for number, line in enumerate(text.split("\n"), 1)]


@pytest.mark.parametrize(
    "text",
    [
        "0: 3.4\n1: 3.5\n2: 3.6\n3: 3.7\n",  # a table: its labels don't repeat
        "12: 3.4\nloss 3.5\nstep 12: 3.6\n12: 3.7\n",
        "epoch 1\n0: 1.5\n0: 1.6\nepoch 2\n0: 1.5\n0: 1.6\n",
        "[1] 3.4\n[2] 3.5\n",
        "GPU 0: OK\nGPU 1: OK\n",
        "Model: resnet50\nModel: resnet50\n",
        "a-1 | 3\nb-2\nc\n",
        "2026-01-02 03:04:05,123 INFO loss 3.4\n",
        "DLL 2024-08-02 12:42:44.292511 - Epoch: 1\n",
        "(1, 2) 3.4\n",
        "[2026] 3\n",
    ],
)
def test_what_may_be_part_of_the_log_is_no_prefix(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert b"".join(LogText(path).blocks()) == text.encode()
    assert prefixes_of(text.encode()) == ()


def test_lines_without_the_prefix_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("Loading modules\n[1,0]<stdout>:a 1\nsrun: bye\n[1,1]<stderr>:b 2\n")
    assert b"".join(LogText(path).blocks()) == b"Loading modules\na 1\nsrun: bye\nb 2\n"


def test_a_long_output_of_the_batch_script_hides_no_prefix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = (test_nvbandwidth.V0_8 + "ERROR: CUDA_ERROR_LAUNCH_FAILED").split("\n")
    path.write_text("Loading modules\n" * 500 + "".join(f"0: {line}\n" for line in lines))
    assert read_log("nvbandwidth", path).problems[0].startswith(f"line {500 + len(lines)}: ")


def test_a_line_in_several_of_dockers_records_is_one_and_the_next_ones_keep_their_numbers(
    tmp_path: Path,
) -> None:
    records = [{"log": text, "stream": "stdout"} for text in ("a", "b", "c\n", "d\n")]
    path = tmp_path / "log"
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "torn {\n")
    found = [(number, line) for number, line in LogText(path).lines() if line]
    assert found == [(1, b"abc"), (4, b"d"), (5, b"torn {")]


def test_processes_that_print_the_same_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    text = "\n".join(line for line in test_nvbandwidth.V0_8.split("\n") for _ in range(2))
    path.write_bytes(behind("0: ", "1: ")(text))
    problems = read_log("nvbandwidth", path).problems
    assert problems[0] == (
        "2 processes print a result of their own (0, 1): put the lines of each in its own file"
    )
    own = b"".join(line for line in path.read_bytes().splitlines(keepends=True) if line.startswith(b"1: "))
    path.write_bytes(own)
    assert read_log("nvbandwidth", path).problems == []


def test_lines_of_other_processes_between_those_of_one_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = test_nvbandwidth.V0_8.removesuffix("\n").split("\n")
    path.write_text("".join(f"[1,0]<stdout>:{line}\n[1,1]<stderr>:NCCL INFO hello\n" for line in lines))
    found = read_log("nvbandwidth", path)
    assert found.problems == []
    assert len(found.figures) == len(read_log("nvbandwidth", _written(tmp_path, lines)).figures)


def _written(tmp_path: Path, lines: list[str]) -> Path:
    path = tmp_path / "plain"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_bomb_is_refused_in_constant_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object
) -> None:
    monkeypatch.setattr("assay.formats.unpacked.LARGEST_UNPACKED_BYTES", 60_000_000)
    path = tmp_path / "bomb.log"
    path.write_bytes(pack(bytes(90_000_000)))  # type: ignore[operator]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (tools_of, lambda one: list(EventReader(one)), TOOLS["fio"].read, TOOLS["timm"].read):
        with pytest.raises(InputError, match=r"unpacks to more than 60 MB|is larger than"):
            read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_compressed_log_that_was_cut_is_an_error_with_its_name(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "cut.log"
    packed = pack(b"".join(b"line %d\n" % (n * 7919) for n in range(20_000)))  # type: ignore[operator]
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"cut\.log: is damaged or truncated"):
        tools_of(path)


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.log"))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x28\xb5\x2f\xfd\x04", "is compressed with zstd; unpack it first: unzstd one.log"),
        (b"PK\x03\x04", "is a zip archive; unpack it first: unzip one.log"),
        (_tar(), "is a tar archive; unpack it first: tar -xf one.log"),
        (gzip.compress(_tar(), mtime=0), "is a tar archive; unpack it first: tar -xf one.log"),
    ],
)
@pytest.mark.parametrize("words_before", [(), ("--format", "perftest"), ("--format", "mlperf")])
def test_what_can_not_be_unpacked_is_an_error_that_says_how(
    tmp_path: Path, content: bytes, words: str, words_before: tuple[str, ...]
) -> None:
    path = tmp_path / "one.log"
    path.write_bytes(content)
    done = CliRunner().invoke(
        assay, ["import", str(path), "--name", "x", "--runs", str(tmp_path / "runs"), *words_before]
    )
    assert words in str(done.exception) + done.output


def test_mlperf_lines_are_read_out_of_what_is_around_them(tmp_path: Path) -> None:
    line = (
        ':::MLLOG {"time_ms": 1, "event_type": "POINT_IN_TIME", "key": "seed", "value": 3, "metadata": {}}\n'
    )
    expected = list(EventReader(_written(tmp_path, [line.strip()] * 3)))
    for dress in (in_dockers_json, *SURE.values()):
        if dress is SURE["no-break-spaces"]:
            continue
        path = tmp_path / "dressed"
        path.write_bytes(dress(line * 3))
        assert list(EventReader(path)) == expected


def test_figures_that_markdown_makes_bold_are_figures(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("|65536|**353.53**|**fast**| 2**10 ** 3\n")
    assert b"".join(LogText(path).blocks()) == b"|65536|353.53|**fast**| 2**10 ** 3\n"


@given
@pytest.mark.parametrize(
    ("name", "tool", "figure"),
    [
        ("perftest-mpirun.log", "perftest", 25.225e9),
        ("perftest-kubectl-timestamps.log", "perftest", 25.225e9),
        ("perftest-ansi.txt", "perftest", 25.225e9),
        ("docker-json-log-perftest.txt", "perftest", 25.225e9),
        ("nccl-allreduce.log.gz", "nccl-tests", None),
        ("nccl-utf16.txt", "nccl-tests", None),
        ("nccl-nbsp.txt", "nccl-tests", None),
        ("mlperf-storage-bom.json", "mlperf-storage", 32704.5),
        ("iperf3-kubectl-timestamps.json", "iperf3", 934.268e6),
        ("gpu-burn-kubectl-timestamps.txt", "gpu-burn", 16942.0),
        ("nvbandwidth-kubectl-timestamps.txt", "nvbandwidth", 369.36),
    ],
)
def test_dressed_logs_of_others_have_their_figures(name: str, tool: str, figure: float | None) -> None:
    assert [one.name for one in tools_of(FAILING / name)] == [tool]
    found = read_log(tool, FAILING / name)
    assert found.problems == []
    assert found.notes or name == "mlperf-storage-bom.json"
    assert len(found.figures) == {"nccl-tests": 192, "nvbandwidth": 35}.get(tool, len(found.figures))
    values = [one.value for one in found.figures]
    assert figure is None or any(value == pytest.approx(figure, rel=1e-4) for value in values)
    assert str(found.facts.get("test", "")) in ("", "RDMA_Write BW Test")


@given
@pytest.mark.parametrize(
    ("name", "tool", "words"),
    [
        ("perftest-error-mpirun.txt", "perftest", "Completion with error at client"),
        ("nvbandwidth-error-srun.txt", "nvbandwidth", "CUDA_ERROR_ECC_UNCORRECTABLE"),
        ("nvbandwidth-truncated.txt", "nvbandwidth", "the log ends in all_to_host_memcpy_sm, before its sum"),
        ("perftest-comma-decimals.txt", "perftest", "a comma in place of the point"),
        ("iperf3-three-documents.json", "iperf3", "several JSON documents, the second begins in line 96"),
        ("param-comms-three-columns.txt", "param-comms", "no table row has its header above it"),
        ("iperf3-text.txt", "iperf3", "run iperf3 with --json"),
        ("fio-text.txt", "fio", "run fio with --output-format=json"),
        ("ior-3.3-text.txt", "ior", "run IOR with -O summaryFormat=JSON"),
        ("elbencho-text.txt", "elbencho", "run elbencho with --jsonfile"),
    ],
)
def test_a_log_without_figures_says_the_true_reason(name: str, tool: str, words: str) -> None:
    found = read_log(tool, FAILING / name)
    assert words in found.problems[0]


def test_the_time_of_kubectl_is_taken_off_before_a_json_report(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(TIME + " " + json.dumps(test_nvbandwidth.report()))
    assert read_log("nvbandwidth", path).problems == []


def test_a_user_sees_what_was_taken_off_when_importing_and_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.log").write_bytes(gzip.compress(SURE["mpirun"](test_nvbandwidth.V0_8)))
    for words in (("import", "one.log", "--name", "kept"), ("show", "kept"), ("show", "kept", "--json")):
        done = CliRunner().invoke(assay, [*words])
        assert done.exit_code == 0
        assert "read out of gzip" in done.output
        assert "read without what precedes its lines, like `[1,0]<stdout>:` (mpirun)" in done.output


def test_the_line_of_the_inference_app_is_found_in_a_packed_log_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    line = "TestScenario.SingleStream qps=163.51, mean=0.0061, time=60.040, queries=9817, tiles=90.0:0.0066\n"
    path.write_bytes(gzip.compress(SURE["torchrun"]("begin\n" + line)))
    assert is_app_log(path)
    [rate, *_] = app_run(path, name="app").figures
    assert (rate.value, rate.line) == (163.51, 2)


def test_text_that_begins_like_bzip2_is_text(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"BZhello\n")
    assert form_of(log) == ()
    log.write_bytes(bz2.compress(b""))
    assert form_of(log) == ("bzip2",)
