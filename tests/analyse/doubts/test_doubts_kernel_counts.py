"""Doubts about what happened on the nodes while the runs ran: what raises each, what must not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.analyse.doubts import of
from assay.analyse.points.case import Case, Side
from assay.analyse.points.encounters import others_cpus, time_to_neighbours
from assay.analyse.points.groups import group
from assay.launch.job_directory import joined
from assay.launch.local import LocalSystem
from assay.launch.local.launcher import LocalLauncher
from assay.records import Doubt, Estimate, JobState, JobStatus, NodeCounts, Provenance, Result
from assay.testing.launchers import job, python, run
from stated_runs import metrics, result

QUIET = NodeCounts(
    elapsed_s=10.0,
    cpus=2,
    busy_cpu_s=19.03,
    stolen_cpu_s=0.0,
    cpu_wait_s=2.0,
    memory_wait_s=0.0,
    job_cpu_s=19.0,
    job_major_faults=0,
    quota_cores=None,
    swapped_in_bytes=0,
    swapped_out_bytes=0,
    heat_events=0,
    heat_s=0.0,
    suspended_s=0.0,
)
TROUBLES: dict[str, dict[str, Any]] = {
    "cpu-throttled": {"quota_cores": 1.5, "periods": 100, "throttled_periods": 60, "throttled_s": 4.75},
    "busy-neighbours": {"job_cpu_s": 12.0},
    "stolen-time": {"stolen_cpu_s": 1.0},
    "heat-throttled": {"heat_events": 7, "heat_s": 3.0},
    "swapping": {"swapped_in_bytes": 8 << 20, "memory_wait_s": 0.5},
    "suspended": {"suspended_s": 1.5},
}
BELOW: dict[str, dict[str, Any]] = {
    "cpu-throttled": {"quota_cores": 1.5, "periods": 100, "throttled_periods": 2, "throttled_s": 0.1},
    "busy-neighbours": {"job_cpu_s": 18.9},
    "stolen-time": {"stolen_cpu_s": 0.1},
    "heat-throttled": {"heat_events": 1, "heat_s": 0.05},
    "swapping": {"swapped_in_bytes": 8 << 20, "memory_wait_s": 0.05},
    "suspended": {"suspended_s": 0.05},
}


def runs(
    *nodes: Sequence[NodeCounts], system: str = "a", facts: dict[str, Any] | None = None
) -> list[Result]:
    """One run for each of these lists of nodes."""
    found = []
    for block, counts in enumerate(nodes, start=1):
        made = result(100 + 0.1 * block, block=block, system=system)
        provenance = None if facts is None else Provenance((facts,))
        found.append(Result(replace(made.run, nodes=tuple(counts)), made.reading, provenance))
    return found


def raised(*sides: Sequence[Result], margin: float | None = None) -> dict[str, Doubt]:
    """The doubts about these sides' only points, by code."""
    found = []
    for name, results in zip("AB", sides, strict=False):
        [at] = group(results, metrics()).values()
        found.append(Side(name, at))
    return {d.code: d for d in of(Case(tuple(found), Estimate(1.0, None, None, 3, ""), margin))}


@pytest.mark.parametrize("code", TROUBLES)
def test_each_trouble_raises_its_own_doubt_alone(code: str) -> None:
    met = runs(*[[replace(QUIET, **TROUBLES[code])]] * 3)
    assert set(TROUBLES) & set(raised(met)) == {code}


@pytest.mark.parametrize("code", BELOW)
def test_less_than_half_of_the_margin_raises_nothing(code: str) -> None:
    met = runs(*[[replace(QUIET, **BELOW[code])]] * 3)
    assert not set(TROUBLES) & set(raised(met, margin=0.02))
    assert set(TROUBLES) & set(raised(met, margin=0.001)) == {code}


def test_runs_that_nobody_counted_raise_nothing() -> None:
    unknown = NodeCounts(elapsed_s=10.0, cpus=2)
    assert not set(TROUBLES) & set(raised(runs([], [unknown], [])))


def test_one_troubled_run_of_many_is_weighed_by_what_it_does_to_the_mean() -> None:
    troubled = [replace(QUIET, job_cpu_s=18.0)]  # 5 % of the CPUs
    assert "busy-neighbours" in raised(runs(troubled, [QUIET], [QUIET]))
    assert "busy-neighbours" not in raised(runs(troubled, *[[QUIET]] * 9))


def test_of_a_runs_nodes_the_worst_counts() -> None:
    troubled = replace(QUIET, **TROUBLES["stolen-time"])
    found = raised(runs([QUIET, QUIET, troubled]))["stolen-time"]
    assert "1 s of CPU time in 10 s" in found.evidence


def test_one_suspended_run_of_many_is_named_with_its_pause() -> None:
    paused = [replace(QUIET, suspended_s=2.5)]
    found = raised(runs(paused, *[[QUIET]] * 9), runs(*[[QUIET]] * 3, system="b"))["suspended"]
    assert found.evidence.startswith("A: 1 of 10 runs, the longest for 2.5 s of 10 s (")


