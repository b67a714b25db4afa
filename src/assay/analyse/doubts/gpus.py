"""Doubts about what the GPUs did during the runs, from the samples of the nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted, evidence
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import probed
from assay.records import GpuUse, Result
from assay.units import percent, significant

BUSY = 0.05  # mean use from which on a GPU took part in a run
COVERED = 0.9  # share of a run that the samples of a GPU must cover to say that it was idle
APART = 0.02  # of a power limit: what cards of one model differ by
_LIMIT = re.compile(r"gpu\.\d+\.power_limit_w")


def throttled(case: Case) -> str | None:
    """Heat, the hardware or a power brake lowered a GPU's clocks."""
    return evidence(case, "a GPU's clocks were lowered for {} of the time", _gpus, slowed_share, _words)


GPU_THROTTLED = CaseDoubtKind(
    code="gpu-throttled",
    subject="meanwhile",
    severity="biased",
    means=(
        "The driver lowered a GPU's clocks while the job ran, because of heat, a hardware slowdown or a "
        "power brake: that time, as a share of the sampled time. Raised if the mean over a side's runs is "
        "above half of the margin (above 1 % if nothing is compared); the worst of a run's GPUs counts. A "
        "clock that the power limit lowers is normal for a GPU at full load and isn't counted here."
    ),
    effect=(
        "The slowest GPU sets the pace of every collective. The result is that of the room's temperature or "
        "the power supply, and changes from run to run. How much was lost is unknown."
    ),
    remedy=(
        "Find the GPU (`assay watch`, the report's time axis), fix cooling or power supply, and run again."
    ),
    rates=(
        "The driver counts the time, and a GPU that is cool enough stays at 0. Where it has no such counter, "
        "the samples that name such a reason count, so that one of 60 samples is 1.7 %."
    ),
    evidence=throttled,
    looks_at="runs",
)


def idle(case: Case) -> str | None:
    """Fewer GPUs worked than the job has ranks."""
    for side in case.sides:
        for result in _with_known_gpus(side):
            working = sum(1 for gpu in result.reading.gpus if _is_busy(gpu))
            ranks = result.run.trial.shape.ranks
            if 0 < working < ranks <= len(result.reading.gpus):
                idle_ones = [str(gpu) for gpu in result.reading.gpus if not _is_busy(gpu)]
                return (
                    f"{side.name}, {result.run.trial.id}: {counted(working, 'GPU')} worked for "
                    f"{counted(ranks, 'rank')}; not {', '.join(idle_ones[:3])}"
                )
    return None


GPU_IDLE = CaseDoubtKind(
    code="gpu-idle",
    subject="meanwhile",
    severity="invalid",
    means=(
        "The program reports one GPU per rank, but fewer GPUs were used by at least 5 % on average, although "
        "samples cover 90 % of the run and there were enough GPUs."
    ),
    effect="Ranks shared a GPU, or computed elsewhere: the result is not that of the stated number of GPUs.",
    remedy=(
        "Find out which GPU each rank uses (CUDA_VISIBLE_DEVICES, the scheduler's binding), and run again."
    ),
    rates=(
        "A rank whose GPU works less than 5 % of the time, because it nearly always waits for data, also "
        "raises it. A rank that works more never does."
    ),
    evidence=idle,
    looks_at="runs",
)


def neighbours(case: Case) -> str | None:
    """More GPUs worked than the job has ranks."""
    for side in case.sides:
        for result in _with_known_gpus(side):
            working = sum(1 for gpu in result.reading.gpus if _is_busy(gpu))
            ranks = result.run.trial.shape.ranks
            if working > ranks:
                return (
                    f"{side.name}, {result.run.trial.id}: {counted(working, 'GPU')} of the job's nodes "
                    f"worked, the job has {counted(ranks, 'rank')}"
                )
    return None


GPU_NEIGHBOURS = CaseDoubtKind(
    code="gpu-neighbours",
    subject="meanwhile",
    severity="biased",
    means=(
        "The program reports one GPU per rank, but more GPUs of its nodes were used by at least 5 % on "
        "average while it ran."
    ),
    effect=(
        "Somebody else's job was on the same nodes. It shares their power, cooling, PCIe links, network "
        "and memory bandwidth."
    ),
    remedy="Run on nodes of your own (`--exclusive`, whole nodes, taints), or at a time without other jobs.",
    rates="Idle GPUs report 0 % use. A display or a monitoring program's kernels stay below 5 %.",
    evidence=neighbours,
    looks_at="runs",
)


def power_limits(case: Case) -> str | None:
    """The sides' GPUs have different power limits."""
    if len(case.sides) < 2:
        return None
    limits = [_limits(side) for side in case.sides]
    if not all(limits):
        return None
    a, b = map(median, limits)
    if abs(a - b) <= APART * max(a, b):
        return None
    named = (f"{side.name} {significant(limit, 3)} W" for side, limit in zip(case.sides, (a, b), strict=True))
    return f"per GPU: {', '.join(named)}"


