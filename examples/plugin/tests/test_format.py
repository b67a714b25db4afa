"""The format passes the contract that Assay's own formats pass."""

from __future__ import annotations

from assay.testing.formats import Read, ReaderContract, values

LOG = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 4
Initializing random number generator from current time

Prime numbers limit: 10000

Initializing worker threads...

Threads started!

CPU speed:
    events per second:  3914.56

General statistics:
    total time:                          10.0003s
    total number of events:              39151

Latency (ms):
         min:                                    0.99
         avg:                                    1.02
         max:                                    5.53
         95th percentile:                        1.04
         sum:                                39990.70

Threads fairness:
    events (avg/stddev):           9787.7500/7.85
    execution time (avg/stddev):   9.9977/0.00
"""


class TestSysbench(ReaderContract):
    tool = "sysbench"
    whole = (LOG, LOG.replace("Number of threads: 4", "Number of threads: 1"))
    torn = ((LOG.replace("3914.56", "nan"), LOG.replace("    events per second:  3914.56\n", "")),)
    failed = (
        (LOG.replace("Threads started!", "FATAL: Thread init failed!"), "Thread init failed"),
        (LOG[: LOG.index("Threads fairness")], "its last line is missing"),
    )

    def test_the_figures_are_those_of_the_summary(self, read: Read) -> None:
        log = read(LOG)
        assert values(log, "event_rate") == [3914.56]
        assert values(log, "latency_mean") == [1.02]
        assert values(log, "latency_p95") == [1.04]
        assert log.facts == {"threads": 4}
