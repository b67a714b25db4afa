"""Suite × systems → ordered, seeded trials. Pure: equal input, equal plan.

Repeats are blocks: each contains every point once on every system, shuffled, so that drift of the machine
affects all sides alike. A trial's place in its block is the rank of a hash of the seed, the block and the
trial. So a block depends only on suite, seed and its own number, a run can be extended by more blocks later,
and a run of one side keeps the order that its trials have in the complete plan.

Equal digests mean equal measurements, whatever else changed. Paths below the suite's directory count relative
to it, so that the same suite checked out elsewhere is the same suite, and sides that ran on different
machines can be merged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assay.errors import InputError, Problem
from assay.inputs import read_whole
from assay.records import Job, Metric, Plan, Shape, Task, Trial, digest_of, to_plain
from assay.redact import NumberedMarks, redacted
from assay.suite import Benchmark, Suite, SweepPoint, System, Systems
from assay.suite.findings import Where, findings, in_order, read_strictly, unknown
from assay.suite.load import MetricsOf, requirements
from assay.workloads import WORKLOADS, Workload
from assay.workloads.data import with_data
from assay.workloads.workload import PEAK_RSS

Place = tuple[str, int, Shape]  # benchmark, index of its point, shape
MAX_TRIALS = 100_000
MAX_ID = 120


def make(
    suite: Suite,
    systems: Systems,
    *,
    only: Sequence[str] = (),
    workloads: Mapping[str, Workload] = WORKLOADS,
) -> Plan:
    """The plan of a complete run.

    only  systems to run; empty for all of the suite's

    Raises InputError with every problem: a requirement on a metric that is not reported or in a unit that is
    not the metric's, a shape that a workload can't have, a system that is not the suite's, too many trials.
    """
    chosen = _chosen(suite, only)
    required = requirements(suite.benchmarks, suite.expect, suite.primary, suite.where, metrics_of(workloads))
    tasks, wrong = point_digests(suite, workloads)
    suites, misfits = _suites(suite, tasks, systems, workloads)
    wrong += misfits
    problems = [*required.problems, *wrong, *_too_wide(suite, systems, chosen), *_too_many(suite, chosen)]
    if problems:
        raise InputError(in_order(problems, suite.source.file, systems.source.file))
    templates = _templates(suite, systems, suites)
    repeats = {benchmark.name: benchmark.repeats for benchmark in suite.benchmarks}
    blocks = [
        [t for t in _block(suite, templates, number, chosen) if number <= repeats[t.benchmark]]
        for number in range(1, max(repeats.values()) + 1)
    ]
    if suite.order == "sequential":
        trials = [t for name in chosen for block in blocks for t in block if t.system == name]
    else:
        trials = [trial for block in blocks for trial in block]
    measured, named = suite_digest(suite, tasks), named_files(suite, workloads)
    for name in chosen:
        if systems.by_name[name].params:
            named |= named_files(suites[name][0], workloads)
    return Plan(
        suite=suite.name,
        suite_digest=measured,
        digest=plan_digest(suite, systems, chosen, measured, named),
        seed=suite.seed,
        repeats=max(repeats.values()),
        systems=chosen,
        baseline=suite.baseline,
        margin=suite.margin,
        interleaved=suite.order == "interleaved" and len(chosen) > 1,
        primary_metric=required.primary_metric,
        expectations=required.expectations,
        trials=tuple(trials),
        declared_env={name: _declared_env(systems.by_name[name]) for name in chosen},
        named_files=named,
        prices={name: price for name in chosen if (price := systems.by_name[name].price) is not None},
    )


def _declared_env(system: System) -> tuple[str, ...]:
    return tuple(sorted(getattr(system.options, "env", ())))


def block(
    suite: Suite,
    systems: Systems,
    number: int,
    *,
    only: Sequence[str] = (),
    workloads: Mapping[str, Workload] = WORKLOADS,
) -> tuple[Trial, ...]:
    """The trials of one block, from 1, in the order they run in; every benchmark, whatever its repeats.

    A block beyond the suite's repeats is what a suite with more repeats would run.

    Raises InputError as `make` does for systems and shapes.
    """
    chosen = _chosen(suite, only)
    tasks, problems = point_digests(suite, workloads)
    suites, misfits = _suites(suite, tasks, systems, workloads)
    if problems or misfits:
        raise InputError([*problems, *misfits])
    return _block(suite, _templates(suite, systems, suites), number, chosen)


def task_of(trial: Trial, workloads: Mapping[str, Workload] = WORKLOADS) -> Task:
    """What every rank of a trial runs. Raises InputError if this version of Assay has no such workload."""
    if trial.workload not in workloads:
        raise InputError(f"trial {trial.id}: {unknown('workload', trial.workload, workloads)}")
    workload = workloads[trial.workload]
    task = workload.task(workload.params(**trial.params), trial.shape, trial.seed)
    return task if trial.data is None else with_data(task, trial.data)


def job_of(trial: Trial, token: str) -> Job:
    """What a launcher receives to run a trial, under this token. Raises InputError as `task_of` does."""
    task = task_of(trial)
    return Job(
        token,
        trial.id,
        trial.shape,
        task,
        trial.seed,
        trial.timeout_s,
        trial.max_output_bytes,
        trial.sample_every_s,
    )


def metrics_of(workloads: Mapping[str, Workload] = WORKLOADS) -> MetricsOf:
    """The `metrics` argument of `suite.load`: a workload's name and parameters → what it reports."""

    def reported(name: str, params: Mapping[str, Any]) -> tuple[Metric, ...]:
        return (*workloads[name].reader.metrics(workloads[name].params(**params)), PEAK_RSS)

    return reported


