"""Tables of PARAM's communication benchmark, whole and spoilt."""

from __future__ import annotations

import pytest

from assay.formats.figures import LogFigures
from assay.testing.formats import Read, ReaderContract

HEAD = (
    "\n\tCOMMS-RES       size (B)  nElementsPerRank   Latency(us):p50         p75         p95         Min"
    "         Max    AlgBW(GB/s) BusBW(GB/s)\n"
)
ROW = (
    "\tCOMMS-RES-all_reduce        1048576            262144             120.1       121.0       125.5"
    "       118.2       126.0          8.731      15.279\n"
)
NEW_HEAD = HEAD.replace("      size (B)", "total-size (B)")
NEW_ROW = ROW.replace("all_reduce", "all_reduce-float32")
PAIRS = (
    "\tCOMMS-RES       size (B) pingLatency(us):p50       p75       p95  pingPongLatency(us):p50       p75"
    "       p95 avgUniBW(GB/s)  avgBiBW(GB/s)  totalUniBW(GB/s)   totalBiBW(GB/s)\n"
    "\tCOMMS-RES-pt2pt  65536  10.1  10.5  11.0  20.2  20.9  22.1  5.125  8.250  5.125  8.250\n"
)
QUANT = (
    "\tCOMMS-RES-QUANT\t  size (B)  nElementsPerRank  P95 Latency(us): Quant  Comms  De-Quant  Overall\n"
    "\tCOMMS-RES-QUANT-all_reduce\t  1024  256  3.1  20.1  2.2  25.4\n"
)


def figures_of(found: LogFigures) -> dict[str, float]:
    return {figure.metric: figure.value for figure in found.figures}


class TestParamComms(ReaderContract):
    tool = "param-comms"
    whole = (HEAD + ROW, NEW_HEAD + NEW_ROW, PAIRS)
    torn = tuple(
        (HEAD + row + NEW_ROW, HEAD + NEW_ROW)
        for row in (
            ROW.replace("121.0", "12.10"),
            ROW.replace("15.279", "nan"),
            ROW.replace("15.279", "N/A"),
            ROW[:60] + "\n",
            ROW.replace("\n", "  3.1\n"),
        )
    )
    failed = ((ROW, "no table row"),)

    @pytest.mark.parametrize(
        ("text", "dtype"),
        [(HEAD + ROW, None), (NEW_HEAD + NEW_ROW, "float32")],
        ids=["2021", "with number formats"],
    )
    def test_a_row_of_each_version_is_read_by_its_header(
        self, read: Read, text: str, dtype: str | None
    ) -> None:
        found = read(text)
        assert figures_of(found) == {
            "busbw": 15.279,
            "algbw": 8.731,
            "latency_p50": 120.1,
            "latency_p75": 121.0,
            "latency_p95": 125.5,
            "latency_min": 118.2,
            "latency_max": 126.0,
        }
        labels = found.figures[0].labels
        assert (labels["operation"], labels["payload_bytes"], labels.get("dtype")) == (
            "all_reduce",
            1048576,
            dtype,
        )
        assert (found.problems, found.skipped, found.figures[0].line) == ([], 0, 3)

    def test_the_header_of_before_is_read_as_well(self, read: Read) -> None:
        found = read(HEAD.replace("Latency(us):p50", "Time(us) p50") + ROW)
        assert figures_of(found)["latency_p50"] == 120.1

    def test_two_ranks_have_bandwidth_and_the_median_of_their_times(self, read: Read) -> None:
        found = read(PAIRS)
        assert figures_of(found) == {
            "ping_p50": 10.1,
            "ping_pong_p50": 20.2,
            "bandwidth": 5.125,
            "bandwidth_both_ways": 8.25,
        }
        assert found.skipped == 0

    def test_rows_of_another_header_are_counted_and_not_guessed(self, read: Read) -> None:
        found = read(HEAD + ROW + QUANT)
        assert (len(found.figures), found.skipped) == (7, 2)
        assert "no table row" in read(ROW).problems[0]
