"""The index: its rebuild and cost per run, its queries, and `assay show` as a process, on many runs.

Two sizes: `--runs` made-up results that go straight into the index (default 100,000), and `--directories`
real run directories on disk that `assay index` reads (default 10,000; a hundred thousand take minutes to
create), once from their logs and once from the cached readings.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from options import parse, sized
from paired import in_turn, ratio, wall_s

from assay import store
from assay.records import (
    Measurement,
    Provenance,
    Reading,
    Result,
    Run,
    RunState,
    Scalar,
    Series,
    Shape,
    Trial,
    to_json,
)
from assay.run.index import update_index

ASSAY = str(Path(sys.executable).with_name("assay"))
SIZES = (512, 1024, 2048)
TRIALS_A_SESSION = 100


def facts(system: str, number: int) -> dict[str, Scalar]:
    """A node's table of realistic size; a few facts of it differ in every run."""
    table: dict[str, Scalar] = {f"package.name-{i}": f"1.{i}.0" for i in range(350)}
    changing = {"memory.available_bytes": 2**34 - 4096 * number, "load.1min": number % 300 / 100}
    return table | {"host": system, "os": "Debian 12", "cpu.model": "made up"} | changing


def made_run(number: int, suite: str, systems: int = 4) -> Run:
    """The record of one run: `TRIALS_A_SESSION` per session, alternating systems."""
    session = f"2026-{number // TRIALS_A_SESSION:07d}"
    system, block = f"system-{number % systems}", number % TRIALS_A_SESSION // systems + 1
    trial = Trial(
        id=f"matmul-1x1-{system}-r{block:02d}",
        suite=suite,
        benchmark="matmul",
        workload="matmul",
        system=system,
        shape=Shape(1, 1),
        params={"sizes": list(SIZES), "dtypes": ["fp32"]},
        varied={},
        block=block,
        seed=block,
        timeout_s=600.0,
        retries=1,
        digest=f"digest-{system}",
    )
    return Run(
        schema=1,
        assay_version="0",
        id=f"{suite}/{session}/{trial.id}",
        suite=suite,
        suite_digest="suite",
        plan_digest="plan",
        session=session,
        interleaved=True,
        trial=trial,
        attempt=1,
        token=f"token-{number}",
        state=RunState.FINISHED,
        created_at=1.7e9 + number,
        started_at=1.7e9 + number,
        ended_at=1.7e9 + number + 9,
    )


def made_results(count: int, suite: str = "made", seed: int = 1) -> Iterator[Result]:
    """Results with six measurements and a series of forty points each."""
    dice = random.Random(seed)
    steps = tuple(float(step) for step in range(40))
    for number in range(count):
        run = made_run(number, suite)
        measurements = tuple(
            Measurement(
                metric, 1e11 * dice.lognormvariate(0, 0.01), "FLOP/s", {"size": size}, "rank-0.log", line
            )
            for line, (metric, size) in enumerate(
                ((m, s) for m in ("flop_rate", "flop_rate_slowest") for s in SIZES), start=10
            )
        )
        series = Series("loss", "", "step", steps, tuple(dice.random() for _ in steps))
        provenance = Provenance((facts(run.trial.system, number),))
        yield Result(run, Reading(measurements, (series,)), provenance)


def write_directories(root: Path, count: int) -> None:
    """Run directories as written by `assay run`, but without waiting for the disk."""
    dice = random.Random(2)
    for number in range(count):
        run = made_run(number, "on-disk")
        attempt = root / run.id / "attempt-1"
        (attempt / "logs").mkdir(parents=True)
        (root / run.suite / run.session / "session.json").write_text("{}")
        (attempt / "run.json").write_text(to_json(run))
        (attempt / "provenance.json").write_text(to_json(Provenance((facts(run.trial.system, number),))))
        (attempt / "logs" / "rank-0.log").write_text("".join(_log_lines(dice)))


