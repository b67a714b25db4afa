"""Tables and reports of nccl-tests, of every version, whole and spoilt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.formats.nccl_agreement import ranks_of
from assay.formats.nccl_rows import NcclRow, NcclTest, PrintedNumber, PrintedRow, PrintedTiming
from assay.formats.nccl_tests import nccl_test
from assay.formats.tools import tools_of
from assay.testing.formats import ReaderContract

DEVICES = """#  Rank  0 Group  0 Pid   1887 on   node-a device  0 [0x8d] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1888 on   node-b device  0 [0x91] NVIDIA H100 80GB HBM3
"""
V2017 = """#                                                    out-of-place                    in-place
#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res
    10000000       2500000   float     sum    0.905  11.05  11.05    0e+00    0.911  10.98  10.98    0e+00
 Out of bounds values : 0 OK
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 11.015
"""
V2_9 = """# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#   Rank  0 Pid   1320 on node-a device  0 [0x00] Tesla V100-SXM2-16GB
#   Rank  1 Pid   2066 on node-b device  0 [0x00] Tesla V100-SXM2-16GB
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum    26.31    0.00    0.00  0e+00    25.94    0.00    0.00  0e+00
   134217728      33554432     float     sum    11720   11.45   11.45  4e-07    11713   11.46   11.46  4e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.72783
"""
V2_9_GATHER = """#                                               out-of-place                       in-place
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        131072   float   112.31    9.34    4.67  0e+00   110.25    9.51    4.76  0e+00
# Out of bounds values : 0 OK
"""
HEAD_13 = """#  out-of-place  in-place
#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
OUT_13, IN_13 = "195.40  171.72  300.51       0", "195.40  171.73  300.52       0"
ROW_13 = f"    33554432       8388608     float     sum      -1  {OUT_13}  {IN_13}\n"
END_13 = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 300.515\n"
V2_13 = (
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    "# Collective test starting: all_reduce_perf\n" + DEVICES + HEAD_13 + ROW_13 + END_13
)
V2_19 = (
    HEAD_13.replace("#wrong", "#wrong   i_min   i_max   i_p99   i_cv%")
    + ROW_13.replace(OUT_13, OUT_13 + "  190.1  201.2  200.9   1.22").replace(
        IN_13, IN_13 + "  191.0  204.4  203.8   1.31  2026-01-01 10:00:00"
    )
    + END_13
)
UNCHECKED = HEAD_13 + ROW_13.replace("      0", "    N/A") + "# Out of bounds values : 0 OK\n"


OLD_ALLTOALL = """#  size   count   type   redop   time   algbw   busbw  error    time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0   float             1.63    0.00    0.00    N/A     1.38    0.00    0.00    N/A
    33554432       1048576   float            237.5  141.30  123.64    N/A    234.5  143.11  125.22    N/A
# Out of bounds values : 0 OK
"""


def read(tmp_path: Path, text: str) -> NcclTest:
    log = tmp_path / "rank-0.log"
    log.write_text(text)
    return nccl_test(log)


def only(test: NcclTest) -> NcclRow:
    [row] = test.rows
    return row


@pytest.mark.parametrize(
    ("text", "size", "time_s", "algbw", "bus"),
    [
        (V2017, 10_000_000, 0.905e-3, 11.05e9, 1.0),
        (V2_9_GATHER, 1 << 20, 112.31e-6, 9.336e9, 0.5),
        (V2_13, 1 << 25, 195.40e-6, 171.72e9, 1.75),
        (V2_19, 1 << 25, 195.40e-6, 171.72e9, 1.75),
        (UNCHECKED, 1 << 25, 195.40e-6, 171.72e9, 1.75),
    ],
    ids=["2017", "2.9 all_gather", "2.13", "2.19", "unchecked"],
)
def test_a_table_of_each_version_is_read(
    tmp_path: Path, text: str, size: int, time_s: float, algbw: float, bus: float
) -> None:
    found = read(tmp_path, text)
    assert (found.problem, found.skipped) == ("", 0)
    row = only(found)
    assert row.out_of_place is not None
    assert row.in_place is not None
    assert row.size_bytes == size
    assert row.out_of_place.time_s == pytest.approx(time_s)
    assert row.out_of_place.algbw == pytest.approx(algbw, rel=1e-3)
    assert row.out_of_place.busbw / row.out_of_place.algbw == pytest.approx(bus, rel=5e-3)
    assert row.in_place.time_s != row.out_of_place.time_s or text in (V2_13, V2_19, UNCHECKED)


