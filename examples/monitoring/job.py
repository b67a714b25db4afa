"""A stand-in for a training: it works on one core, and prints a step, a loss and a throughput per second.

Replace it with your own program. `--slow-from STEP` makes it three times slower for ten steps.
"""

import argparse
import json
import os
import time


def main() -> None:
    """Take the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--slow-from", type=int, default=45)
    options = parser.parse_args()
    rank, begun = int(os.environ.get("RANK", "0")), time.monotonic()
    for step in range(1, options.steps + 1):
        slow = options.slow_from <= step < options.slow_from + 10
        started = time.monotonic()
        while time.monotonic() < started + (3.0 if slow else 1.0):
            sum(range(10_000))
        figures = {"throughput": 256 / (time.monotonic() - started), "loss": 2.5 / step**0.5}
        line = {"namespace": "", "time_ms": time.time_ns() // 10**6, "event_type": "POINT_IN_TIME"}
        line |= {"key": "tracked_stats", "value": figures, "metadata": {"step": step, "rank": rank}}
        print(f":::MLLOG {json.dumps(line)}", flush=True)
    print(f"throughput: {256 * options.steps / (time.monotonic() - begun):.3f}")


if __name__ == "__main__":
    main()
