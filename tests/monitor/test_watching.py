"""`assay watch` shows a job that Assay did not start, and leaves it alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
import nvml_stand_in
from assay import api
from assay.errors import InputError
from command_line import assay as typed

BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", BUSY.format(60)]) as process:
        yield process
        process.kill()


def test_a_process_is_watched_until_it_ends(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY.format(3)]) as process:
        said = typed(tmp_path, "watch", "--pid", str(process.pid), "--every", "0.2s")
    assert (said.returncode, said.stderr) == (0, "")
    *lines, last = said.stdout.splitlines()
    assert len(lines) >= 2
    assert "cores on average" in last


@pytest.mark.long
def test_json_has_a_document_per_sample_and_the_summary(
    busy: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml_stand_in.library(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("NVML_STAND_IN", nvml_stand_in.table(tmp_path, "0.5 0 field83 623456", gpus=1))
    said = typed(tmp_path, "watch", "--pid", str(busy.pid), "--every", "0.2", "--for", "1.5", "--json")
    assert said.returncode == 0, said.stderr
    *samples, last = map(json.loads, said.stdout.splitlines())
    assert samples[-1]["gpus"]["0"]["utilization_percent"] == 97
    assert samples[-1]["per_second"]["job_cpu_seconds"] > 0
    assert last["summary"]["gpu_0_energy_joules"] == pytest.approx(500, rel=0.01)
    assert last["summary"]["gpu_0_mean_utilization_percent"] == 97


def test_no_such_process_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    said = typed(tmp_path, "watch", "--pid", "4194305")
    assert (said.returncode, said.stdout) == (4, "")
    assert said.stderr == "assay: there is no process 4194305 on this machine; `ps -ef` lists the processes\n"


@pytest.mark.parametrize("every", ["0", "1ms", "2h", "soon"])
def test_a_time_between_samples_that_is_none_is_refused(every: str) -> None:
    with pytest.raises(InputError, match=r"choose between|is not a (duration|quantity)"):
        next(api.watch(1, every=every))


def test_the_sampler_ends_with_the_loop(busy: subprocess.Popen[bytes]) -> None:
    for watching in api.watch(busy.pid, every=0.1):
        if len(watching.speeds) and watching.latest[None].at_s > 0.2:
            break
    del watching
    sampler = str(Path(assay.__file__).parents[1] / "assay_payloads/sampling/sampler.py")
    running = subprocess.run(["pgrep", "-f", f"{sampler} {busy.pid}"], capture_output=True, text=True)
    assert running.stdout == ""
    assert busy.poll() is None
