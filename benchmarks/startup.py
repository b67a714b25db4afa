"""Start-up: `assay --help` as a process, compared with a Python that does nothing."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from options import parse, sized
from paired import in_turn, ratio, wall_s

ASSAY = str(Path(sys.executable).with_name("assay"))


def main() -> None:
    """Print both times and their ratio."""
    options = parse(sized(__doc__, pairs=(15, 2, "times that each starts")))
    ours, bare = in_turn(
        lambda: wall_s([ASSAY, "--help"]), lambda: wall_s([sys.executable, "-c", "pass"]), pairs=options.pairs
    )
    print(f"assay --help      {statistics.median(ours) * 1e3:.0f} ms  (to be under 200 ms)")
    print(f"python -c pass    {statistics.median(bare) * 1e3:.0f} ms")
    print(f"ratio             {ratio(ours, bare)}")


if __name__ == "__main__":
    main()
