"""Run the tests in parts: those that wait for a cluster, hosts or containers run next to those that compute.

    python tools/run_tests.py          all but those marked `long`
    python tools/run_tests.py --all    all of them

A part that takes a piece of a cluster or of the network away starts after the parts that need it. A part
that runs in the background prints its output when all have ended. A test that failed is then run once more,
alone: on a busy machine a cluster can miss its deadlines. It has failed if it fails alone as well. If it
passes alone, it is named at the end, and more than two such tests fail the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

SOME_FAILED = 1  # pytest's exit code; those above it report trouble of pytest's own
MAX_UNSTABLE = 2  # tests of one run that may fail next to others and pass alone
CACHE = Path(".pytest_cache")


@dataclass
class Part:
    """Tests that run in one pytest.

    tests    an expression of markers
    at_once  files at the same time; the tests of a file share a namespace, a data set, a fork server
    after    parts that have to end before this one starts, whatever their result
    output   receives what it prints; None prints it at once
    """

    name: str
    tests: str
    at_once: int = 0
    after: Sequence[Future[int]] = ()
    output: IO[bytes] | None = field(default_factory=tempfile.TemporaryFile)
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def run(self) -> int:
        """The exit code, after the parts before it have ended."""
        for earlier in self.after:
            earlier.result()
        for file in (self._report, self._failures):
            file.unlink(missing_ok=True)
        report = f"--junit-xml={self._report}"
        return self._pytest("--dist", "loadfile", "-n", str(self.at_once), report, output=self.output)

    def run_failed_alone(self) -> tuple[int, list[str]]:
        """The exit code of the failed tests when they run alone, and those of them that pass."""
        failed = self._failed()
        print(f"\n{self.name}, the {len(failed)} that failed, alone:", flush=True)
        code = self._pytest("--last-failed", "--last-failed-no-failures", "none")
        return code, sorted(failed - self._failed())

    def show(self) -> None:
        """Print the output that was kept."""
        if self.output is not None:
            self.output.seek(0)
            print(f"\n{self.name}:", self.output.read().decode(errors="replace"), flush=True)

    def counts(self) -> Counter[str]:
        """How many tests passed, failed and were skipped when they ran next to others."""
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


def run_parts(choose: str) -> tuple[list[Part], list[int]]:
    """All parts and their exit codes; `choose` formats the expression of a part's tests."""
    with ThreadPoolExecutor() as pool:
        cluster = Part("cluster", choose.format("kubernetes and not disruptive"), at_once=3)
        slurm = Part("slurm", choose.format("slurm and not (kubernetes or torch or disruptive)"))
        hosts = Part(
            "hosts", choose.format("(ssh or podman) and not (slurm or kubernetes or torch or disruptive)")
        )
        apart = "kubernetes or slurm or ssh or podman or torch or disruptive"
        others = Part("others", choose.format(f"not ({apart})"), at_once=2, output=None)
        ended = [pool.submit(part.run) for part in (cluster, slurm, hosts, others)]
        # a training takes a core, which tests that time something cannot spare; some trainings use the hosts
        trainings = Part(
            "trainings",
            choose.format("torch and not (kubernetes or disruptive)"),
            at_once=2,
            after=ended[1:],
            output=None,
        )
        cluster_broken = Part("cluster-broken", choose.format("kubernetes and disruptive"), after=ended[:1])
        hosts_slowed = Part("hosts-slowed", choose.format("disruptive and not kubernetes"), after=ended[:3])
        later = (trainings, cluster_broken, hosts_slowed)
        ended += [pool.submit(part.run) for part in later]
        return [cluster, slurm, hosts, others, *later], [future.result() for future in ended]


def main() -> int:
    """Run all parts to their ends; the worst exit code."""
    everything = "--all" in sys.argv[1:]
    if everything:  # and more examples of each property: tests/conftest.py reads it
        os.environ["ASSAY_TEST_EXAMPLES"] = "many"
    parts, codes = run_parts("{}" if everything else "({}) and not long")
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
        print(f"failed next to others, passed alone: {test}")
    if len(unstable) > MAX_UNSTABLE:
        print(f"{len(unstable)} tests passed only alone; at most {MAX_UNSTABLE} may")
        codes.append(SOME_FAILED)
    passed, failed = counts["passed"] + len(unstable), counts["failed"] - len(unstable)
    print(f"{passed} passed, {failed} failed, {counts['skipped']} skipped")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