def test_what_was_checked_is_told_from_what_was_not(tmp_path: Path) -> None:
    checked, unchecked = (only(read(tmp_path, text)).out_of_place for text in (V2_13, UNCHECKED))
    assert checked is not None
    assert unchecked is not None
    assert (checked.wrong, unchecked.wrong) == (0, None)


def test_a_small_messages_bandwidth_is_its_size_over_its_time_and_not_the_printed_zero(
    tmp_path: Path,
) -> None:
    small, large = read(tmp_path, V2_9).rows
    assert small.out_of_place is not None
    assert small.out_of_place.algbw == pytest.approx(8 / 26.31e-6)
    assert small.out_of_place.busbw == pytest.approx(8 / 26.31e-6)
    assert large.in_place is not None
    assert large.in_place.algbw == pytest.approx(134217728 / 11713e-6, rel=1e-3)


def test_versions_nodes_and_the_operation_are_told(tmp_path: Path) -> None:
    found = read(tmp_path, V2_13)
    assert found.operation == "all_reduce"
    assert found.hosts == {0: "node-a", 1: "node-b"}
    versions = {"nccl_tests_version": "2.17.6", "nccl_version": "2.28.9"}
    kinds = {"nccl_datatype": "float", "nccl_redop": "sum"}
    assert found.facts == versions | kinds | {"ranks": 8}, (
        "its bus bandwidth is that of 8, of whom 2 are listed"
    )


def rows_of(bus: float, redop: str, root: int, in_place: str, devices: str = "") -> str:
    """A table of 2.13 on whose checks in place end with this, of this many ranks' list."""
    ways = [f"{size / algbw / 1e3:.2f} {algbw:.2f} {algbw * bus:.2f}" for size, algbw in ((1 << 30, 200.0),)]
    row = f"  {1 << 30}  268435456  float  {redop}  {root}  {ways[0]} 0  {ways[0]} {in_place}\n"
    return devices + HEAD_13 + row + "# Out of bounds values : 0 OK\n"


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        (OLD_ALLTOALL, ["alltoall"]),
        (rows_of(1.75, "sum", -1, "0"), ["all_reduce"]),
        (rows_of(0.875, "none", -1, "0"), ["all_gather"]),
        (rows_of(0.875, "none", -1, "N/A"), ["alltoall"]),
        (rows_of(0.875, "none", -1, "N/A").replace(" 0  ", " N/A  "), ["all_gather", "alltoall"]),
        (rows_of(0.875, "none", -1, "N/A", "# RCCL version 2.20.5\n"), ["alltoall", "alltoallv"]),
        (rows_of(0.875, "sum", -1, "0"), ["reduce_scatter"]),
        (rows_of(1.75, "sum", -1, "N/A"), ["all_reduce"]),
        (rows_of(0.875, "sum", -1, "N/A"), ["reduce_scatter"]),
        (rows_of(0.875, "none", 0, "0"), ["gather", "scatter"]),
        (rows_of(1.0, "none", 0, "0", DEVICES), ["broadcast"]),
        (rows_of(1.0, "sum", 3, "0"), ["reduce"]),
        (rows_of(1.0, "sum", -1, "N/A"), ["sendrecv"]),
        (rows_of(1.0, "sum", -1, "0", DEVICES), ["all_reduce"]),
        (rows_of(0.875, "none", -1, "0", "# Collective test starting: mine_perf\n"), ["mine"]),
    ],
)
def test_the_operation_that_a_log_does_not_state_is_what_its_rows_show(
    tmp_path: Path, text: str, operations: list[str]
) -> None:
    found = read(tmp_path, text)
    assert (found.problem, found.skipped) == ("", 0)
    assert [found.operation] == operations if len(operations) == 1 else list(found.possible) == operations


def test_bus_bandwidth_has_the_exact_factor_of_the_ranks(tmp_path: Path) -> None:
    found = read(tmp_path, table((2.46, 2.31), (2.34, 2.20), (1.63, 1.52)))
    assert found.facts["ranks"] == 16
    assert all(way and way.busbw == way.algbw * 0.9375 for way in (row.out_of_place for row in found.rows))