def _chosen(suite: Suite, only: Sequence[str]) -> tuple[str, ...]:
    strangers = [name for name in only if name not in suite.systems]
    if strangers:
        where = suite.where("systems")
        raise InputError(
            [Problem(where, unknown("system of this suite", name, suite.systems)) for name in strangers]
        )
    return tuple(name for name in suite.systems if name in only or not only)


def _too_wide(suite: Suite, systems: Systems, chosen: Sequence[str]) -> list[Problem]:
    """Shapes that require more nodes than a system's launcher can use."""
    return [
        Problem(
            where_shape(suite, benchmark, number),
            f"shape {shape} is on {shape.nodes} nodes; system {name} has at most {system.max_nodes}",
        )
        for benchmark in suite.benchmarks
        for number, shape in enumerate(benchmark.shapes)
        for name, system in ((name, systems.by_name[name]) for name in chosen)
        if system.max_nodes is not None and (shape.nodes or 1) > system.max_nodes
    ]


def _too_many(suite: Suite, chosen: Sequence[str]) -> list[Problem]:
    count = sum(len(b.points) * len(b.shapes) * b.repeats for b in suite.benchmarks) * len(chosen)
    if count <= MAX_TRIALS:
        return []
    return [Problem(suite.where(), f"the suite makes {count} trials; the maximum is {MAX_TRIALS}")]


_OwnSuite = tuple[Suite, Mapping[Place, str]]  # the suite as a system runs it, and the digests of its tasks


def _suites(
    suite: Suite, tasks: Mapping[Place, str], systems: Systems, workloads: Mapping[str, Workload]
) -> tuple[dict[str, _OwnSuite], list[Problem]]:
    """The suite for each of its systems, and everything wrong with their `params`.

    tasks  the digests of the suite's own tasks
    """
    suites: dict[str, _OwnSuite] = dict.fromkeys(suite.systems, (suite, tasks))
    problems: list[Problem] = []
    for system in (systems.by_name[name] for name in suite.systems):
        if system.params:
            where = partial(systems.where, system.name, "params")
            own, wrong = _with_params(suite, system.params, where, workloads)
            digests, unfit = point_digests(own, workloads)
            suites[system.name] = own, digests
            problems += wrong or unfit
    return suites, problems


def _with_params(
    suite: Suite, params: Mapping[str, Any], where: Where, workloads: Mapping[str, Workload]
) -> tuple[Suite, list[Problem]]:
    """The suite with other values of some parameters, in each benchmark that has them.

    where  path in `params` → `systems.yaml:12`
    """
    models = {b.name: workloads[b.workload].params for b in suite.benchmarks}
    known = {name for model in models.values() for name in model.model_fields}
    problems = [
        Problem(where(name), f"params: {unknown('parameter of this suite', name, known)}")
        for name in params
        if name not in known
    ]
    benchmarks = []
    for benchmark in suite.benchmarks:
        model, points = models[benchmark.name], []
        values = {name: value for name, value in params.items() if name in model.model_fields}
        for point in benchmark.points:
            problems += [
                Problem(where(name), f"params.{name}: {benchmark.name} sweeps it; set it in one of the two")
                for name in values.keys() & point.varied.keys()
            ]
            try:
                read = read_strictly(model, {**point.params, **values}, suite.directory)
            except ValidationError as error:
                problems += findings(error, model, values, where)
                continue
            points.append(replace(point, params=read.model_dump(mode="json")))
        benchmarks.append(replace(benchmark, points=tuple(points)))
    return replace(suite, benchmarks=tuple(benchmarks)), list(dict.fromkeys(problems))


