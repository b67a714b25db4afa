"""Doubts about the machines, and figures that can't be or that say the machine was hardly used."""

from __future__ import annotations

from assay.analyse.explanations.explanation import Explanation
from assay.analyse.references import HALF, matching


def _reached(accelerator: str) -> list[str]:
    """Images a second of ResNet-50 on one such accelerator, as published, the slowest first."""
    known = matching("resnet50", "throughput", accelerator, HALF[0], 1, None)
    return [f"{each:,.0f}" for each in sorted(reference.each for reference in known)]


_V100, _A100 = _reached("Tesla V100-SXM2-16GB"), _reached("NVIDIA A100-SXM4-80GB")
_H100, _H200 = _reached("NVIDIA H100 80GB HBM3"), _reached("NVIDIA H200")

EXPLANATIONS: dict[str, Explanation] = {
    "clock-changed": Explanation(
        "biased",
        "Governor, boost, clock limits, power limit or PCIe width of one node were not the same in all "
        "runs of a side, a CPU slowed down for heat between two runs of a session (the kernel's count, where "
        "none was taken while the runs ran), or a GPU began a run at 83 °C or more.",
        "The runs were made by machines of different speed; a hot GPU lowers its clock while it is measured.",
        "Fix governor, boost, clocks and power limit, let GPUs cool between runs, and run again.",
    ),
    "cpu-quota": Explanation(
        "biased",
        "A cgroup gives the job fewer cores' worth of time than it has threads, or sees cores, and nobody "
        "counted whether it was stopped (where that was counted, `cpu-throttled` tells).",
        "Above its quota a job is stopped for tens of milliseconds at a time, on each node at another "
        "moment: every collective waits for the one that is stopped.",
        "Whole cores as limit and as many threads (`OMP_NUM_THREADS`), or no CPU limit.",
    ),
    "busy-machine": Explanation(
        "biased",
        "More tasks wanted to run than there are CPUs, before the run's own ranks had started, and nobody "
        "counted what others used while they ran (where that was counted, `busy-neighbours` tells).",
        "Something else takes time from the run, and rarely the same on both sides.",
        "Find what else runs there (other pods, other jobs of the node) and run again alone.",
    ),
    "uneven-nodes": Explanation(
        "biased",
        "Nodes of one run differ in CPU, GPU, driver, kernel, governor or memory.",
        "The slowest node sets the pace of every collective, so the figure is its, not the cluster's.",
        "Give the nodes of one job the same hardware, driver and settings.",
    ),
    "provenance-contradicts": Explanation(
        "invalid",
        "What the program stated (ranks, versions, device) is not what the probe found on the same nodes, "
        "or more hosts reported than the shape has nodes.",
        "The figure belongs to another configuration than the one that is shown beside it.",
        "Find out which is true: another interpreter, container or node than believed took part.",
    ),
    "other-transport": Explanation(
        "invalid",
        "NCCL was told to use TCP, InfiniBand or GPUDirect RDMA between nodes, and its own lines name "
        "another way for some links.",
        "The figure stands under a mode that was not measured: sockets have a tenth of InfiniBand's rate.",
        "See that the pod or process has the device (/dev/infiniband), the right to lock memory (memlock, "
        "IPC_LOCK) and, for GPUDirect, nvidia-peermem or DMA-BUF; run again and read the table of links.",
    ),
    "above-best-known": Explanation(
        "invalid",
        "Arithmetic or memory bandwidth is above the peak that the maker states for the accelerator, or a "
        "training is over 5 % faster on one accelerator than any published one (ResNet-50 at 224×224: "
        f"{_H100[-1]} images/s on an H100, {_H200[-1]} on an H200).",
        "Most likely less was done than is counted, or the clock did not wait for the GPU.",
        "Synchronise with the GPU before reading the clock; check problem size, batch, skipped gradients, "
        "arrays that fit into a cache, and that no rank is counted twice.",
    ),
    "mfu-far-below": Explanation(
        "weak",
        "A training with 16-bit arithmetic is slower than half of the slowest published figure for its "
        f"accelerator, and so is its MFU (ResNet-50: {_V100[0]} images/s on a V100, {_A100[0]} on an A100, "
        f"{_H100[0]} on an H100).",
        "Something else than the accelerator limits the run, so a comparison tells about that.",
        "Raise the batch, use channels_last, and see that no GPU waits for data, for the host or for "
        "another GPU.",
    ),
    "fast-path-off": Explanation(
        "biased",
        "A variable switches off or restricts NVLink, shared memory, InfiniBand or GPUDirect, or GPUs "
        "exchange through gloo.",
        "Communication is measured, and waited for, over a slower path than the machine has.",
        "Unset it unless that path is what is to be measured; `NCCL_DEBUG=INFO` names the path taken.",
    ),
    "fast-path-unused": Explanation(
        "biased",
        "The bus bandwidth of a large all-reduce (from 16 MiB) is below half of what is published for as "
        "many of the same GPUs, below one PCIe 4.0 link between NVLink GPUs of one node, below a quarter "
        "of a node's active InfiniBand ports, or below half of what the same number of GPUs reaches in "
        "larger workers.",
        "GPUs of a node in separate pods can use neither NVLink nor shared memory: on two nodes of eight "
        "V100, 16 single-GPU pods had 5.7 GB/s at 256 MiB where 2 pods of 8 GPUs had 55.2 GB/s. Every step "
        "that exchanges gradients waits for it.",
        "Put the GPUs of a node in one pod, or give the pods a common IPC namespace and shared memory. "
        "Between nodes see that /dev/infiniband is there and memory can be locked.",
    ),
    "learns-nothing": Explanation(
        "invalid",
        "A loss or an accuracy stays at one value, or over three runs or more its last quarter is better "
        "than its first by no more than it wobbles: a one-sided t test over runs (each is one value). "
        "The round's target says which way MLPerf's `eval_accuracy` has to go; a run that reached it has "
        "learnt.",
        "A program that trains nothing may leave work out (no gradients, no data, a diverged model), so "
        "its speed is that of something else.",
        "Check learning rate, data and precision.",
        "Four of five sets of three runs or more that learn nothing raise it, at any number of runs; a "
        "stricter test would doubt slow learners. Of runs of eight windows whose loss falls by one spread "
        "of a window, 23, 10 and 1 % raise it at 3, 5 and 10 runs; from two spreads on hardly any.",
    ),
}
