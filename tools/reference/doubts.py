"""The doubts, from the table of their kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.analyse.doubts import of_subject
from assay.analyse.doubts.rates import POWER, RAISED, REASONS, RESULTS, RUNS
from assay.records import SEVERITIES, SUBJECTS


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Doubts"
    yield "A doubt is a reason not to take a figure at face value: a code, the evidence, the remedy."
    yield "`assay explain CODE` prints the entry of one doubt.\n"
    yield "| severity | meaning |\n|---|---|"
    yield from (f"| {severity} | {meaning} |" for severity, meaning in SEVERITIES.items())
    yield from _rates()
    yield from _accepted()
    for subject, title in SUBJECTS.items():
        yield f"\n## {title}"
        for kind in of_subject(subject):
            yield f"\n### {kind.code}"
            yield f"*{kind.severity}.* {kind.means}\n"
            yield f"**Effect.** {kind.effect}\n"
            yield f"**Remedy.** {kind.remedy}"
            if kind.rates:
                yield f"\n**Error rates.** {kind.rates}"


def _rates() -> Iterator[str]:
    yield "\n## Power and false alarms of the tests"
    yield "Share of simulated sets that raise a doubt, by number of runs of one side, or of blocks with"
    yield "both sides. Spreads are run-to-run standard deviations, or those of a window if one is named."
    yield "Sides that aren't paired are each tested at half the level, which costs some power. If a test"
    yield "detects fewer than half of the troubled sets, `cannot-tell` says so."
    yield "`python benchmarks/doubts.py` makes this table.\n"
    yield "| doubt | runs | " + " | ".join(f"n = {n}" for n in RUNS) + " |"
    yield "|---|---|" + "---:|" * len(RUNS)
    for code, found in POWER.items():
        clean = [(f"{found.clean}, normal", found.false_alarm), (f"{found.clean}, t3", found.heavy_tails)]
        for name, rates in [*clean, *found.troubles()]:
            yield f"| {code} | {name} | {_cells(rates)} |"


def _accepted() -> Iterator[str]:
    whole = sum(RESULTS.values())
    yield "\n## Doubts in results that MLPerf accepted"
    yield f"The {whole} results of four training rounds, each by itself: one system's runs of one benchmark"
    yield "at one size. No result raised a doubt that isn't listed."
    yield "`python benchmarks/accepted.py` makes this table.\n"
    yield "| doubt | " + " | ".join(f"{name} ({n})" for name, n in RESULTS.items()) + " | all | why |"
    yield "|---|" + "---:|" * (len(RESULTS) + 1) + "---|"
    for code, counts in RAISED.items():
        cells = " | ".join(map(str, counts))
        yield f"| {code} | {cells} | {sum(counts) / whole:.1%} | {REASONS.get(code, '')} |"


def _cells(rates: Mapping[int, float]) -> str:
    return " | ".join(f"{rates[n]:.1%}" for n in RUNS)
