"""Reports of iperf3, whole and spoilt."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.formats.figures import LogFigures
from assay.testing.formats import Read, ReaderContract, inherited

START = {
    "connected": [{"socket": 5, "local_host": "10.0.0.1"}],
    "version": "iperf 3.16",
    "test_start": {"protocol": "TCP", "num_streams": 4, "blksize": 131072, "duration": 10, "reverse": 0},
}
TCP: dict[str, Any] = {
    "streams": [],
    "sum_sent": {"seconds": 10.0, "bytes": 11_775_000_000, "bits_per_second": 9.42e9, "retransmits": 12},
    "sum_received": {"seconds": 10.0, "bytes": 11_762_500_000, "bits_per_second": 9.41e9},
}
CPU = {"cpu_utilization_percent": {"host_total": 16.1, "host_user": 1.0, "remote_total": 73.2}}
UDP = {"sum": {"bits_per_second": 1e9, "jitter_ms": 0.02, "lost_packets": 5, "lost_percent": 0.5}}


def report(end: dict[str, Any], **more: Any) -> str:
    return json.dumps({"start": START, "intervals": [], "end": end} | more, indent="\t")


def event(name: str, data: dict[str, Any]) -> str:
    return json.dumps({"event": name, "data": data}) + "\n"


STREAM = event("start", START) + event("interval", {}) + event("end", TCP | CPU)


def by_metric(found: LogFigures) -> dict[str, float]:
    return {figure.metric: figure.value for figure in found.figures}


class TestIperf3(ReaderContract):
    tool = "iperf3"
    whole = (report(TCP), report(UDP), STREAM)
    torn = (
        (
            STREAM.replace('{"event": "interval"', '{"event": "inter'),
            STREAM.replace(event("interval", {}), ""),
        ),
    )
    failed = (
        (
            report({**TCP, "sum_received": {**TCP["sum_received"], "bits_per_second": 7.528e10}}),
            "sum_received: bits_per_second is 7.528e+10, but its bytes and seconds make 9.41e+09",
        ),
        (report({}, error="unable to connect to server: Connection refused"), "Connection refused"),
        (report(TCP, error="control socket has closed unexpectedly"), "control socket"),
        (report(TCP)[:-40], "cut off"),
        (report({}), "did not finish"),
        (report(CPU), "did not finish"),
        ("[1]", "JSON"),
        ("{}", "'start' is missing"),
        (report({"sum_sent": None}), "cut off"),
        (report({"sum_received": {"bits_per_second": "N/A"}}), "did not finish"),
    )

    def test_the_bandwidth_is_what_arrived(self, read: Read) -> None:
        found = read(report(TCP))
        assert by_metric(found) == {"bandwidth": 9.41e9, "bandwidth_sent": 9.42e9, "retransmits": 12}
        [received] = [figure for figure in found.figures if figure.metric == "bandwidth"]
        assert received.unit == "b/s"
        assert "sum_received" in report(TCP).splitlines()[received.line - 1]
        assert (found.facts["protocol"], found.facts["num_streams"], found.facts["iperf3_version"]) == (
            "TCP",
            4,
            "3.16",
        )

    @pytest.mark.parametrize(
        ("start", "client", "server"),
        [
            ({"connecting_to": {"host": "b"}}, 16.1, 73.2),
            ({"accepted_connection": {"host": "a"}}, 73.2, 16.1),
        ],
        ids=["the client's report", "the server's"],
    )
    def test_the_cores_that_each_end_used_are_told_apart(
        self, read: Read, start: dict[str, Any], client: float, server: float
    ) -> None:
        found = read(report(TCP | CPU, start=START | start))
        cores = {f.labels["end"]: (f.value, f.unit) for f in found.figures if f.metric == "cores"}
        assert cores == {"client": (client, "%"), "server": (server, "%")}

    def test_a_server_does_not_know_the_times_of_its_client(self, read: Read) -> None:
        cpu = {"cpu_utilization_percent": {"host_total": 49.8, "remote_total": 0}}
        found = read(report(TCP | cpu, start=START | {"accepted_connection": {"host": "a"}}))
        assert {f.labels["end"]: f.value for f in found.figures if f.metric == "cores"} == {"server": 49.8}

    def test_segments_sent_again_are_a_share_where_their_size_is_known(self, read: Read) -> None:
        sent = {"sum_sent": TCP["sum_sent"] | {"bytes": 14480000, "bits_per_second": 11584000}}
        found = read(report(TCP | sent, start=START | {"tcp_mss_default": 1448}))
        assert by_metric(found)["retransmit_share"] == pytest.approx(12 / 10000)

    def test_retransmits_that_were_not_counted_are_no_figure(self, read: Read) -> None:
        found = read(report(TCP | {"sum_sent": {"bits_per_second": 1e9, "retransmits": -1}}))
        assert "retransmits" not in by_metric(found)

    def test_warnings_around_a_document_are_none_of_it(self, read: Read) -> None:
        text = f"warning: no congestion control\n{report(TCP)}\niperf3: getsockopt - not supported\n"
        found = read(text)
        assert (by_metric(found)["bandwidth"], found.problems) == (9.41e9, [])

    def test_both_directions_are_told_apart(self, read: Read) -> None:
        end = TCP | {"sum_received_bidir_reverse": {"bits_per_second": 8e9}}
        found = read(report(end))
        assert {f.labels.get("direction"): f.value for f in found.figures if f.metric == "bandwidth"} == {
            None: 9.41e9,
            "reverse": 8e9,
        }

    @pytest.mark.parametrize(
        "udp", [UDP["sum"] | {"bits_per_second": 0}, UDP["sum"] | {"bytes": 0, "bits_per_second": 0.0}]
    )
    def test_a_sum_of_nothing_is_no_result(self, read: Read, udp: dict[str, Any]) -> None:
        found = read(report({"sum": udp}))
        assert found.figures == []
        assert "its sum is of 0 bytes: the test moved no data" in found.problems[0]

    def test_an_old_udp_test_that_counted_no_bytes_is_no_result(self, foreign_logs: Path) -> None:
        found = self.figures_in(foreign_logs / "failing" / "iperf3-udp-zero-bytes.json")
        assert "its sum is of 0 bytes" in found.problems[0]

    def test_udp_says_what_was_sent_and_what_was_lost(self, read: Read) -> None:
        assert by_metric(read(report(UDP))) == {"lost": 0.5, "jitter": 0.02, "bandwidth_sent": 1e9}

    def test_a_stream_of_events_is_read_as_the_document_is(self, read: Read) -> None:
        assert by_metric(read(STREAM)) == by_metric(read(report(TCP | CPU)))

    @inherited
    @given(
        st.recursive(
            st.none() | st.floats() | st.text(max_size=5),
            lambda x: st.dictionaries(
                st.sampled_from(
                    [
                        *(
                            "start",
                            "end",
                            "error",
                            "version",
                            "test_start",
                            "sum",
                            "sum_sent",
                            "sum_received",
                        ),
                        *("bits_per_second", "bytes", "retransmits", "tcp_mss_default", "connecting_to"),
                        *("connecting_to", "cpu_utilization_percent", "host_total", "remote_total"),
                    ]
                ),
                x,
            ),
            max_leaves=12,
        )
    )
    def test_any_json_is_a_report_or_a_problem(
        self, tmp_path_factory: pytest.TempPathFactory, told: Any
    ) -> None:
        log = tmp_path_factory.mktemp("fuzz") / "log"
        log.write_text(json.dumps(told))
        found = self.figures_in(log)
        assert found.figures or found.problems
        assert all(math.isfinite(figure.value) for figure in found.figures)
