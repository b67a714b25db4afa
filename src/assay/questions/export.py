"""Measurements as a table, for a notebook or a spreadsheet."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from assay.errors import InputError
from assay.questions.evidence import each, run_sets, runs_directory
from assay.questions.question import RUNS, Answer, Question, Reference, argument, form_of, option, question
from assay.units import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from assay.questions.evidence import RunSet
    from assay.store import DeclaredMetric
    from assay.store.query import Format
    from assay.view.blocks import Block


_ENDINGS: Final[Mapping[str, str]] = {".csv": "csv", ".parquet": "parquet", ".json": "json"}


@question
class Export(Question):
    """Write the measurements of RUNS, one row each.

    Columns: system, benchmark, workload, shape, metric, unit, run, suite, session, block, value, labels (as
    JSON: swept parameters and the measurement's own), file, line, better, started_at, conditions (as JSON:
    how the runs were ordered and what the kernels counted). Runs without a result have no rows.
    `assay import` can import such a CSV.

    In CSV, a text that a spreadsheet would take for a formula (its first character is =, +, -, @, a tab or
    a line break) is prefixed with an apostrophe, which `assay import` removes. Numbers stay numbers, and
    JSON and Parquet contain the texts unchanged.

    \b
    Examples:
      assay export quickstart -o quickstart.parquet
      assay export resnet50:bare-metal resnet50:openshift --format csv > both.csv
      assay export quickstart --json | jq '.[].value'
    """

    has_json = False

    references: tuple[str, ...] = argument(metavar="RUNS", parameters=("run", "more"))
    format: Literal["csv", "parquet", "json"] | None = option(
        "By default, the file name's extension decides, else csv.", default=None
    )
    json: bool = option("Same as --format json.", default=False, output=True)
    output: Reference = option(
        "File to write; - is standard output.  [default: -]",
        default="-",
        metavar="FILE",
        names=("-o", "--output"),
        local=True,
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def __post_init__(self) -> None:
        self.written_format()

    def written_format(self) -> Format:
        """The format to write. Raises ValueError if the file's name says another one."""
        return cast("Format", "json" if self.json else form_of(self.output, self.format, _ENDINGS))

    def answer(self) -> Exported:
        """The measurements are written to the file, or are in the answer for standard output."""
        if str(self.output) != "-":
            return Exported(*self.count(Path(self.output)), str(self.output), b"")
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "measurements"
            return Exported(*self.count(file), "-", file.read_bytes())

    def count(self, file: Path) -> ExportCount:
        """Write the measurements to a file."""
        from assay import store
        from assay.run.index import answered

        directory = runs_directory(self.runs)
        chosen = run_sets(directory, self.references)
        ids = dict.fromkeys(result.run.id for run_set in chosen for result in run_set.results)
        declared, form = _declared(chosen), self.written_format()
        written = answered(directory, lambda: store.export(directory, list(ids), file, form, declared))
        return ExportCount(written, len(ids))

    def write(self, answer: Exported) -> Exported | bytes:
        """What goes to standard output."""
        return answer.content if answer.output == "-" else answer


class ExportCount(NamedTuple):
    """The number of measurements written, and of their runs."""

    measurements: int
    runs: int


@dataclass(frozen=True)
class Exported(Answer):
    """What was written, and its content if it is for standard output."""

    measurements: int
    runs: int
    output: str
    content: bytes

    @property
    def notes(self) -> Sequence[str]:
        """How much was written."""
        count = f"{counted(self.measurements, 'measurement')} of {counted(self.runs, 'run')}"
        return (f"{self.output}: {count}",)

    def view(self) -> Iterator[Block]:
        """Nothing: the file says it."""
        return iter(())


def export(
    run: str | Sequence[str],
    *more: str,
    output: Reference,
    format: Format | None = None,  # noqa: A002 - the command's own word for it
    runs: Reference | None = None,
) -> ExportCount:
    """Write the measurements of these runs to a file, one row each, like `assay export RUN…`.

    output  the file, which is replaced
    format  csv, parquet or json; None: by the ending of the file, or else csv
    runs    directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing or the format is another, HostError if the file can't be
    written.
    """
    if format is not None and format not in _ENDINGS.values():
        raise InputError(f"format: found {format!r}; expected {', '.join(_ENDINGS.values())}")
    try:
        return Export(tuple(each(run, *more)), output=output, format=format, runs=runs).count(Path(output))
    except ValueError as error:
        raise InputError(str(error)) from error


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