def _templates(suite: Suite, systems: Systems, suites: Mapping[str, _OwnSuite]) -> list[Trial]:
    """Each point on each system as a trial that is not in a block yet; its id lacks the block."""
    marks = NumberedMarks()
    templates = [
        _template(suites[name], benchmark, index, point.varied, shape, systems.by_name[name])
        for benchmark in suite.benchmarks
        for index, point in enumerate(_shown(point, marks) for point in benchmark.points)
        for shape in benchmark.shapes
        for name in suite.systems
    ]
    names = Counter(trial.id.casefold() for trial in templates)  # some file systems ignore case
    problems = [
        Problem(suite.where("benchmarks"), f"several trials would be called {name}; rename a benchmark")
        for name, count in names.items()
        if count > 1
    ]
    if problems:
        raise InputError(problems)
    return templates


def _shown(point: SweepPoint, marks: NumberedMarks) -> SweepPoint:
    """The point as ids and tables show it: the swept values without secrets, each replaced by a mark."""
    return replace(point, varied=redacted(point.varied, marks))


def _template(
    own: _OwnSuite, benchmark: Benchmark, index: int, varied: Mapping[str, Any], shape: Shape, system: System
) -> Trial:
    """A trial of a benchmark's point; `varied` without secrets."""
    suite, tasks = own
    params = next(b for b in suite.benchmarks if b.name == benchmark.name).points[index].params
    task_digest = tasks[benchmark.name, index, shape]
    return Trial(
        id=_stem(benchmark, varied, shape, system.name if len(suite.systems) > 1 else None),
        suite=suite.name,
        benchmark=benchmark.name,
        workload=benchmark.workload,
        system=system.name,
        shape=shape,
        params=params,
        varied=varied,
        block=0,
        seed=0,
        timeout_s=benchmark.timeout_s,
        max_output_bytes=benchmark.max_output_bytes,
        sample_every_s=suite.sample_every_s,
        retries=benchmark.retries,
        data=benchmark.data,
        digest=digest_of([task_digest, system.name, system.definition]),
        task_digest=task_digest,
        declared_params=tuple(name for name in system.params if name in params),
    )


def _block(suite: Suite, templates: Sequence[Trial], number: int, chosen: Sequence[str]) -> tuple[Trial, ...]:
    trials = [
        replace(
            trial,
            id=f"{trial.id}-r{number:02d}",
            block=number,
            seed=_hash(suite.seed, number, trial.benchmark) >> 225,  # 31 bits: every framework takes them
        )
        for trial in templates
        if trial.system in chosen
    ]

    def place(trial: Trial) -> tuple[int, int]:
        side = chosen.index(trial.system) if suite.order == "sequential" else 0
        point = [trial.benchmark, trial.varied, str(trial.shape), trial.system]
        return side, _hash(suite.seed, number, *point)

    return tuple(sorted(trials, key=place))


