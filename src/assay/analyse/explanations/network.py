"""Doubts about what was measured between two nodes."""

from __future__ import annotations

from assay.analyse.explanations.explanation import Explanation

EXPLANATIONS: dict[str, Explanation] = {
    "one-host": Explanation(
        "invalid",
        "iperf3 or perftest ran with both ends on one host.",
        "The figure is that of the host's memory or of the card's own loopback; no network was between them.",
        "Give the shape two nodes (2x1x2) and the system two hosts.",
    ),
    "cpu-limited": Explanation(
        "biased",
        "iperf3 used 90 % or more of the cores that it can use on one end (one before version 3.16, from "
        "then on one a stream, as far as the node has them), or all CPUs of a node were busy for 90 % of the "
        "run.",
        "The figure is the CPU's, not the network's: a faster link would not raise it, and a slower one "
        "might not lower it.",
        "Take more streams with iperf3 3.16 or newer, larger segments (MTU), or nodes with nothing else to "
        "do. What RDMA gives past the CPU, the workload perftest measures.",
    ),
    "many-retransmits": Explanation(
        "biased",
        "TCP sent more than one segment in 1,000 again, in the run that had most.",
        "Loss limits TCP, not the link: by the formula of Mathis et al. (1997) one stream with segments of "
        "1,448 bytes and a round trip of 0.1 ms has 4.5 Gbit/s at most at that loss. BBR is less sensitive.",
        "Look for drops on the way (`ethtool -S`, the switch's counters), a policer, an MTU that differs "
        "between the ends, or buffers too small for the rate.",
    ),
    "below-link-rate": Explanation(
        "biased",
        "perftest's bandwidth of messages from 1 MiB on is below 80 % of the data rate that the port was "
        "trained to (twice that in both directions at once).",
        "Not the link limits the figure, but the card's PCIe slot, the NUMA node, one queue pair on a fast "
        "link, or the way to a GPU's memory.",
        "See LnkSta of `lspci -vv`, run on the card's NUMA node, take more `queue_pairs`; with `cuda_device` "
        "take a GPU below the same PCIe switch.",
    ),
    "slow-clock": Explanation(
        "biased",
        "perftest printed that its CPU does not run at its highest clock, or at several.",
        "Latencies are longer than they would be, and vary with what else the node does.",
        "Set the governor on both nodes: `cpupower frequency-set -g performance`.",
    ),
}
