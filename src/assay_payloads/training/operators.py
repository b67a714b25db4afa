"""A step's time by operator, from torch.profiler: a trace file and the longest operators."""

from __future__ import annotations

from typing import Any

import torch

from assay_payloads.measuring.rank import Rank

TRACE = "trace.json.gz"  # Chrome's trace format: open it with chrome://tracing or ui.perfetto.dev
SKIPPED = 2  # steps before profiling: starting the profiler takes time in the first ones
LISTED = 10


class Profile:
    """Profiles this many steps of rank 0, once; nothing on the other ranks or for 0 steps."""

    def __init__(self, rank: Rank, steps: int) -> None:
        self.rank, self.steps = rank, steps
        self._profiler: torch.profiler.profile | None = None
        if rank.rank == 0 and steps:
            kinds = [torch.profiler.ProfilerActivity.CPU]
            if rank.device.type == "cuda":
                kinds.append(torch.profiler.ProfilerActivity.CUDA)
            self._profiler = torch.profiler.profile(
                activities=kinds,
                schedule=torch.profiler.schedule(wait=0, warmup=SKIPPED, active=steps, repeat=1),
                on_trace_ready=self._write,
            )
            self._profiler.start()

    def step(self) -> None:
        """Count a step; after the last profiled one, write the figures."""
        if self._profiler is not None:
            self._profiler.step()

    def end(self) -> None:
        """Stop profiling, and write what is not written yet."""
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None

    def _write(self, profiler: Any) -> None:
        """The trace, and each operator's own seconds per step; on a GPU, those of its kernels."""
        profiler.export_chrome_trace(TRACE)
        self.rank.log("trace", TRACE)
        own = "self_device_time_total" if self.rank.device.type == "cuda" else "self_cpu_time_total"
        operators = [event for event in profiler.key_averages() if event.key.startswith("aten::")]
        operators.sort(key=lambda event: getattr(event, own), reverse=True)
        for event in operators[:LISTED]:
            seconds = getattr(event, own) / 1e6 / self.steps
            if seconds > 0:
                self.rank.log("operator_time", seconds, unit="s", labels={"operator": event.key})