def _hash(*parts: Any) -> int:
    """256 bits that are the same on every machine and in every version of Python."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def _stem(benchmark: Benchmark, varied: Mapping[str, Any], shape: Shape, system: str | None) -> str:
    """`train-batch_size32-2x1-here`: what people type, without the block. File-name safe, up to 112 long."""
    swept = [f"{name}{_value_word(value)}" for name, value in varied.items()]
    stem = "-".join([benchmark.name, *swept, str(shape), *([system] if system else [])])
    if len(stem) <= MAX_ID - len("-r10000"):
        return stem
    return f"{stem[:96]}-{digest_of(stem)[:8]}"


def _value_word(value: Any) -> str:
    """A swept value as a part of an id; one that had to be changed for that has a digest."""
    items = value if isinstance(value, list) else [value]
    plain = "+".join(item if isinstance(item, str) else json.dumps(item) for item in items)
    word = re.sub(r"[^A-Za-z0-9._+-]+", "_", plain)[:32]
    return word if word == plain else f"{word}_{digest_of(value)[:6]}"


_ANY_SEED = 0  # a task is made with a fixed seed if a digest must not depend on the seed
_LARGEST_PROGRAM_BYTES = 64 << 20
_PROGRAM_SUFFIXES = (
    *(".py", ".sh", ".bash", ".zsh", ".pl", ".rb", ".jl", ".lua", ".r", ".js"),
    *(".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf"),
)


def point_digests(suite: Suite, workloads: Mapping[str, Workload]) -> tuple[dict[Place, str], list[Problem]]:
    """The digest of what is measured at each place of the sweep, including the bytes of its programs.

    Also returns problems with places that a workload can't have: a shape with too few ranks, a missing file.
    """
    digests: dict[Place, str] = {}
    problems: dict[Problem, None] = {}
    for benchmark in suite.benchmarks:
        workload = workloads[benchmark.workload]
        for index, point in enumerate(benchmark.points):
            params = workload.params(**point.params)
            for number, shape in enumerate(benchmark.shapes):
                try:
                    task = workload.task(params, shape, _ANY_SEED)
                    task = task if benchmark.data is None else with_data(task, benchmark.data)
                except (ValueError, InputError) as error:
                    where = where_shape(suite, benchmark, number)
                    problems[Problem(where, f"{benchmark.name} in shape {shape}: {error}")] = None
                    continue
                content = [benchmark.name, benchmark.workload, point.params, str(shape), _task_content(task)]
                digests[benchmark.name, index, shape] = digest_of(_portable(content, suite.directory))
    return digests, list(problems)


def named_files(suite: Suite, workloads: Mapping[str, Workload]) -> dict[str, str]:
    """Digest of each existing program and configuration file that a command line names, by its path.

    They are looked up as the program would find them: by an absolute path, or from its working directory.
    They don't travel with the job, so a run that is resumed after one was edited would mix two
    versions of it. Other files may be the program's output.
    """
    paths: dict[Path, None] = {}
    for benchmark in suite.benchmarks:
        for point in benchmark.points:
            params = workloads[benchmark.workload].params(**point.params)
            task = workloads[benchmark.workload].task(params, benchmark.shapes[0], _ANY_SEED)
            for word in task.argv:
                path = Path(task.cwd or "", word.rpartition("=")[2])  # --config=train.yaml
                if path.is_absolute() and _is_program(path):
                    paths[path] = None
    return {_portable(str(path), suite.directory): _identity(path) for path in paths}


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and (path.suffix.lower() in _PROGRAM_SUFFIXES or os.access(path, os.X_OK))
    except (OSError, ValueError):  # a word that can't be a path: too long, or with a null byte
        return False


def _identity(path: Path) -> str:
    """Digest of a file's content, or of its size and time if it is large or can't be read."""
    about = path.stat()
    if about.st_size <= _LARGEST_PROGRAM_BYTES and os.access(path, os.R_OK):
        return hashlib.sha256(read_whole(path)).hexdigest()
    return f"{about.st_size} bytes of {about.st_mtime_ns}"


def suite_digest(suite: Suite, points: Mapping[Place, str]) -> str:
    """Digest of benchmarks, parameters, shapes, programs and seed; not systems, repeats or requirements."""
    return digest_of({"seed": suite.seed, "points": sorted(points.values())})


def plan_digest(
    suite: Suite, systems: Systems, chosen: Sequence[str], measured: str, named: Mapping[str, str]
) -> str:
    """Digest of everything that must be unchanged to resume an unfinished run.

    chosen    the systems that are run
    measured  the suite's digest
    named     the digests of the files that command lines name
    """
    return digest_of(
        {
            "suite": measured,
            "systems": [[name, systems.by_name[name].definition] for name in chosen],
            "all": suite.systems,  # the ids of trials depend on it
            "repeats": {benchmark.name: benchmark.repeats for benchmark in suite.benchmarks},
            "order": suite.order,
            "seed": suite.seed,
            **({"files": dict(named)} if named else {}),
        }
    )


def where_shape(suite: Suite, benchmark: Benchmark, number: int) -> str:
    """`suite.yaml:9`: the line of a benchmark's shape, its own or the suite's."""
    own = (*benchmark.path, "shapes")
    return suite.where(*(own if own in suite.source.lines else ("shapes",)), number)


def _task_content(task: Task) -> dict[str, Any]:
    return {
        "argv": list(task.argv),
        "env": dict(task.env),
        "files": {file.name: file.sha256 for file in task.files},
        "cwd": task.cwd,
        "outputs": list(task.outputs),
        "image": task.image,
        **({"before": to_plain(task.before)} if task.before else {}),
        **(
            {"secrets": {n: reference.written for n, reference in task.secrets.items()}}
            if task.secrets
            else {}
        ),
    }


def _portable(value: Any, directory: Path) -> Any:
    """Plain data with the paths below `directory` made relative to it."""
    if isinstance(value, dict):
        return {key: _portable(item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [_portable(item, directory) for item in value]
    if isinstance(value, str) and value.startswith("/") and Path(value).is_relative_to(directory):
        return f"./{Path(value).relative_to(directory)}"
    return value
