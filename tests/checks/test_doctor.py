"""The doctor's checks over made-up machines, and the doctor itself on this one."""

from __future__ import annotations

import json
import platform
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import command_line
from assay import cli
from assay.checks import PLACE, Check, machine, placed, software
from assay.checks.examine import CHECKS, examine
from assay.cli import assay
from assay.cli.console import Console
from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, HostError, InputError
from assay.launch.local.facts import facts_here
from assay.questions import doctor as doctor_question
from assay.questions.systems import system_named
from assay.records import Scalar
from assay.view import terminal

GB = 10**9
GIB = 2**30
PYTHON = {
    "python.version": "3.12.3",
    "python.executable": "/env/bin/python",
    "python.virtual_environment": True,
}
TORCH = {**PYTHON, "torch.version": "2.8.0", "torch.import_s": 2.0, "torch.threads": 8, "torch.gpus": 0}
GPUS = {**TORCH, "gpu.count": 8, "gpu.0.name": "NVIDIA H100", "gpu.driver": "570.86.15", "gpu.cuda": "12.8"}
CUDA12 = {**GPUS, "torch.cuda": "12.8", "torch.gpus": 8}
GLOO = {"torch.gloo": True, "torch.gloo_works": True, "torch.nccl": True}
INFINIBAND = {"infiniband.mlx5_0.firmware": "28.39"}

