"""Doubts about LoadGen's runs and what stands in for them."""

from __future__ import annotations

from assay.analyse.explanations.explanation import Explanation

EXPLANATIONS: dict[str, Explanation] = {
    "short-settings": Explanation(
        "invalid",
        "LoadGen calls a run valid, but its settings ask for less than the official ones.",
        "VALID means that the run met its own settings. A shorter run, or one of fewer queries, is not a "
        "result of MLPerf.",
        "Repeat it with the official settings (mlperf.conf).",
    ),
    "below-asked-accuracy": Explanation(
        "invalid",
        "The accuracy is below the share of the reference's that the benchmark asks for (99 % unless its "
        "name says 99.9), or outside its bounds.",
        "The closed division counts a speed only with that accuracy: a model that answers worse may be "
        "faster by what it leaves out.",
        "Take the reference's weights and preprocessing, or a precision that keeps its accuracy.",
    ),
    "no-accuracy": Explanation(
        "invalid",
        "The run lies in MLPerf's tree of results, and its accuracy run is missing or states no accuracy.",
        "Speed is only a result of MLPerf with the accuracy that was reached at the same settings: a faster "
        "model that answers worse looks better.",
        "Make an accuracy run with the same settings, and keep its accuracy.txt next to its logs.",
    ),
    "latency-above-bound": Explanation(
        "invalid",
        "A 99th percentile of latency is above the bound that the rules set for the benchmark.",
        "LoadGen only checks the bound that it was given: with a wider one a server takes more queries.",
        "Find the largest rate that keeps the benchmark's own bound, and compare that.",
    ),
    "other-data-set": Explanation(
        "invalid",
        "The run used a data set of another size than the benchmark's.",
        "A part of the data fits into caches and may be easier: its figures are not the benchmark's.",
        "Repeat it on the whole data set of the rules.",
    ),
    "rate-was-set": Explanation(
        "invalid",
        "Throughput at a rate of arrivals (LoadGen's Server scenario, llm-serving's) follows that rate.",
        "A side that was sent more looks faster; equal figures only say that both kept up.",
        "Search for the largest rate that each side keeps within its latency bound, and compare those.",
    ),
    "different-lengths": Explanation(
        "invalid",
        "Prompts or answers had more tokens on one side than on the other.",
        "A server that writes shorter answers answers more requests a second, however fast it is.",
        "Ask both for prompts of as many tokens, and keep answers from ending early: "
        "`extra: {ignore_eos: true}` where the server knows it.",
    ),
    "client-late": Explanation(
        "weak",
        "The client itself was late by more than a tenth of the times that it measured.",
        "A client without CPU time sends and notes late, and its lag stands in the server's latencies. It "
        "looks a hundred times a second how late it is; the figure is the 99th percentile of that.",
        "Give it cores of its own, best on a machine of its own, or send less.",
    ),
    "no-validity": Explanation(
        "weak",
        "The program states no validity.",
        "Nobody checked whether the run was long enough or had enough queries for its percentile.",
        "Take the figures from LoadGen's own logs.",
    ),
    "default-seeds": Explanation(
        "weak",
        "The run did not use the seeds that its round publishes.",
        "The order and the choice of queries decide caches and lengths, so the run is not comparable with "
        "the round's.",
        "Set the round's seeds.",
    ),
    "test-mode": Explanation(
        "invalid",
        "The run was made with settings of an audit test.",
        "Such settings change what is sent, so its figures are not performance.",
        "Repeat it without them.",
    ),
    "logged-errors": Explanation(
        "invalid",
        "The detail log holds errors.",
        "Figures of a run that LoadGen complained about may count less, or other, work than they say.",
        "Read the errors before using the figures.",
    ),
    "logs-disagree": Explanation(
        "invalid",
        "Summary and detail log state different figures.",
        "They are of two runs, or one was changed.",
        "Find out which run is meant, and score both files of it.",
    ),
}
