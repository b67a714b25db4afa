"""Reports of the site's programs within logs of ours: found, told apart, and never misread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_iperf3 import TCP
from test_iperf3 import report as iperf3_report
from test_nvbandwidth import V0_8
from test_perftest import JSON, MIB
from test_workloads import line, whole

from assay.records import Reading, from_json, to_json
from assay.workloads.micro import GPU_BURN, NVBANDWIDTH
from assay.workloads.point_to_point import IPERF3, PERFTEST, PerftestParams
from assay.workloads.site_reports import reports

START, END = "INTERVAL_START", "INTERVAL_END"
PORT = {"device": "mlx5_0", "port": 1, "direction": "0-to-1"}


def log(*parts: tuple[str, dict[str, Any], str]) -> str:
    """A complete log of one rank with these reports: part, labels, text."""
    begin, world, end = whole()
    lines = [begin, world]
    for number, (part, labels, text) in enumerate(parts):
        lines.append(line("report", part, 2 + 2 * number, kind=START, labels=labels))
        lines += [text.rstrip("\n"), line("report", None, 3 + 2 * number, kind=END)]
    return "\n".join([*lines, end.replace('"seq": 2', f'"seq": {2 + 2 * len(parts)}')]) + "\n"


def read(directory: Path, text: str) -> Reading:
    path = directory / "rank-0.log"
    path.write_text(text, errors="replace")
    return PERFTEST.reader.read({path.name: path}, PerftestParams())


def test_a_figure_knows_its_line_in_the_whole_log(tmp_path: Path) -> None:
    text = log(("client", PORT, MIB), ("client", PORT | {"port": 2}, MIB))
    reading = read(tmp_path, text)
    assert reading.problems == ()
    rows = {m.line for m in reading.measurements}
    assert len(rows) == 2
    assert all("11030.45" in text.splitlines()[row - 1] for row in rows)
    assert {m.labels["port"] for m in reading.measurements} == {1, 2}


def test_what_the_server_printed_is_kept_and_not_counted(tmp_path: Path) -> None:
    reading = read(tmp_path, log(("server", PORT, MIB)))
    assert reading.measurements == ()
    assert reading.problems == ("no report has a figure for bandwidth",)


def test_json_counts_before_the_table_unless_it_has_fewer_sizes(tmp_path: Path) -> None:
    by_json = read(tmp_path, log(("client", PORT, MIB), ("json", PORT, JSON)))
    assert by_json.measurements[0].value == pytest.approx(2229.27 * 2**20)
    two = MIB.replace(" 65536 ", " 32768      5000   5515.39   5515.23   0.176487\n 65536 ", 1)
    by_table = read(tmp_path, log(("client", PORT, two), ("json", PORT, JSON)))
    assert {m.labels["payload_bytes"] for m in by_table.measurements} == {32768, 65536}


def test_one_report_that_failed_is_the_trials(tmp_path: Path) -> None:
    failed = "Completion with error at client\n"
    reading = read(tmp_path, log(("client", PORT, MIB), ("client", PORT | {"port": 2}, failed)))
    assert reading.measurements == ()
    assert "port 2" in reading.problems[0]
    assert "Completion with error" in reading.problems[0]


def test_a_report_without_its_end_is_none(tmp_path: Path) -> None:
    text = log(("client", PORT, MIB))
    reading = read(tmp_path, text[: text.index("INTERVAL_END")])
    assert reading.measurements == ()
    assert "the log of rank 0 ends before the program's end" in reading.problems


@pytest.mark.parametrize("labels", [None, [1], "port", {"port": [1]}])
def test_labels_that_are_none_are_left_out(tmp_path: Path, labels: Any) -> None:
    (one,) = reports_of(tmp_path, log(("client", labels, MIB)))
    assert one.labels == {}


def reports_of(directory: Path, text: str) -> list[Any]:
    path = directory / "rank-0.log"
    path.write_text(text)
    return list(reports(path))


LOGS = {
    PERFTEST.name: log(("client", PORT, MIB), ("json", PORT, JSON)),
    IPERF3.name: log(("client", {"direction": "both"}, iperf3_report(TCP))),
    NVBANDWIDTH.name: log(("node", {}, V0_8)),
    GPU_BURN.name: log(("node", {}, "100.0%  proc'd: 3760 (4837 Gflop/s)   errors: 0   temps: 62 C")),
}


@pytest.mark.parametrize("workload", [PERFTEST, IPERF3, NVBANDWIDTH, GPU_BURN], ids=lambda it: it.name)
@given(data=st.data())
def test_no_spoilt_log_makes_a_reader_raise_or_give_a_record_that_is_not_json(
    tmp_path_factory: pytest.TempPathFactory, workload: Any, data: st.DataObject
) -> None:
    text = LOGS[workload.name]
    pieces = st.sampled_from([*text.splitlines(), "null", '{"labels": 3}']) | st.text(max_size=20)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 60))
    spoilt = text[:at] + "\n".join(data.draw(st.lists(pieces, max_size=3))) + text[at + cut :]
    path = tmp_path_factory.mktemp("fuzz") / "rank-0.log"
    path.write_text(spoilt, errors="replace")
    reading = workload.reader.read({path.name: path}, workload.params())
    assert from_json(Reading, to_json(reading)) == reading
    assert reading.measurements or reading.problems


def test_the_logs_that_are_spoilt_here_are_read_whole(tmp_path: Path) -> None:
    for workload in (PERFTEST, IPERF3, NVBANDWIDTH):
        path = tmp_path / f"{workload.name}.log"
        path.write_text(LOGS[workload.name])
        assert workload.reader.read({path.name: path}, workload.params()).problems == ()
