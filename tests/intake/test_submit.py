"""`assay submit`: the folder that MLPerf asks for, and what MLPerf's own checkers say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import submission
from assay.cli import assay
from assay.submission import FIELDS, agreed, described

SYSTEM = "AS-4125GS-TNRT-RedHat-OpenShift"
NODE = {
    "host": "n1", "boot_id": "1", "os": "Debian 12", "cpu.model": "EPYC", "cpu.cores": 128, "cpu.sockets": 2,
    "cpu.logical": 256, "memory.total_bytes": 2 * 10**12, "gpu.count": 8, "gpu.0.name": "H100",
    "gpu.0.memory_bytes": 85_899_345_920, "gpu.driver": "580.1",
    "python.torch": "2.8.0", "python.nccl": "2.27",
    "net.eth0.bits_per_s": 10**11, "net.eth1.bits_per_s": 10**11,
}  # fmt: skip


def submit(*sources: str | Path, into: Path, json_out: bool = False, runs: Path | None = None) -> Result:
    argv = ["submit", *map(str, sources), "--round", "v3.1", "--submitter", "Example", "-o", str(into)]
    argv += ["--json"] if json_out else []
    return CliRunner().invoke(assay, [*argv, *(["--runs", str(runs)] if runs else [])])


@pytest.fixture
def results(mlperf_logs: Path) -> Path:
    return mlperf_logs / "v3.1" / "Supermicro-RedHat" / SYSTEM / "resnet"


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without MLPerf's checkers, which take seconds to start."""
    monkeypatch.setattr(submission, "check", lambda *_: [])


@pytest.mark.long
def test_real_results_become_a_folder_that_mlperfs_checkers_accept(results: Path, tmp_path: Path) -> None:
    first = submit(results, into=tmp_path)
    assert first.exit_code == 1
    assert "resnet: 5 runs" in first.output
    assert "22 of 33 fields known" in first.output
    assert 'cooling                            like "air" or "liquid"' in first.output
    system = tmp_path / "Example" / "systems" / f"{SYSTEM}.json"
    fields = json.loads(system.read_text())
    assert fields["accelerator_model_name"] == "NVIDIA H100-PCIe-80GB"
    assert fields["cooling"] is None
    assert [*fields][: len(FIELDS)] == [*FIELDS]
    system.write_text(json.dumps({name: "air" if value is None else value for name, value in fields.items()}))
    code = tmp_path / "Example" / "benchmarks" / "resnet"
    (code / "README.md").write_text("how to run it")
    second = submit(results, into=tmp_path)
    assert second.exit_code == 0, second.output
    assert "33 of 33 fields known" in second.output
    assert json.loads(system.read_text())["cooling"] == "air"
    assert "mlperf-logging finds no problem under the rules of v3.1" in second.output
    kept = tmp_path / "Example" / "results" / SYSTEM / "resnet"
    assert (kept / "result_0.txt").read_bytes() == (results / "result_0.txt").read_bytes()
    assert (kept / "scaling.json").is_file()


@pytest.mark.long
def test_what_the_checkers_find_comes_with_what_mends_it(results: Path, tmp_path: Path) -> None:
    few = tmp_path / SYSTEM / "resnet"
    few.mkdir(parents=True)
    for number in range(4):
        text = (results / f"result_{number}.txt").read_text()
        if number < 2:  # two logs that break a rule: one alone is accepted
            text = "".join(
                line for line in text.splitlines(True) if "gradient_accumulation_steps" not in line
            )
        (few / f"result_{number}.txt").write_text(text)
    said = submit(few, into=tmp_path / "out", json_out=True)
    assert said.exit_code == 1
    findings = {f["text"]: f["remedy"] for f in json.loads(said.output)["findings"] if f["error"]}
    [count] = [remedy for text, remedy in findings.items() if "found 4, expected 5" in text]
    assert "exactly 5 runs" in count
    [broken] = [remedy for text, remedy in findings.items() if "2 files do not comply" in text]
    assert "assay score RUNS --rules" in broken


@pytest.mark.usefixtures("unchecked")
def test_imported_runs_give_the_folder_that_their_files_give(results: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    done = CliRunner().invoke(assay, ["import", str(results), "--name", "sm", "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    assert submit("sm", into=tmp_path / "a", runs=runs, json_out=True).exit_code == 1  # fields are missing
    submit(results, into=tmp_path / "b")
    for file in sorted((tmp_path / "b").rglob("result_*.txt")):
        assert (tmp_path / "a" / file.relative_to(tmp_path / "b")).read_bytes() == file.read_bytes()


@pytest.mark.usefixtures("unchecked")
def test_nothing_is_overwritten_and_nothing_half_written(results: Path, tmp_path: Path) -> None:
    submit(results, into=tmp_path)
    changed = tmp_path / "Example" / "results" / SYSTEM / "resnet" / "result_3.txt"
    changed.write_text("mine")
    systems = tmp_path / "Example" / "systems" / f"{SYSTEM}.json"
    systems.write_text("[]")
    refused = submit(results, into=tmp_path)
    assert refused.exit_code != 0
    assert "contains other results (result_3.txt)" in str(refused.exception)
    assert "is not a JSON object" in str(refused.exception)  # all at once
    assert changed.read_text() == "mine"


def test_without_mlperf_logging_the_folder_is_there_and_the_checks_are_owed(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "find_spec", lambda _name: None)
    said = submit(results, into=tmp_path)
    assert "pip install mlperf-logging" in str(said.exception)
    assert (tmp_path / "Example" / "systems").is_dir()


@pytest.mark.parametrize("round_", ["v0.5", "v99.0", "latest"])
def test_a_round_without_checkers_is_refused_with_those_that_have_some(round_: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(assay, ["submit", str(tmp_path), "--round", round_, "--submitter", "E"])
    assert said.exit_code == 2
    assert "--round" in said.output


def test_what_the_probe_knows_fills_the_description() -> None:
    two = [NODE, {**NODE, "host": "n2"}]
    fields = described(two)
    assert fields["number_of_nodes"] == "2"
    assert fields["host_processor_core_count"] == "64"
    assert fields["host_memory_capacity"] == "2 TB as the kernel counts it"
    assert fields["accelerator_memory_capacity"] == "85.9 GB"
    assert fields["host_networking"] == "2x 100 Gbit/s"
    assert fields["framework"] == "PyTorch 2.8.0"
    assert fields["other_software_stack"] == {"driver": "580.1", "nccl": "2.27"}
    assert "host_processor_vcpu_count" not in fields  # bare metal
    assert not {"cooling", "host_processor_caches"} & set(fields)
    assert "host_processor_model_name" not in described([NODE, {**NODE, "cpu.model": "Xeon"}])
    assert described([{"unreadable": "no probe"}]) == {}


def test_runs_that_differ_leave_a_field_open_and_say_so() -> None:
    alike, differing = agreed(
        [{"cooling": "air", "framework": "a"}, {"cooling": "air", "framework": "b"}, {}]
    )
    assert alike == {"cooling": "air"}
    assert differing == {"framework": ["a", "b"]}
