"""suite.yaml and systems.yaml → Suite and Systems, or all their problems at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assay import redact, units
from assay.errors import InputError, Problem
from assay.frame_manifest import chosen_data, staged_data
from assay.records import Expectation, Metric, Price, StagedData
from assay.suite import document
from assay.suite.document import Document, Key
from assay.suite.findings import Where, checked, in_order, shown, suggestion, unknown
from assay.suite.model import (
    Benchmark,
    BenchmarkEntry,
    DataEntry,
    Suite,
    SuiteFile,
    SweepPoint,
    System,
    Systems,
    parse_requirement,
)
from assay.suite.sweep import points

Models = Mapping[str, type[BaseModel]]
_OF_ONE = ("workload", "params", "data")  # keys of a suite of one benchmark
CHOOSE = "choose"  # the parameter with which a workload chooses its frames
Finding = tuple[tuple[Key, ...], str]  # path in the benchmark, and what is wrong there


def load(
    suite_path: Path,
    systems_path: Path | None = None,
    *,
    params_models: Models,
    launcher_models: Models,
    metrics: MetricsOf | None = None,
) -> tuple[Suite, Systems]:
    """The content of the two files, as for `parse`; by default, systems.yaml is next to the suite."""
    file = document.read(Path(suite_path))
    systems_file = read_file(Path(suite_path), None if systems_path is None else Path(systems_path))
    return parse(
        file, systems_file, params_models=params_models, launcher_models=launcher_models, metrics=metrics
    )


def parse(
    file: Document,
    systems_file: Document,
    *,
    params_models: Models,
    launcher_models: Models,
    metrics: MetricsOf | None = None,
) -> tuple[Suite, Systems]:
    """The content of the two documents.

    params_models    workload → model of its parameters
    launcher_models  launcher → model of a system's options
    metrics          what a workload reports: if given, `expect` and `primary` are checked here, too

    Raises InputError with every problem of both files, in the order of their lines.
    """
    known, system_problems = systems(systems_file, launcher_models)
    reading = _Reading(file, systems_file.file)
    suite = reading.suite(params_models, known, written_names(systems_file), metrics)
    if suite is None or reading.problems or system_problems:
        raise InputError(in_order([*reading.problems, *system_problems], file.file, systems_file.file))
    return suite, Systems(Path(systems_file.file) if systems_file.file else None, known, systems_file)


@dataclass(frozen=True)
class _Entry:
    """A benchmark as written: its name, its path and its content."""

    name: str
    path: tuple[Key, ...]
    content: Mapping[str, Any]


class _Reading:
    """One reading of a suite's file: records a problem and continues, so that all are reported at once."""

    def __init__(self, file: Document, systems_file: str) -> None:
        self.file, self.systems_file = file, systems_file
        self.directory = Path(file.file).absolute().parent
        self.problems = list(file.problems)

    def suite(
        self,
        params_models: Models,
        known: Mapping[str, System],
        written: Sequence[str],
        metrics: MetricsOf | None,
    ) -> Suite | None:
        """The suite; None if there are problems.

        known    systems that can be used
        written  every name in systems.yaml, in its order
        """
        if self.file.data is None and self.file.problems:
            return None
        if not isinstance(self.file.data, dict):
            self._note((), f"found {shown(self.file.data)}; expected a mapping, such as suite: NAME")
            return None
        content, problems = checked(SuiteFile, self.file.data, self.file.where)
        self.problems += self.file.others(problems)
        usable = content or SuiteFile(
            suite="unnamed"
        )  # to continue with what does not depend on the problems
        entries = self._entries()
        benchmarks = [
            benchmark for entry in entries if (benchmark := self._benchmark(entry, params_models, usable))
        ]
        names = self._system_names(known, written)
        if metrics is not None:
            whole = len(benchmarks) == len(
                entries
            )  # otherwise a metric may be one that a broken benchmark reports
            expect, primary = (usable.expect, usable.primary) if whole else ({}, None)
            self.problems += requirements(benchmarks, expect, primary, self.file.where, metrics).problems
        if content is None:
            return None
        return Suite(
            name=content.suite,
            directory=self.directory,
            benchmarks=tuple(benchmarks),
            systems=names,
            baseline=content.baseline or (names[0] if len(names) > 1 else None),
            margin=content.margin,
            seed=content.seed,
            order=content.order,
            expect=content.expect,
            primary=content.primary,
            sample_every_s=content.sample_every,
            source=self.file,
        )

    def _note(self, path: tuple[Key, ...], what: str) -> None:
        self.problems.append(Problem(self.file.where(*path), what))

    def _entries(self) -> list[_Entry]:
        data = self.file.data
        several, alone = data.get("benchmarks"), data.get("workload")
        if several is None and alone is None:
            self._note((), "there is neither workload nor benchmarks, so there is nothing to measure")
        if several is not None and (key := next((key for key in _OF_ONE if key in data), None)):
            self._note((key,), f"{key} and benchmarks exclude each other; move {key} into a benchmark")
        if isinstance(several, dict):
            pairs = several.items()
            return [_Entry(name, ("benchmarks", name), e) for name, e in pairs if isinstance(e, dict)]
        if not isinstance(alone, str):
            return []
        return [_Entry(alone, (), {key: data[key] for key in _OF_ONE if key in data})]

    def _benchmark(self, entry: _Entry, params_models: Models, content: SuiteFile) -> Benchmark | None:
        """The benchmark, if all of it is valid."""
        workload = entry.content.get("workload")
        if not isinstance(workload, str):
            return None  # reported by the file's model
        if workload not in params_models:
            self._note((*entry.path, "workload"), f"workload: {unknown('workload', workload, params_models)}")
            return None
        written = entry.content.get("params", {})
        if not isinstance(written, dict):
            return None
        model, params_path = params_models[workload], (*entry.path, "params")
        own, wrong = checked(BenchmarkEntry, entry.content, self.file.where)
        data, unread = staged(own.data if own else None, model, written, self.directory)
        problems = [Problem(self.file.where(*entry.path, *path), what) for path, what in unread]
        read = {} if data is None else data.params
        known = {name: value for name, value in read.items() if name in model.model_fields}
        grid, invalid = points({**written, **known}, model, self.directory, self.file.where, params_path)
        self.problems += [*problems, *invalid]
        if problems or invalid or wrong or own is None:
            return None
        return replace(_complete(entry, own, content, grid), data=data)

    def _system_names(self, known: Mapping[str, System], written: Sequence[str]) -> tuple[str, ...]:
        names = self.file.data.get("systems")
        if names is None:
            names = list(written) or [THIS_MACHINE]
        if not isinstance(names, list):
            return ()  # reported by the file's model
        usable = {*known, *written}  # an invalid one has already been reported
        for index, name in enumerate(names):
            if isinstance(name, str) and name not in usable:
                self._note(("systems", index), f"systems: {self._no_system(name, usable)}")
        baseline = self.file.data.get("baseline")
        if isinstance(baseline, str) and baseline not in names:
            self._note(
                ("baseline",), f"baseline: {unknown('system of this suite', baseline, map(str, names))}"
            )
        return tuple(map(str, names))

    def _no_system(self, name: str, names: Collection[str]) -> str:
        """Why a system can't be used: there is none with this name, or no file that could define it."""
        if self.systems_file or suggestion(name, names).startswith("did you mean"):
            return unknown("system in systems.yaml", name, names)
        return (
            f"there is no {self.directory / FILE_NAME} to define {name}; create one with a line such as "
            f"`{name}: {{launcher: local}}`, or name the file with --systems"
        )


