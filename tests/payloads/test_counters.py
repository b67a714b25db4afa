"""What the kernel counts while a job runs: on this machine, and on others as files of theirs."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from test_provenance import tree as laid_out

from assay.records import NodeCounts
from assay_payloads.keeping import counters
from assay_payloads.keeping.file_tree import FileTree

BUSY = "import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
# Looks, runs so many busy processes side by side, and tells what was counted
LOOK_AROUND = f"""
import json, subprocess, sys
sys.path.insert(0, {str(Path(counters.__file__).parents[2])!r})
from assay_payloads.keeping import counters
before = counters.look()
code = {BUSY.format(seconds=1.0)!r}
running = [subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) for _ in range(int(sys.argv[1]))]
for one in running:
    one.wait()
print(json.dumps(counters.between(before, counters.look())))
"""


def around_busy(processes: int, **how: Any) -> NodeCounts:
    command = [sys.executable, "-I", "-S", "-c", LOOK_AROUND, str(processes)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **how)
    return NodeCounts(**json.loads(told.stdout))


def joining(group: Path) -> Mapping[str, Any]:
    return {"preexec_fn": lambda: (group / "cgroup.procs").write_text(str(os.getpid()))}


def on_cpu(cpu: int) -> Mapping[str, Any]:
    return {"preexec_fn": lambda: os.sched_setaffinity(0, {cpu})}


# This machine --------------------------------------------------------------------------------------------


def test_the_time_of_the_jobs_own_processes_is_counted() -> None:
    found = around_busy(1)
    assert 1.0 <= found.elapsed_s < 10
    assert found.job_cpu_s is not None
    assert found.busy_cpu_s is not None
    assert 0.05 < found.job_cpu_s <= found.elapsed_s * found.cpus
    assert found.busy_cpu_s >= found.job_cpu_s - 0.05 * found.cpus  # counted in steps of 10 ms
    assert found.quota_cores is None or found.periods is not None


def test_a_quota_stops_a_job_that_wants_more(a_tenth_of_a_core: Path) -> None:
    found = around_busy(2, **joining(a_tenth_of_a_core))
    assert found.quota_cores == 0.1
    assert found.periods is not None
    assert found.throttled_periods is not None
    assert found.throttled_s is not None
    assert found.periods >= 10
    assert found.throttled_periods >= found.periods / 2
    assert found.throttled_s > 0.2


@pytest.mark.long
def test_a_neighbour_on_the_same_cpu_is_not_the_jobs_own_time() -> None:
    cpu = min(os.sched_getaffinity(0))
    command = [sys.executable, "-I", "-S", "-c", BUSY.format(seconds=60)]
    neighbour = subprocess.Popen(command, **on_cpu(cpu))
    try:
        found = around_busy(1, **on_cpu(cpu))
    finally:
        neighbour.kill()
        neighbour.wait()
    assert found.cpus == 1
    assert found.busy_cpu_s is not None
    assert found.job_cpu_s is not None
    assert found.busy_cpu_s - found.job_cpu_s > 0.2 * found.elapsed_s


def test_a_process_held_to_other_cpus_tells_another_set_of_the_same_kernel() -> None:
    whole, one = around_busy(0).cpu_set, around_busy(0, **on_cpu(max(os.sched_getaffinity(0)))).cpu_set
    assert whole is not None
    assert one is not None
    boot, cpus = one.split()
    assert whole.startswith(boot)
    assert cpus == str(max(os.sched_getaffinity(0)))


# Other machines ------------------------------------------------------------------------------------------


def test_what_a_kernel_does_not_count_is_absent(tmp_path: Path) -> None:
    found = counters.look(laid_out(tmp_path, **{"proc/stat": ""}))
    assert set(found) == {"elapsed_s", "job_cpu_s", "job_major_faults", "groups"}
    told = counters.between(found, counters.look(FileTree(str(tmp_path))))
    assert set(told) == {"elapsed_s", "job_cpu_s", "job_major_faults", "cpus"}
    assert NodeCounts(**told).throttled_s is None


def test_the_clock_is_read_after_the_times_of_the_cpus_so_that_a_delay_before_them_is_no_use() -> None:
    class Delayed(FileTree):
        read_at = math.inf

        def text(self, name: str, size: int = 1 << 20) -> str | None:
            if name == "/proc/stat":
                self.read_at = time.monotonic()
            return super().text(name, size)

    tree = Delayed()
    assert counters.look(tree)["elapsed_s"] >= tree.read_at


def test_only_the_cpus_that_the_job_may_use_are_counted(tmp_path: Path) -> None:
    lines = ["cpu  900 0 0 0 0 0 0 9 0 0", "cpu0 100 10 20 5000 7 1 2 30 50 0", "cpu1 700 0 0 0 0 0 0 4 0 0"]
    tree = laid_out(tmp_path, **{"proc/stat": "\n".join([*lines, "intr 5", ""])})
    assert counters.cpu_times(tree, {0}) == {"busy_cpu_s": 1.33, "stolen_cpu_s": 0.3}


def test_a_sandbox_that_shows_nothing_but_zeros_counts_nothing(tmp_path: Path) -> None:
    tree = laid_out(tmp_path, **{"proc/stat": "cpu0 0 0 0 0 0 0 0 0 0 0\n"})
    assert counters.cpu_times(tree, {0}) == {}


def test_the_groups_of_a_container_of_version_2(tmp_path: Path) -> None:
    """The mount shows the container's own part; the path is the host's."""
    stat = "usage_usec 9\nnr_periods 40\nnr_throttled 3\nthrottled_usec 250000\n"
    mount = "30 29 0:26 /kubepods/pod1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    tree = laid_out(
        tmp_path,
        **{
            "proc/self/mountinfo": mount,
            "proc/self/cgroup": "0::/kubepods/pod1/worker\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/worker/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/worker/cpu.stat": stat,
        },
    )
    [(path, group)] = counters.groups_with_quota(tree)
    assert path == "/sys/fs/cgroup/worker"
    assert group == {"cores": 1.5, "periods": 40, "throttled_periods": 3, "throttled_s": 0.25}


def test_the_groups_of_version_1(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/cpu,cpuacct/docker/1"
    mounts = [
        "30 29 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "31 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
    ]
    files = {
        "proc/self/mountinfo": "\n".join(mounts),
        "proc/self/cgroup": "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        f"{group}/cpu.cfs_quota_us": "50000\n",
        f"{group}/cpu.cfs_period_us": "100000\n",
        f"{group}/cpu.stat": "nr_periods 40\nnr_throttled 3\nthrottled_time 250000000\n",
    }
    tree = laid_out(tmp_path, **files)
    counted = {"cores": 0.5, "periods": 40, "throttled_periods": 3, "throttled_s": 0.25}
    assert dict(counters.groups_with_quota(tree)) == {f"/{group}": counted}


def test_memory_limits_of_both_versions_and_who_has_none(tmp_path: Path) -> None:
    mount = "30 20 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
    place = "sys/fs/cgroup"
    files = {
        "proc/self/mountinfo": mount,
        "proc/self/cgroup": "0::/worker\n",
        f"{place}/worker/memory.max": "134217728\n",
        f"{place}/worker/memory.peak": "134217728\n",
        f"{place}/worker/memory.events": "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n",
        f"{place}/memory.max": "max\n",
    }
    tree = laid_out(tmp_path / "two", **files)
    of_two = {"limit_bytes": 1 << 27, "used_bytes": 1 << 27, "oom_kills": 1}
    assert dict(counters.memory_groups(tree)) == {f"/{place}/worker": of_two}
    place = "sys/fs/cgroup/memory"
    files = {
        "proc/self/mountinfo": f"30 20 0:1 / /{place} rw - cgroup cgroup rw,memory\n",
        "proc/self/cgroup": "4:memory:/worker\n3:cpu,cpuacct:/other\n",
        f"{place}/worker/memory.limit_in_bytes": "67108864\n",
        f"{place}/worker/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
        f"{place}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{place}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    }
    tree = laid_out(tmp_path / "one", **files)
    of_one = {"limit_bytes": 1 << 26, "oom_kills": 0}
    assert dict(counters.memory_groups(tree)) == {f"/{place}/worker": of_one}


def test_of_several_groups_the_one_that_was_stopped_longest_counts() -> None:
    before = {
        "/pod": {"cores": 4.0, "periods": 10, "throttled_periods": 0, "throttled_s": 0.0},
        "/pod/worker": {"cores": 2.0, "periods": 10, "throttled_periods": 5, "throttled_s": 1.0},
    }
    after = {
        "/pod": {"cores": 4.0, "periods": 30, "throttled_periods": 9, "throttled_s": 0.5},
        "/pod/worker": {"cores": 2.0, "periods": 30, "throttled_periods": 5, "throttled_s": 1.0},
    }
    expected = {"quota_cores": 2.0, "periods": 20, "throttled_periods": 9, "throttled_s": 0.5}
    assert counters.throttling(before, after) == expected
    assert counters.throttling({}, after) == {}


def test_a_count_that_ran_backwards_is_absent() -> None:
    before, after = counters.look(), counters.look()
    assert "busy_cpu_s" in counters.between(before, after)
    assert "busy_cpu_s" not in counters.between({**before, "busy_cpu_s": after["busy_cpu_s"] + 1}, after)


def test_slow_downs_of_two_packages(tmp_path: Path) -> None:
    files = {}
    for cpu in range(4):
        package = cpu // 2
        place = f"sys/devices/system/cpu/cpu{cpu}"
        files[f"{place}/topology/package_cpus_list"] = f"{2 * package}-{2 * package + 1}\n"
        files[f"{place}/thermal_throttle/package_throttle_count"] = f"{3 + 4 * package}\n"
        files[f"{place}/thermal_throttle/package_throttle_total_time_ms"] = f"{100 + 400 * package}\n"
    tree = laid_out(tmp_path, **files)
    assert counters.heat(tree, {0, 1, 2, 3}) == {"heat_events": 10, "heat_s": 0.6}
    assert counters.heat(tree, {1}) == {"heat_events": 3, "heat_s": 0.1}
    assert counters.heat(FileTree(str(tmp_path / "none")), {0, 1}) == {}


def test_pressure_is_that_of_the_jobs_own_group_where_the_kernel_counts_it(tmp_path: Path) -> None:
    mount = "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    files = {
        "proc/self/mountinfo": mount,
        "proc/self/cgroup": "0::/pods/worker\n",
        "proc/pressure/cpu": "some avg10=9.00 total=9000000\n",
        "sys/fs/cgroup/pods/cpu.pressure": "some avg10=5.00 total=5000000\n",
    }
    assert counters.pressures(laid_out(tmp_path / "above", **files)) == {"cpu_wait_s": 5.0}
    own = files | {"sys/fs/cgroup/pods/worker/cpu.pressure": "some avg10=1.00 total=1000000\n"}
    assert counters.pressures(laid_out(tmp_path / "own", **own)) == {"cpu_wait_s": 1.0}


def test_the_waiting_in_the_queues_of_the_jobs_cpus_is_summed(tmp_path: Path) -> None:
    cpus = "cpu0 0 0 0 0 0 0 900 2000000000 5\ndomain0 3 7 0\ncpu1 0 0 0 0 0 0 800 500000000 5\n"
    tree = laid_out(tmp_path, **{"proc/schedstat": f"version 15\ntimestamp 4294892296\n{cpus}"})
    assert counters.queues(tree, {0, 1}) == {"queue_wait_s": 2.5}
    assert counters.queues(tree, {1}) == {"queue_wait_s": 0.5}
    assert counters.queues(tree, {1, 2}) == {}  # of one of them nothing is known
    assert counters.queues(FileTree(str(tmp_path / "none")), {0}) == {}


def test_pressure_and_swap(tmp_path: Path) -> None:
    tree = laid_out(
        tmp_path,
        **{
            "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 total=1500000\nfull avg10=0.00 total=9\n",
            "proc/vmstat": "pgpgin 5\npswpin 3\npswpout 2\n",
        },
    )
    assert counters.pressures(tree) == {"cpu_wait_s": 1.5}
    page = os.sysconf("SC_PAGE_SIZE")
    assert counters.swapping(tree) == {"swapped_in_bytes": 3 * page, "swapped_out_bytes": 2 * page}
