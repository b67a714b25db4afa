"""Tables and reports of perftest, of several versions, whole and spoilt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.testing.formats import Read, ReaderContract, inherited, values

RULE = "-" * 87 + "\n"
ABOUT = """                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_1
 Number of qps   : 1            Transport type : IB
 Connection type : RC           Using SRQ      : OFF
 Mtu             : 4096[B]
 Link type       : IB
"""
HEAD = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"
ROW = " 65536      5000             11030.78            11030.45\t\t   0.176487\n"
MIB = ABOUT + RULE + HEAD + ROW + RULE
MB = MIB.replace("MiB/sec", "MB/sec")
GBITS = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 8          224958464        0.00               0.48               7.498617
 8388608    5000             197.10             196.92             0.002934
"""
OLD = (
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n 65536      5000   3293.63  3293.56\n"
)
LATENCY = """ #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]   \
t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
Conflicting CPU frequency values detected: 2400.000000 != 1873.463000. CPU Frequency is not max.
 2       1000          1.76           6.12         1.79         1.80      0.06            1.88         6.12
"""
OLD_LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n 2   1000   1.10   2.05   1.11\n"
)
PORTS = (
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   BW Port1[Gb/sec]   "
    "MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]\n"
    " 65536   10000   0.00   180.00   0.343323   90.00   0.171661   90.00   0.171661\n"
)
JSON = """{
"test_info": {
"test": "RDMA_Write_BW_Test",
"Device": "mlx5_11",
"Mtu": 1024
},
"results": {
"MsgSize": 65536,
"n_iterations": 5000,
"BW_peak": 5293.52,
"BW_average": 2229.27,
"MsgRate": 0.035668
}
}
"""
UNQUOTED = """{
test_info: {
test: RDMA_Write_Latency_Test,
Device: "rxe0",
TX_depth : 1,
},
results: {
MsgSize: 128,
n_iterations: 5000,
t_min: 2.37,
t_max: 5.39,
t_typical: 2.42,
t_avg: 2.42,
t_stdev: 0.05,
percentile_99: 2.47,
percentile_99.9: 4.03,
},
}
"""


