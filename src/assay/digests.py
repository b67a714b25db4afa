"""What a suite measures, as digests: equal digests mean equal measurements, whatever else changed.

Paths below the suite's directory count relative to it, so that the same suite checked out
elsewhere is the same suite, and sides that ran on different machines can be merged.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import InputError, Problem
from assay.inputs import read_whole
from assay.records import Shape, Task, digest_of, to_plain
from assay.suite import Benchmark, Suite, Systems
from assay.workloads import Workload
from assay.workloads.data import with_data

Place = tuple[str, int, Shape]  # benchmark, index of its point, shape
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
