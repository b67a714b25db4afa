"""Run the tests in parts: those that wait for a cluster, hosts or containers run next to those that compute.

    python tools/run_tests.py          all except those marked `long`
    python tools/run_tests.py --all    all of them

A cluster and a batch system are used if ASSAY_TEST_KUBECONFIG and ASSAY_TEST_SLURM name one. SSH servers,
containers, a browser and programs such as Prometheus are started if ASSAY_REQUIRE names them or all tests
run: they take as long as everything else. Tests of a missing service run among the others, where each is
skipped with its reason.

A part that disrupts a cluster or the network starts after the parts that need it. A part
that runs in the background prints its output when all have ended. A failed test is then run once more,
alone: on a busy machine, a cluster can miss its deadlines. It has failed if it also fails alone. If it
passes alone, it is listed at the end, and more than two such tests fail the run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import IO
from xml.etree import ElementTree

SOME_FAILED = 1  # pytest's exit code; higher codes report problems of pytest itself
MAX_UNSTABLE = 2  # tests per run that may fail next to others and pass alone
CACHE = Path(".pytest_cache")
HOSTS = ("ssh", "podman")  # services that the tests start on this machine themselves
# tests start these many times
PROGRAMS = ("chromium", "prometheus", "perftest", "iperf3", "fio", "mkdocs", "mount-namespaces")
SERVICES = ("kubernetes", "slurm", *HOSTS)  # markers of tests that need one of them
NO_TEST = "(long and not long)"


@dataclass
class Part:
    """Tests that run in one pytest.

    tests    an expression of markers
    needs    services; if all of them are missing, it has no tests
    at_once  files to run concurrently; the tests in a file share a namespace, a data set, a fork server
    after    names of parts that must end before this one starts, whatever their result
    shown    at once; the output of the others is in their logs and is shown when all have ended
    """

    name: str
    tests: str
    needs: Collection[str] = ()
    at_once: int = 0
    after: Collection[str] = ()
    shown: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def run(self, earlier: Iterable[Future[int]]) -> int:
        """The exit code, after the parts before it have ended."""
        wait(earlier)
        for file in (self._report, self._failures):
            file.unlink(missing_ok=True)
        report = f"--junit-xml={self._report}"
        CACHE.mkdir(exist_ok=True)
        with nullcontext() if self.shown else self._log.open("wb") as output:
            # in the order of tests/conftest.py: what takes longest first, so that no process ends alone
            spread = ["--dist", "loadfile", "--no-loadscope-reorder", "-n", str(self.at_once)]
            return self._pytest(*spread, report, output=output)

    def run_failed_alone(self) -> tuple[int, list[str]]:
        """The exit code of the failed tests when they run alone, and those of them that pass."""
        failed = self._failed()
        print(f"\n{self.name}, the {len(failed)} that failed, alone:", flush=True)
        code = self._pytest("--last-failed", "--last-failed-no-failures", "none")
        return code, sorted(failed - self._failed())

    def show(self) -> None:
        """Print the stored output."""
        if not self.shown:
            print(f"\n{self.name}:", self._log.read_text(errors="replace"), flush=True)

    def counts(self) -> Counter[str]:
        """How many tests passed, failed, and were skipped when they ran next to others."""
        suites = ElementTree.parse(self._report).iter("testsuite") if self._report.exists() else ()  # noqa: S314
        counts: Counter[str] = Counter()
        for suite in suites:
            tests, failures, errors, skipped = (
                int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")
            )
            failed = failures + errors
            counts.update(passed=tests - failed - skipped, failed=failed, skipped=skipped)
        return counts

    @property
    def _report(self) -> Path:
        return CACHE / f"{self.name}.xml"

    @property
    def _log(self) -> Path:
        return CACHE / f"{self.name}.log"

    @property
    def _failures(self) -> Path:
        return CACHE / self.name / "v/cache/lastfailed"

    def _failed(self) -> set[str]:
        return set(json.loads(self._failures.read_text())) if self._failures.exists() else set()

    def _pytest(self, *options: str, output: IO[bytes] | None = None) -> int:
        own = ["-m", self.tests, "-o", f"cache_dir={CACHE / self.name}"]
        argv = [sys.executable, "-m", "pytest", *own, *options]
        started = time.monotonic()
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall_s += time.monotonic() - started
        self.cpu_s += used.ru_utime + used.ru_stime
        return process.returncode


def parts_of(chosen: str, absent: Collection[str]) -> list[Part]:
    """The parts that have tests to run, starting with those that others wait for.

    chosen  formats the expression of a part's tests
    absent  missing services: whatever else they need, their tests are in no part of that service
    """
    alone = {*SERVICES} <= {*absent}
    parts = [
        Part("cluster", "kubernetes and not disruptive", ["kubernetes"], at_once=3),
        Part("slurm", "slurm and not (kubernetes or torch or disruptive)", ["slurm"]),
        Part("hosts", "(ssh or podman) and not (slurm or kubernetes or torch or disruptive)", HOSTS),
        Part(
            "others",
            "not (kubernetes or slurm or ssh or podman or torch or disruptive)",
            at_once=4,  # some wait
            shown=True,
        ),
        # a training takes a core, which services' tests that time something cannot spare; some use the hosts
        Part(
            "trainings",
            "torch and not (kubernetes or disruptive)",
            at_once=0 if alone else 2,  # one more process would only collect
            after=[] if alone else ["slurm", "hosts", "others"],
            shown=not alone,
        ),
        Part("cluster-broken", "kubernetes and disruptive", ["kubernetes"], after=["cluster"]),
        Part("hosts-slowed", "disruptive and not kubernetes", SERVICES, after=["cluster", "slurm", "hosts"]),
    ]
    without = [*absent, *(["disruptive"] if {*SERVICES} <= {*absent} else [])]
    for part in parts:
        for marker in without:
            part.tests = re.sub(rf"\b{marker}\b", NO_TEST, part.tests)
        part.tests = chosen.format(part.tests)
    return [part for part in parts if not part.needs or not {*part.needs} <= {*absent}]


def required() -> list[str]:
    """What must be there, rather than be skipped."""
    return os.environ.get("ASSAY_REQUIRE", "").split(",")


def absent_services(everything: bool) -> set[str]:
    """Services that are missing, or that this run omits because they take too long."""
    named = {"kubernetes": "ASSAY_TEST_KUBECONFIG", "slurm": "ASSAY_TEST_SLURM"}
    absent = {marker for marker, variable in named.items() if not os.environ.get(variable)}
    return absent if everything or not {*HOSTS}.isdisjoint(required()) else absent | {*HOSTS}


def left_out(everything: bool, absent: Collection[str]) -> list[str]:
    """What is not used although this machine may have it: it takes time, and nothing requires it."""
    programs = [] if everything else [program for program in PROGRAMS if program not in required()]
    return [*(HOSTS if absent.issuperset(HOSTS) else ()), *programs]


def run(parts: Iterable[Part]) -> list[int]:
    """The exit codes of the parts, which run next to each other."""
    ended: dict[str, Future[int]] = {}
    with ThreadPoolExecutor() as pool:
        for part in parts:
            earlier = [ended[name] for name in part.after if name in ended]
            ended[part.name] = pool.submit(part.run, earlier)
        return [future.result() for future in ended.values()]


def main() -> int:
    """Run all parts to their ends; returns the worst exit code."""
    everything = "--all" in sys.argv[1:]
    if everything:  # also selects more examples of each property: tests/conftest.py reads it
        os.environ["ASSAY_TEST_EXAMPLES"] = "many"
    absent = absent_services(everything)
    os.environ["ASSAY_LEAVE_OUT"] = ",".join(left_out(everything, absent))
    # hundreds of processes import the same files: compile them once, before many do it at the same time
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # each of several processes would otherwise start a thread per core, which wait for each other by spinning
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not any(Path("tests").rglob("*-pytest-*.pyc")):
        subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-qq"], stdout=DEVNULL, check=False)
    parts = parts_of("{}" if everything else "({}) and not long", absent)
    codes = run(parts)
    for part in parts:
        part.show()
    counts = sum((part.counts() for part in parts), Counter[str]())
    unstable: list[str] = []
    for number, part in enumerate(parts):
        if codes[number] == SOME_FAILED:
            codes[number], passed_alone = part.run_failed_alone()
            unstable += passed_alone
    for part in parts:
        print(f"{part.name:16}{part.wall_s / 60:6.1f} min{part.cpu_s / 60:6.1f} min of CPU time")
    for test in unstable:
        print(f"failed with other tests running, passed alone: {test}")
    if len(unstable) > MAX_UNSTABLE:
        print(f"{len(unstable)} tests passed only alone; at most {MAX_UNSTABLE} may")
        codes.append(SOME_FAILED)
    passed, failed = counts["passed"] + len(unstable), counts["failed"] - len(unstable)
    print(f"{passed} passed, {failed} failed, {counts['skipped']} skipped")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
