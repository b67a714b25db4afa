"""Measurements as a table, for a notebook or a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from assay.api.evidence import each, run_sets, runs_directory

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from os import PathLike

    from assay.api.evidence import RunSet
    from assay.store import DeclaredMetric
    from assay.store.query import Format


class ExportCount(NamedTuple):
    """How many measurements were written, of how many runs."""

    measurements: int
    runs: int


def export(
    run: str | Sequence[str],
    *more: str,
    output: str | PathLike[str],
    format: Format = "csv",  # noqa: A002 - the command's own word for it
    runs: str | PathLike[str] | None = None,
) -> ExportCount:
    """Write the measurements of these runs to a file, one row each, as `assay export RUN…`.

    output  the file, which is replaced
    format  csv, parquet or json
    runs    directory that holds the runs; None is $ASSAY_RUNS, else `runs` here

    Raises InputError where a name fits nothing, HostError where the file can't be written.
    """
    from assay import store
    from assay.run.answered import answered

    directory = runs_directory(runs)
    found = run_sets(directory, each(run, *more))
    ids = dict.fromkeys(result.run.id for one in found for result in one.results)
    declared = _declared(found)
    written = answered(directory, lambda: store.export(directory, list(ids), Path(output), format, declared))
    return ExportCount(written, len(ids))


def _declared(chosen: Sequence[RunSet]) -> Collection[DeclaredMetric]:
    """What the workloads say of each metric, by session and benchmark."""
    from assay.store import DeclaredMetric

    found: dict[tuple[str, str, str, str], DeclaredMetric] = {}
    for one in chosen:
        metrics = one.metrics()
        known: set[tuple[str, str, str]] = set()
        for run in (result.run for result in one.results):
            place = (run.suite, run.session, run.trial.benchmark)
            if place in known:
                continue
            known.add(place)
            for rank, metric in enumerate(metrics(run).values()):
                key = (*place, metric.name)
                found.setdefault(key, DeclaredMetric(*key, metric.better, rank))
    return found.values()
