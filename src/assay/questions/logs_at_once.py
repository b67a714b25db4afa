"""Logs as they are read at once: files, folders, archives and standard input, one run after the other."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from assay import read
from assay.analyse.points.groups import SIZE
from assay.errors import InputError, Problem
from assay.formats.archives import is_archive, unpack
from assay.formats.logged import LoggedRun, Stated
from assay.formats.recognize import AUTO, logged_runs, recognize
from assay.formats.stated_place import stated_place
from assay.formats.tools import MLPERF
from assay.formats.unpacked import LARGEST_UNPACKED_BYTES
from assay.inputs import sha256
from assay.questions.imported_runs import run_of
from assay.records import Better, Measurement, Result
from assay.run.stopping import terminable
from assay.rundir.imported import numbered
from assay.units import counted, human
from assay.view.blocks import TableRow
from assay.view.figures import binary_bytes

STANDARD_INPUT: Final = "standard input"
_BLOCK: Final = 1 << 20
_FILE_WIDTH: Final = 24  # characters, in a row on a terminal
_WIDTHS: Final = (12, 15, 26)  # of its other cells
_MOST_SERIES: Final = 100  # runs whose series are held
NAME: Final = "logs"  # of the set that the runs are in, which nothing keeps
_REPEATS: Final = re.compile(r"|r|run|rep|repeat|trial|try|seed|log|result|test|iter|out|output|v")


@dataclass(frozen=True)
class ReadLog:
    """A run as its log states it, and where it ran.

    file      as people name it
    host      the only one that the log names, or that its file is named after; "" if unknown or several
    headline  the figure that it is judged by: of several, that of the largest size, or the worst
    alike     how many figures of this metric it has
    """

    file: str
    format: str
    hosts: tuple[str, ...]
    accelerator: str
    result: Result
    headline: Measurement | None
    better: Better | None
    alike: int
    host: str = ""

    @property
    def system(self) -> str:
        """What it ran on."""
        return self.result.run.trial.system

    @property
    def problem(self) -> str:
        """Why it is no result, without the file's name; "" if it is one."""
        return self.result.run.cause.removeprefix(f"{Path(self.file).name}: ")

    @property
    def place(self) -> str:
        """The host and its accelerator."""
        named = self.host or (f"{len(self.hosts)} hosts" if self.hosts else "")
        return ", ".join(filter(None, (named, self.accelerator)))

    @property
    def figure(self) -> str:
        """The headline with its metric and unit, or why there is none."""
        if self.headline is None:
            return self.problem or "no figure"
        size = self.headline.labels.get(SIZE)
        place = f" at {binary_bytes(size)}" if isinstance(size, int | float) else ""
        if self.alike > 1 and not place:
            place = f", the worst of {self.alike}"
        metric = self.headline.metric.replace("_", " ")
        return f"{metric} {human(self.headline.value, self.headline.unit)}{place}"

    def row(self, folder: str = "", *, short: bool = False) -> TableRow:
        """Its line; the file relative to a folder, and on one line of a terminal if `short`."""
        file, *others = (self.file.removeprefix(folder), self.format, self.place, self.figure)
        if short:
            file = file if len(file) <= _FILE_WIDTH else f"…{file[1 - _FILE_WIDTH :]}"
            wide = zip(others, _WIDTHS, strict=True)
            others = [text if len(text) <= most else f"{text[: most - 1]}…" for text, most in wide]
        return TableRow((file, *others))

    def document(self) -> dict[str, Any]:
        """What `--json` says of it."""
        trial = self.result.run.trial
        return {
            "file": self.file,
            "format": self.format,
            "benchmark": trial.benchmark,
            "system": trial.system,
            "shape": str(trial.shape),
            "host": self.host or None,
            "hosts": list(self.hosts),
            "accelerator": self.accelerator or None,
            "metric": None if self.headline is None else self.headline.metric,
            "value": None if self.headline is None else self.headline.value,
            "unit": None if self.headline is None else self.headline.unit,
            "labels": {} if self.headline is None else dict(self.headline.labels),
            "problem": self.problem or None,
        }