def test_rows_that_can_t_be_read_are_not_called_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD_13 + ROW_13.replace("195.40", "x195.40") + END_13)
    assert "none of its 1 can be used" in found.problem


def test_old_logs_of_other_people_show_their_operation(foreign_logs: Path) -> None:
    operations = {}
    for name in (
        "alltoall-blank-redop.log",
        "alltoall-mpirun-16-ranks.txt",
        "old-allgather.log",
        "old-allreduce.log",
    ):
        found = nccl_test(foreign_logs / "failing" / f"nccl-{name}")
        assert (found.problem, found.skipped) == ("", 0)
        operations[name] = found.operation, found.facts["ranks"]
    assert list(operations.values()) == [
        ("alltoall", 8),
        ("alltoall", 16),
        ("all_gather", 8),
        ("all_reduce", 8),
    ]


def test_a_small_message_of_sixteen_inferred_ranks_has_its_printed_bus_bandwidth(foreign_logs: Path) -> None:
    found = nccl_test(foreign_logs / "failing" / "nccl-alltoall-mpirun-16-ranks.txt")
    ways = {row.size_bytes: (row.out_of_place, row.in_place) for row in found.rows}
    (_, in_place), (out_of_place, _) = ways[128 << 10], ways[256 << 10]
    assert in_place is not None
    assert out_of_place is not None
    assert round(in_place.busbw / 1e9, 4) == 0.9237
    assert round(out_of_place.busbw / 1e9, 4) == 1.5248


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "0: ", "2026-03-01T10:00:00Z [node-a] "])
def test_words_that_a_launcher_puts_before_lines_change_nothing(tmp_path: Path, prefix: str) -> None:
    plain = read(tmp_path, V2_13)
    prefixed = read(tmp_path, "".join(prefix + line for line in V2_13.splitlines(keepends=True)))
    assert prefixed.rows == plain.rows
    assert (prefixed.skipped, prefixed.problem) == (0, "")


def test_nccls_own_lines_between_rows_are_no_rows(tmp_path: Path) -> None:
    info = "node-a:1887:1901 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
    found = read(tmp_path, HEAD_13 + info + ROW_13 + info + END_13)
    assert (len(found.rows), found.skipped) == (1, 0)


@pytest.mark.parametrize(
    "torn",
    [
        ROW_13[:60] + "node-a:1887:1901 [0] NCCL INFO comm 0x55 rank 0 nranks 2\n",
        ROW_13.replace("171.72", "271.72"),  # digits of two lines in one
        ROW_13.replace("195.40  171.72", "0.00  0.00"),
        ROW_13.replace("195.40  171.72", "nan  171.72"),
        ROW_13[:88] + "\n",
    ],
    ids=["cut by another line", "bandwidth is not size over time", "no time", "nan", "truncated"],
)
def test_a_torn_row_is_counted_and_never_a_number(tmp_path: Path, torn: str) -> None:
    found = read(tmp_path, HEAD_13 + torn + ROW_13 + END_13)
    assert (len(found.rows), found.skipped) == (1, 1)
    assert found.rows[0].line == len(HEAD_13.splitlines()) + 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD_13 + ROW_13.replace("     0\n", "     3\n") + END_13, "3 elements of 33554432 bytes are wrong"),
        (V2017.replace("# Out of bounds values : 0 OK", "# Out of bounds values : 7 FAILED"), "7 values"),
        (HEAD_13 + ROW_13, "did not finish"),
        (DEVICES + HEAD_13, "did not measure anything"),
        (V2_13 + "node-a: Test NCCL failure common.cu:958 'unhandled system error'\n", "Test NCCL failure"),
        (HEAD_13 + ROW_13.replace("300.51", "0.00").replace("300.52", "0.00") + END_13, "one rank alone"),
    ],
    ids=["wrong values", "out of bounds", "cut off", "nothing", "failure", "one rank"],
)
def test_what_is_no_result_says_why(tmp_path: Path, text: str, words: str) -> None:
    assert words in read(tmp_path, text).problem


