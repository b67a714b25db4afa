"""What `sysbench cpu run` prints.

    sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
    Number of threads: 4
    CPU speed:
        events per second:  3914.56
    Latency (ms):
             avg:                                    1.02
             95th percentile:                        1.04
    Threads fairness:
        execution time (avg/stddev):   9.9977/0.00

It prints its last line when it has finished.
"""

from __future__ import annotations

from assay.plugins import Line, Metric, line_tool

SYSBENCH = line_tool(
    "sysbench",
    mark=r"sysbench \d+\.\d+",
    line="sysbench 1.0.20 (using …)",
    phrases=("sysbench", "events per second", "threads fairness"),
    metrics=(
        Metric("event_rate", "1/s", "higher", "events per second of all threads"),
        Metric("latency_mean", "s", "lower", "time of one event, mean"),
        Metric("latency_p95", "s", "lower", "time of one event that 95 % of them don't exceed"),
    ),
    lines=(
        r"events per second:\s*{event_rate:1/s}\s*$",
        r"^\s*avg:\s*{latency_mean:ms}\s*$",
        r"95th percentile:\s*{latency_p95:ms}\s*$",
        Line(r"execution time \(avg/stddev\):\s*{}/", final="summary"),
        r"Number of threads: {threads}\s*$",
    ),
    failed=r"FATAL:.*",
)