def _log_lines(dice: random.Random) -> Iterator[str]:
    figures = [(metric, size) for size in SIZES for metric in ("flop_rate", "flop_rate_slowest")]
    events: list[tuple[str, str, float | None, Mapping[str, object]]] = [
        ("INTERVAL_START", "run_start", None, {}),
        *(
            (
                "POINT_IN_TIME",
                m,
                1e11 * dice.lognormvariate(0, 0.01),
                {"unit": "FLOP/s", "labels": {"size": s}},
            )
            for m, s in figures
        ),
        ("INTERVAL_END", "run_stop", None, {"status": "success"}),
    ]
    for seq, (kind, key, value, metadata) in enumerate(events, start=1):
        event = {"namespace": "assay", "time_ms": 1700000000000 + seq, "event_type": kind, "key": key}
        event |= {"value": value, "metadata": {"rank": 0, "seq": seq, **metadata}}
        yield f":::MLLOG {json.dumps(event)}\n"


def timed_s(act: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def report(what: str, seconds: float, note: str = "") -> None:
    """Print one line of figures."""
    print(f"{what:46} {seconds * 1e3:10.1f} ms  {note}", flush=True)


def on_made_up_runs(root: Path, count: int) -> None:
    """Build, extend, query, and list an index of this many runs."""
    making = timed_s(lambda: [None for _ in made_results(min(count, 2000))]) / min(count, 2000)
    build = timed_s(lambda: store.update(root, made_results(count)))
    report(
        f"index of {count} runs from results",
        build - making * count,
        f"{(build / count - making) * 1e6:.0f} µs a run",
    )
    print(f"{'its size':46} {store.index_path(root).stat().st_size / 1e6:10.1f} MB")
    report("adding 10 runs", timed_s(lambda: store.update(root, made_results(10, "new"))))
    queries: dict[str, Callable[[], object]] = {
        "query: newest 40 sets": lambda: store.listed_sets(root, store.Filter(), 40),
        "query: newest 40 runs": lambda: store.listed_runs(root, store.Filter(), 40),
        "query: newest 40 failed runs": lambda: store.listed_runs(root, store.Filter(state="failed"), 40),
        "query: sets of one system": lambda: store.listed_sets(root, store.Filter(system="system-1"), 40),
    }
    for what, query in queries.items():
        report(what, statistics.median(timed_s(query) for _ in range(11)), "(to be under 100 ms)")
    for arguments in ([], ["--trials"]):
        argv = [ASSAY, "list", *arguments, "--runs", str(root)]
        ours, bare = in_turn(partial(wall_s, argv), partial(wall_s, [sys.executable, "-c", "pass"]), pairs=9)
        report(" ".join(["process: assay show", *arguments]), statistics.median(ours), "(to be under 500 ms)")
        print(f"{'  beside python -c pass':46} {ratio(ours, bare)}")


def on_directories(root: Path, count: int) -> None:
    """Rebuild the index from real directories, then check for changes when there are none."""
    write_directories(root, count)
    for what in ("from the logs", "from cached readings"):
        seconds = timed_s(lambda: update_index(root, rebuild=True))
        report(
            f"assay index --rebuild, {count} directories, {what}",
            seconds,
            f"{seconds / count * 1e6:.0f} µs a run",
        )
    seconds = timed_s(lambda: update_index(root))
    report(
        f"assay index, nothing changed, {count} directories", seconds, f"{seconds / count * 1e6:.0f} µs a run"
    )
    indexed = len(store.known(root))
    if indexed != count:
        sys.exit(f"{indexed} of {count} directories were indexed")


def main() -> None:
    """Print every figure."""
    options = parse(
        sized(
            __doc__,
            runs=(100_000, 100, "made-up results"),
            directories=(10_000, 10, "run directories on disk"),
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        on_made_up_runs(Path(directory) / "made", options.runs)
        on_directories(Path(directory) / "on-disk", options.directories)


if __name__ == "__main__":
    main()
