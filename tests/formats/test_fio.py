"""Reports of fio, whole and spoilt."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.formats.fio import fio
from assay.testing.formats import Read, ReaderContract, values
from conftest import require


def side(**changed: Any) -> dict[str, Any]:
    latency = {"mean": 141128.4, "N": 3951, "percentile": {"50.000000": 134144, "99.000000": 228352}}
    told = {"io_bytes": 258932736, "runtime": 1001, "total_ios": 3951, **changed}
    per_ms = 1000 / told["runtime"] if told["runtime"] > 0 else 0
    rates = {"bw_bytes": int(told["io_bytes"] * per_ms), "iops": round(told["total_ios"] * per_ms, 2)}
    return {**told, **rates, "clat_ns": latency, "lat_ns": {"mean": 141329.5}, **changed}


NOTHING = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0, "clat_ns": {"mean": 0.0}}


def job(name: str = "reads", **changed: Any) -> dict[str, Any]:
    options = {"rw": "randread", "bs": "64k", "numjobs": "2", "direct": "1"}
    told = {"jobname": name, "error": 0, "elapsed": 2, "job options": options}
    return {**told, "read": side(), "write": NOTHING, **changed}


def report(*jobs: dict[str, Any], **changed: Any) -> str:
    return json.dumps({"fio version": "fio-3.33", "jobs": list(jobs) or [job()], **changed}, indent=1)


class TestFio(ReaderContract):
    tool = "fio"
    whole = (report(), report(job("reads"), job("writes", read=NOTHING, write=side())), report(job(), job()))
    failed = (
        (report(job(), job(error=28)), "job reads: No space left on device"),
        (report(job(error=22)), "job reads: Invalid argument"),
        (report(job(read=NOTHING)), "no job read or wrote anything"),
        (report(jobs=[]), "no job read or wrote anything"),
        (report(jobs=[{"jobname": "x"}]), "incomplete fio report: 'error' is missing"),
        ("fio: pid 1, err=12/file:memory.c\n", "not a complete JSON report"),
        (f"[{report()},\n{report()}]", "several JSON documents, the second begins in line"),
        (report() + "\nfio: {late}\n", "is text after its JSON; remove it"),
        (report().replace("{", "{<", 1), "not a complete JSON report (Expecting property name"),
    )

    def test_a_job_has_bandwidth_rate_latencies_and_the_time_it_took(self, read: Read) -> None:
        found = read(report())
        assert values(found, "read_bandwidth", job="reads") == [258674061]
        assert values(found, "read_rate") == [3947.05]
        assert values(found, "read_latency", percentile=99.0) == [228352]
        assert values(found, "mean_read_latency") == [141329.5]
        assert values(found, "run_time", direction="read") == [1001]
        assert not any(figure.metric.startswith("write") for figure in found.figures)
        assert found.facts["fio_version"] == "3.33"
        assert found.facts["fio_bs"] == "65536"

    def test_warnings_before_the_document_and_words_after_it_are_no_part_of_it(self, read: Read) -> None:
        found = read(f"fio: this platform does not support process shared mutexes\n{report()}\n\n")
        assert found.problems == []
        text = f"a warning\n{report()}".splitlines()
        assert {text[figure.line - 1].strip() for figure in found.figures} == {'"jobname": "reads",'}

    def test_jobs_of_one_name_are_told_apart(self, read: Read) -> None:
        found = read(report(job(), job()))
        assert values(found, "read_rate", index=0) == values(found, "read_rate", index=1) == [3947.05]

    def test_jobs_of_one_name_and_group_have_a_sum_as_with_group_reporting(self, read: Read) -> None:
        sides = [side(io_bytes=bytes_, total_ios=ios, runtime=2000) for bytes_, ios in ((200, 20), (100, 10))]
        found = read(report(*(job(read=one, groupid=0) for one in sides)))
        alone = [f for f in found.figures if f.labels == {"job": "reads"}]
        assert {f.metric: f.value for f in alone} == {"read_bandwidth": 150.0, "read_rate": 15.0}
        after = read(report(*(job(read=one, groupid=group) for group in (0, 1) for one in sides)))
        assert values(after, "read_bandwidth", group=0) == values(after, "read_bandwidth", group=1) == [150.0]
        apart = read(report(*(job(read=one, groupid=at) for at, one in enumerate(sides))))
        assert all("index" in f.labels for f in apart.figures)

    def test_clients_have_their_names_and_their_sum_is_that_of_fio(self, read: Read) -> None:
        clients = [
            job(hostname="a", groupid=0),
            job(hostname="b", groupid=0),
            job("All clients", groupid=0, hostname="b"),
        ]
        told = {"fio version": "fio-3.33", "client_stats": clients}
        found = read(json.dumps(told, indent=1))
        assert found.problems == []
        assert values(found, "read_rate", job="reads", client="a") == [3947.05]
        assert {f.value for f in found.figures if f.labels == {"job": "All clients"}} >= {3947.05, 258674061}
        assert not any("index" in figure.labels for figure in found.figures)

    def test_the_mean_time_of_a_read_has_its_submission(self, read: Read, foreign_logs: Path) -> None:
        found = fio(foreign_logs / "failing" / "fio-latency-without-submission.json")
        assert round(values(found, "mean_read_latency")[0] / 1e6, 3) == 330.604
        assert values(read(report(job(read=side(lat_ns={"mean": 0.0})))), "mean_read_latency") == []

    def test_a_report_of_fio_2_says_what_it_is(self, foreign_logs: Path) -> None:
        found = fio(foreign_logs / "failing" / "fio-2.1.4.json")
        assert found.figures == []
        assert found.problems[0].startswith("written by fio 2.1.4, whose JSON has other keys and units")

    def test_what_was_shorter_than_a_tick_of_its_clock_has_no_rate(self, read: Read) -> None:
        found = read(report(job(read=side(runtime=0, bw_bytes=0, iops=0.0))))
        assert found.figures == []


def test_a_report_of_the_real_program_is_read(tmp_path: Path) -> None:
    require("fio", shutil.which("fio") is not None, "install fio")
    options = ["--name=mixed", "--rw=randrw", "--bs=16k", "--size=1m", "--numjobs=2", "--ioengine=psync"]
    with (tmp_path / "report.json").open("w") as out:
        argv = ["fio", "--output-format=json+", f"--directory={tmp_path}", *options]
        subprocess.run([*argv, "--time_based", "--runtime=1"], stdout=out, check=True)
    found = fio(tmp_path / "report.json")
    assert found.problems == []
    measured = {figure.metric for figure in found.figures}
    assert {"read_bandwidth", "write_bandwidth", "read_latency", "write_latency", "run_time"} <= measured
    assert {figure.labels["job"] for figure in found.figures} == {"mixed"}


@pytest.mark.parametrize(
    ("changed", "contradiction"),
    [
        ({"bw_bytes": 2586740610}, "read: bw_bytes is 2.58674e+09, but io_bytes and runtime make"),
        ({"iops": 11841.2}, "read: iops is 11841.2, but total_ios and runtime make 3947.05"),
        ({"runtime": 1001000}, "read: bw_bytes is 2.58674e+08, but io_bytes and runtime make 258674"),
    ],
)
def test_a_report_that_contradicts_itself_is_no_result(
    changed: dict[str, float], contradiction: str, tmp_path: Path
) -> None:
    (tmp_path / "edited.json").write_text(report(job(read={**side(), **changed})))
    found = fio(tmp_path / "edited.json")
    assert not found.figures
    assert contradiction in found.problems[0]


def facts(*options: dict[str, str], of_all: dict[str, str] | None = None) -> dict[str, object]:
    """The facts of a report with these options of each job, and those of all jobs."""
    jobs = [job("reads", **{"job options": own}) for own in options]
    Path("settings.json").write_text(report(*jobs, **({"global options": of_all} if of_all else {})))
    return fio(Path("settings.json")).facts


@pytest.mark.parametrize(
    ("stated", "meant"),
    [
        ({"direct": "0", "iodepth": "1", "numjobs": "1"}, {"invalidate": "1", "sync": "0", "loops": "1"}),
        ({"bs": "1m"}, {"bs": "1024k"}),
        ({"bs": "1M"}, {"bs": "1048576"}),
        ({"bs": "1kib", "kb_base": "1000"}, {"bs": "1024"}),
        ({"direct": ""}, {"direct": "1"}),
        ({"buffered": "0"}, {"direct": "1"}),
        ({"size": "1g"}, {"size": "1024m", "filesize": "1g"}),
        ({"rw": "readwrite"}, {"rw": "rw"}),
    ],
)
def test_settings_that_mean_the_same_are_equal_facts(
    stated: dict[str, str], meant: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert facts({"name": "x", **stated}) == facts({"name": "x", **meant})
    assert facts({"name": "x"}, of_all=stated) == facts({"name": "x", **meant})


@pytest.mark.parametrize(
    "stated",
    [
        {"direct": "1"}, {"iodepth": "64"}, {"fsync": "1"}, {"end_fsync": "1"}, {"sync": "1"}, {"rate": "9m"},
        {"numjobs": "4"}, {"invalidate": "0"}, {"thinktime": "100"}, {"verify": "crc32c"}, {"loops": "5"},
        {"bs": "1k"}, {"rw": "randread"}, {"gtod_reduce": "1"}, {"filesize": "1g"},
    ],
)  # fmt: skip
def test_a_setting_that_only_one_report_states_differs_from_fios_default(
    stated: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"name": "x", "size": "16m"}
    [name] = stated
    assert facts(usual)[f"fio_{name}"] != facts({**usual, **stated})[f"fio_{name}"]
    assert facts(usual)[f"fio_{name}"] != facts(usual, of_all=stated)[f"fio_{name}"]
    assert facts(usual, usual)[f"fio_{name}"] != facts(usual, {**usual, **stated})[f"fio_{name}"]


def test_a_report_without_options_states_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "fio_direct" not in facts({})
