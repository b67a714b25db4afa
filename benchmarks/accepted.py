"""How often each doubt is raised by results that MLPerf accepted: `python benchmarks/accepted.py RUNS SET…`.

RUNS is the runs directory into which `assay import` imported whole rounds, SET their names. A result is
one system's runs of one benchmark; it raises a doubt if any of its figures does. Prints the table of
assay/analyse/doubts/rates.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from assay import store
from assay.analyse import doubts
from assay.analyse.doubts.result_sets import doubts_of_set
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import group
from assay.analyse.points.ratio import one_side
from assay.read import metrics
from assay.records import Result


def raised(results: list[Result]) -> set[str]:
    """Codes of all doubts that one system's runs of one benchmark raise."""
    codes = {
        doubt.code
        for here in group(results, metrics).values()
        if here.samples
        for doubt in doubts.of(Case((Side(here.samples[0].result.run.trial.system, here),), one_side(here)))
    }
    runs = [r.reading.training for r in results if r.reading.training is not None]
    of_set = doubts_of_set(runs, system=results[0].run.trial.system, system_facts={})
    return codes | {doubt.code for doubt in of_set}


def results_of(runs_dir: Path, name: str) -> Iterator[list[Result]]:
    """The runs of each system and benchmark of an imported round."""
    found: dict[tuple[str, str, str], list[Result]] = {}
    for result in store.find(runs_dir, name):
        trial = result.run.trial
        found.setdefault((trial.system, trial.benchmark, str(trial.shape)), []).append(result)
    yield from found.values()


def main() -> None:
    """Print each doubt with the number of results in each round that raise it."""
    runs_dir, *names = sys.argv[1:]
    counts: dict[str, Counter[str]] = {}
    whole: Counter[str] = Counter()
    for name in names:
        for results in results_of(Path(runs_dir), name):
            whole[name] += 1
            for code in raised(results):
                counts.setdefault(code, Counter())[name] += 1
    print(f"RESULTS = {dict(whole)}")
    for code, by_round in sorted(counts.items(), key=lambda at: -at[1].total()):
        cells = ", ".join(str(by_round[name]) for name in names)
        print(f'    "{code}": ({cells}),  # {by_round.total() / whole.total():.1%}')


if __name__ == "__main__":
    main()
