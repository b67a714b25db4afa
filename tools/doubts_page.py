"""Write docs/doubts.md from the kinds of doubt themselves: `python tools/doubts_page.py [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.analyse.doubts import of_subject
from assay.analyse.doubts.accepted_results import RAISED, REASONS, RESULTS
from assay.analyse.doubts.detection import POWER, RUNS
from assay.records import SEVERITIES, SUBJECTS

TARGET = Path(__file__).resolve().parent.parent / "docs" / "doubts.md"


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Doubts"
    yield "A doubt is a reason not to take a figure at face value: a code, the evidence, the remedy."
    yield "`assay explain CODE` shows what stands here; this page is made by `python tools/doubts_page.py`.\n"
    yield "| severity | means |\n|---|---|"
    yield from (f"| {severity} | {meaning} |" for severity, meaning in SEVERITIES.items())
    yield from _rates()
    yield from _accepted()
    for subject, title in SUBJECTS.items():
        yield f"\n## {title}"
        for kind in of_subject(subject):
            yield f"\n### {kind.code}"
            yield f"*{kind.severity}.* {kind.means}\n"
            yield f"**What it may do.** {kind.effect}\n"
            yield f"**Remedy.** {kind.remedy}"
            if kind.rates:
                yield f"\n**How often it errs.** {kind.rates}"


def _rates() -> Iterator[str]:
    yield "\n## What the tests see, and how often they see what is not there"
    yield "Share of simulated sets that raise a doubt, by number of runs: of one side, or of blocks that hold"
    yield "both sides. Spreads are run-to-run standard deviations, of a window where one is named. Of sides"
    yield "not paired, each is tested at half the level, which costs some power. Where fewer than half"
    yield "of troubled sets are seen, `cannot-tell` says so. Made by `python benchmarks/doubts.py`.\n"
    yield "| doubt | runs | " + " | ".join(f"n = {n}" for n in RUNS) + " |"
    yield "|---|---|" + "---:|" * len(RUNS)
    for code, found in POWER.items():
        clean = [(f"{found.clean}, normal", found.false_alarm), (f"{found.clean}, t3", found.heavy_tails)]
        for name, rates in [*clean, *found.troubles()]:
            yield f"| {code} | {name} | {_cells(rates)} |"


def _accepted() -> Iterator[str]:
    whole = sum(RESULTS.values())
    yield "\n## How often results that MLPerf accepted raise a doubt"
    yield f"The {whole} results of four training rounds, each alone: one system's runs of one benchmark"
    yield "at one size. A doubt that is not here was raised by none. Made by"
    yield "`python benchmarks/accepted.py`.\n"
    yield "| doubt | " + " | ".join(f"{name} ({n})" for name, n in RESULTS.items()) + " | all | why |"
    yield "|---|" + "---:|" * (len(RESULTS) + 1) + "---|"
    for code, counts in RAISED.items():
        cells = " | ".join(map(str, counts))
        yield f"| {code} | {cells} | {sum(counts) / whole:.1%} | {REASONS.get(code, '')} |"


def _cells(rates: Mapping[int, float]) -> str:
    return " | ".join(f"{rates[n]:.1%}" for n in RUNS)


def main() -> None:
    """Write the file, or with --check fail where it is stale."""
    text = page()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif not TARGET.is_file() or TARGET.read_text() != text:
        sys.exit("docs/doubts.md is stale; run: python tools/doubts_page.py")


if __name__ == "__main__":
    main()
