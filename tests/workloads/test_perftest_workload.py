"""Workload perftest: its ports and directions, its reports of every version, and what it says where it fails.

No machine for tests has an RDMA device: ports are files beside /sys, and where something is to be measured a
program of the same name meets the other end over a real socket and prints what was recorded elsewhere.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from test_perftest import GBITS, JSON, LATENCY, MIB, OLD, UNQUOTED

from assay.errors import InputError
from assay.payload_files import lay_out
from assay.records import Reading, Shape
from assay.workloads.point_to_point import PERFTEST, PerftestParams
from assay_payloads.exchange import perftest
from conftest import SUPPORT, long_but, require
from payload_processes import end, free_port, start, torchrun

PROGRAM = SUPPORT / "perftest_program.py"
UP = ("mlx5_0:1", "ACTIVE", "InfiniBand", "200 Gb/sec (4X HDR)")


def write_ports(tree: Path, **states: str) -> Path:
    """A tree as /sys/class has it: `mlx5_0="4: ACTIVE"`."""
    for device, state in states.items():
        place = tree / "infiniband" / device / "ports" / "1"
        place.mkdir(parents=True)
        facts = {"state": state, "link_layer": "InfiniBand", "rate": "200 Gb/sec (4X HDR)"}
        for name, text in facts.items():
            (place / name).write_text(f"{text}\n")
    return tree


def test_ports_are_read_with_state_link_layer_and_rate(tmp_path: Path) -> None:
    write_ports(tmp_path, mlx5_0="4: ACTIVE", mlx5_1="1: DOWN")
    assert perftest.ports(tmp_path / "infiniband") == [UP, ("mlx5_1:1", "DOWN", *UP[2:])]


def test_a_port_that_can_not_be_measured_is_left_out_with_the_reason() -> None:
    up = perftest.Port(*UP)
    roce = up._replace(name="mlx5_3:1", link_layer="Ethernet")
    of_0 = [up, up._replace(name="mlx5_1:1", state="DOWN"), up._replace(name="mlx5_2:1"), roce]
    of_1 = [up, up._replace(name="mlx5_1:1"), roce._replace(link_layer="InfiniBand")]
    usable, left_out = perftest.paired(of_0, of_1, [])
    assert usable == {"mlx5_0:1": "InfiniBand, 200 Gb/sec (4X HDR)"}
    assert left_out == {
        "mlx5_1:1": "DOWN on worker 0",
        "mlx5_2:1": "worker 1 has none of this name",
        "mlx5_3:1": "Ethernet on worker 0 and InfiniBand on worker 1",
    }


def test_devices_that_are_asked_for_are_measured_alone_and_an_unknown_one_is_named() -> None:
    up = perftest.Port(*UP)
    both = [up, up._replace(name="mlx5_1:1"), up._replace(name="mlx5_1:2")]
    usable, left_out = perftest.paired(both, both, ["mlx5_0", "mlx5_1:2", "mlx4_0"])
    assert [*usable] == ["mlx5_0:1", "mlx5_1:2"]
    assert left_out == {"mlx5_1:1": "not asked for", "mlx4_0": "neither worker has it"}


def test_ends_of_another_rate_are_both_told() -> None:
    up = perftest.Port(*UP)
    usable, _ = perftest.paired([up], [up._replace(rate="100 Gb/sec (4X EDR)")], [])
    assert usable == {"mlx5_0:1": "InfiniBand, 200 Gb/sec (4X HDR) and InfiniBand, 100 Gb/sec (4X EDR)"}


@pytest.mark.parametrize(
    "wrong", [{"directions": ["both"]}, {"queue_pairs": 4}], ids=["both directions", "queue pairs"]
)
def test_a_latency_test_refuses_what_only_bandwidth_has(wrong: dict[str, Any]) -> None:
    PerftestParams(program="ib_write_bw", **wrong)
    with pytest.raises(ValidationError, match=r"ib_send_lat (has|uses)"):
        PerftestParams(program="ib_send_lat", **wrong)


@pytest.mark.parametrize("shape", [Shape(1, 1), Shape(1, 8), Shape(4, 1), Shape(3, 1, 3)], ids=str)
def test_a_shape_without_two_ends_is_refused(shape: Shape) -> None:
    with pytest.raises(InputError, match="between two workers"):
        PERFTEST.task(PerftestParams(), shape, 1)


def test_the_first_metric_is_what_every_version_prints() -> None:
    assert PERFTEST.reader.metrics(PerftestParams())[0].name == "bandwidth"
    assert PERFTEST.reader.metrics(PerftestParams(program="ib_read_lat"))[0].name == "latency_median"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where one works, with two active ports and one that is down; skips where none can be shown."""
    able = os.geteuid() == 0 and shutil.which("unshare") is not None
    require("mount-namespaces", able, "needs root and unshare, to show ports below /sys")
    write_ports(tmp_path / "sys", mlx5_0="4: ACTIVE", mlx5_1="1: DOWN", mlx5_2="4: ACTIVE")
    return tmp_path