class LogReader:
    """Reads logs one after the other; holds of each what is judged.

    tell  is called with the number of files so far and the next one
    """

    def __init__(self, place: Path, tell: Callable[[int, str], None] | None) -> None:
        self.read: list[ReadLog] = []
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.sources: list[Path] = []
        self._place, self._tell, self._files = place, tell, 0
        self._shown: dict[str, str] = {}  # where something was unpacked → what it is
        self._known: dict[str, Path] = {}
        self._copies: list[Path] = []

    def named(self, text: str) -> str:
        """Text with the user's names of what was unpacked."""
        for own, theirs in self._shown.items():
            text = text.replace(own, theirs)
        return text

    def all_of(self, paths: Sequence[str]) -> None:
        """Read everything at these paths; several folders or archives are a system each."""
        for path in paths:
            with self._noting(path):
                self.sources.append(self._source(path))
        sources, self.sources = self.sources, []
        are_sides = len(sources) > 1 and all(source.is_dir() for source in sources)
        for source in sources:
            before = len(self.read)
            side = Path(self.named(str(source))).name.partition(".")[0] if are_sides else None
            notes: list[str] = []
            with self._noting(str(source)):
                for format_, file in recognize(source, AUTO, notes, self._seen):
                    with self._noting(str(file)):
                        notes += self._log(format_, file, side)
            self.notes += map(self.named, notes)
            self.sources += [source] if len(self.read) > before else []
        if self._copies:
            copies, such = counted(len(self._copies), "file"), self.named(str(self._copies[0]))
            self.notes.append(f"left out: {copies} with the same bytes as another, such as {such}")
        runs = numbered([log.result.run for log in self.read])
        lean = len(runs) > _MOST_SERIES
        for index, (log, run) in enumerate(zip(self.read, runs, strict=True)):
            reading = replace(log.result.reading, series=()) if lean else log.result.reading
            run = replace(run, id=f"{NAME}/{run.trial.id}", session="read")
            result = replace(log.result, run=run, reading=reading)
            self.read[index] = replace(log, result=result)
        self.read = list(_with_hosts(self.read))

    def _source(self, path: str) -> Path:
        """The file or folder to read; what comes packed or through standard input is there until the end."""
        source, place = Path(path), self._place / str(len(self._shown))
        if path == "-":
            self._shown[str(place)] = STANDARD_INPUT
            return _spooled(place)
        if not source.exists():
            raise InputError([Problem(path, "there is no such file or folder")])
        if source.is_dir() or not is_archive(source):
            return source
        self._shown[str(place)] = path
        if left_out := unpack(source, place):
            self.notes.append(f"{path}: left out, no plain files below it: {', '.join(left_out[:3])}")
        return place

    @contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        """What can't be read is a problem of that path alone."""
        try:
            yield
        except InputError as error:
            self.problems += [Problem(self.named(p.where), self.named(p.what)) for p in error.problems]
        except OSError as error:
            self.problems.append(Problem(self.named(path), f"can't be read: {error.strerror or error}"))

    def _seen(self, file: Path) -> None:
        self._files += 1
        if self._tell is not None:
            self._tell(self._files, self.named(str(file)))

    def _log(self, format_: str, log: Path, side: str | None) -> Iterator[str]:
        """Read a log, or a tree of MLPerf's results; yields what a person should know about it."""
        is_file = log.is_file()
        if is_file and self._known.setdefault(sha256(log), log) != log:
            self._copies.append(log)
            return
        size = log.stat().st_size
        for logged in logged_runs(format_, [log], Stated(system=None if format_ == MLPERF else side)):
            self.read += [self._read_log(format_, run) for run in logged.runs]
        if is_file and log.stat().st_size != size:
            yield f"{log}: it grew meanwhile; only its beginning was read"

    def _read_log(self, format_: str, logged: LoggedRun) -> ReadLog:
        run = run_of(logged, NAME)
        result = Result(replace(run, source=self.named(logged.source)), logged.reading, logged.provenance)
        from assay.analyse.rankings import SCORED

        measured = {m.metric for m in logged.reading.measurements}
        name = SCORED if SCORED in measured else logged.primary
        metric = read.metrics(run).get(name)
        figures = [m for m in logged.reading.measurements if m.metric == name]
        better = metric.better if metric else None
        place, table = stated_place(logged.logs[0]), logged.provenance.nodes[0] if logged.provenance else {}
        accelerator = str(table.get("mlperf.accelerator_model_name", "")) or place.accelerator
        host = place.hosts[0] if len(place.hosts) == 1 else ""
        headline = _headline(figures, better)
        file = self.named(logged.source)
        return ReadLog(file, format_, place.hosts, accelerator, result, headline, better, len(figures), host)