def report(**changed: Any) -> dict[str, Any]:
    way = {"time": 195.4, "alg_bw": 171.721761, "bus_bw": 300.513082, "nwrong": 0.0}
    row = {"size": 33554432, "count": 8388608, "type": "float", "redop": "sum", "root": "    -1"}
    whole = {
        "version": 2,
        "args": ["./build/all_reduce_perf", "-g", "2"],
        "env": ["HOME=/root", "API_TOKEN=hunter2"],
        "nccl_version": 22809,
        "devices": [{"rank": 0, "hostname": "node-a", "device": 0, "device_info": "NVIDIA H100"}],
        "results": [row | {"out_of_place": way, "in_place": way}],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 300.5},
    }
    return whole | changed


FIRST = (
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 3 "
    "validation: 1 graph: 7 unalign: 2\n"
)
SET = {"nccl_warmup_iters": 5, "nccl_iters": 20, "nccl_agg_iters": 3, "nccl_validation": 1, "nccl_graph": 7}


def test_what_the_first_line_states_is_a_fact(tmp_path: Path) -> None:
    facts = read(tmp_path, FIRST + V2_13).facts
    assert SET | {"nccl_unalign": 2, "nccl_blocking": 0} | read(tmp_path, V2_13).facts == facts
    blocking = "# Blocking Enabled: wait for completion and barrier after each collective \n"
    assert read(tmp_path, FIRST + blocking + V2_13).facts["nccl_blocking"] == 1


def test_the_configuration_of_a_json_report_is_a_fact(tmp_path: Path) -> None:
    config = {"nthreads": 1, "warmup_iters": 5, "iterations": 20, "aggregated_iterations": 3, "validation": 1}
    told = report(config={**config, "graph": 7, "blocking_collectives": "false"})
    facts = read(tmp_path, json.dumps(told)).facts
    assert (SET | {"nccl_blocking": 0}).items() <= facts.items()
    assert (facts["nccl_datatype"], facts["nccl_redop"]) == ("float", "sum")


def test_several_data_types_of_one_log_are_named_together(tmp_path: Path) -> None:
    rows = ROW_13 + ROW_13.replace("float", " half").replace("sum", "max")
    facts = read(tmp_path, HEAD_13 + rows + END_13).facts
    assert (facts["nccl_datatype"], facts["nccl_redop"]) == ("float/half", "max/sum")


def test_a_json_report_is_read_as_its_table_is(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps(report()))
    row = only(found)
    assert (found.operation, found.problem, found.skipped) == ("all_reduce", "", 0)
    assert row.out_of_place is not None
    assert row.out_of_place.busbw == pytest.approx(300.513e9, rel=1e-4)
    assert "hunter2" not in repr(found)


def test_a_report_without_the_way_out_of_place_has_the_other(tmp_path: Path) -> None:
    told = report()
    told["results"][0]["out_of_place"] = None
    row = only(read(tmp_path, json.dumps(told)))
    assert row.out_of_place is None
    assert row.in_place is not None


def test_a_report_that_was_cut_off_is_refused_with_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cut off"):
        read(tmp_path, json.dumps(report())[:400])


@pytest.mark.parametrize("without", ["args", "nccl_version", "results"])
def test_a_report_that_lacks_a_part_is_refused_with_words(tmp_path: Path, without: str) -> None:
    told = report()
    del told[without]
    with pytest.raises(InputError, match="is not a complete report"):
        read(tmp_path, json.dumps(told))


def test_wrong_values_of_a_report_are_no_result(tmp_path: Path) -> None:
    told = report(out_of_bounds={"count": 12, "okay": "false"})
    assert "12 values out of bounds" in read(tmp_path, json.dumps(told)).problem


def test_a_log_that_begins_with_a_line_of_json_is_still_a_table(tmp_path: Path) -> None:
    plain = read(tmp_path, V2_13)
    assert [row.size_bytes for row in read(tmp_path, '{"level": "info"}\n' + V2_13).rows] == [
        row.size_bytes for row in plain.rows
    ]


class TestNcclTests(ReaderContract):
    tool = "nccl-tests"
    whole = (V2017, V2_9, V2_9_GATHER, OLD_ALLTOALL, V2_13, V2_19, UNCHECKED, json.dumps(report()))
    torn = ((V2_13.replace("300.51 ", "3N/A0 "), V2_13.replace(ROW_13, "")),)
    failed = ((json.dumps(report())[:-40], "was the test cut off"),)
    may_be_zero = ("busbw",)  # of one rank, which a damaged list of devices may leave


