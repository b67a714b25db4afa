"""`assay score` as a process, compared with mlperf-logging's summarizer and compliance checker on one set.

Real files: $ASSAY_MLPERF_LOGS, otherwise `../shared/mlperf-logs` next to the checkout. mlperf-logging
rewrites files around results, so both sides work on a copy.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from options import absent, parse, sized
from paired import in_turn, ratio, wall_s

ROOT = Path(__file__).resolve().parent.parent
LOGS = Path(os.environ.get("ASSAY_MLPERF_LOGS", ROOT.parent / "shared" / "mlperf-logs"))
SET = Path("v3.1/Supermicro-RedHat/AS-4125GS-TNRT-RedHat-OpenShift/resnet")
RULESET = "3.1.0"


def main() -> None:
    """Print all three times and the ratios."""
    options = parse(sized(__doc__, pairs=(7, 2, "times that each runs")))
    if not (LOGS / SET).is_dir():
        absent(f"{SET} in {LOGS}; set ASSAY_MLPERF_LOGS")
    if importlib.util.find_spec("mlperf_logging") is None:
        absent("mlperf-logging")
    with tempfile.TemporaryDirectory(prefix="assay-score-") as folder:
        beside_mlperf_logging(Path(folder), options.pairs)


def beside_mlperf_logging(folder: Path, pairs: int) -> None:
    """Time all three on a copy of the set, laid out as a submission."""
    submission = folder / SET.parts[1]
    leaf = submission / "results" / SET.parts[2] / SET.name
    shutil.copytree(LOGS / SET, leaf)
    (submission / "systems").mkdir()
    shutil.copy(LOGS / SET.parent / "system.json", submission / "systems" / f"{SET.parts[2]}.json")
    files = sorted(leaf.glob("result_*.txt"))

    ours = [str(Path(sys.executable).with_name("assay")), "score", str(leaf), "--json"]
    module = [sys.executable, "-m"]
    summarizer = [*module, "mlperf_logging.result_summarizer", str(submission), "training", RULESET]
    checker = [*module, "mlperf_logging.compliance_checker", "--usage", "training", "--ruleset", RULESET]

    def check_all() -> float:
        """Their checker takes one file per process; its verdict does not matter here."""
        return sum(_wall_whatever_it_says_s([*checker, str(file)], folder) for file in files)

    print(f"set                 {SET}, {len(files)} runs; all times of whole processes")
    for name, theirs in (
        ("result summarizer", lambda: _wall_whatever_it_says_s(summarizer, folder)),
        ("compliance checker", check_all),
    ):
        their_s, our_s = in_turn(theirs, lambda: wall_s(ours), pairs)
        print(f"{name:<19} {statistics.median(their_s) * 1e3:.0f} ms")
        print(f"assay score         {statistics.median(our_s) * 1e3:.0f} ms")
        print(f"times faster        {ratio(their_s, our_s)}")


def _wall_whatever_it_says_s(argv: list[str], folder: Path) -> float:
    """Wall time of a process that may exit with an error for its verdict, but not with a traceback."""
    import time

    begin = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if "Traceback" in done.stderr:
        sys.exit(f"{' '.join(argv)} failed:\n{done.stderr}")
    return seconds


if __name__ == "__main__":
    main()