def where_ports_are(directory: Path, command: str) -> list[str]:
    """The command in a mount namespace where /sys/class is the directory's own."""
    shown = f'mount --bind "{directory}/sys" /sys/class && {command}'
    return ["unshare", "--mount", "sh", "-c", shown]


def stand_in(directory: Path, name: str = "ib_write_bw", **recorded: str) -> str:
    """The directory of a program of this name."""
    place = directory / "bin"
    place.mkdir(exist_ok=True)
    program = place / name
    program.write_text(f"#!{sys.executable}\n{PROGRAM.read_text()}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for file, text in ({"version": "Version: 6.06", "help": "", "output": MIB} | recorded).items():
        (place / file).write_text(text)
    return str(place)


def run(directory: Path, **given: Any) -> tuple[Reading, str]:
    """Both ends run as their task says: what is read of them, and what stood on standard error."""
    params = PerftestParams(**{"directory": str(directory / "bin"), **given})
    task = PERFTEST.task(params, Shape(2, 1), 1)
    lay_out(directory, {file.name: file.data for file in task.files})
    logs = {f"rank-{rank}.log": directory / f"rank-{rank}.log" for rank in range(2)}
    argv = where_ports_are(directory, shlex.join(task.argv).replace("'{python}'", sys.executable))
    port = free_port()
    ends = [start(argv, directory, torchrun(rank, 2, port), log) for rank, log in enumerate(logs.values())]
    errors = [end(process)[1] for process in ends]
    return PERFTEST.reader.read(logs, params), "".join(errors)


def values(reading: Reading, metric: str) -> dict[tuple[Any, ...], float]:
    assert reading.problems == ()
    return {tuple(m.labels.values()): m.value for m in reading.measurements if m.metric == metric}


def test_each_active_port_is_measured_in_each_direction(directory: Path) -> None:
    stand_in(directory)
    reading, _ = run(directory, directions=["0-to-1", "1-to-0", "both"])
    assert values(reading, "bandwidth") == {
        (device, 1, direction, 65536): 11030.45 * 2**20
        for device in ("mlx5_0", "mlx5_2")
        for direction in ("0-to-1", "1-to-0", "both")
    }
    assert reading.facts["ports_left_out"] == "mlx5_1:1: DOWN on worker 0"
    assert reading.facts["port.mlx5_0:1"] == "InfiniBand, 200 Gb/sec (4X HDR)"
    assert (reading.facts["perftest_version"], reading.facts["mtu"]) == ("6.06", "4096")


@pytest.mark.parametrize(
    ("name", "recorded", "metric", "expected"),
    [
        ("ib_write_bw", {"output": OLD, "version": "Version: 5.60"}, "bandwidth", [3293.56 * 2**20]),
        ("ib_read_bw", {"output": GBITS}, "bandwidth", [8 * 7.498617e6, 196.92e9 / 8]),
        ("ib_send_lat", {"output": LATENCY}, "latency_median", [1.79e-6]),
        ("ib_write_bw", {"help": "--out_json", "json": JSON}, "bandwidth", [2229.27 * 2**20]),
        (
            "ib_write_lat",
            {"help": "--out_json", "output": LATENCY, "json": UNQUOTED},
            "latency_median",
            [2.42e-6],
        ),
    ],
    ids=["before rates", "Gb/s", "latency", "JSON", "unquoted JSON"],
)
def test_reports_of_every_version_are_read(
    directory: Path, name: str, recorded: dict[str, str], metric: str, expected: list[float]
) -> None:
    stand_in(directory, name, **recorded)
    reading, _ = run(directory, program=name, devices=["mlx5_0"], directions=["0-to-1"])
    assert list(values(reading, metric).values()) == pytest.approx(expected)


def test_a_write_comes_from_the_client_and_a_read_from_the_server(directory: Path) -> None:
    clients = {}
    for name in ("ib_write_bw", "ib_read_bw"):
        stand_in(directory, name)
        reading, _ = run(directory, program=name, devices=["mlx5_0"], directions=["0-to-1"])
        clients[name] = {m.file for m in reading.measurements}
    assert clients == {"ib_write_bw": {"rank-0.log"}, "ib_read_bw": {"rank-1.log"}}


@pytest.mark.parametrize("end", long_but(1, ["client", "server"]))
@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Couldn't allocate MR\nfailed to create mr", "on OpenShift, use a MachineConfig"),
        (" Port number 1 state is Down", "ibstatus"),
        ("Completion with error at client\n Failed status 12: wr_id 0", "flow control"),
        (" Unable to Connect the HCA's through the link", "gid_index"),
        ("ib_write_bw: unrecognized option '--use_cuda=0'", "a build with CUDA"),
        ("Segmentation fault", "exited 1: Segmentation fault"),
    ],
    ids=["locked memory", "port down", "lost messages", "no way", "no such option", "unknown"],
)
def test_a_failure_of_either_end_is_told_by_both_with_what_to_do(
    directory: Path, said: str, remedy: str, end: str
) -> None:
    stand_in(directory, failing=end, failure=said)
    reading, errors = run(directory, devices=["mlx5_0"], cuda_device=0)
    assert errors.count(said.splitlines()[0].strip()) == 2
    assert errors.count(remedy) == 2
    assert reading.measurements == ()
    assert "the log of rank 0 ends before the program's end" in reading.problems


