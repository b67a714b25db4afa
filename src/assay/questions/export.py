"""Measurements as a table, for a notebook or a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.errors import InputError
from assay.questions.evidence import each, run_sets, runs_directory

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from os import PathLike

    from assay.questions.evidence import RunSet
    from assay.store import DeclaredMetric
    from assay.store.query import Format


_ENDINGS: Final[Mapping[str, Format]] = {".csv": "csv", ".parquet": "parquet", ".json": "json"}


class ExportCount(NamedTuple):
    """The number of measurements written, and of their runs."""

    measurements: int
    runs: int


def export(
    run: str | Sequence[str],
    *more: str,
    output: str | PathLike[str],
    format: Format | None = None,  # noqa: A002 - the command's own word for it
    runs: str | PathLike[str] | None = None,
) -> ExportCount:
    """Write the measurements of these runs to a file, one row each, like `assay export RUN…`.

    output  the file, which is replaced
    format  csv, parquet or json; None: by the ending of the file, or else csv
    runs    directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing or the format is another, HostError if the file can't be
    written.
    """
    from assay import store
    from assay.run.index import answered

    form = format or _ENDINGS.get(Path(output).suffix.lower(), "csv")
    if form not in _ENDINGS.values():
        raise InputError(f"format: found {form!r}; expected {', '.join(_ENDINGS.values())}")
    directory = runs_directory(runs)
    chosen = run_sets(directory, each(run, *more))
    ids = dict.fromkeys(result.run.id for run_set in chosen for result in run_set.results)
    declared = _declared(chosen)
    written = answered(directory, lambda: store.export(directory, list(ids), Path(output), form, declared))
    return ExportCount(written, len(ids))


def _declared(chosen: Sequence[RunSet]) -> Collection[DeclaredMetric]:
    """What the workloads declare for each metric, by session and benchmark."""
    from assay.store import DeclaredMetric

    declared: dict[tuple[str, str, str, str], DeclaredMetric] = {}
    for run_set in chosen:
        metrics = run_set.metrics()
        known: set[tuple[str, str, str]] = set()
        for run in (result.run for result in run_set.results):
            place = (run.suite, run.session, run.trial.benchmark)
            if place in known:
                continue
            known.add(place)
            for rank, metric in enumerate(metrics(run).values()):
                key = (*place, metric.name)
                declared.setdefault(key, DeclaredMetric(*key, metric.better, rank))
    return declared.values()
