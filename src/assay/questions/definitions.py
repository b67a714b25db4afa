"""What the user set for runs: definitions of systems, parameters of benchmarks, programs; as flat facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from assay.records import Result, Scalar

Settings = Mapping[str, "Scalar"]
"""Dotted names with plain values: `{"launcher": "local", "env.OMP_NUM_THREADS": "4"}`."""
_DIGEST_SHOWN = 16  # hexadecimal digits
_NOT_SENT = ("price",)  # states what a system costs, and changes no job


def systems_set(runs_dir: Path, results: Iterable[Result]) -> tuple[Settings, ...]:
    """What systems.yaml says about the system of these runs, once per session and system, without secrets.

    Runs whose session has no such entry are left out: imported ones, and those whose file is lost.
    """
    from assay.rundir.session import Session
    from assay.suite.document import read
    from assay.suite.load import THIS_MACHINE

    own = (result.run for result in results if result.run.source is None)
    places = dict.fromkeys((run.suite, run.session, run.trial.system) for run in own)
    documents: dict[Path, Any] = {}
    settings = []
    for suite, session, system in places:
        file = Session(runs_dir / suite / session).systems
        if file not in documents:
            documents[file] = read(file).data if file.exists() else {}
        entries = documents[file]
        entry = entries.get(system) if isinstance(entries, dict) else None
        if isinstance(entry, dict):
            kept = {key: value for key, value in entry.items() if key not in _NOT_SENT}
            settings.append(dict(_flat("", kept)))
        elif system == THIS_MACHINE:  # needs no entry
            settings.append({"launcher": THIS_MACHINE})
    return tuple(settings)


def parameters(results: Iterable[Result]) -> dict[str, tuple[Settings, ...]]:
    """Benchmark → the parameters and the shape of its trials, each combination once; no imported runs."""
    by_benchmark: dict[str, dict[str, Settings]] = {}
    for trial in (result.run.trial for result in results if result.run.source is None):
        flat = dict(_flat("", {"workload": trial.workload, "shape": str(trial.shape), **trial.params}))
        by_benchmark.setdefault(trial.benchmark, {})[json.dumps(flat, sort_keys=True)] = flat
    return {benchmark: tuple(points.values()) for benchmark, points in by_benchmark.items()}


def programs(runs_dir: Path, results: Iterable[Result]) -> tuple[Settings, ...]:
    """The files that command lines name, path → digest, once per session: an edited one is another program.

    Sessions whose command lines name no file have no entry, nor have imported ones.
    """
    from assay.rundir.session import Session

    own = (result.run for result in results if result.run.source is None)
    plans = (
        session.plan()
        for suite, name in dict.fromkeys((run.suite, run.session) for run in own)
        if (session := Session(runs_dir / suite / name)).path.is_dir()
    )
    return tuple(
        {path: digest[:_DIGEST_SHOWN] for path, digest in plan.named_files.items()}
        for plan in plans
        if plan.named_files
    )


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(f"{name}.", value)
        elif value is None or isinstance(value, str | int | float):
            yield name, value
        else:
            yield name, json.dumps(value, ensure_ascii=False)
