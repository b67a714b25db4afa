"""Whether anything else needs this machine: its CPUs and GPUs over a short time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assay.errors import HostError
from assay.monitor.watching import watch

BUSY_CPU_SHARE: Final = 0.1  # of all CPUs; a desktop or a node's daemons need a few percent
BUSY_GPU_PERCENT: Final = 5.0
HELD_GPU_BYTES: Final = 2 * 1024**3  # a driver and its daemons hold some hundred MiB, a job's tensors GiB
_PERIOD_S: Final = 0.5


@dataclass(frozen=True)
class NodeIdleness:
    """What this machine did for a time.

    busy_cores  mean over the time
    cores       of the machine
    gpus        GPUs that were asked
    reasons     why the machine is not idle; empty if it is
    """

    busy_cores: float
    cores: int
    gpus: int
    reasons: tuple[str, ...]

    @property
    def is_idle(self) -> bool:
        """Whether nothing else needs the machine."""
        return not self.reasons


def node_idleness(for_s: float) -> NodeIdleness:
    """What this machine does now. Raises HostError if it can't be found out."""
    newest = deque(watch(os.getpid(), min(_PERIOD_S, for_s / 2), for_s), maxlen=1)
    last, cores = next(iter(newest), None), os.cpu_count()
    busy_cores = None if last is None else last.mean_speeds(None).get("cpu_busy_seconds")
    if last is None or busy_cores is None or cores is None:
        raise HostError("can't tell whether this machine is idle: its kernel reports no CPU time")
    indices = [int(gpu["index"]) for gpu in last.header.gpus] if last.header else []
    reasons = []
    if busy_cores > BUSY_CPU_SHARE * cores:
        reasons.append(f"{busy_cores:.1f} of {cores} CPUs are busy; idle is at most {BUSY_CPU_SHARE:.0%}")
    for index in indices:
        sample = last.latest.get(index)
        reasons += [f"GPU {index} {reason}" for reason in _gpu(None if sample is None else sample.values)]
    return NodeIdleness(busy_cores, cores, len(indices), tuple(reasons))


def _gpu(values: Mapping[str, float] | None) -> list[str]:
    if values is None:
        return ["gave no sample"]
    use, memory = values.get("utilization_percent"), values.get("memory_used_bytes")
    if use is None and memory is None:
        return ["reports neither use nor memory"]
    reasons = []
    if use is not None and use > BUSY_GPU_PERCENT:
        reasons.append(f"is used at {use:.0f} %; idle is at most {BUSY_GPU_PERCENT:.0f} %")
    if memory is not None and memory > HELD_GPU_BYTES:
        reasons.append(
            f"has {memory / 2**30:.1f} GiB in use; idle is at most {HELD_GPU_BYTES / 2**30:.0f} GiB"
        )
    return reasons
