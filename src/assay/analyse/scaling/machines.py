"""Systems that are sizes of one machine: a round names each size of a machine as a separate system."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from assay.records import Result, Run, Shape

By = Literal["name", "accelerator", "none"]
ONE_DIGIT = 9  # a single number up to this is usually the model's, as in DGX-1


def machines(results: Iterable[Result], by: By) -> dict[str, list[Result]]:
    """The runs of each machine by its name, its sizes in the order of their first occurrence.

    by  `name`: submitter, and the system's name without its count; `accelerator`: submitter and model;
        `none`: each system separately

    A second system of a size that a machine already has is kept separate.
    """
    runs_by_machine: dict[str, list[Result]] = {}
    owners: dict[tuple[str, str, Shape], str] = {}
    for result in results:
        trial = result.run.trial
        name = _machine(result, by)
        if owners.setdefault((name, trial.benchmark, trial.shape), trial.system) != trial.system:
            name = trial.system
        runs_by_machine.setdefault(name, []).append(result)
    return runs_by_machine


def _machine(result: Result, by: By) -> str:
    facts = result.provenance.nodes[0] if result.provenance and result.provenance.nodes else {}
    run: Run = result.run
    model = facts.get("mlperf.accelerator_model_name", facts.get("gpu.0.name"))
    if by == "none" or (by == "accelerator" and not isinstance(model, str)):
        return run.trial.system
    submitter = facts.get("mlperf.submitter")
    what = str(model) if by == "accelerator" else without_count(run.trial.system, run.trial.shape)
    return f"{submitter} {what}" if isinstance(submitter, str) else what


def without_count(name: str, shape: Shape) -> str:
    """The name without the part that says how many nodes or accelerators it has.

    >>> without_count("dgxa100_n64_ngc21.09_mxnet", Shape(64, 8)), without_count("8xXE8545", Shape(8, 4))
    ('dgxa100_ngc21.09_mxnet', 'XE8545')
    >>> without_count("ipu-pod64-TF1", Shape(1, 64)), without_count("nd96_v4_n4_ngc", Shape(4, 8))
    ('ipu-TF1', 'nd96_v4_ngc')
    >>> without_count("dgxa100_ngc21.09_mxnet", Shape(1, 8)), without_count("HLS-1H-N2", Shape(2, 8))
    ('dgxa100_ngc21.09_mxnet', 'HLS-1H')
    >>> without_count("DGX-1", Shape(1, 8)), without_count("tpu-v4-4096", Shape(512, 8))
    ('DGX-1', 'tpu-v4')
    """
    for count in {shape.workers, shape.ranks}:
        bare = rf"|{count}(?![a-z0-9.])" if count > ONE_DIGIT else ""
        marked = rf"(?<![a-z0-9.])(?:(?:n|pod|x){count}|{count}x{bare})(?![0-9.])"
        shorter = re.sub(marked, "", name, flags=re.IGNORECASE)
        shorter = re.sub(r"([-_ .])[-_ .]+", r"\1", shorter).strip("-_ .")
        name = shorter or name
    return name