def _complete(
    entry: _Entry, own: BenchmarkEntry, content: SuiteFile, grid: tuple[SweepPoint, ...]
) -> Benchmark:
    """The benchmark with the settings that it inherits from the suite."""
    return Benchmark(
        name=entry.name,
        workload=own.workload,
        points=grid,
        shapes=tuple(own.shapes or content.shapes),
        repeats=own.repeats or content.repeats,
        timeout_s=own.timeout or content.timeout,
        max_output_bytes=own.max_output or content.max_output,
        retries=content.retries if own.retries is None else own.retries,
        expect=own.expect,
        primary=own.primary,
        path=entry.path,
    )


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


THIS_MACHINE = "local"  # a system that needs no entry, if a launcher with that name exists
FILE_NAME = "systems.yaml"
_OF_EVERY_LAUNCHER = ("launcher", "price", "params")


def read_file(suite_path: Path, systems_path: Path | None) -> Document:
    """The named file, or else systems.yaml next to the suite, or else an empty one without a name."""
    if systems_path is not None:
        return document.read(systems_path)
    beside = suite_path.parent / FILE_NAME
    return document.read(beside) if beside.exists() else Document("", {})


def written_names(file: Document) -> Sequence[str]:
    """The names in the file, usable or not."""
    return list(file.data) if isinstance(file.data, dict) else []


def systems(
    file: Document, launchers: Mapping[str, type[BaseModel]]
) -> tuple[dict[str, System], list[Problem]]:
    """Every system that can be used, including `local` if it is not defined; and all problems."""
    problems = list(file.problems)
    if file.data is not None and not isinstance(file.data, dict):
        expected = "a mapping, such as here: {launcher: local}"
        problems.append(Problem(file.where(), f"found {shown(file.data)}; expected {expected}"))
    by_name: dict[str, System] = {}
    for name in written_names(file):
        system, wrong = _system(name, file.data[name], file, launchers)
        problems += file.others(wrong)
        if system is not None:
            by_name[name] = system
    if THIS_MACHINE in launchers and THIS_MACHINE not in written_names(file):
        by_name[THIS_MACHINE] = System(THIS_MACHINE, THIS_MACHINE, launchers[THIS_MACHINE]())
    return by_name, problems


