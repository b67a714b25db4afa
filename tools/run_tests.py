"""All tests, those of a Kubernetes cluster beside the others: they wait most of their time.

    python tools/run_tests.py

Two pytest processes, because what breaks a cluster on purpose must not run beside what uses it, and nothing
else minds. The cluster's output follows the others' when both have ended; the exit code is the worse one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PYTEST = [sys.executable, "-m", "pytest"]


def main() -> int:
    """Run both to their ends."""
    with tempfile.TemporaryFile() as output:
        of_cluster = subprocess.Popen(
            [*PYTEST, "-m", "kubernetes", "-p", "no:cacheprovider"], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            others = subprocess.run([*PYTEST, "-m", "not kubernetes"], check=False).returncode
            cluster = of_cluster.wait()
        finally:
            of_cluster.terminate()
        output.seek(0)
        print("\nKubernetes:", output.read().decode(errors="replace"), flush=True)
    return max(others, cluster)


if __name__ == "__main__":
    sys.exit(main())