@contextmanager
def read_at_once(paths: Sequence[str], tell: Callable[[int, str], None] | None) -> Iterator[LogReader]:
    """Everything that logs at these paths say; what was unpacked is there until the context ends."""
    with terminable(), tempfile.TemporaryDirectory(prefix="assay-read-") as place:
        reader = LogReader(Path(place), tell)
        reader.all_of(paths)
        yield reader


def _spooled(place: Path) -> Path:
    """Standard input as a file. Raises InputError if it is longer than what may be unpacked."""
    if sys.stdin is None:  # as after `<&-`
        raise InputError([Problem(STANDARD_INPUT, "is closed; name a file, or pipe a log into it")])
    size = 0
    with place.open("wb") as kept:
        while block := sys.stdin.buffer.read(_BLOCK):
            size += len(block)
            if size > LARGEST_UNPACKED_BYTES:
                most = human(float(LARGEST_UNPACKED_BYTES), "B")
                raise InputError([Problem(STANDARD_INPUT, f"has more than {most}; name the file itself")])
            kept.write(block)
    return place


def _headline(figures: Sequence[Measurement], better: Better | None) -> Measurement | None:
    """The figure that stands for a run: at the largest size, and there the worst of its parts."""
    if not figures:
        return None
    largest = max(_size(figure) for figure in figures)
    there = [figure for figure in figures if _size(figure) == largest]
    return (max if better == "lower" else min)(there, key=lambda figure: figure.value)


def _size(figure: Measurement) -> float:
    size = figure.labels.get(SIZE, 0)
    return float(size) if isinstance(size, int | float) else 0.0


def _with_hosts(logs: Sequence[ReadLog]) -> Iterator[ReadLog]:
    """The logs, with the hosts after which files or folders are named if no log of a benchmark names any.

    The names must differ in one part alone, with a number, which isn't that of a repetition, like `run3`.
    """
    of_benchmark: dict[str, list[ReadLog]] = {}
    for log in logs:
        of_benchmark.setdefault(log.result.run.trial.benchmark, []).append(log)
    names: dict[str, str] = {}
    for alike in of_benchmark.values():
        if not any(log.hosts for log in alike):
            program = re.compile(rf"\A(?:(?:{alike[0].format.replace('-', '|')})-)+")
            named = _differing([log.file for log in alike])
            names |= {file: program.sub("", host) for file, host in named.items()}
    for log in logs:
        yield replace(log, host=names[log.file]) if log.file in names else log


def _differing(files: Sequence[str]) -> dict[str, str]:
    """File → the only part of its path in which these differ; empty if that names no host."""
    parts = [re.split(r"[/_]|\.(?=[a-z]+$)", file) for file in files]
    if len({len(path) for path in parts}) != 1:
        return {}
    columns = [column for column in zip(*parts, strict=True) if len(set(column)) > 1]
    if len(columns) != 1 or len(set(columns[0])) < len(files):
        return {}
    [column] = columns
    stems = {re.sub(r"[\d.-]+$", "", name).lower() for name in column}
    if any(map(_REPEATS.fullmatch, stems)) or not all(re.search(r"\d", name) for name in column):
        return {}
    return dict(zip(files, column, strict=True))
