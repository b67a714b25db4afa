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

It prints its last line when it has finished. Figures have two decimals: one with fewer was cut.
"""

from __future__ import annotations

import re
from pathlib import Path

from assay.plugins.formats import LogFigure, LogFigures, Metric, Tool, lines

METRICS = (
    Metric("event_rate", "1/s", "higher", "events per second of all threads"),
    Metric("latency_mean", "s", "lower", "time of one event, mean"),
    Metric("latency_p95", "s", "lower", "time of one event that 95 % of them don't exceed"),
)
_NAMES = {
    "events per second": ("event_rate", "1/s"),
    "avg": ("latency_mean", "ms"),
    "95th percentile": ("latency_p95", "ms"),
}
_LINE = re.compile(rf"\s*({'|'.join(_NAMES)}):\s*(.*?)\s*$")
_FIGURE = re.compile(r"[0-9]{1,12}\.[0-9]{2}")
_THREADS = re.compile(r"\s*Number of threads: ([0-9]{1,6})\s*$")
_END = re.compile(r"\s*execution time \(avg/stddev\):\s+[0-9.]+/")


def read(path: Path) -> LogFigures:
    """The contents of a log: every sign of failure is a problem, every line that is torn is counted."""
    log = LogFigures()
    rates, ended = 0, False
    for number, text in lines(path, log):
        if match := _LINE.match(text):
            metric, unit = _NAMES[match[1]]
            if not _FIGURE.fullmatch(match[2]) or float(match[2]) == 0:
                log.skipped += 1
                continue
            log.figures.append(LogFigure(metric, float(match[2]), {}, {}, number, unit))
            rates += metric == "event_rate"
            if metric == "event_rate" and rates > 1:
                log.again(number, "a second rate")
        elif match := _THREADS.match(text):
            log.facts.setdefault("threads", int(match[1]))
        elif "FATAL:" in text:
            log.problems.append(f"line {number}: {text[text.index('FATAL:') :].strip()}")
        ended = ended or _END.match(text) is not None
    if not ended:
        log.problems.append("it lacks its last line: the test did not finish, or the log was cut")
    return log.missing("no line with a figure")


SYSBENCH = Tool(
    "sysbench",
    mark=re.compile(rb"sysbench \d+\.\d+"),
    line="sysbench 1.0.20 (using …)",
    words=("sysbench", "events per second", "threads fairness"),
    read=read,
    metrics=METRICS,
)
