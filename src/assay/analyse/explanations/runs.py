"""Doubts about the runs: how many there are, how they were arranged, and whether they are independent."""

from __future__ import annotations

from assay.analyse.explanations.explanation import Explanation

_FOUR = (
    "Drift, dependence, two modes and one run far off share a false-alarm rate of 5 %: at most so many "
    "comparisons of independent normal runs raise any of them (1.25 % each; half of that on each of two "
    "unpaired sides)."
)

EXPLANATIONS: dict[str, Explanation] = {
    "too-few-runs": Explanation(
        "weak",
        "A side has fewer than five runs that count.",
        "The interval is valid but wide: with three runs a side, a spread of 1 % and a margin of 2 %, equal "
        "systems are shown to be equal in 14 % of cases only. One odd run can't be told from the rest.",
        "Raise `repeats` to five or more and run the suite again; it goes on where it was.",
    ),
    "wider-than-margin": Explanation(
        "weak",
        "The interval of the ratio is wider than the margin on both sides of 1, and reaches into it.",
        "So many runs of such a spread can't show that the sides are equal, whatever the truth is.",
        "More runs, quieter ones (longer trials, nothing else on the machine), or a wider margin.",
    ),
    "not-interleaved": Explanation(
        "biased",
        "The two sides did not run in the same shuffled blocks.",
        "Whatever changed in between (temperature, neighbours, a file cache, the day) falls on one side "
        "and looks like a difference. Under a drift of one spread either way the 95 % interval covers the "
        "truth in 87, 72, 44 and 1 % of cases at 3, 5, 10 and 40 runs a side; with blocks in 95 %.",
        "One suite that names both systems: every block then holds both, in random order.",
    ),
    "one-session": Explanation(
        "weak",
        "All runs of a side come from one session: one allocation, one temperature, one day.",
        "Runs of a session are more alike than sessions are. In published ResNet-50 results the spread "
        "within a session is 0.05 %, so that 0.5 % between two sessions looks certain. The claim holds for "
        "this session.",
        "Repeat the suite on other days or nodes, and compare sessions.",
    ),
    "pooled-sessions": Explanation(
        "weak",
        "Runs of several sessions count as if they were independent.",
        "Those of one session are alike, so there are fewer independent runs than are counted and the "
        "interval is too narrow.",
        "Give both sides several sessions, or compare session by session (`suite/session:system`).",
    ),
    "failed-runs-left-out": Explanation(
        "biased",
        "Some runs at this point failed, or did not report the metric, and are left out.",
        "The runs that went well may be the lucky ones: a system that fails under load looks faster than "
        "it is.",
        "Read the causes with `assay show` and fix them. `assay run SUITE --failed`, with the same options, "
        "then repeats what failed in its newest session; finished trials and earlier attempts are kept.",
    ),
    "outside-block": Explanation(
        "weak",
        "Runs of a side were repeated with `--failed`, or were first begun when a later block had begun "
        "because a failure had held them up.",
        "They ran at another time than their block, perhaps beside other neighbours. They are no pairs with "
        "its runs, so the sides are compared unpaired and the interval is often wider. What changed in "
        "between falls on the side that has more of them.",
        "Where that matters, run the suite again in a new session (`assay run SUITE --new`): its blocks are "
        "whole, and paired.",
    ),
    "dropped-blocks": Explanation(
        "weak",
        "Blocks that lack a run of one side are left out of the pairs.",
        "Fewer pairs; and if it is always the same side that fails, the blocks that remain are chosen.",
        "`assay run SUITE` resumes an unfinished session; `assay run SUITE --failed` repeats what failed in "
        "the newest one.",
    ),
    "identical-values": Explanation(
        "weak",
        "All runs of a side gave one and the same value, which is no count of epochs.",
        "Their spread is hidden by a coarse step, of a timer, a rounded print or a search, so there is no "
        "honest interval.",
        "Print more digits, search in finer steps or measure for longer. A count that can't vary needs no "
        "interval.",
    ),
    "too-short": Explanation(
        "biased",
        "A run timed less than 0.1 s, or so little that the millisecond stamps of its log step by more "
        "than a tenth of the margin.",
        "An interruption of some milliseconds, a clock that is still rising, or the timer's own step is a "
        "good part of the figure.",
        "Measure for seconds: `min_time_s`, `steps`, or a larger problem.",
    ),
    "warm-up": Explanation(
        "biased",
        "Over the runs of a side, the first quarter of the windows is slower than the second half, and the "
        "start costs the figure at least 0.2 %.",
        "The figure mixes the start (compilation, caches, clocks) with the speed that it settles at, and "
        "depends on how long the run was. Two sides that warm up differently can't be told from two of "
        "different speed.",
        "Raise `warmup`, or measure for longer, until the first windows are as fast as the last.",
        "A one-sided t test over runs (each is one value), from three runs on, at 1.25 % for one side.",
    ),
    "cut-lines": Explanation(
        "weak",
        "A log has lines that are longer than 2000 bytes; only the first 2000 of each were read.",
        "A figure that stands further in was not seen. Where the last of several figures counts, another one "
        "may be shown.",
        "Print a line for each figure: a carriage return, as progress bars have it, ends a line too.",
    ),
    "drift": Explanation(
        "biased",
        "The runs of a session, or the ratios of its blocks, rise or fall in the order in which they ran: "
        "t test of the slope of their logarithms.",
        "The runs don't scatter around one value. Unpaired sides are shifted against each other by when they "
        "ran; of paired ones the ratio itself is changing.",
        "Find what changes and let it settle first; run both sides shuffled within blocks.",
        _FOUR,
    ),
    "dependence": Explanation(
        "biased",
        "Each run resembles the one before it (von Neumann's ratio, from seven runs on), and no drift "
        "explains it.",
        "The runs tell less than so many independent ones: the interval is too narrow. At a correlation of "
        "0.5, a back-to-back 95 % interval covers 90, 82 and 76 % at 3, 5 and 10 runs a side.",
        "Shuffle the sides within blocks, leave time between runs, or judge by sessions.",
        _FOUR,
    ),
    "two-modes": Explanation(
        "biased",
        "The runs of a session fall into two groups, each at least a fifth of them, with a gap between that "
        "uniform runs leave by chance in 1.25 % of sets, all sessions together. Groups that are sessions are "
        "no switch. Of trainings to a target, what is left beside a line over their lengths is tested: times "
        "move in steps of the evaluations. Counts of epochs are not.",
        "Something switches between two states. The mean lies where no run does, and a comparison depends "
        "on how often each side met which state.",
        "Find the switch (clock boost, placement, node, choice of algorithm), pin it, and run again.",
        _FOUR + " Of normal runs, two modes alone are raised in under 1 %.",
    ),
    "one-far-off": Explanation(
        "biased",
        "One run is farther from all others than they explain, and moves the mean by at least 0.2 %: Grubbs' "
        "test on the logarithms. Of trainings to a target, beside a line over their lengths.",
        "It moves the mean and widens the interval; where it stands for something that happens now and "
        "then, it is part of the truth.",
        "Look at that run before anything else. Leave it out only for a cause found, never for its value.",
        _FOUR
        + " Runs with heavy tails do have such runs: of sets of t3 runs it is raised in 4, 11 and 41 % at "
        "5, 10 and 40 runs.",
    ),
    "order-unknown": Explanation(
        "weak",
        "Three runs of a session or more were made by others, and nothing says in which order they ran.",
        "Drift and dependence can't be tested. Runs that drift by 4 % on both sides then look like two equal "
        "systems with a wide spread, and runs of which each resembles the one before like more runs than "
        "they are.",
        "Import logs that state their time, as MLPerf's do, or give each row of the spreadsheet a "
        "`started_at`, like 2026-11-22T09:30:00.",
    ),
    "cannot-tell": Explanation(
        "note",
        "There are too few runs for a test to see the named trouble in most cases, were it there.",
        "None by itself. That no such doubt is raised does not show that there is no such trouble.",
        "No action needed. Blocks that hold both sides prevent what can't be detected; more runs can tell.",
    ),
}