def _system(
    name: str, entry: Any, file: Document, launchers: Mapping[str, type[BaseModel]]
) -> tuple[System | None, list[Problem]]:
    if (called := redact.shown_name(str(name))) != str(name):
        what = f"the name {called!r} contains a secret, which directories would show; rename it"
        return None, [Problem(file.where(name), what)]
    if not isinstance(entry, dict):
        what = f"{name}: found {shown(entry)}; expected a mapping, such as {{launcher: local}}"
        return None, [Problem(file.where(name), what)]
    launcher = entry.get("launcher")
    if not isinstance(launcher, str) or launcher not in launchers:
        choice = f"choose from {', '.join(sorted(launchers))}"
        problem = (
            f"this key is missing; {choice}" if launcher is None else unknown("launcher", launcher, launchers)
        )
        return None, [Problem(file.where(name, "launcher"), f"{name}.launcher: {problem}")]
    options = {key: value for key, value in entry.items() if key not in _OF_EVERY_LAUNCHER}
    launcher_options, problems = checked(launchers[launcher], options, file.where, (name,))
    try:
        price = Price.parse(entry["price"]) if "price" in entry else None
    except ValueError as error:
        return None, [*problems, Problem(file.where(name, "price"), f"{name}.price: {error}")]
    params = entry.get("params", {})
    if not isinstance(params, dict):
        what = f"{name}.params: found {shown(params)}; expected a mapping of parameters, such as {{size: 8}}"
        return None, [*problems, Problem(file.where(name, "params"), what)]
    if launcher_options is None:
        return None, problems
    return System(name, launcher, launcher_options, price, params), problems


MetricsOf = Callable[[str, Mapping[str, Any]], Sequence[Metric]]  # (workload, parameters) → its metrics


@dataclass(frozen=True)
class Requirements:
    """The requirements on each benchmark's metrics, by benchmark."""

    expectations: Mapping[str, tuple[Expectation, ...]]
    primary_metric: Mapping[str, str]
    problems: tuple[Problem, ...]


def requirements(
    benchmarks: Iterable[Benchmark],
    expect: Mapping[str, str],
    primary: str | None,
    where: Where,
    metrics_of: MetricsOf,
) -> Requirements:
    """Each benchmark's expectations, in its metrics' own units, and its primary metric.

    expect, primary  the suite's, which apply to every benchmark that reports the metric
    where            path in the suite's file → `suite.yaml:12`
    metrics_of       the metrics that a workload reports for its parameters, the primary one first
    """
    problems: list[Problem] = []
    expectations: dict[str, tuple[Expectation, ...]] = {}
    primaries: dict[str, str] = {}
    reported: dict[str, Metric] = {}
    for benchmark in benchmarks:
        metrics = _metrics(benchmark, metrics_of)
        reported |= metrics
        inherited = {n: text for n, text in expect.items() if n in metrics and n not in benchmark.expect}
        parsed = [_expectation(n, text, metrics, where("expect", n)) for n, text in inherited.items()]
        path = (*benchmark.path, "expect")
        parsed += [_expectation(n, text, metrics, where(*path, n)) for n, text in benchmark.expect.items()]
        problems += [item for item in parsed if isinstance(item, Problem)]
        expectations[benchmark.name] = tuple(item for item in parsed if isinstance(item, Expectation))
        if benchmark.primary is not None and benchmark.primary not in metrics:
            problem = unknown(f"metric of {benchmark.workload}", benchmark.primary, metrics)
            problems.append(Problem(where(*benchmark.path, "primary"), f"primary: {problem}"))
        candidates = [benchmark.primary, primary, *metrics]
        primaries[benchmark.name] = next((name for name in candidates if name in metrics), "")
    for name in expect.keys() - reported.keys():
        problem = unknown("metric of this suite", name, reported)
        problems.append(Problem(where("expect", name), f"expect: {problem}"))
    if primary is not None and primary not in reported:
        problem = unknown("metric of this suite", primary, reported)
        problems.append(Problem(where("primary"), f"primary: {problem}"))
    return Requirements(expectations, primaries, tuple(problems))


def _metrics(benchmark: Benchmark, metrics_of: MetricsOf) -> dict[str, Metric]:
    """Every metric that any point of the benchmark reports, in the order of their first occurrence."""
    metrics: dict[str, Metric] = {}
    for point in benchmark.points:
        for metric in metrics_of(benchmark.workload, point.params):
            metrics.setdefault(metric.name, metric)
    return metrics


def _expectation(name: str, text: str, metrics: Mapping[str, Metric], where: str) -> Expectation | Problem:
    metric = metrics.get(name)
    if metric is None:
        return Problem(where, f"expect: {unknown('metric of this benchmark', name, metrics)}")
    relation, quantity = parse_requirement(text)
    try:
        value = units.convert(quantity.value, quantity.unit, metric.unit)
    except ValueError:
        unit = metric.unit or "a plain number"
        return Problem(where, f"expect.{name}: {text!r} is not in a unit of this metric, which is {unit}")
    return Expectation(name, relation, value, metric.unit, text)
