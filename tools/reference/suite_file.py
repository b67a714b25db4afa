"""The keys of suite.yaml, from its pydantic models."""

from __future__ import annotations

from collections.abc import Iterator

from fields import fields

from assay.suite.model import BenchmarkEntry, DataEntry, SuiteFile

_ENTRY = {
    "workload": "resnet50",
    "params": "{batch_size: [128, 256], precision: bf16}",
    "data": "{manifest: bicycles.jsonl, to: /scratch/assay, space: 200GB}",
    "shapes": "[1x8, 2x8]",
    "repeats": "7",
    "timeout": "2h",
    "max_output": "200 MB",
    "retries": "0",
    "expect": "{throughput: '>= 11000 images/s'}",
    "primary": "throughput",
}
_DATA = {
    "manifest": "bicycles.jsonl",
    "to": "/scratch/assay",
    "stage": "through",
    "space": "200GB",
    "timeout": "2h",
}
_SUITE = _ENTRY | {
    "suite": "resnet50-scaling",
    "benchmarks": "{training: {workload: resnet50}}",
    "systems": "[bare-metal, openshift]",
    "baseline": "bare-metal",
    "margin": "2%",
    "seed": "7",
    "order": "sequential",
    "sample_every": "100ms",
}


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# suite.yaml"
    yield "The keys of a suite. A suite says **what** to measure; [systems.yaml](systems.md) says"
    yield "**where**. [Write a suite](../how-to/suites.md) explains how to use them. Any other key is an"
    yield "error, which names the line and the closest key that exists.\n"
    yield "`assay init --schema suite` prints the JSON Schema of the file, for editors that complete and"
    yield "check as you type.\n"
    yield "A suite has `workload` and `params` for one benchmark, or `benchmarks` for several.\n"
    yield from fields(SuiteFile, _SUITE)
    yield "\n## An entry of `benchmarks`"
    yield "Keys of one benchmark. They override those of the suite.\n"
    yield from fields(BenchmarkEntry, _ENTRY)
    yield "\n## DataEntry"
    yield "The keys of `data`: [Bring data near](../how-to/data-stage.md) explains them.\n"
    yield from fields(DataEntry, _DATA)
    yield "\n## How values are written"
    yield "- **Sweep**: a list where a parameter takes one value runs each value. Several lists make a"
    yield "  grid. See [workloads](workloads.md) for the parameters."
    yield "- **Shape**: workers x accelerators per worker, like `2x8`; with a third number the nodes that"
    yield "  the workers share: `16x1x2` is 16 workers of one accelerator on two nodes."
    yield "- **Duration**: seconds, or a number with `s`, `min`, `h` or `d`. **Size**: bytes, or a number"
    yield "  with a unit."
    yield "- **Requirement**: `>=` or `<=`, a number, and a unit of the metric. `assay show` lists a"
    yield "  benchmark's metrics."