class TestPerftest(ReaderContract):
    tool = "perftest"
    whole = (MIB, MB, GBITS, OLD, LATENCY, OLD_LATENCY, PORTS, JSON, UNQUOTED)
    torn = tuple(
        (HEAD + row + ROW, HEAD + ROW)
        for row in (
            ROW.replace("11030.45", "1030.45"),  # digits lost
            ROW.replace("0.176487", "0.1764"),
            ROW.replace("11030.45", "N/A"),
            ROW[:40] + "\n",
            ROW.replace("11030.45", "nan"),
            ROW.replace("11030.45", "0.00").replace("0.176487", "0.000000"),  # nothing was sent
            ROW.replace("0.176487", "1.76487e-1"),
            ROW.rstrip() + ROW,
        )
    )
    failed = (
        (ABOUT + " Completion with error at client\n Failed status 12: wr_id 0\n", "Completion with error"),
        ("Couldn't connect to 10.0.0.1:18515\n", "Couldn't connect"),
        (ABOUT + HEAD, "no table row"),
        (JSON[:-30], "cut off"),
    )

    @pytest.mark.parametrize(
        ("text", "bandwidth"),
        [
            (MIB, [11030.45 * 2**20]),
            (MB, [11030.45 * 2**20]),
            (MB.replace("11030.78", "11566.50").replace("11030.45", "11566.25"), [11566.25e6]),
            (GBITS, [8 * 7.498617e6, 196.92e9 / 8]),
            (OLD, [3293.56 * 2**20]),
            (JSON, [2229.27 * 2**20]),
            (JSON.replace("2229.27", "18.70"), [65536 * 0.035668e6]),
        ],
        ids=["MiB", "MB of 2^20", "MB of 10^6", "Gb", "before rates", "JSON in MiB", "JSON in Gb"],
    )
    def test_the_unit_is_the_one_in_which_bandwidth_is_size_times_rate(
        self, read: Read, text: str, bandwidth: list[float]
    ) -> None:
        found = read(text)
        assert values(found, "bandwidth") == pytest.approx(bandwidth, rel=1e-6)
        assert (found.problems, found.skipped) == ([], 0)

    def test_a_row_has_its_size_its_line_and_the_tests_own_words(self, read: Read) -> None:
        found = read(MIB)
        assert {(figure.line, figure.labels["payload_bytes"]) for figure in found.figures} == {(9, 65536)}
        assert values(found, "message_rate") == [176487.0]
        assert found.facts["test"] == "RDMA_Write BW Test"
        assert (found.facts["device"], found.facts["link_type"], found.facts["mtu"]) == (
            "mlx5_1",
            "IB",
            "4096",
        )

    @pytest.mark.parametrize("test", ["Send Bidirectional Post List BW", "Atomic FETCH_AND_ADD Latency"])
    def test_the_name_of_the_test_is_one_that_perftest_has(self, read: Read, test: str) -> None:
        assert read(MIB.replace("RDMA_Write BW", test)).facts["test"] == f"{test} Test"
        assert read(MIB.replace("RDMA_Write BW", "My BW")).facts["operation_unknown"] == "any test"
        assert read("\0\0" + MIB.lstrip()).problems == []
        [problem] = read(MIB.replace("RDMA_Write BW", "01O RDMA_Write BW")).problems
        assert problem.endswith("`01O` is before the name of the test, 'RDMA_Write BW Test'")

    def test_a_peak_that_was_not_taken_is_no_figure(self, read: Read) -> None:
        assert values(read(GBITS), "bandwidth_peak") == [pytest.approx(197.10e9 / 8)]

    @pytest.mark.parametrize(
        "text", [LATENCY, OLD_LATENCY, UNQUOTED], ids=["table", "old table", "unquoted JSON"]
    )
    def test_latencies_are_read_in_microseconds(self, read: Read, text: str) -> None:
        found = read(text)
        medians = {LATENCY: 1.79, OLD_LATENCY: 1.11, UNQUOTED: 2.42}
        assert values(found, "latency_median") == [medians[text]]
        assert {figure.unit for figure in found.figures} == {"us"}
        assert values(found, "latency_p99_9") == {LATENCY: [6.12], OLD_LATENCY: [], UNQUOTED: [4.03]}[text]
        assert (found.problems, found.skipped) == ([], 0)

    def test_each_port_has_its_own_figures_beside_those_of_both(self, read: Read) -> None:
        found = read(PORTS)
        of = {f.labels.get("port"): f.value for f in found.figures if f.metric == "bandwidth"}
        assert of == pytest.approx({None: 22.5e9, 1: 11.25e9, 2: 11.25e9}, rel=1e-4)

    def test_a_rate_that_lost_digits_where_the_bandwidth_does_not_tell_is_torn(self, read: Read) -> None:
        found = read(GBITS.replace("7.498617", "7.49"))
        assert (values(found, "message_rate"), found.skipped) == ([2934.0], 1)

    @pytest.mark.parametrize("spoilt", ["6.1", "-1.76", "N/A", "1.88e0"])
    def test_a_latency_that_lost_digits_or_is_no_time_makes_its_row_torn(
        self, read: Read, spoilt: str
    ) -> None:
        row = LATENCY.rstrip().removesuffix("6.12") + spoilt
        found = read(row if spoilt != "-1.76" else LATENCY.replace(" 1.76", spoilt))
        assert (found.figures, found.skipped) == ([], 1)

    def test_a_row_of_latencies_out_of_order_is_torn(self, read: Read) -> None:
        found = read(LATENCY.replace("1.79", "17.9"))
        assert (found.figures, found.skipped) == ([], 1)

    @inherited
    @given(text=st.text(max_size=200), where=st.integers(0, len(MIB)))
    def test_whatever_falls_into_a_log_makes_no_other_bandwidth(
        self, tmp_path_factory: pytest.TempPathFactory, text: str, where: int
    ) -> None:
        log = tmp_path_factory.mktemp("fuzz") / "log"
        log.write_text(MIB[:where] + text + MIB[where:], errors="replace")
        found = self.figures_in(log)
        for figure in found.figures:
            if figure.metric == "bandwidth":
                rates = [
                    f.value for f in found.figures if (f.metric, f.line) == ("message_rate", figure.line)
                ]
                size = float(str(figure.labels["payload_bytes"]))
                for rate in rates:  # none where its column's name was torn
                    assert figure.value == pytest.approx(size * rate, rel=0.5)

    @inherited
    @given(
        st.lists(st.sampled_from([*LATENCY.splitlines(), *MIB.splitlines()]), max_size=8), st.integers(0, 99)
    )
    def test_lines_of_two_tests_that_interleave_never_mix_their_metrics(
        self, tmp_path_factory: pytest.TempPathFactory, lines: list[str], at: int
    ) -> None:
        log = tmp_path_factory.mktemp("mixed") / "log"
        log.write_text("\n".join(lines)[at:])
        found = self.figures_in(log)
        assert set(values(found, "latency_median")) <= {1.79}
        assert {round(value) for value in values(found, "bandwidth")} <= {round(11030.45 * 2**20)}