def test_ends_with_different_versions_are_refused(directory: Path) -> None:
    stand_in(directory)
    (directory / "bin" / "ib_write_bw").write_text("#!/bin/sh\necho Version: 5.$RANK$RANK\n")
    _, errors = run(directory)
    assert "this end has perftest 5.00, but rank 1 has 5.11" in errors
    assert "install the same version on both" in errors


def test_a_node_whose_ports_are_all_down_says_so(directory: Path) -> None:
    stand_in(directory)
    _, errors = run(directory, devices=["mlx5_1"])
    assert "mlx5_1:1: DOWN on worker 0" in errors


def test_a_program_that_is_not_there_is_named_by_both(directory: Path) -> None:
    _, errors = run(directory)
    assert errors.count("bin/ib_write_bw can't be started: No such file or directory") == 2


def test_a_machine_without_rdma_says_so(directory: Path) -> None:
    shutil.rmtree(directory / "sys" / "infiniband")
    _, errors = run(directory)
    assert errors.count("worker 0 has no RDMA device") == 2


def test_a_warning_about_the_clock_is_a_fact(directory: Path) -> None:
    stand_in(directory, "ib_send_lat", output=LATENCY)
    reading, _ = run(directory, program="ib_send_lat", devices=["mlx5_0"])
    assert reading.facts["cpu_clock_warning"] is True


def assay_run(directory: Path, params: Mapping[str, Any]) -> dict[str, Any]:
    """One trial, as `assay show --json` has it."""
    suite = {"suite": "rdma", "workload": "perftest", "params": params, "shapes": ["2x1"]}
    (directory / "suite.yaml").write_text(json.dumps({**suite, "systems": ["local"], "repeats": 1}))
    assay = f"{sys.executable} -c 'from assay.cli import main; main()'"
    argv = where_ports_are(directory, f"{assay} run suite.yaml --quiet >&2; {assay} show rdma --json")
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    told: dict[str, Any] = found
    return told


def test_a_trial_has_every_ports_figures(directory: Path) -> None:
    found = assay_run(directory, {"directory": stand_in(directory)})
    assert found["state"] == "finished"
    of = {(m["labels"]["device"], m["labels"]["direction"]) for m in found["measurements"] if m["labels"]}
    assert of == {(device, way) for device in ("mlx5_0", "mlx5_2") for way in ("0-to-1", "1-to-0")}


@pytest.mark.long
def test_the_real_program_without_a_device_says_which_is_missing(directory: Path) -> None:
    require("perftest", shutil.which("ib_write_bw") is not None, "install perftest")
    found = assay_run(directory, {})
    assert found["state"] == "failed"
    assert "Did not detect devices" in found["cause"]
    assert "/dev/infiniband" in found["cause"]
