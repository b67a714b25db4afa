"""A folder in the layout of MLPerf training submissions, composed from result files.

`SUBMITTER/benchmarks/BENCHMARK/`, `SUBMITTER/systems/SYSTEM.json` and
`SUBMITTER/results/SYSTEM/BENCHMARK/result_N.txt`. What a person wrote into the folder is kept: a second call
fills in what is still missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import redact
from assay.durable import deliver
from assay.errors import InputError, Problem
from assay.formats.unpacked import DAMAGED, open_log
from assay.inputs import read_json
from assay.submission.description import FIELDS, agreed


@dataclass(frozen=True)
class SubmissionEntry:
    """The runs of one benchmark on one system.

    files   their logs, raw or compressed, in the order of their numbers
    stated  known fields of the system's description from these runs
    """

    system: str
    benchmark: str
    files: tuple[Path, ...]
    stated: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """What a system's JSON now contains, its path, and the fields in which its runs differ."""

    system: str
    path: Path
    fields: Mapping[str, Any]
    differing: Mapping[str, Sequence[Any]]


def compose(entries: Sequence[SubmissionEntry], folder: Path, submitter: str) -> list[Description]:
    """Write a submitter's folder, and return the contents of its systems' JSON files.

    Known secrets, and anything that looks like one, are hidden in the copies of the logs. Raises InputError,
    with all problems and before anything is written, if a log can't be read, or if the folder contains
    other results of the same system and benchmark.
    """
    problems: list[Problem] = []
    copies: dict[Path, bytes] = {}
    for entry in entries:
        place = folder / "results" / entry.system / entry.benchmark
        of_entry = {}
        for number, file in enumerate(entry.files):
            try:
                with open_log(file) as log:
                    text = log.read().decode(errors="replace")
            except (OSError, *DAMAGED) as error:
                problems.append(Problem(str(file), f"can't be read: {error}"))
                continue
            of_entry[place / f"result_{number}.txt"] = redact.text(text).encode()
        problems += _others(place, of_entry)
        copies |= of_entry
    descriptions = _descriptions(entries, folder, submitter, problems)
    if problems:
        raise InputError(problems)
    for path, data in copies.items():
        deliver(path, data, option="-o")
    for entry in entries:
        (folder / "benchmarks" / entry.benchmark).mkdir(parents=True, exist_ok=True)
    for description in descriptions:
        deliver(
            description.path,
            json.dumps(description.fields, indent=2, ensure_ascii=False).encode() + b"\n",
            option="-o",
        )
    return descriptions


def _others(place: Path, ours: Mapping[Path, bytes]) -> list[Problem]:
    """Results in the folder that are not those to be written; other files are left alone."""
    other = [
        path.name
        for path in sorted(place.glob("result_*.txt"))
        if path not in ours or path.read_bytes() != ours[path]
    ]
    if not other:
        return []
    shown = ", ".join((*other[:3], *(["…"] if len(other) > 3 else [])))
    what = f"contains other results ({shown}); remove them, or write elsewhere"
    return [Problem(str(place), what)]


def _descriptions(
    entries: Sequence[SubmissionEntry], folder: Path, submitter: str, problems: list[Problem]
) -> list[Description]:
    descriptions = []
    for system in dict.fromkeys(entry.system for entry in entries):
        path = folder / "systems" / f"{system}.json"
        written: Any = {}
        if path.exists():
            try:
                written = read_json(path)
            except InputError as error:
                problems += error.problems
                continue
        if not isinstance(written, dict):
            problems.append(
                Problem(str(path), "is not a JSON object; fix it, or remove it to have it recreated")
            )
            continue
        known, differing = agreed(entry.stated for entry in entries if entry.system == system)
        known = {"system_name": system, "hw_notes": "", "sw_notes": "", **known, "submitter": submitter}
        fields = {name: known.get(name) for name in FIELDS} | {
            k: v for k, v in written.items() if v is not None
        }
        descriptions.append(
            Description(system, path, fields, {k: v for k, v in differing.items() if fields[k] is None})
        )
    return descriptions
