"""What makes trainings fast, and the benchmark that holds them against the loops of others."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import ROOT, require
from payload_processes import Forks, end

BENCHMARKS = ROOT / "benchmarks"
LARGE = 40 << 20  # bytes; above the most that glibc keeps by itself, 32 MB

sys.path.insert(0, str(BENCHMARKS))  # its files know each other by their bare names, as scripts

import torchvision_references  # noqa: E402
import training_speed  # noqa: E402
from training_speed import FailedError, Program  # noqa: E402

FAULTS = f"""\
import resource
from assay_payloads.training import training
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray({LARGE})
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
before = faults()
print(training.keep(), before, faults())
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_memory_that_is_kept_is_not_cleared_page_by_page_at_each_use() -> None:
    ran = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, check=True)
    could, before, after = ran.stdout.split()
    assert could == b"True"
    assert int(before) > 10 * int(after), "of twenty blocks the first alone touches new pages"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--device", "cpu"), "--cuda-graphs needs an NVIDIA GPU; the device is cpu"),
        (("--mode", "data-only", "--data", "."), "--cuda-graphs replays one batch of --mode synthetic"),
    ],
)
def test_cuda_graphs_are_refused_where_they_can_not_be(
    tmp_path: Path, forks: Forks, argv: tuple[str, ...], words: str
) -> None:
    small = ["--model", "resnet18", "--image-size", "33", "--batch-size", "1", "--warmup", "0"]
    program = ["{python}", "-m", "assay_payloads.training.resnet50", "--cuda-graphs", *small, *argv]
    code, errors = end(forks.start(program, tmp_path, {}, tmp_path / "log"))
    assert code == 1
    assert words in errors


def printing(name: str, *rates: float, code: int = 0, samples: float = 10.0) -> Program:
    """A program that computes a little, prints windows of these rates and the last as its figure."""
    lines = [
        "import sys, time",
        "def work():",
        "    end = time.process_time() + 0.05",
        "    while time.process_time() < end: pass",
    ]
    for rate in rates:
        lines += [
            "work()",
            f"""print('{{"key": "tracked_stats", "value": {{"throughput": {rate}}}}}', flush=True)""",
        ]
    lines += [f"""print('{{"key": "throughput", "value": {rates[-1]}}}')"""] if rates else []
    return Program(name, (sys.executable, "-c", "\n".join([*lines, f"sys.exit({code})"])), samples)


def test_a_run_gives_the_program_s_own_figure_and_its_cpu_time_a_sample() -> None:
    ran = training_speed.run(printing("one", 7.0, 8.0, 9.5))
    assert ran.per_s == 9.5
    assert ran.cpu_s == pytest.approx(0.05 / 10, rel=0.5)


def test_the_figure_of_timm_s_script_is_read() -> None:
    script = """print('--result\\n{"model": "resnet50", "train_samples_per_sec": 12.25}')"""
    ran = training_speed.run(Program("timm", (sys.executable, "-c", script), 10))
    assert (ran.per_s, ran.cpu_s) == (12.25, None)


@pytest.mark.parametrize("program", [printing("fails", 7.0, code=3), printing("silent")])
def test_a_program_without_a_figure_has_failed(program: Program) -> None:
    with pytest.raises(FailedError, match="exit code"):
        training_speed.run(program)


def test_a_program_that_fails_is_said_and_left_out_and_the_others_are_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = [printing("ours", 20.0), printing("theirs", 10.0), printing("broken", 5.0, code=1)]
    training_speed.measure("made", programs, 3, sample="images")
    out = capsys.readouterr().out
    assert "failed and skipped: broken" in out
    line = next(line for line in out.splitlines() if line.startswith("theirs"))
    assert line.split()[1:] == ["10", "2.00", "-"], "equal figures hide their spread: no interval"
    assert not any(line.startswith("broken") for line in out.splitlines())


def test_no_block_is_begun_after_the_time_is_up() -> None:
    found = training_speed.in_blocks([printing("ours", 2.0), printing("theirs", 1.0)], 50, minutes=0)
    assert {name: len(runs) for name, runs in found.items()} == {"ours": 1, "theirs": 1}


def test_without_our_own_figure_there_is_no_table() -> None:
    with pytest.raises(SystemExit, match="nothing to hold the others against"):
        training_speed.measure(
            "made", [printing("ours", code=1), printing("theirs", 1.0)], 1, sample="images"
        )


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.long
def test_the_published_loops_train_and_print_what_is_read() -> None:
    require("timm", find_spec("timm") is not None, "the loop is of timm's model and optimiser")
    argv = [sys.executable, str(training_speed.LOOPS), "timm", "--batch-size", "2", "--image-size", "33"]
    argv += ["--precision", "bf16", "--channels-last", "--steps", "2", "--warmup", "0", "--window", "1"]
    ran = training_speed.run(Program("timm", argv, 2, {"OMP_NUM_THREADS": "1"}))
    assert ran.per_s > 0
    assert ran.cpu_s is not None


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive as the release has it, at a place of its own, with its checksum."""
    made = tmp_path / "vision.tar.gz"
    with tarfile.open(made, "w:gz") as opened:
        for name in ("references/classification/train.py", "setup.py"):
            member = tarfile.TarInfo(f"vision-{torchvision_references.VERSION}/{name}")
            opened.addfile(member, io.BytesIO())
    monkeypatch.setattr(torchvision_references, "URL", made.as_uri())
    monkeypatch.setattr(torchvision_references, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(torchvision_references, "SHA256", hashlib.sha256(made.read_bytes()).hexdigest())
    return made


def test_the_training_scripts_are_fetched_once(archive: Path) -> None:
    found = torchvision_references.references()
    assert found is not None
    assert (found / "classification" / "train.py").is_file()
    assert not (found.parent / "setup.py").exists()
    archive.unlink()
    assert torchvision_references.references() == found


def test_an_archive_that_changed_is_not_run(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive.write_bytes(archive.read_bytes() + b"more")
    assert torchvision_references.references() is None
    assert "none of it is run" in capsys.readouterr().out
    assert not (archive.parent / "cache").exists()


def test_sources_that_can_not_be_had_are_said(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive.unlink()
    assert torchvision_references.references() is None
    assert "can't be fetched" in capsys.readouterr().out
