"""Samples a node while a job runs on it: counters of the kernel, the job's processes, the GPUs.

    python -I -S …/assay_payloads/sampling/sampler.py PID PERIOD_S [NVML [AMD_SMI]]

The job is the process with this ID and everything below it. The sampler ends with it, and changes nothing of
it. It runs with only the standard library (3.9 or newer) and prints lines:

    :::ASSAY-TELEMETRY {"version": 1, "started_at": …, "period_s": 1.0, "node": […], "gpu": […], "gpus": […]}
    n 3.001 12.31 0.2 - .               node: seconds since the start, then a value per column of `node`
    g 3.002 1 97 - .                    GPU: the same, after its index, with a value per column of `gpu`
    x 3.002 1 79 .                      GPU 1 reported Xid 79
    ! 3.002 GPU 1: …                    why something can't be sampled from now on, or what is missing

`-` is an unknown value, and a line of values without its full stop was cut off. Values are in base units;
names that end in `_total` count since some earlier time and are printed as the kernel or driver counts them,
so their reader notices a reset. Times are monotonic: if somebody sets the clock, only `started_at` is
affected. Each GPU has a thread, because a driver's call may hang: the samples of the node and the other GPUs
continue.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

if __name__ == "__main__":  # otherwise the importer has found the package
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - where it lies
from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.probing.node_gpus import loaded
from assay_payloads.sampling.gpus import GPU_COLUMNS, GpuError, Gpus, GpuSource
from assay_payloads.sampling.node import JobProcesses, NodeSource

VERSION = 1
MARK = ":::ASSAY-TELEMETRY "
NVML = "libnvidia-ml.so.1"
AMD_DRIVER = "/sys/module/amdgpu"  # without it, nothing of AMD's is imported or looked for
OPEN_PATIENCE_S = 30.0  # loading the driver's state takes seconds without a persistence daemon


def main(pid: int, period_s: float, nvml: str = NVML, amd_smi: str = "") -> None:
    """Sample until SIGTERM, or until the process has ended.

    period_s  seconds between samples
    nvml      NVIDIA's management library; a node without it has no GPUs of NVIDIA's
    amd_smi   AMD's; "" for ROCm's where it usually is, if AMD's driver is loaded
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    tree = FileTree()
    sample(NodeSource(tree, JobProcesses(tree, pid)), period_s, nvml, amd_smi)


def sample(node: NodeSource, period_s: float, nvml: str = NVML, amd_smi: str = "", problem: str = "") -> None:
    """Print samples until the job has ended.

    problem  that is noted first; "" for none
    """
    lines = Lines(own_output())
    sources, problems = opened(nvml, amd_smi)
    gpus = [(source, index) for source in sources for index in range(len(source.names))]
    header = {
        "version": VERSION,
        "started_at": time.time(),
        "period_s": period_s,
        "node": node.columns,
        "gpu": GPU_COLUMNS if gpus else [],
        "gpus": [{**source.names[own], "index": index} for index, (source, own) in enumerate(gpus)],
    }
    lines.began = time.monotonic()
    lines.write(MARK + json.dumps(header))
    for note in filter(None, (problem, *problems)):
        lines.write(f"! 0 {note}")
    watchers = [partial(sample_gpu, *gpu, index) for index, gpu in enumerate(gpus)]
    watchers += [partial(report_xids, source, gpus.index((source, 0))) for source in sources if source.names]
    for watch in watchers:
        threading.Thread(target=watch, args=(lines, period_s), daemon=True).start()
    for _ in ticks(period_s):
        if not node.has_job():
            os._exit(0)
        lines.sample("n", node.values())


def own_output() -> int:
    """Standard output under another number, so that nothing that a driver's library prints tears a line."""
    output, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return output