@contextmanager
def after(seconds: float, act: Any) -> Iterator[None]:
    """Something that happens next to the block, in its own thread."""
    timer = threading.Timer(seconds, act)
    timer.start()
    yield
    timer.join()


def keeper_and_ranks(token: str) -> list[int]:
    """The processes of a job, the keeper first."""
    marked = f"ASSAY_TOKEN={token}".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if marked in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
        except OSError:
            continue
    return sorted(found)


def stop_and_continue(token: str, seconds: float, *, ranks_only: bool) -> None:
    stopped = keeper_and_ranks(token)
    if ranks_only:
        stopped = [pid for pid in stopped if b"time.sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            os.kill(pid, number)
        if number is signal.SIGSTOP:
            time.sleep(seconds)


@pytest.mark.parametrize("ranks_only", [False, True])
def test_a_job_whose_processes_are_stopped_for_a_while_is_known_to_have_been(
    tmp_path: Path, ranks_only: bool
) -> None:
    asked = job(python("import time; time.sleep(3.5)"), 2)
    with after(1.0, lambda: stop_and_continue(asked.token, 1.8, ranks_only=ranks_only)):
        status, _ = run(LocalLauncher(LocalSystem(), tmp_path), asked)
    assert status.state is JobState.SUCCEEDED, status
    (node,) = status.nodes
    assert node.suspended_s == pytest.approx(1.8, abs=0.4)
    assert node.elapsed_s > 3.4


def test_a_job_on_an_overloaded_machine_was_not_suspended(tmp_path: Path) -> None:
    burn = [sys.executable, "-c", "import time; t = time.time() + 4\nwhile time.time() < t: pass"]
    others = [subprocess.Popen(burn) for _ in range(8 * (os.cpu_count() or 1))]
    status, _ = run(LocalLauncher(LocalSystem(), tmp_path), job(python("import time; time.sleep(3)"), 2))
    for other in others:
        other.wait()
    assert [node.suspended_s for node in status.nodes] == [0.0]


def ended(**counted: Any) -> JobStatus:
    return JobStatus(JobState.SUCCEEDED, nodes=(replace(QUIET, job_cpu_s=9.5, **counted),))


def test_pods_of_one_job_on_one_node_are_no_neighbours_of_each_other() -> None:
    together = joined([ended(cpu_set="boot 0-1"), ended(cpu_set="boot 0-1")]).nodes
    assert [node.beside_cpu_s for node in together] == [9.5, 9.5]
    assert "busy-neighbours" not in raised(runs(together, together, together))
    for apart in ("boot 2-3", "another-boot 0-1"):
        lone = joined([ended(cpu_set="boot 0-1"), ended(cpu_set=apart)]).nodes
        assert [node.beside_cpu_s for node in lone] == [0.0, 0.0]
        assert "busy-neighbours" in raised(runs(lone, lone, lone))


def test_neighbours_of_one_side_are_told_from_neighbours_of_both() -> None:
    busy, quiet = [[replace(QUIET, job_cpu_s=12.0)]] * 3, [[QUIET]] * 3
    one = raised(runs(*quiet), runs(*busy, system="b"))["busy-neighbours"].evidence
    assert "B: other processes contended for 20 % of the CPU time over 3 runs" in one
    assert "others used 0.7 of 2 CPUs and the job 1.2; some task waited for a CPU 20 % of the time" in one
    assert one.endswith("; A: 0 %; the effect on A hardly matters, the effect on B may have slowed it down")
    both = raised(runs(*busy), runs(*busy, system="b"))["busy-neighbours"].evidence
    assert both.endswith("both sides were affected, and either may have lost more")
    more = [[replace(QUIET, job_cpu_s=2.0)]] * 3
    unlike = raised(runs(*busy), runs(*more, system="b"))["busy-neighbours"].evidence
    assert unlike.endswith("both sides were affected, and either may have lost more")  # a count is no loss
    unknown = raised(runs(*busy), runs([], [], system="b"))["busy-neighbours"].evidence
    assert unknown.endswith("nothing was counted for B")
    hot, cool = [replace(QUIET, heat_events=1, heat_s=None)], [QUIET]
    uncounted = raised(runs(hot, hot), runs(cool, cool, system="b"))["heat-throttled"].evidence
    assert uncounted.endswith("the effect on B hardly matters, the effect on A may have slowed it down")
    assert "either may have lost more" in raised(runs(hot), runs(hot, system="b"))["heat-throttled"].evidence


def test_neighbours_on_idle_cpus_for_which_nobody_waited_raise_nothing() -> None:
    idle = replace(QUIET, cpus=64, job_cpu_s=80.0, busy_cpu_s=160.0)
    assert "busy-neighbours" in raised(runs([idle]))
    assert "busy-neighbours" not in raised(runs([replace(idle, cpu_wait_s=0.01)]))
    assert "busy-neighbours" in raised(runs([replace(idle, cpu_wait_s=None)]))


def test_neighbours_of_a_job_that_leaves_most_cpus_idle_raise_nothing_where_queues_were_short() -> None:
    """A node of 64 CPUs whose kernel counts no pressure: others use half a CPU, and nobody waits for one."""
    gpu_node = replace(QUIET, cpus=64, job_cpu_s=80.0, busy_cpu_s=90.0, cpu_wait_s=None)
    assert "busy-neighbours" in raised(runs([gpu_node]))
    assert "busy-neighbours" not in raised(runs([replace(gpu_node, queue_wait_s=0.05)]))


def test_the_time_that_a_job_may_have_waited_is_the_least_of_what_the_kernel_counts() -> None:
    busy = replace(QUIET, busy_cpu_s=19.036, job_cpu_s=12.0, cpu_wait_s=None)
    assert time_to_neighbours(busy) == pytest.approx(0.7)  # others' time: two threads may wait for one
    assert time_to_neighbours(replace(busy, cpu_wait_s=6.0)) == pytest.approx(0.6)
    assert time_to_neighbours(replace(busy, queue_wait_s=5.0)) == pytest.approx(0.5)
    assert time_to_neighbours(replace(busy, cpus=4, busy_cpu_s=19.072)) == pytest.approx(0.4768)
    assert time_to_neighbours(replace(busy, job_cpu_s=None)) is None


def test_a_short_run_is_not_blamed_for_the_kernels_coarse_counting() -> None:
    short = replace(QUIET, elapsed_s=0.5, busy_cpu_s=1.0, job_cpu_s=0.96, cpu_wait_s=None)
    assert "busy-neighbours" not in raised(runs([short]))


def test_slow_downs_that_are_counted_but_not_timed() -> None:
    assert "heat-throttled" in raised(runs([replace(QUIET, heat_events=1, heat_s=None)]))


def test_swap_without_a_count_of_the_waiting() -> None:
    read_back = {"memory_wait_s": None, "swapped_in_bytes": 8 << 20}  # 2,048 pages, 0.2 s of 10 s
    assert "swapping" in raised(runs([replace(QUIET, **read_back)]))
    assert "swapping" not in raised(runs([replace(QUIET, memory_wait_s=5.0)]))


def test_what_was_counted_stands_in_place_of_what_was_feared() -> None:
    facts = {"host": "n", "cpu.logical": 2, "cpu.allowed": 2, "cpu.quota": 1.0, "load.1min": 9.0}
    feared = runs([], [], facts=facts)
    assert {"cpu-quota", "busy-machine"} <= set(raised(feared))
    counted = replace(QUIET, quota_cores=1.0, periods=100, throttled_periods=0, throttled_s=0.0)
    assert not {"cpu-quota", "busy-machine", *TROUBLES} & set(raised(runs([counted], [counted], facts=facts)))


def test_heat_between_runs_is_no_matter_where_none_was_counted_while_they_ran() -> None:
    cool, hot = ({"host": "n", "cpu.throttled_count_now": count} for count in (5, 19))
    feared = [runs([], facts=cool)[0], runs([], [], facts=hot)[1]]
    assert "clock-changed" in raised(feared)
    counted = [runs([QUIET], facts=cool)[0], runs([QUIET], [QUIET], facts=hot)[1]]
    assert not {"clock-changed", *TROUBLES} & set(raised(counted))


BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def counted_while_busy(spool: Path) -> tuple[NodeCounts, ...]:
    """What a job of one busy rank tells, started as this process is now."""
    status, streams = run(LocalLauncher(LocalSystem(), spool), job(python(BUSY.format(1.0))))
    assert status.state is JobState.SUCCEEDED, (status, streams)
    return status.nodes


@contextmanager
def this_process_in(group: Path) -> Iterator[None]:
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def this_process_on(cpus: set[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def test_a_real_quota_is_doubted(a_tenth_of_a_core: Path, tmp_path: Path) -> None:
    with this_process_in(a_tenth_of_a_core):
        nodes = counted_while_busy(tmp_path)
    evidence = raised(runs(nodes))["cpu-throttled"].evidence
    assert "periods of 0.1 cores" in evidence
    assert "cpu-throttled" not in raised(runs(counted_while_busy(tmp_path)))


def test_a_real_neighbour_on_the_only_cpu_is_doubted(tmp_path: Path) -> None:
    with this_process_on({min(os.sched_getaffinity(0))}):
        neighbour = subprocess.Popen([sys.executable, "-I", "-S", "-c", BUSY.format(60)])
        try:
            nodes = counted_while_busy(tmp_path)
        finally:
            neighbour.kill()
            neighbour.wait()
    evidence = raised(runs(nodes))["busy-neighbours"].evidence
    assert "of 1 CPU and" in evidence


def test_others_never_use_more_cpus_than_there_are() -> None:
    read_late = NodeCounts(2.73545, 2, busy_cpu_s=7.14, job_cpu_s=0.035873)
    used = others_cpus(read_late)
    assert used is not None
    assert used + 0.035873 / 2.73545 <= 2
