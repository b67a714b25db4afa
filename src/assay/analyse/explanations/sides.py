"""Doubts about two sides against each other, and about sizes of one scaling curve."""

from __future__ import annotations

from assay.analyse.explanations.explanation import Explanation

EXPLANATIONS: dict[str, Explanation] = {
    "copied-values": Explanation(
        "invalid",
        "Of the times or rates of one side, or of both together, at most half are distinct, so few "
        "that runs measured apart would agree like that in fewer than 1 of 100,000 cases.",
        "A side compared with itself is as fast, whatever the systems are, and a run that counts twice "
        "makes the interval too narrow.",
        "Look for files or rows that were copied or taken in twice, and count each run once.",
        "The chance is a bound for values spread evenly over the steps of their resolution, or of a timer "
        "that they are all multiples of. Of the 202 sets of MLPerf Training v4.0 it is raised in the two "
        "that hold every run twice.",
    ),
    "suspect-unit": Explanation(
        "invalid",
        "At one size, the sides' means are a thousand, a million or a billion times apart, within a factor "
        "of 2.",
        "One side's values may be in another unit than it says: the ratio would be that of the units.",
        "Check the units of both sides, and import the one that is wrong again.",
    ),
    "share-of-whole": Explanation(
        "invalid",
        "The ratio of two percentages lies within the margin; that of what they lack to 100 % does not.",
        "An availability of 98 % instead of 99.5 % is 1.5 % less and four times the downtime; an error rate "
        "is hidden in the same way by an accuracy.",
        "Judge what is missing to 100 % as a metric of its own, where less is better.",
    ),
    "stated-once": Explanation(
        "biased",
        "One side states its batch or its number format and the other does not.",
        "If they differ, they explain the difference of the sides; nobody can tell.",
        "State it for both sides.",
    ),
    "unequal-cpus": Explanation(
        "biased",
        "Two sizes of one curve, on CPUs: a rank of one has another number of threads than a rank of the "
        "other (as its program states), or, where that is not known, the ranks of the smallest size used "
        "more than one CPU each, and over 25 % more than those of the larger.",
        "Efficiency is the speed-up over the ratio of ranks. Where one rank has all cores already, two that "
        "share them bring no more: the curve shows how cores are divided, not how a program scales. Without "
        "`OMP_NUM_THREADS` each rank gets its share of the cores, so this is the usual case.",
        "Set `OMP_NUM_THREADS` in the system's `env` to the cores over the ranks of the largest size, as "
        "`assay init` does.",
    ),
    "different-software": Explanation(
        "biased",
        "Kernel, driver, library versions or variables are steady on each side and differ between the sides; "
        "images where both sides are containers of one kind. Variables that systems.yaml sets under `env` "
        "are what is compared, and no doubt.",
        "The difference may be theirs and not the system's.",
        "Give both sides the same software; `assay diff A B` shows everything that differs.",
    ),
    "different-parameters": Explanation(
        "invalid",
        "Parameters of the benchmark differ between sides that are compared under one name.",
        "The sides may not have done the same work, so their ratio is no system's.",
        "Run one suite on both sides.",
    ),
    "different-work": Explanation(
        "invalid",
        "What the programs or logs stated of their own work (precision, batch, data, target, library "
        "versions) differs between the sides.",
        "A ratio of speeds at different precision, batch or target says nothing of the system by itself.",
        "Give both sides the same, or compare only what does not depend on it.",
    ),
    "superlinear": Explanation(
        "biased",
        "A size is faster than the next smaller one by more than the ratio of their ranks, beyond the runs' "
        "scatter.",
        "The smaller size lost at least that much: whatever is measured against it looks too good, and a law "
        "through it predicts other sizes wrongly.",
        "Repeat the smaller size on other nodes, with as large a batch per rank as the larger has. If it "
        "stays, look whether its share of the work fits into memory and cache, and whether the larger size "
        "did the same work.",
        "At most 5 % of curves that scale perfectly raise it, all steps together (docs/statistics.md).",
    ),
    "off-the-curve": Explanation(
        "biased",
        "A size lies more than 2 % off the law that the other sizes follow, and noise does not explain it. "
        "Where the others follow a law without either of two sizes, as always of three, a step is named.",
        "A law fitted through it predicts other sizes wrongly.",
        "Look at what is different there: which nodes, how ranks are placed, which link they share.",
        "At most 5 % of curves that follow their law raise it, all sizes together.",
    ),
    "batch-differs": Explanation(
        "biased",
        "The time to train is followed over sizes whose global batch differs.",
        "A larger batch takes more samples to the target, so the speed-up mixes convergence with the system.",
        "Judge the system by throughput or time per epoch: the doubt names the metrics that these runs have.",
    ),
}
