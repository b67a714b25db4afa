"""The frames that a benchmark's nodes bring near: `data` of a suite, checked against the workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assay.data.manifest import chosen_data, staged_data
from assay.errors import InputError
from assay.records import StagedData
from assay.suite.document import Key
from assay.suite.model import DataEntry

CHOOSE = "choose"  # the parameter with which a workload chooses its frames
Finding = tuple[tuple[Key, ...], str]  # path in the benchmark, and what is wrong there


def staged(
    entry: DataEntry | None, model: type[BaseModel], written: Mapping[str, Any], directory: Path
) -> tuple[StagedData | None, list[Finding]]:
    """Where the nodes keep the frames, or everything that is wrong with `data`.

    model      of the workload's parameters
    written    the benchmark's `params`
    directory  where a relative path of the manifest starts
    """
    if entry is None:
        return None, []
    wrong: list[Finding] = [
        (("params", name), f"{name}: `data` of this benchmark sets it; remove one of them")
        for name in ("data", "manifest", "source")
        if name in written and name in model.model_fields
    ]
    if entry.stage == "through" and "source" not in model.model_fields:
        what = "stage: this workload can't keep frames as it reads them; write stage: local"
        wrong.append((("data", "stage"), what))
    if CHOOSE in written and CHOOSE in model.model_fields:
        if entry.manifest is not None:
            what = "manifest: the parameter choose makes it when a trial is submitted; remove one of them"
            wrong.append((("data", "manifest"), what))
        return (
            chosen_data(entry.to, mode=entry.stage, space_bytes=entry.space, timeout_s=entry.timeout),
            wrong,
        )
    if entry.manifest is None:
        what = (
            "manifest: is missing; name the file of chosen frames, or choose them with the parameter choose"
        )
        return None, [*wrong, (("data",), what)]
    try:
        data = staged_data(
            directory / entry.manifest,
            entry.to,
            mode=entry.stage,
            space_bytes=entry.space,
            timeout_s=entry.timeout,
        )
    except InputError as error:
        wrong.append((("data", "manifest"), f"manifest: {error}"))
        return None, wrong
    return data, wrong