def opened(nvml: str, amd_smi: str) -> tuple[list[GpuSource], list[str]]:
    """The GPUs of each vendor whose driver is there, and why those of one can't be sampled."""
    vendors: list[Callable[[], GpuSource | None]] = []
    if loaded(nvml) is not None:
        vendors.append(partial(Gpus.loaded, nvml))
    if amd_smi or os.path.isdir(AMD_DRIVER):  # noqa: PTH112 - pathlib costs 10 ms of start-up
        from assay_payloads.sampling.amd_gpus import AmdGpus

        vendors.append(partial(AmdGpus.loaded, amd_smi))
    sources: list[GpuSource] = []
    problems: list[str] = []
    for vendor in vendors:
        answer = answer_of(vendor, OPEN_PATIENCE_S)
        if isinstance(answer, str):
            problems.append(answer)
        elif answer is not None:
            sources.append(answer)
    return sources, problems


def answer_of(vendor: Callable[[], GpuSource | None], patience_s: float) -> GpuSource | str | None:
    """What this returns, or why it fails: a broken driver can hang forever."""
    answers: list[GpuSource | str | None] = []

    def ask() -> None:
        try:
            answers.append(vendor())
        except GpuError as error:
            answers.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(patience_s)
    return (
        answers[0]
        if answers
        else f"a GPU driver has not answered for {patience_s:g} s: its GPUs aren't sampled"
    )


def sample_gpu(source: GpuSource, own: int, index: int, lines: Lines, period_s: float) -> None:
    """Sample a GPU at each tick; a failure is reported once, and once more when it responds again.

    own    its index among those of its source; index: among all of the node
    """
    failed = ""
    for _ in ticks(period_s):
        values, why = None, ""
        try:
            values = source.values(own)
        except GpuError as error:
            why = str(error)
        if why != failed:
            lines.note(f"GPU {index}: {why or 'it responds again'}")
        failed = why
        if values is not None:
            lines.sample(f"g {index}", values)


def report_xids(source: GpuSource, first: int, lines: Lines, period_s: float) -> None:
    """Report at each tick what the driver has reported since; first: the index of the source's first GPU."""
    for _ in ticks(period_s):
        for own, code in source.xids():
            lines.event("x", f"{first + own} {code} .")


def ticks(period_s: float) -> Iterable[None]:
    """Return at each multiple of the period; those that were missed are left out, never caught up."""
    start, tick = time.monotonic(), 0
    while True:
        yield
        tick = max(tick + 1, int((time.monotonic() - start) / period_s) + 1)
        time.sleep(max(0.0, start + tick * period_s - time.monotonic()))


def text_of(value: float | None) -> str:
    """A value as text, without losing a digit."""
    return "-" if value is None else str(int(value)) if value == int(value) else f"{value:.10g}"


class Lines:
    """Writes lines of telemetry. A disk without space loses samples, which are counted, and ends nothing."""

    def __init__(self, output: int) -> None:
        self._output, self._lost, self._torn = output, 0, False
        self._one_at_a_time = threading.Lock()
        self.began = time.monotonic()

    def sample(self, kind: str, values: Sequence[float | None]) -> None:
        """A line of values; `kind` may have an index after it."""
        letter, _, index = kind.partition(" ")
        fields = " ".join([*map(text_of, values), "."])
        self.event(letter, f"{index} {fields}" if index else fields)

    def note(self, text: str) -> None:
        """A line for whoever reads the samples."""
        self.event("!", " ".join(text.split()))

    def event(self, letter: str, rest: str) -> None:
        """A line with the time."""
        self.write(f"{letter} {time.monotonic() - self.began:.3f} {rest}")

    def write(self, line: str) -> None:
        """A whole line, or nothing that a reader could take for one."""
        with self._one_at_a_time:
            missing = f"! {time.monotonic() - self.began:.3f} {self._lost} lines could not be written\n"
            text = "\n" * self._torn + (missing if self._lost else "") + f"{line}\n"
            data = text.encode()
            try:
                written = os.write(self._output, data)
            except BrokenPipeError:  # nobody reads it any more
                os._exit(0)
            except OSError:
                written = 0
            if written == len(data):
                self._lost, self._torn = 0, False
            else:
                self._lost, self._torn = self._lost + 1, self._torn or written > 0


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