# check, facts, state, what the evidence and the remedy say
CASES: list[tuple[object, dict[str, Scalar], str, str, str]] = [
    (software.interpreter, PYTHON, "ok", "3.12.3 (/env/bin/python)", ""),
    (software.interpreter, {**PYTHON, "python.version": "3.9.18"}, "fail", "3.10 or newer", "python: "),
    (software.interpreter, {"python.error": "/no: No such file"}, "fail", "/no: No such", "systems.yaml"),
    (software.interpreter, {}, "unknown", "could not be read", ""),
    (software.torch_import, TORCH, "ok", "2.8.0, imports in 2 s, 8 threads", ""),
    (software.torch_import, {**TORCH, "torch.import_s": 21.0}, "warn", "imports in 21 s", "local disk"),
    (
        software.torch_import,
        {**PYTHON, "torch.import_error": "ModuleNotFoundError: No module named 'torch'"},
        "fail",
        "not installed in /env/bin/python",
        "/env/bin/python -m pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu",
    ),
    (
        software.torch_import,
        {**PYTHON, "gpu.count": 1, "torch.import_error": "ModuleNotFoundError"},
        "fail",
        "not installed",
        "pip install torch torchvision$",
    ),
    (
        software.torch_import,
        {**PYTHON, "python.virtual_environment": False, "torch.import_error": "ModuleNotFoundError"},
        "fail",
        "not installed",
        "-m venv .venv && .venv/bin/pip install torch",
    ),
    (
        software.torch_import,
        {**PYTHON, "python.torch": "2.8.0", "torch.import_error": "OSError: libcudart.so.12"},
        "fail",
        "2.8.0 is installed but does not import: OSError: libcudart.so.12",
        "--force-reinstall",
    ),
    (
        software.torch_import,
        {**PYTHON, "python.torch": "2.8.0", "torch.import_error": "did not end within 180 s"},
        "unknown",
        "2.8.0 is installed; its import did not end within 180 s",
        "when the machine is idle",
    ),
    (software.torch_import, {}, "unknown", "could not be tested", ""),
    (software.torchvision, {"torch.torchvision": "0.23.0"}, "ok", "0.23.0", ""),
    (
        software.torchvision,
        {"torch.torchvision_error": "No module"},
        "warn",
        "resnet50",
        "install torchvision",
    ),
    (software.torchvision, {}, "unknown", "could not be tested", ""),
    (software.communication, GLOO, "ok", "gloo works; NCCL is built in", ""),
    (software.communication, {**GLOO, "torch.nccl": False}, "ok", "no NCCL", ""),
    (software.communication, {**GLOO, "torch.nccl": False, "torch.gpus": 8}, "fail", "without NCCL", "pip"),
    (software.communication, {"torch.gloo": False}, "fail", "without gloo", "pip install"),
    (
        software.communication,
        {"torch.gloo": True, "torch.gloo_error": "RuntimeError: can't resolve", "host": "n7"},
        "fail",
        "can't resolve",
        "as root: echo '127.0.0.1 n7' >> /etc/hosts",
    ),
    (software.communication, {}, "unknown", "could not be queried", ""),
    (software.gpu, TORCH, "ok", "none; trials run on the CPU", ""),
    (software.gpu, CUDA12, "ok", "8 × NVIDIA H100", ""),
    (software.gpu, {**CUDA12, "torch.gpus": 2}, "ok", "torch uses 2 of them", ""),
    (software.gpu, GPUS, "fail", "built without CUDA", "pip install --force-reinstall torch torchvision$"),
    (software.gpu, {**CUDA12, "torch.gpus": 0}, "fail", "can't use any", "nvidia-smi"),
    (
        software.gpu,
        {**CUDA12, "torch.gpus": 0, "env.CUDA_VISIBLE_DEVICES": "-1"},
        "fail",
        "can't use any",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    (
        software.gpu,
        {**CUDA12, "torch.gpu_error": "RuntimeError: no kernel image"},
        "fail",
        "no kernel",
        "smi",
    ),
    (software.gpu, {**GPUS, "torch.version": None}, "unknown", "torch could not be queried", ""),
    (
        software.gpu,
        {"pci.nvidia_gpus": 1},
        "warn",
        "1 NVIDIA GPU on the PCI bus",
        "as root: install the driver",
    ),
    (software.gpu, {"pci.nvidia_gpus": 1, "container": "docker"}, "warn", "no driver", "--gpus all"),
    (software.gpu, {"pci.amd_gpus": 4}, "warn", "4 AMD GPU", "ROCm"),
    (software.gpu, {"pci.amd_gpus": 4, "torch.gpus": 4}, "ok", "4 AMD GPU, used by torch", ""),
    (
        software.gpu,
        {"pci.amd_gpus": 4, "gpu.count": 4, "torch.gpus": 4},
        "ok",
        "4 AMD GPU, used by torch",
        "",
    ),
    (software.gpu_driver, {"pci.amd_gpus": 4, "gpu.driver": "6.12.12"}, "ok", "amdgpu 6.12.12", ""),
    (software.gpu_driver, {}, "ok", "none needed", ""),
    (software.gpu_driver, {"pci.nvidia_gpus": 1}, "unknown", "no driver responds", ""),
    (software.gpu_driver, GPUS, "unknown", "reports no CUDA version", ""),
    (software.gpu_driver, CUDA12, "ok", "570.86.15, torch is built for CUDA 12.8", ""),
    (software.gpu_driver, {**CUDA12, "torch.gpus": 0}, "ok", "570.86.15", ""),
    (
        software.gpu_driver,
        {**CUDA12, "torch.gpus": 0, "torch.cuda": "13.0"},
        "fail",
        "570.86.15, torch is built for CUDA 13.0, which needs driver 580",
        "as root: install driver 580 or newer; or install a torch built for CUDA 12.8 or older",
    ),
    (software.gpu_driver, {**CUDA12, "torch.cuda": "13.0"}, "ok", "CUDA 13.0", ""),  # forward compatibility
    (software.gpu_driver, {**CUDA12, "torch.gpus": 0, "gpu.driver": "525.60.13"}, "ok", "525.60.13", ""),
    (
        software.gpu_driver,
        {**CUDA12, "torch.gpus": 0, "gpu.driver": "520.61"},
        "fail",
        "needs driver 525",
        "",
    ),
    (
        software.gpu_driver,
        {**CUDA12, "torch.gpus": 0, "torch.cuda": "11.8", "gpu.driver": "450.80.01"},
        "fail",
        "needs driver 450.80.2",
        "as root",
    ),
    (
        software.gpu_driver,
        {**CUDA12, "torch.gpus": 0, "torch.cuda": "14.0"},
        "unknown",
        "does not know which driver",
        "",
    ),
    (machine.cores, {"cpu.allowed": 8, "cpu.logical": 64}, "ok", "8 allowed of 64", ""),
    (machine.cores, {"cpu.allowed": 8, "cpu.quota": 8.0}, "ok", "8 allowed", ""),
    (
        machine.cores,
        {"cpu.allowed": 8, "cpu.quota": 2.5},
        "warn",
        "throttled to the time of 2.5 cores",
        "--cpuset-cpus",
    ),
    (machine.cores, {"cpu.allowed": 1, "cpu.logical": 2}, "warn", "1 allowed of 2", "shapes: [1x1]"),
    (machine.cores, {}, "unknown", "could not be read", ""),
    (
        machine.memory,
        {"memory.total_bytes": 64 * GB, "memory.available_bytes": 60 * GB},
        "ok",
        "64 GB, 60 GB",
        "",
    ),
    (
        machine.memory,
        {"memory.total_bytes": 64 * GB, "memory.limit_bytes": 3 * GB, "memory.available_bytes": 60 * GB},
        "warn",
        "3 GB (a cgroup's limit; 64 GB here)",
        "cgroup",
    ),
    (
        machine.memory,
        {"memory.total_bytes": 64 * GB, "memory.available_bytes": GB},
        "fail",
        "1 GB free",
        "ps aux",
    ),
    (machine.memory, {"memory.total_bytes": GB}, "fail", "1 GB", "ps aux"),
    (machine.memory, {}, "unknown", "could not be read", ""),
    (machine.load, {"load.1min": 0.3, "cpu.allowed": 2}, "ok", "0.3 over the last minute", ""),
    (machine.load, {"load.1min": 0.6, "cpu.allowed": 2}, "warn", "something else", "ps aux --sort=-pcpu"),
    (machine.load, {"load.1min": 0.6}, "unknown", "could not be read", ""),
    (machine.clock_source, {"clock.source": "tsc"}, "ok", "tsc", ""),
    (machine.clock_source, {"clock.source": "kvm-clock"}, "ok", "kvm-clock", ""),
    (
        machine.clock_source,
        {"clock.source": "hpet", "clock.available": "tsc hpet acpi_pm"},
        "warn",
        "hpet",
        "as root: echo tsc > /sys/devices",
    ),
    (
        machine.clock_source,
        {"clock.source": "acpi_pm", "clock.available": "acpi_pm"},
        "warn",
        "acpi_pm",
        "dmesg",
    ),
    (machine.clock_source, {"clock.source": "sundial"}, "unknown", "sundial", ""),
    (machine.clock_source, {}, "unknown", "could not be read", ""),
    (machine.governor, {"cpu.governor": "performance"}, "ok", "performance", ""),
    (machine.governor, {"cpu.governor": "performance,powersave"}, "warn", "powersave", "as root: cpupower"),
    (
        machine.governor,
        {"virtualisation": "kvm"},
        "unknown",
        "the host controls it",
        "ask the host's administrator",
    ),
    (machine.governor, {"virtualisation": "none"}, "unknown", "the kernel does not report a governor", ""),
    (machine.smt, {"cpu.smt": False}, "ok", "off", ""),
    (
        machine.smt,
        {"cpu.smt": True, "cpu.logical": 64, "cpu.cores": 32},
        "warn",
        "64 threads on 32",
        "pin_cpus",
    ),
    (machine.smt, {"cpu.smt": True}, "warn", "on, so", "as root: echo off"),
    (machine.smt, {}, "unknown", "does not say", ""),
    (machine.disk, {"disk.free_bytes": 50 * GB, "disk.filesystem": "ext4"}, "ok", "50 GB free", ""),
    (machine.disk, {"disk.free_bytes": 5 * GB}, "warn", "5 GB free", "ASSAY_RUNS"),
    (machine.disk, {"disk.free_bytes": GB // 2}, "fail", "500 MB free", "ASSAY_RUNS"),
    (machine.disk, {}, "unknown", "could not be read", ""),
    (machine.open_files, {"limits.nofile": 1024}, "ok", "1,024 allowed", ""),
    (machine.open_files, {"limits.nofile": "unlimited"}, "ok", "unlimited", ""),
    (machine.open_files, {"limits.nofile": 512, "limits.nofile_hard": 65536}, "warn", "512", "^ulimit -n"),
    (machine.open_files, {"limits.nofile": 64, "limits.nofile_hard": 64}, "fail", "64", "as root"),
    (machine.open_files, {}, "unknown", "could not be read", ""),
    (machine.locked_memory, {"limits.memlock_bytes": "unlimited", **INFINIBAND}, "ok", "unlimited", ""),
    (machine.locked_memory, {"limits.memlock_bytes": 65536}, "ok", "enough without InfiniBand", ""),
    (machine.locked_memory, {"limits.memlock_bytes": 65536, **INFINIBAND}, "fail", "65.54 kB", "as root"),
    (
        machine.locked_memory,
        {"limits.memlock_bytes": 65536, "container": "docker", **INFINIBAND},
        "fail",
        "65.54 kB",
        "--ulimit memlock=-1",
    ),
    (machine.locked_memory, {}, "unknown", "could not be read", ""),
    (machine.shared_memory, {"shm.size_bytes": 2 * GIB, "shm.free_bytes": 2 * GIB}, "ok", "free of", ""),
    (
        machine.shared_memory,
        {"shm.size_bytes": 2 * GIB, "shm.free_bytes": GIB // 2},
        "warn",
        "free",
        "ls -lS",
    ),
    (
        machine.shared_memory,
        {"shm.size_bytes": 2**26, "shm.free_bytes": 2**26},
        "warn",
        "may fail",
        "as root",
    ),
    (
        machine.shared_memory,
        {"shm.size_bytes": GIB, "shm.free_bytes": GIB, "gpu.count": 16, "container": "docker"},
        "warn",
        "may fail",
        "docker run --shm-size=2g",
    ),
    (machine.shared_memory, {}, "unknown", "could not be read", ""),
    (machine.surroundings, {"virtualisation": "none"}, "ok", "no hypervisor, no sign of a container", ""),
    (
        machine.surroundings,
        {"virtualisation": "kvm", "container": "podman", "cgroup.version": 2},
        "ok",
        "(kvm), container (podman), cgroup v2",
        "",
    ),
    (machine.surroundings, {}, "unknown", "can't tell", ""),
]


@pytest.mark.parametrize(
    ("check", "facts", "state", "evidence", "remedy"),
    CASES,
    ids=[f"{check.__name__}-{state}-{number}" for number, (check, _, state, _, _) in enumerate(CASES)],  # type: ignore[attr-defined]
)
def test_a_check_says_what_it_found_and_what_mends_it(
    check: object, facts: dict[str, Scalar], state: str, evidence: str, remedy: str
) -> None:
    found = check({name: value for name, value in facts.items() if value is not None})  # type: ignore[operator]
    assert found.state == state
    assert evidence in found.evidence
    if remedy.startswith("^"):
        assert found.remedy.startswith(remedy[1:])
    elif remedy.endswith("$"):
        assert found.remedy.endswith(remedy[:-1])
    else:
        assert remedy in found.remedy


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_can_be_fine_and_can_not_know(check: object) -> None:
    assert {case[2] for case in CASES if case[0] is check} >= {"ok", "unknown"}


@pytest.mark.parametrize("case", [case for case in CASES if case[2] in ("warn", "fail")])
def test_what_is_wrong_comes_with_a_remedy(case: tuple[object, dict[str, Scalar], str, str, str]) -> None:
    found = case[0]({name: value for name, value in case[1].items() if value is not None})  # type: ignore[operator]
    assert found.remedy


@pytest.mark.parametrize(
    ("check", "facts", "of_place"),
    [
        (
            software.torch_import,
            {**PYTHON, "python.virtual_environment": False, "torch.import_error": "ModuleNotFoundError"},
            {
                "ssh": "on that host: /env/bin/python -m venv",
                "node": "once, on a disk that all nodes share: /env/bin/python -m venv",
                "container": "assay stack containerfile",
                "pod": "assay stack containerfile",
            },
        ),
        (
            software.communication,
            {"torch.gloo": True, "torch.gloo_error": "can't resolve", "host": "n7"},
            {"ssh": "on that host, as root: echo", "pod": "set `env: {GLOO_SOCKET_IFNAME: lo}`"},
        ),
        (
            software.gpu,
            {**TORCH, "pci.nvidia_gpus": 1, "container": "kubernetes"},
            {"container": "`devices: [nvidia.com/gpu=all]`", "pod": "{accelerator: {nvidia.com/gpu: 1}}"},
        ),
        (
            machine.cores,
            {"cpu.allowed": 8, "cpu.quota": 2.5},
            {"container": "`cpuset: 0-7`", "pod": "`pin_cpus: true`"},
        ),
        (
            machine.locked_memory,
            {"limits.memlock_bytes": 65536, "container": "kubernetes", **INFINIBAND},
            {"container": "`ulimits: {memlock: -1}`", "pod": "`capabilities: [IPC_LOCK]`"},
        ),
        (
            machine.shared_memory,
            {"shm.size_bytes": 2**26, "shm.free_bytes": 2**26, "container": "kubernetes"},
            {"container": "`shm_size: 1g`", "pod": "`shm: 1Gi`"},
        ),
        (
            machine.governor,
            {"cpu.governor": "powersave"},
            {
                "ssh": "on that host, as root",
                "node": "on that node, as root",
                "container": "outside the container, as root",
                "pod": "on the node, as root",
            },
        ),
    ],
)
def test_a_remedy_fits_where_the_check_ran(
    check: object, facts: dict[str, Scalar], of_place: dict[str, str]
) -> None:
    for place, words in of_place.items():
        there: dict[str, Scalar] = {**facts, PLACE: place}
        made: Check = placed(there, check(there))  # type: ignore[operator]
        assert words in made.remedy
        if place in ("container", "pod"):
            assert not any(of_host in made.remedy for of_host in ("docker run", "-m venv", "/etc/"))
    assert check(facts).remedy not in of_place.values()  # type: ignore[operator]


def test_nothing_known_is_never_called_fine_except_what_is_seen_to_be_missing() -> None:
    fine = {check.name for check in examine({}) if check.state != "unknown"}
    assert fine == {"gpu", "gpu driver"}
    looked = {check.name for check in examine({"host.checked": True}) if check.state != "unknown"}
    assert looked == fine | {"fabric"}


@pytest.mark.long
def test_an_interpreter_that_does_not_exist_fails_and_the_machine_is_told_all_the_same(
    tmp_path: Path,
) -> None:
    facts = facts_here(str(tmp_path / "python"), {}, tmp_path)
    assert "No such file" in str(facts["python.error"])
    assert facts["memory.total_bytes"]
    assert not any(name.startswith(("python.v", "package.", "torch.")) for name in facts)
    assert software.interpreter(facts).state == "fail"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.long
def test_an_interpreter_that_is_something_else_is_quoted(tmp_path: Path) -> None:
    python = script(tmp_path / "python", "echo 'python: wrong architecture' >&2; exit 3")
    facts = facts_here(python, {}, tmp_path)
    assert str(facts["python.error"]).startswith(python)
    assert "wrong architecture" in str(facts["python.error"])


def test_a_torch_that_kills_its_interpreter_is_a_failed_check(tmp_path: Path) -> None:
    python = script(
        tmp_path / "python",
        f'case $1 in *torch_check.py) kill -SEGV $$;; *) exec {sys.executable} "$1";; esac',
    )
    facts = facts_here(python, {}, tmp_path)
    assert facts["python.version"]
    check = software.torch_import(facts)
    assert check.state == "fail"
    assert "exit code -11" in str(facts["torch.import_error"])


def test_an_interpreter_without_torch_is_told_from_one_with_a_broken_torch(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open')")
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.8.0+cu128'\n")
    facts = facts_here(sys.executable, {"PYTHONPATH": str(tmp_path)}, tmp_path)
    check = software.torch_import(facts)
    assert check.evidence == (
        "2.8.0+cu128 is installed but does not import: OSError: libcudart.so.12: cannot open"
    )


@pytest.mark.long
@pytest.mark.torch
def test_the_doctor_tells_of_this_machine_and_its_exit_code_follows(tmp_path: Path) -> None:
    done = CliRunner().invoke(assay, ["doctor", "--json", "--runs", str(tmp_path / "not" / "yet")])
    document = json.loads(done.stdout)
    assert document["schema"] == "assay.doctor/1"
    by_name = {check["name"]: check for check in document["checks"]}
    assert len(by_name) >= len(CHECKS)
    assert (
        by_name["python"]["state"] == by_name["torch"]["state"] == by_name["communication"]["state"] == "ok"
    )
    assert document["facts"]["torch.version"] in by_name["torch"]["evidence"]
    fails = any(check["state"] == "fail" for check in document["checks"])
    assert done.exit_code == (EXIT_ENVIRONMENT if fails else EXIT_OK)
    assert not (tmp_path / "not").exists()


def test_a_planted_secret_is_not_among_the_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NCCL_TOKEN", "hunter2-hunter2")
    python = script(
        tmp_path / "python", f'case $1 in *torch_check.py) exit 1;; *) exec {sys.executable} "$1";; esac'
    )
    facts = facts_here(python, {"TORCH_SECRET": "hunter2-hunter2"}, tmp_path)
    assert facts["env.NCCL_TOKEN"] == facts["env.TORCH_SECRET"] == "(redacted)"
    assert "hunter2" not in json.dumps(facts)


SOME = {**TORCH, "cpu.allowed": 1, "limits.nofile": 64}
EXPECTED = """\
✓ python         3.12.3 (/env/bin/python)
✗ open files     64 allowed; jobs with many processes open more sockets
                 → ulimit -n 65536
! cores          1 allowed: two processes would share it
                 → allow more cores; until then, measure with one worker only (`shapes: [1x1]`)
? communication  torch could not be queried
"""


def show(checks: list[Check]) -> None:
    terminal.show(Console(highlight=False), doctor_question.Checkup({}, tuple(checks)).view())


def test_the_list_reads_well_and_never_breaks_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    checks = (software.interpreter, machine.open_files, machine.cores, software.communication)
    show([check(SOME) for check in checks])
    assert capsys.readouterr().out == EXPECTED + "\nNot ready: 1 to fix, 1 to consider, 1 unknown, 1 fine.\n"


def test_colour_is_used_on_a_terminal_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    show([Check("cores", "fail", "2 allowed")])
    assert "\x1b[1;31m✗" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    show([Check("cores", "fail", "2 allowed")])
    assert "\x1b[3" not in capsys.readouterr().out


def test_a_system_of_another_name_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    systems = tmp_path / "systems.yaml"
    systems.write_text("dgx:\n  launcher: local\n  python: /opt/python\n")
    assert system_named("dgx", systems).options.python == "/opt/python"
    with pytest.raises(InputError, match="did you mean dgx"):
        system_named("dgxx", systems)
    with pytest.raises(InputError, match="also name one of its systems: dgx, local"):
        system_named(None, systems)
    systems.write_text("dgx:\n  launcher: local\n  pyton: /opt/python\n")
    with pytest.raises(InputError, match=r"systems\.yaml:3"):
        system_named("dgx", systems)


def test_a_system_is_looked_for_beside_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert system_named(None, None).options.python is None
    assert system_named("local", None).options.python is None
    with pytest.raises(InputError, match="does not exist"):
        system_named("dgx", None)
    (tmp_path / "systems.yaml").write_text("dgx: {launcher: local, python: /opt/python}\n")
    assert system_named("dgx", None).options.python == "/opt/python"


def test_the_disk_is_that_on_which_runs_would_come_to_lie(tmp_path: Path) -> None:
    assert doctor_question._existing(tmp_path / "a" / "b") == tmp_path
    assert doctor_question._existing(Path()) == Path.cwd()


@pytest.mark.parametrize("name", ["doctor", "diff"])
def test_the_help_keeps_each_example_on_its_own_line(name: str) -> None:
    text = CliRunner().invoke(assay, [name, "--help"]).stdout
    assert "\\b" not in text
    assert f"\n    assay {name} " in text.partition("Examples:")[2]


def no_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/no-such-directory"])


def test_a_machine_without_a_place_for_temporary_files_is_told_to_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_temporary_directory(monkeypatch)
    facts = facts_here(sys.executable, {}, tmp_path)
    (check,) = [check for check in examine(facts) if check.name == "disk"]
    assert (check.state, facts["python.version"]) == ("fail", platform.python_version())
    assert "TMPDIR" in check.remedy
    with pytest.raises(HostError, match="set TMPDIR"):
        facts_here(sys.executable, {}, Path("/proc"))


def test_a_command_that_finds_no_place_for_temporary_files_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_temporary_directory(monkeypatch)
    monkeypatch.setattr(cli.assay, "main", lambda **_: tempfile.gettempdir())
    done = command_line.assay(tmp_path, "export")
    assert done.returncode == 5
    assert done.stderr.startswith("assay: no directory for temporary files can be written")