@given(text=st.text(max_size=400), where=st.integers(0, len(V2_13)))
def test_whatever_falls_into_a_log_makes_no_new_figure(
    tmp_path_factory: pytest.TempPathFactory, text: str, where: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text(V2_13[:where] + text + V2_13[where:], errors="replace")
    known = (1 << 25, 195.40e-6)
    for row in nccl_test(log).rows:
        for way in (row.out_of_place, row.in_place):
            assert way is None or way.algbw == pytest.approx(row.size_bytes / way.time_s, rel=0.2)
        assert row.out_of_place is None or (row.size_bytes, row.out_of_place.time_s) == known or text


ROWS_13 = "".join(
    f"{size:>12} {size // 4:>12} float sum -1 {time_us:.2f} {size / time_us / 1e3:.2f} "
    f"{size / time_us / 1e3 * 1.75:.2f} 0 {time_us:.2f} {size / time_us / 1e3:.2f} "
    f"{size / time_us / 1e3 * 1.75:.2f} 0\n"
    for size, time_us in ((1 << 20, 71.25), (1 << 22, 113.5), (1 << 24, 240.75), (1 << 26, 501.5))
)
WHOLE = DEVICES + HEAD_13 + ROWS_13 + END_13
TRUTH = {(1 << 20, 71.25), (1 << 22, 113.5), (1 << 24, 240.75), (1 << 26, 501.5)}


def told_by(test: NcclTest) -> set[tuple[int, float]]:
    """Sizes with their times in µs, of both ways."""
    return {
        (row.size_bytes, round(way.time_s * 1e6, 2))
        for row in test.rows
        for way in (row.out_of_place, row.in_place)
        if way is not None
    }


@given(end=st.integers(0, len(WHOLE)))
def test_a_table_that_was_cut_anywhere_has_true_rows_only_and_no_result_without_its_end(
    tmp_path_factory: pytest.TempPathFactory, end: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text(WHOLE[:end])
    found = nccl_test(log)
    assert told_by(found) <= TRUTH
    assert found.problem or end >= WHOLE.index("values : 0 OK")


@example(where=304, end=56, info=" 1e+05 ")
@given(
    where=st.integers(0, len(ROWS_13)),
    end=st.integers(0, len(ROWS_13)),
    info=st.sampled_from(["NCCL INFO comm 0x55 rank 0 nranks 2\n", "N/A", " 1e+05 ", "\n", "7", "-"]),
)
def test_rows_that_another_line_or_rank_fell_into_are_counted_and_never_another_figure(
    tmp_path_factory: pytest.TempPathFactory, where: int, end: int, info: str
) -> None:
    """Between them stand words of NCCL, an N/A, an exponent, or a part of another rank's rows."""
    log = tmp_path_factory.mktemp("fuzz") / "log"
    other_rank = ROWS_13[min(where, end) : max(where, end)]
    log.write_text(DEVICES + HEAD_13 + ROWS_13[:where] + info + other_rank + ROWS_13[where:] + END_13)
    found = nccl_test(log)
    for size, time_us in told_by(found):
        [true] = [at for known, at in TRUTH if known == size]
        assert time_us == pytest.approx(true, rel=0.02), "a digit that fits is all that can be lost or won"


@pytest.mark.parametrize(("time", "algbw"), [("1.05e+05", "10.5"), ("105200", "10.46"), ("1.1e+05", "10.46")])
def test_numbers_that_grew_into_exponents_are_numbers(tmp_path: Path, time: str, algbw: str) -> None:
    size = 1_100_000_000
    row = f"{size} {size // 4} float sum -1 {time} {algbw} {algbw} 0 {time} {algbw} {algbw} N/A\n"
    found = only(read(tmp_path, HEAD_13 + row + END_13))
    assert found.out_of_place is not None
    assert found.out_of_place.time_s == pytest.approx(float(time) * 1e-6)
    assert found.in_place is not None
    assert found.in_place.wrong is None


@given(text=st.binary(max_size=300))
def test_a_report_that_something_was_written_into_is_read_or_refused_with_words(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    whole = json.dumps(report()).encode()
    log.write_bytes(whole[: len(text) * 2] + text + whole[len(text) * 2 :])
    refused, rows = "", tuple[NcclRow, ...]()
    try:
        rows = nccl_test(log).rows
    except InputError as error:
        refused = str(error)
    assert "is not a complete report" in refused or not refused
    assert all(row.out_of_place is None or row.out_of_place.time_s > 0 for row in rows)


def test_another_programs_log_is_not_taken_for_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("step 1 loss 0.5\n1048576 262144 float 3\n")
    found = nccl_test(log)
    assert (found.rows, found.operation) == ((), "")


@pytest.mark.parametrize("text", [V2017, V2_9, V2_9_GATHER, V2_13, V2_19], ids=range(5))
def test_a_table_whose_hashes_were_eaten_by_markdown_is_the_same_table(tmp_path: Path, text: str) -> None:
    whole = read(tmp_path, text)
    pasted = "\n".join(re.sub(r"^ *#* *", "", line) for line in text.splitlines())
    assert read(tmp_path, pasted) == whole
    assert [tool.name for tool in tools_of(tmp_path / "rank-0.log")] == ["nccl-tests"]


def listing(*ranks: int) -> str:
    return "".join(f"#  Rank {n} Group  0 Pid 1 on node-a device  {n % 8} [0x8d] A100\n" for n in ranks)


def table(*bandwidths: tuple[float, float], size: int = 1 << 30) -> str:
    """Rows of these algorithmic and bus bandwidths in GB/s."""
    rows = [
        f"  {size}  268435456  float  sum  -1  {size / algbw / 1e3:.2f}  {algbw:.2f}  {busbw:.2f}  0\n"
        for algbw, busbw in bandwidths
    ]
    head = HEAD_13.replace("  time  algbw  busbw #wrong\n", "\n")
    return head + "".join(rows) + END_13


def of_all_reduce(ranks: int, *algbw: float) -> list[tuple[float, float]]:
    return [(value, value * 2 * (ranks - 1) / ranks) for value in algbw]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        (listing(0, 1, 2, 3) + table(*of_all_reduce(4, 81.04)), 4),
        (listing(71) + table(*of_all_reduce(72, 81.04, 29.95)), 72),
        (listing(63, 71) + table((40.0, 40.0 * 71 / 72)), 72),
        (listing(71) + table((40.0, 40.0)), None),
        (listing(71) + table(*of_all_reduce(64, 81.04)), None),
        (table(*of_all_reduce(8, 81.04)), 8),
        (table(*of_all_reduce(5000, 81.04)), None),
        (table((40.0, 40.0)), None),
        (listing(*range(16)) + table(*of_all_reduce(8, 81.04)), 16),
        (listing(*range(8)) + table(*of_all_reduce(32, 81.04)), 32),
    ],
    ids=[
        "whole list", "last line only", "two lines, all-gather", "broadcast says nothing",
        "fewer than its rank", "no list", "no list, too many to tell", "no list, 1", "split communicator",
        "list cut at its end",
    ],
)  # fmt: skip
def test_the_number_of_ranks_is_what_the_list_and_the_rows_agree_on_or_unknown(
    tmp_path: Path, text: str, ranks: int | None
) -> None:
    found = read(tmp_path, text)
    assert (found.problem, found.facts.get("ranks")) == ("", ranks)


@given(st.integers(3, 4000), st.floats(1, 400), st.booleans())
def test_ranks_that_follow_from_bandwidth_are_the_true_ones(ranks: int, algbw: float, once: bool) -> None:
    ratio = (ranks - 1) / ranks * (1 if once else 2)
    time_s = (1 << 30) / (algbw * 1e9)
    way = PrintedTiming(
        PrintedNumber(time_s, 5e-9),
        PrintedNumber(round(algbw, 2) * 1e9, 5e6),
        PrintedNumber(round(algbw * ratio, 2) * 1e9, 5e6),
        None,
    )
    rows = [PrintedRow(1 << 30, "float", "sum", (way,), 1)]
    assert ranks_of(rows, [ranks - 1]) in (ranks, None)
    assert ranks_of(rows, []) in (ranks, None)


BUSES = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda _ranks: 1.0,
}


