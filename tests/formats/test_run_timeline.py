"""A log's phases and figures, at their time of day."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.formats.run_timeline import RunPhase, RunTimeline, run_timeline


def line(
    at_s: float, key: str, event: str = "POINT_IN_TIME", value: object = None, **metadata: object
) -> str:
    entry = {"namespace": "", "time_ms": int(at_s * 1000), "event_type": event, "key": key, "value": value}
    return f":::MLLOG {json.dumps({**entry, 'metadata': metadata})}\n"


def log(directory: Path, *lines: str) -> Path:
    path = directory / "rank-0.log"
    path.write_text("".join(lines))
    return path


START, END = "INTERVAL_START", "INTERVAL_END"


def test_phases_and_figures_have_their_times(tmp_path: Path) -> None:
    found = run_timeline(
        log(
            tmp_path,
            line(1, "init_start", START),
            line(2, "init_stop", END),
            line(2, "run_start", START),
            line(2, "block_start", START, first_epoch_num=1),
            line(2.5, "epoch_start", START, epoch_num=1),
            "something else\n",
            line(3, "tracked_stats", value={"throughput": 10.5, "loss": 0.5}, step=1),
            line(4, "tracked_stats", value={"throughput": 11, "note": "x"}, step=2),
            line(5, "epoch_stop", END, epoch_num=1),
            line(6, "eval_start", START),
            line(7, "throughput", value=12.0, unit="images/s", labels={}),
        )
    )
    assert found.phases == (
        RunPhase("start", 1, 2),
        RunPhase("run", 2, None),
        RunPhase("epoch", 2.5, 5),
        RunPhase("evaluation", 6, None),
    )
    assert found.curves == {"throughput": ((3, 10.5), (4, 11))}


def test_a_log_without_such_lines_has_an_empty_timeline(tmp_path: Path) -> None:
    assert run_timeline(log(tmp_path, "epoch 1: loss 0.3\n")) == RunTimeline((), {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from([
    line(1, "run_start", START), line(2, "run_stop", END), line(9, "run_start", START),
    line(3, "tracked_stats", value={"loss": None}),
    line(3, "tracked_stats", value=[1]), line(3, "loss", value="a"), ':::MLLOG {"key": 3}\n',
]))))  # fmt: skip
def test_whatever_a_log_has_each_phase_begins_before_it_ends(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes("".join(lines).encode(errors="replace"))
    for phase in run_timeline(path).phases:
        assert phase.end_at is None or phase.end_at >= phase.begin_at
