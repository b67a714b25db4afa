"""All tests; those that wait most of their time, for a cluster, hosts or containers, beside the others.

    python tools/run_tests.py

What takes a part of a cluster or of the network away comes after what needs it. The output of what ran beside
follows when all have ended. What failed is then run once more, alone, for a busy machine can make a cluster
miss its times: a test that fails alone as well has failed, one that does not stands in the output twice.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO

SOME_FAILED = 1  # pytest's exit code; above it are its own troubles


@dataclass(frozen=True)
class Part:
    """Tests that run in one pytest.

    at_once  files at the same time; a file's tests share a namespace, a data set, a fork server
    after    parts that have ended before it begins, however they did
    output   what it prints is kept there; shown at once without
    """

    name: str
    tests: str
    at_once: int = 0
    after: Sequence[Future[int]] = ()
    output: IO[bytes] | None = field(default_factory=tempfile.TemporaryFile)

    def run(self) -> int:
        """The exit code, when those before have ended."""
        for earlier in self.after:
            earlier.result()
        return self._pytest("--dist", "loadfile", "-n", str(self.at_once), output=self.output)

    def show(self) -> None:
        """What was kept of what it printed."""
        if self.output is not None:
            self.output.seek(0)
            print(f"\n{self.name}:", self.output.read().decode(errors="replace"), flush=True)

    def run_alone(self) -> int:
        """Those of its tests that failed, once more."""
        print(f"\n{self.name}, those that failed, alone:", flush=True)
        return self._pytest("--last-failed", "--last-failed-no-failures", "none")

    def _pytest(self, *options: str, output: IO[bytes] | None = None) -> int:
        own = ["-m", self.tests, "-o", f"cache_dir=.pytest_cache/{self.name}"]
        argv = [sys.executable, "-m", "pytest", *own, *options]
        return subprocess.run(argv, check=False, stdout=output, stderr=subprocess.STDOUT).returncode


def main() -> int:
    """Run all to their ends; the worst exit code."""
    with ThreadPoolExecutor() as pool:
        cluster = Part("cluster", "kubernetes and not disruptive", at_once=3)
        hosts = Part("hosts", "(slurm or ssh or podman) and not (kubernetes or torch or disruptive)")
        apart = "kubernetes or slurm or ssh or podman or torch or disruptive"
        others = Part("others", f"not ({apart})", at_once=2, output=None)
        ended = [pool.submit(part.run) for part in (cluster, hosts, others)]
        # a training takes a core, and what is timed does not bear that; some use the hosts
        trainings = Part(
            "trainings", "torch and not (kubernetes or disruptive)", at_once=2, after=ended[1:], output=None
        )
        cluster_broken = Part("cluster-broken", "kubernetes and disruptive", after=ended[:1])
        hosts_slowed = Part("hosts-slowed", "disruptive and not kubernetes", after=ended[:2])
        later = (trainings, cluster_broken, hosts_slowed)
        ended += [pool.submit(part.run) for part in later]
        parts = (cluster, hosts, others, *later)
        codes = [future.result() for future in ended]
    for part in parts:
        part.show()
    return max(
        part.run_alone() if code == SOME_FAILED else code for part, code in zip(parts, codes, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())