def both_ways(bus: float, sizes: int, damaged: tuple[int, int, float] | None = None) -> str:
    """A table whose bus bandwidth is `bus` × the algorithmic one, in all cells but one."""
    text = HEAD_13
    for row in range(sizes):
        size, time_us = 1 << 20 + row, 40.0 * 1.5**row
        algbw = size / time_us / 1e3
        busbw = [algbw * bus * (damaged[2] if damaged and damaged[:2] == (row, way) else 1) for way in (0, 1)]
        ways = "".join(f"  {time_us:.2f}  {algbw:.2f}  {each:.2f}  0" for each in busbw)
        text += f"  {size}  {size // 4}  float  sum  -1{ways}\n"
    return text + END_13


@given(
    operation=st.sampled_from(sorted(BUSES)),
    ranks=st.integers(2, 64),
    sizes=st.integers(2, 8),
    row=st.integers(0, 7),
    way=st.integers(0, 1),
    factor=st.floats(0.05, 20).filter(lambda factor: abs(factor - 1) > 0.05),
    told=st.booleans(),
)
def test_a_damaged_bus_bandwidth_costs_its_own_row_and_changes_no_other(
    tmp_path_factory: pytest.TempPathFactory,
    operation: str,
    ranks: int,
    sizes: int,
    row: int,
    way: int,
    factor: float,
    told: bool,
) -> None:
    bus, row = BUSES[operation](ranks), row % sizes
    start = f"# Collective test starting: {operation}_perf\n" if told else ""
    log = tmp_path_factory.mktemp("damaged") / "log"
    log.write_text(start + listing(*range(ranks)) + both_ways(bus, sizes))
    sound = nccl_test(log)
    log.write_text(start + listing(*range(ranks)) + both_ways(bus, sizes, (row, way, factor)))
    damaged = nccl_test(log)
    assert (sound.skipped, damaged.skipped) == (0, 1)
    assert len(damaged.notes) == 1
    assert [one.size_bytes for one in damaged.rows] == [1 << 20 + at for at in range(sizes) if at != row]
    for one in damaged.rows:
        for each in (one.out_of_place, one.in_place):
            assert each is not None
            assert each.busbw == pytest.approx(each.algbw * bus, rel=2e-3)


