"""Doubts about training logs, sets of them, and published scores."""

from __future__ import annotations

from assay.analyse.explanations.explanation import Explanation

EXPLANATIONS: dict[str, Explanation] = {
    "score-contradicts": Explanation(
        "invalid",
        "A published score is not the one that follows from its logs by the rule of its round, as rounded.",
        "The published figure rests on other runs, another rule or another scaling factor than believed.",
        "Ask which; until then use the score that the logs give.",
    ),
    "no-rule": Explanation(
        "weak",
        "No rule says how this benchmark is scored, or the logs name no benchmark.",
        "There is no score, only minutes of single runs.",
        "Use those; compare them run by run with `assay compare`.",
    ),
    "run-count": Explanation(
        "invalid",
        "The set does not have the number of runs that the rule asks for.",
        "A score of other runs than the rule's is not comparable: the fastest and slowest are dropped from a "
        "fixed number.",
        "Score exactly that many runs; until then use the minutes of the single runs.",
    ),
    "unusable-run": Explanation(
        "invalid",
        "A log of the set is broken, cut or unfinished, or its last evaluation missed the round's target.",
        "A broken log is not a run that failed to converge: counting it either way invents a result. The "
        "official rule drops one as the slowest run; what it gives then is shown next to it.",
        "Complete the file, or repeat the run.",
    ),
    "not-converged": Explanation(
        "weak",
        "Runs of the set ended without reaching the quality target.",
        "Within the number that the rules allow they count as the slowest; beyond it the set is no result.",
        "Compare the share of runs that converge as well as the score; look at the hyperparameters.",
    ),
    "unreadable-file": Explanation(
        "invalid",
        "A file that belongs to the set can't be read.",
        "The score does without it.",
        "Mend or remove the file.",
    ),
    "mixed-runs": Explanation(
        "invalid",
        "The runs of a set differ in benchmark, round or global batch size.",
        "They are not repetitions of one thing, so neither a mean nor a score of them means anything.",
        "Score runs of one configuration only.",
    ),
    "equal-seeds": Explanation(
        "weak",
        "Several runs of a set have the same seed.",
        "Equal seeds converge alike and hide how much convergence varies.",
        "Draw a new seed for each run.",
    ),
    "same-run-twice": Explanation(
        "invalid",
        "Two logs have the same times to the millisecond and the same evaluations.",
        "A copy counts as a repetition, so the spread is too small.",
        "Remove the copies.",
    ),
    "placeholder": Explanation(
        "note",
        "A log holds a placeholder where submitter or system should stand.",
        "None on the score; the log does not say whose it is.",
        "Take submitter and system from the folders.",
    ),
    "system-contradicts": Explanation(
        "invalid",
        "The system's description says something else than its name or its logs: accelerators that don't "
        "fit the batch sizes, or an operating system that the platform does not run on.",
        "Figures per accelerator, or a claim about the platform, may be about another machine.",
        "Ask who measured what took part.",
    ),
    "cache-not-cleared": Explanation(
        "biased",
        "The log claims that caches were cleared, and shows that clearing them failed.",
        "Data came from memory: start and first epoch are faster than by the rules.",
        "Clear the page cache on the host (a container can't), or say that caches were warm.",
    ),
    "length-contradicts": Explanation(
        "invalid",
        "`epoch_num` counts epochs, samples or tokens by benchmark and round, and the log's numbers can't be "
        "that: more than 10,000 epochs, whole multiples of the training set, or fewer than 1,000 samples.",
        "Time per epoch and per sample would be wrong by the size of the training set, so neither is given.",
        "Find out what the log counts: another benchmark or round than believed, or a program that counts "
        "otherwise. Time to train does not depend on it.",
    ),
    "target-unknown": Explanation(
        "weak",
        "The log says that the run succeeded, and no quality target is known for its benchmark and round.",
        "Whether it trained far enough was not checked: a run that stopped early looks fast.",
        "Name the round with `--round` or by the folder; else compare the last evaluations yourself.",
    ),
    "events-out-of-order": Explanation(
        "biased",
        "Epochs or blocks of the log step back in time; only evaluations are printed later than they happen.",
        "Either the log joins those of several ranks, which does no harm, or the clock was set during the "
        "run, and its minutes are wrong by as much.",
        "Look at the lines that the doubt names.",
    ),
    "throughput-contradicts": Explanation(
        "invalid",
        "Samples over training time and the log's own throughput are far apart, and the table of what "
        "`train_samples` counts by benchmark, round and submitter does not resolve it.",
        "One of them counts something else, as batches for samples, or one rank's for all. Samples that rest "
        "on `train_samples` are not given then; the log's own count of samples is, and may be wrong.",
        "Check what `train_samples` counts here before using samples per second.",
    ),
}
