"""Container files: what is printed for which choices, and what is refused. Nothing is built here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import cli
from assay.errors import InputError
from assay.records import Task, TaskFile
from assay.stacks import payload, stack
from assay.stacks.parts import ACCELERATORS, BASES, TORCH
from assay.stacks.pins import closure, pins
from assay.stacks.stack import choose
from assay.workloads import WORKLOADS
from conftest import ROOT, require

GOLDEN = ROOT / "tests" / "golden" / "stacks"
DIGEST = "sha256:" + "5f" * 32
INSTALLED = re.compile(r"(?:pip|apt-get|dnf) install [^\n]*\\\n((?: +'[^\n]*\n)+)")
LINTER = Path(sys.executable).with_name("hadolint")


def assay(*words: str) -> Result:
    return CliRunner().invoke(cli.assay, ["stack", "containerfile", *words])


def printed(*words: str) -> str:
    done = assay(*words)
    assert done.exit_code == 0, done.exception
    return done.stdout


def findings(*files: Path) -> str:
    require("hadolint", LINTER.is_file(), "hadolint is not in this environment")
    argv = [LINTER, "--no-color", "--failure-threshold", "style", *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("debian12_mpi", ["matmul", "--base", "debian12", "--mpi"]),
        ("ubi9_cuda", ["matmul", "--base", "ubi9", "--accelerator", "cuda"]),
        ("ubuntu_rocm", ["allreduce", "--accelerator", "rocm"]),
        ("own_image", ["command", "--base", f"debian13=registry.lab:5000/os/debian:13@{DIGEST}"]),
    ],
)
def test_what_is_printed_is_the_golden_file(golden: str, words: list[str]) -> None:
    assert printed(*words) == (GOLDEN / f"{golden}.Containerfile").read_text()


def test_the_command_that_it_names_prints_the_same_file() -> None:
    text = printed("matmul", "--base", f"debian12@{DIGEST}", "--accelerator", "cuda", "--mpi")
    said = re.search(r"^# Made by: assay stack containerfile (.*)$", text, re.MULTILINE)
    assert said is not None
    assert printed(*said[1].split()) == text


def test_another_process_prints_the_same_bytes() -> None:
    words = ["resnet50", "--base", "debian13", "--mpi"]
    program = "from assay.cli import main; main()"
    script = [sys.executable, "-c", program, "stack", "containerfile", *words]
    runs = [
        subprocess.run(script, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout == printed(*words).encode()


def test_every_workload_and_every_base_lint_clean_and_name_every_version(tmp_path: Path) -> None:
    choices = [[workload, "--base", "debian13", "--accelerator", "cpu"] for workload in WORKLOADS]
    choices += [["matmul", "--base", *pair] for pair in product(BASES, ["--accelerator"], ["cuda", "rocm"])]
    files = []
    for words in choices:
        mpi = ["--mpi"] if BASES[words[2]].mpi else []
        text = printed(*words, "--framework", "torch", *mpi)
        installed = [word for block in INSTALLED.findall(text) for word in re.findall("'(.*)'", block)]
        assert installed
        assert [word for word in installed if not re.search(r"(=|-)(\d+:)?\d", word)] == []
        files.append(tmp_path / "-".join(words))
        files[-1].write_text(text)
    assert findings(*files) == ""


def test_the_linter_finds_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "Containerfile"
    file.write_text("FROM debian\nRUN apt-get install python3\nUSER root\n")
    assert {"DL3006", "DL3008", "DL3002"} <= set(re.findall(r"DL\d+", findings(file)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resnet"], ["WORKLOAD: 'resnet'", "resnet50"]),
        (["matmul", "--base", "alpine"], ["--base: 'alpine'", "debian12", "ubi9"]),
        (["matmul", "--base", "debian12@sha256:5f"], ["--base: 'debian12@sha256:5f'", "NAME[=IMAGE]"]),
        (["matmul", "--base", "debian12=x y; rm"], ["--base:"]),
        (["matmul", "--accelerator", "cuda11.8"], ["--accelerator: 'cuda11.8'", "cuda13.0"]),
        (["matmul", "--framework", "torch==1.13"], ["--framework: 'torch==1.13'", "torch==2.15.0"]),
        (["matmul", "--framework", "tensorflow"], ["--framework: 'tensorflow'"]),
        (
            ["matmul", "--accelerator", "cuda12.6", "--framework", "torch==2.15.0"],
            ["--accelerator: cuda12.6 with torch==2.15.0", "torch==2.14.1 has cpu", "cuda12.6"],
        ),
        (["command", "--accelerator", "cuda"], ["--accelerator:", "--framework torch"]),
        (["matmul", "--base", "ubi9", "--mpi"], ["--mpi:", "ubi9", "debian12"]),
    ],
)
def test_what_is_unknown_or_does_not_fit_is_refused_with_what_there_is(
    words: list[str], said: list[str]
) -> None:
    done = assay(*words)
    assert isinstance(done.exception, InputError)
    assert done.exception.exit_code == 4
    assert [part for part in said if part not in str(done.exception)] == []
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("accelerator", "framework", "wheel", "index"),
    [
        ("cpu", None, "torch==2.15.0+cpu", "https://download.pytorch.org/whl/cpu"),
        ("cuda", None, "torch==2.15.0", None),  # PyPI's own
        ("cuda13.0", None, "torch==2.15.0+cu130", "https://download.pytorch.org/whl/cu130"),
        ("cuda12.6", None, "torch==2.14.1+cu126", "https://download.pytorch.org/whl/cu126"),
        ("rocm", None, "torch==2.14.1+rocm7.2", "https://download.pytorch.org/whl/rocm7.2"),
        ("cuda", "torch==2.13.0", "torch==2.13.0", None),
    ],
)
def test_the_newest_torch_that_has_the_wheel_is_taken_from_the_index_that_has_it(
    accelerator: str, framework: str | None, wheel: str, index: str | None
) -> None:
    chosen = choose("matmul", accelerator=accelerator, framework=framework).framework
    assert chosen is not None
    assert (chosen.wheels[0], chosen.index) == (wheel, index)


def test_torchvision_is_the_one_made_for_that_torch() -> None:
    chosen = choose("resnet50", framework="torch==2.13.0").framework
    assert chosen is not None
    assert chosen.wheels == ("torch==2.13.0+cpu", "torchvision==0.28.0+cpu")


def test_a_base_whose_python_is_too_old_is_refused_with_what_needs_a_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(stack.BASES, "debian12", replace(BASES["debian12"], python="3.10"))
    with pytest.raises(InputError, match=r"--base: debian12 has Python 3\.10: .*torch==2\.15\.0 needs 3\.11"):
        choose("matmul", base="debian12")


def test_a_base_whose_python_no_wheel_is_made_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stack.BASES, "debian12", replace(BASES["debian12"], python="3.99"))
    with pytest.raises(InputError, match=r"no such wheel; torch==2\.15\.0 has .* for Python 3\.11 to 3\.14"):
        choose("matmul", base="debian12")


def test_what_programs_import_is_found_wherever_they_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = b"import os.path, own\nfrom PIL import Image\ndef load():\n    import h5py.h5d as low\n"
    files = (
        TaskFile("main.py", program),
        TaskFile("own.py", b"from . import x\n"),
        TaskFile("data.csv", b"import"),
    )
    workload = replace(WORKLOADS["matmul"], task=lambda *_: Task(("{python}", "main.py"), files=files))
    assert payload.imports(workload) == ("PIL", "h5py")
    assert [one.name for one in closure(payload.packages(("PIL", "h5py")))] == ["h5py", "numpy", "pillow"]


def test_a_package_without_a_version_that_is_known_to_fit_is_an_error() -> None:
    with pytest.raises(InputError, match="package nonesuch"):
        closure(["numpy", "nonesuch"])


def test_a_program_that_takes_no_device_gets_no_torch_and_one_of_the_users_nothing() -> None:
    files = (
        TaskFile("main.py", b"from assay_payloads.measuring.rank import Rank"),
        TaskFile("assay_payloads/measuring/rank.py", b"def join(): import torch"),
    )
    workload = replace(WORKLOADS["matmul"], task=lambda *_: Task(("{python}", "main.py"), files=files))
    assert payload.imports(workload) == ()
    chosen = choose("command")
    assert (chosen.framework, chosen.packages, chosen.modules) == (None, (), ())


def test_pins_are_whole_and_torchs_own_is_one_that_can_be_chosen() -> None:
    assert {name for pin in pins().values() for name in pin.requires} <= set(pins())
    assert TORCH[pins()["torch"].version].vision == pins()["torchvision"].version


def test_every_release_of_torch_names_accelerators_that_there_are() -> None:
    for release in TORCH.values():
        assert set(release.accelerators) <= set(ACCELERATORS)
        assert release.pypi in release.accelerators


def test_json_says_the_parts_the_host_and_the_file() -> None:
    said = json.loads(printed("matmul", "--accelerator", "cuda12.6", "--json"))
    assert said["framework"] == {"torch": "2.14.1", "index": "https://download.pytorch.org/whl/cu126"}
    assert said["host"] == "driver NVIDIA 525.60.13 or newer"
    assert "torch==2.14.1+cu126" in said["packages"]
    assert said["containerfile"] == printed("matmul", "--accelerator", "cuda12.6")


def test_the_document_and_the_help_name_every_part_that_can_be_chosen() -> None:
    document, said = (ROOT / "docs" / "stacks.md").read_text(), assay("--help").stdout
    parts = [*BASES, *ACCELERATORS, *(f"torch=={version}" for version in TORCH)]
    assert [part for part in parts if f"`{part}`" not in document] == []
    assert [base for base in BASES if base not in said] == []
    assert f"[default: {stack.DEFAULT_BASE}]" in said