def test_the_clearest_cell_decides_nothing_alone(tmp_path: Path) -> None:
    text = both_ways(1.75, 5, (4, 0, 60.98 / 260.98))
    found = read(tmp_path, text)
    assert found.problem == ""
    assert found.notes == (
        "line 8: its size, time, and bandwidths don't agree with each other or with the other rows; not used",
    )


@pytest.mark.parametrize(
    ("start", "bus", "words"),
    [
        ("", 0.41, "no row of its table is consistent"),
        ("# Collective test starting: all_gather_perf\n", 1.75, "no row of its table is consistent"),
        ("# Collective test starting: all_reduce_perf\n", 1.75, ""),
        ("# Collective test starting: sendrecv_perf\n", 1.0, ""),
        ("# Collective test starting: mine_perf\n", 1.75, ""),
    ],
    ids=["of none", "of another operation", "of eight ranks", "of a broadcast", "unknown operation"],
)
def test_a_ratio_that_the_operation_cannot_have_is_no_bandwidth(
    tmp_path: Path, start: str, bus: float, words: str
) -> None:
    found = read(tmp_path, start + both_ways(bus, 3))
    assert words in found.problem
    assert bool(found.problem) == bool(words)
    assert len(found.rows) == (0 if words else 3)


def test_two_cells_that_contradict_each_other_are_decided_by_the_ranks_or_not_at_all(tmp_path: Path) -> None:
    row = both_ways(1.75, 1, (0, 0, 4 / 7))  # 1.0 of a broadcast, and 1.75
    undecided = read(tmp_path, row)
    assert (undecided.rows, undecided.skipped) == ((), 1)
    one_way = table(*of_all_reduce(8, 80.0), *of_all_reduce(4, 120.0))
    start = "# Collective test starting: all_reduce_perf\n"
    assert read(tmp_path, one_way).rows == ()
    decided = read(tmp_path, start + listing(*range(8)) + one_way)
    assert [one.out_of_place.algbw for one in decided.rows if one.out_of_place] == [pytest.approx(80e9)]
