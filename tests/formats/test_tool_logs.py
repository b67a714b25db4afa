"""Logs of other programs, recognised by their lines and imported."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import test_deeplearningexamples
import test_fio
import test_gpu_burn
import test_horovod
import test_ior
import test_iperf3
import test_nccl_tests
import test_param_comms
import test_perftest
import test_timm
from click.testing import CliRunner, Result
from pydantic import ValidationError

from assay.cli import assay
from assay.formats.tools import TOOLS, format_names, tools_of
from assay.questions.import_ import import_
from assay.records import Reading
from assay.testing.formats import ReaderContract
from assay.workloads import WORKLOADS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(assay, [*words])


def take(*words: str) -> dict[str, Any]:
    done = run("import", *words, "--json")
    assert done.exit_code == 0, done.output
    [session] = json.loads(done.stdout)["sessions"]
    return dict(session)


def rows(name: str) -> list[dict[str, Any]]:
    return list(json.loads(run("export", name, "--json").stdout))


def test_every_tool_can_be_asked_for() -> None:
    assert set(TOOLS) < set(format_names())


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tools_reader_is_held_to_the_contract(tool: str) -> None:
    tests = import_module(f"test_{tool.replace('-', '_')}")
    held = [one for one in vars(tests).values() if isinstance(one, type) and issubclass(one, ReaderContract)]
    assert [one.tool for one in held if one is not ReaderContract] == [tool]


def test_a_torn_row_of_a_table_is_named_with_its_line(here: Path) -> None:
    (here / "one.log").write_text(test_nccl_tests.both_ways(1.75, 3, (2, 0, 0.2)))
    [note] = [note for note in take("one.log", "--name", "torn")["notes"] if "not used" in note]
    assert note.startswith("one.log: line 6: ")


def test_two_systems_logs_are_compared() -> None:
    for system, rate in (("ethernet", 400.0), ("infiniband", 432.8)):
        for number in range(1, 6):
            worker = rate / 4 + number / 100
            total = f"Total img/sec on 4 GPU(s): {4 * worker:.2f} +-4.9"
            text = test_horovod.LOG.replace("Total img/sec on 4 GPU(s): 432.8 +-4.9", total)
            Path(f"{system}-{number}.log").write_text(
                text.replace("Img/sec per GPU: 108.2", f"Img/sec per GPU: {worker:.2f}")
            )
        logs = [f"{system}-{number}.log" for number in range(1, 6)]
        take(*logs, "--name", "fabric", "--system", system, "--shape", "2x2")
    told = json.loads(run("compare", "fabric:ethernet", "fabric:infiniband", "--json").stdout)
    [claim] = [c for c in told["comparisons"] if c["metric"] == "throughput"]
    assert claim["verdict"] == "faster"
    assert {row["shape"] for row in rows("fabric")} == {"2x2"}


def ior_summary(name: str, rate: float, **options: object) -> None:
    test = {"Options": {"api": "POSIX", **options}, "Results": [[test_ior.result(bwMiB=rate)]]}
    Path(name).write_text(test_ior.summary(tests=[test]))


def test_the_tasks_and_nodes_of_ior_are_a_shape() -> None:
    ior_summary("large.json", 4000.0, tasks="64", nodes="16")
    assert take("large.json", "--name", "large")["notes"] == [
        "large.json: read as a log of ior; unknown lines: 0"
    ]
    assert {row["shape"] for row in rows("large")} == {"16x4"}


def test_storage_is_not_judged_by_another_access_pattern() -> None:
    for name, transfer in (("small", "4096"), ("large", "1048576")):
        for number in range(3):
            ior_summary(f"{name}{number}.json", 1000.0 + number, tasks=4, nodes=1, transferSize=transfer)
        take(*(f"{name}{number}.json" for number in range(3)), "--name", name, "--system", name)
    [comparison] = [
        one
        for one in json.loads(run("compare", "small", "large", "--json").stdout)["comparisons"]
        if one["metric"] == "write_bandwidth"
    ]
    [doubt] = [one for one in comparison["doubts"] if one["code"] == "different-work"]
    assert doubt["evidence"] == "ior_transferSize 4096 and 1048576"


def doubts(a: str, b: str) -> dict[str, str]:
    """The doubts of all comparisons of two sets, with their evidence."""
    compared = json.loads(run("compare", a, b, "--json").stdout)["comparisons"]
    return {doubt["code"]: doubt["evidence"] for one in compared for doubt in one["doubts"]}


def test_a_setting_of_fio_that_one_side_leaves_at_its_default_is_other_work() -> None:
    for name, options in {
        "plain": {},
        "direct": {"direct": "1"},
        "same": {"direct": "0", "bs": "4096"},
    }.items():
        for number in range(2):
            side = test_fio.side()
            job = test_fio.job(read=side, **{"job options": {"name": "x", **options}})
            Path(f"{name}{number}.json").write_text(test_fio.report(job, time=f"{name}{number}"))
        take(f"{name}0.json", f"{name}1.json", "--name", name)
    assert doubts("plain", "direct")["different-work"] == "fio_direct 0 and 1"
    assert "different-work" not in doubts("plain", "same")


@pytest.mark.parametrize(
    ("stated", "other", "evidence"),
    [
        ("graph: 7", "graph: 0", "nccl_graph 7 and 0"),
        ("agg iters: 3", "agg iters: 100", "nccl_agg_iters 3 and 100"),
        (" iters: 20", " iters: 1", "nccl_iters 20 and 1"),
        ("warmup iters: 5", "warmup iters: 0", "nccl_warmup_iters 5 and 0"),
        ("validation: 1", "validation: 0", "nccl_validation 1 and 0"),
        ("float", " half", "nccl_datatype float and half"),
        ("sum", "max", "nccl_redop sum and max"),
    ],
)
def test_nccl_tests_that_were_set_otherwise_did_other_work(stated: str, other: str, evidence: str) -> None:
    text = test_nccl_tests.FIRST + test_nccl_tests.V2_13
    Path("a.log").write_text(text)
    Path("b.log").write_text(text.replace(stated, other))
    take("a.log", "--name", "a")
    take("b.log", "--name", "b")
    assert doubts("a", "b")["different-work"] == evidence


def test_a_copy_of_a_log_counts_once() -> None:
    Path("a.log").write_text(test_nccl_tests.V2_13)
    Path("b.log").write_text(test_nccl_tests.V2_13)
    assert (
        "b.log: a copy of a.log, with the same bytes: it counts once"
        in take("a.log", "b.log", "--name", "a")["notes"]
    )
    assert len({row["run"] for row in rows("a")}) == 1
    assert take("b.log", "--name", "a")["added"] is False
    assert "a.log: named twice: it counts once" in take("a.log", "a.log", "--name", "twice")["notes"]


def test_copies_in_two_imports_are_no_comparison() -> None:
    for name in ("a", "b"):
        Path(f"{name}.log").write_text(test_nccl_tests.V2_13)
        take(f"{name}.log", "--name", name)
    assert doubts("a", "b")["copied-values"] == (
        "logs with the same bytes: nccl-tests-all_reduce-1x8-unknown-r01 of b is "
        "nccl-tests-all_reduce-1x8-unknown-r01 of a"
    )
    Path("b.log").write_text(test_nccl_tests.V2_13 + "another run\n")
    take("b.log", "--name", "c")
    assert "copied-values" not in doubts("a", "c")


def test_an_imported_test_between_two_ends_of_one_host_is_named() -> None:
    for name, remote in (("one", "10.0.0.1"), ("two", "10.0.0.2"), ("loopback", "127.0.0.2")):
        ends = {"local_host": "127.0.0.1" if name == "loopback" else "10.0.0.1", "remote_host": remote}
        told = json.loads(test_iperf3.report(test_iperf3.TCP))
        Path(f"{name}.json").write_text(json.dumps({**told, "start": {**told["start"], "connected": [ends]}}))
        take(f"{name}.json", "--name", name)
    evidence = "one: both ends ran on 10.0.0.1, so no network was between them"
    assert doubts("one", "two")["one-host"] == evidence
    assert doubts("two", "loopback")["one-host"].startswith("loopback: both ends ran on 127.0.0.1")


def test_a_part_of_a_log_that_took_milliseconds_is_too_short() -> None:
    short = test_fio.side(runtime=18, bw_bytes=14385152000, iops=219500.0)
    for name, side in (("long", test_fio.side()), ("short", short)):
        Path(f"{name}.json").write_text(test_fio.report(test_fio.job(), test_fio.job("other", read=side)))
        take(f"{name}.json", "--name", name)
    compared = json.loads(run("compare", "long", "short", "--json").stdout)["comparisons"]
    found = {
        one["points"]["labels"]["job"]: {doubt["code"]: doubt["evidence"] for doubt in one["doubts"]}
        for one in compared
        if one["metric"] == "read_bandwidth"
    }
    assert found["other"]["too-short"] == "short: fio-1x1-unknown-r01 timed 18 ms"
    assert "too-short" not in found["reads"]


def test_runs_whose_logs_state_their_time_are_in_its_order() -> None:
    for number in range(3):
        told = json.loads(test_iperf3.report(test_iperf3.TCP))
        start = {**told["start"], "timestamp": {"timesecs": 1795829821 - number}}
        Path(f"i{number}.json").write_text(json.dumps({**told, "start": start}))
        Path(f"f{number}.json").write_text(test_fio.report(timestamp=1795829823 - number))
    for name in ("i", "f"):
        take(*(f"{name}{number}.json" for number in range(3)), "--name", name)
        stated = {row["started_at"] for row in rows(name)}
        assert stated == {f"2026-11-28T01:37:0{second}.000000Z" for second in (1, 0)} | {
            "2026-11-28T01:36:59.000000Z"
        }
        assert "order-unknown" not in run("show", name).output


@pytest.mark.parametrize("nodes", [0, -2, True, 3])
def test_a_size_that_can_not_be_is_none(nodes: object) -> None:
    summary = {"num_accelerators": 3 * 10**8 if nodes == 3 else 8, "num_hosts": nodes, "metric": DLIO}
    Path("summary.json").write_text(json.dumps(summary))
    notes = take("summary.json", "--name", "dlio")["notes"]
    assert any("or say what can't be; they are stored as 1x1" in note for note in notes)
    assert run("show", "dlio").exit_code == 0
    assert {row["shape"] for row in rows("dlio")} == {"1x1"}


DLIO = {
    "train_au_mean_percentage": 95.25,
    "train_au_meet_expectation": "success",
    "train_throughput_mean_samples_per_second": 171.66,
}


def test_several_figures_of_one_run_become_the_one_that_counts() -> None:
    Path("burn.log").write_text(test_gpu_burn.LOG)
    take("burn.log", "--name", "burnt")
    found = {(row["metric"], json.dumps(row["labels"])): row["value"] for row in rows("burnt")}
    assert found["flop_rate", '{"gpu": 0}'] == pytest.approx((4801e9 + 4837e9) / 2)
    assert found["temperature", '{"gpu": 0}'] == 62
    Path("dll.log").write_text(test_deeplearningexamples.LOG)
    take("dll.log", "--name", "trained")
    [rate] = [row["value"] for row in rows("trained") if row["metric"] == "train.compute_ips"]
    assert rate == 3101.2, "the summary's, not the last step's"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (test_gpu_burn.LOG.replace("GPU 1: OK", "GPU 1: FAULTY"), "GPU 1 is faulty"),
        (
            test_perftest.MIB
            + test_perftest.MIB.replace("11030.45", "5515.22").replace("0.176487", "0.088244"),
            "several runs",
        ),
        (
            test_horovod.LOG + test_horovod.LOG.replace("108.2 ", "54.1 ").replace("432.8", "216.4"),
            "several runs",
        ),
        (json.dumps(test_nccl_tests.report())[:-40], "was the test cut off"),
    ],
)
def test_a_log_that_is_no_result_is_kept_without_figures_and_says_why(text: str, cause: str) -> None:
    Path("one.log").write_text(text)
    [failure] = take("one.log", "--name", "kept", "--format", "auto")["failed"]
    assert cause in failure["cause"]
    assert rows("kept") == []


@pytest.mark.parametrize("name", ["deeplearningexamples-two-runs.txt", "iperf3-json-stream-two-runs.jsonl"])
def test_two_runs_of_other_people_in_one_file_are_no_result(foreign_logs: Path, name: str) -> None:
    [failure] = take(str(foreign_logs / "failing" / name), "--name", "kept")["failed"]
    assert "the file holds several runs; put each run in its own file" in failure["cause"]


def test_a_torn_row_is_told() -> None:
    Path("one.log").write_text(
        test_perftest.HEAD + test_perftest.ROW.replace("11030.45", "1.4") + test_perftest.ROW
    )
    assert (
        "one.log: read as a log of perftest; unknown lines: 1" in take("one.log", "--name", "kept")["notes"]
    )


def test_a_file_of_two_programs_is_read_as_a_log_of_each() -> None:
    Path("both.log").write_text(test_horovod.LOG + test_param_comms.HEAD + test_param_comms.ROW)
    sessions = import_("both.log", name="kept").sessions
    assert [session.runs[0].trial.params["tool"] for session in sessions] == ["param-comms", "horovod"]
    assert take("both.log", "--name", "alone", "--format", "horovod")["failed"] == []


def test_a_format_whose_figures_are_all_in_lines_of_another_one_is_not_read() -> None:
    Path("both.log").write_text(test_horovod.LOG + "# COMMS-RES is printed by another program\n")
    [session] = import_("both.log", name="kept").sessions
    assert session.runs[0].trial.params["tool"] == "horovod"


def test_a_folder_without_a_log_of_the_named_format_is_refused() -> None:
    Path("folder").mkdir()
    done = run("import", "folder", "--name", "kept", "--format", "perftest")
    assert "none of its files is a log of perftest" in str(done.exception)


def test_a_log_that_follows_mlperfs_rules_is_mlperfs(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_text(test_deeplearningexamples.LOG + ":::MLLOG {}\n")
    assert tools_of(log) == []


def command(reader: str, metric: str, unit: str, text: str) -> Reading:
    log = Path("rank-0.log")
    log.write_text(text)
    metrics = {metric: {"reader": reader, "unit": unit}}
    params = WORKLOADS["command"].params(argv=["true"], metrics=metrics)
    return WORKLOADS["command"].reader.read({log.name: log}, params)


@pytest.mark.parametrize(
    ("reader", "metric", "unit", "text", "value"),
    [
        ("horovod", "throughput", "images/s", test_horovod.LOG, 432.8),
        ("timm", "throughput", "samples/s", test_timm.NEW + test_timm.OLD, 4182.58),
        ("timm", "step_time", "ms", test_timm.BENCHMARK, 0.5611),
        ("deeplearningexamples", "train.compute_ips", "images/s", test_deeplearningexamples.LOG, 3101.2),
    ],
)
def test_a_suite_that_runs_the_program_reads_its_lines(
    reader: str, metric: str, unit: str, text: str, value: float
) -> None:
    reading = command(reader, metric, unit, text)
    assert [found.value for found in reading.measurements] == pytest.approx([value])
    assert reading.problems == ()


@pytest.mark.parametrize(
    ("unit", "text", "words"),
    [
        ("s", test_deeplearningexamples.LOG, "is in 'images/s', expected 's'"),
        ("images/s", test_deeplearningexamples.STEP, "did not finish"),
    ],
)
def test_a_run_that_broke_or_another_unit_is_a_problem_and_no_figure(
    unit: str, text: str, words: str
) -> None:
    reading = command("deeplearningexamples", "train.compute_ips", unit, text)
    assert any(words in problem for problem in reading.problems)
    assert reading.measurements == ()


def test_a_metric_that_the_program_has_not_is_said_when_the_suite_is_read() -> None:
    with pytest.raises(ValidationError, match="the reader timm reports throughput"):
        command("timm", "speed", "samples/s", "")


def test_a_directory_with_a_log_of_an_absurd_number_stays_usable(here: Path) -> None:
    (here / "burn.log").write_text(test_gpu_burn.LOG.replace("4837", "9" * 400), newline="")
    assert "burn.log: read as a log of gpu-burn; unknown lines: 1" in take("burn.log", "--name", "b")["notes"]
    assert {row["value"] for row in rows("b") if row["metric"] == "flop_rate"} == {4801e9, 4790e9}
    assert [run(*words).exit_code for words in (["show"], ["show", "b"], ["index", "--rebuild"])] == [0, 0, 0]