POWER_LIMITS_DIFFER = CaseDoubtKind(
    code="power-limits-differ",
    subject="sides",
    severity="biased",
    means="The power limits of the two sides' GPUs differ by more than 2 % (medians over GPUs and runs).",
    effect=(
        "The side with the higher limit may be faster for that reason alone, and uses more energy: the ratio "
        "is not one of the platforms."
    ),
    remedy=(
        "Set the same limit on both (`nvidia-smi -pl`), or compare the energy of the same work: "
        "`--metric gpu_energy_per_work` has its own verdict."
    ),
    evidence=power_limits,
    looks_at="runs",
)


def disagree(case: Case) -> str | None:
    """The sampler and a Prometheus say different things about a run."""
    for side in case.sides:
        for sample in side.group.samples:
            disagreements = sample.result.reading.disagreements
            if disagreements:
                more = f" and {len(disagreements) - 1} more" if len(disagreements) > 1 else ""
                return f"{side.name}, {sample.result.run.trial.id}: {disagreements[0]}{more}"
    return None


TELEMETRY_DISAGREES = CaseDoubtKind(
    code="telemetry-disagrees",
    subject="meanwhile",
    severity="biased",
    means=(
        "Assay's sampler and the Prometheus from which `assay monitor fetch` took the same run's telemetry "
        "differ by more than 5 % plus four standard errors of the difference: in the mean power, use or "
        "memory of a GPU, or in the CPUs used or memory available on a node."
    ),
    effect=(
        "One of the two is wrong: another node under the same name, clocks that differ, a sensor or an "
        "exporter that lags. Energy and the doubts about GPUs may rest on the wrong one; they use the "
        "sampler's."
    ),
    remedy="Compare the two over time (`assay report`, the Prometheus' own graph), and the nodes' clocks.",
    rates=(
        "Two healthy sources of the same signal were told apart in 0 of 400 simulated runs of 10 minutes "
        "(noise of 10 %, correlated over 20 s, scraped every 15 s). A difference of 15 % was found in all."
    ),
    evidence=disagree,
    looks_at="runs",
)


def unsampled(case: Case) -> str | None:
    """The telemetry of a run covers only a part of it."""
    runs = [
        (side.name, sample.result)
        for side in case.sides
        for sample in side.group.samples
        if sample.result.reading.unsampled
    ]
    if not runs:
        return None
    side, result = runs[0]
    nodes = result.reading.unsampled
    more = f" and {counted(len(nodes) - 1, 'more node')}" if len(nodes) > 1 else ""
    in_all = f"; in all, {counted(len(runs), 'run')}" if len(runs) > 1 else ""
    return f"{side}, {result.run.trial.id}: {nodes[0]} were sampled{more}{in_all}"


TELEMETRY_INCOMPLETE = CaseDoubtKind(
    code="telemetry-incomplete",
    subject="meanwhile",
    severity="weak",
    means=(
        "The samples of a node cover less than 80 % of the run, and more than 2.5 of their periods are "
        "missing. Its sampler was killed or stopped, its output was lost, or the node gave it no CPU time."
    ),
    effect=(
        "What GPUs, memory, network and disks did in the rest of the run is unknown: its means and peaks are "
        "those of the sampled time. The doubts about GPUs and the energy leave such a GPU out. The result "
        "itself does not rest on the samples."
    ),
    remedy="Look for what ended the sampler, such as the kernel's memory killer (`dmesg`), and run again.",
    evidence=unsampled,
    looks_at="runs",
)


def slowed_share(gpu: GpuUse) -> float | None:
    """The share of the sampled time at lowered clocks; None if the driver does not say."""
    return None if gpu.slowed_s is None or not gpu.sampled_s else min(1.0, gpu.slowed_s / gpu.sampled_s)


def _words(gpu: GpuUse) -> str:
    clock = "" if gpu.clock_hz is None else f", at {significant(gpu.clock_hz / 1e6, 4)} MHz under load"
    return f"{gpu}, {percent(slowed_share(gpu) or 0.0)}{clock}"


def _gpus(result: Result) -> Sequence[GpuUse]:
    return result.reading.gpus


def _is_busy(gpu: GpuUse) -> bool:
    return gpu.utilization is not None and gpu.utilization >= BUSY


def _with_known_gpus(side: Side) -> Iterator[Result]:
    """Runs whose program uses one GPU per rank, and of which every GPU was sampled to the end."""
    for sample in side.group.samples:
        run, reading = sample.result.run, sample.result.reading
        if reading.facts.get("device") != "cuda" or run.started_at is None or run.ended_at is None:
            continue
        if reading.facts.get("world_size") != run.trial.shape.ranks:
            continue
        enough_s = COVERED * (run.ended_at - run.started_at)
        if reading.gpus and all(
            gpu.utilization is not None and gpu.sampled_s >= enough_s for gpu in reading.gpus
        ):
            yield sample.result


def _limits(side: Side) -> list[float]:
    """Power limits in watts of every GPU in every run."""
    results = side.group.results
    once = {id(result.provenance): result for result in results}  # thousands of runs share a few tables
    limits = {key: _limits_of(result) for key, result in once.items()}
    return [limit for result in results for limit in limits[id(result.provenance)]]


def _limits_of(result: Result) -> list[float]:
    return [
        float(value)
        for table in probed(result)
        for name, value in table.items()
        if _LIMIT.fullmatch(name) and isinstance(value, int | float)
    ]
