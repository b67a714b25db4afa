"""What a suite measures, as digests: equal digests, equal measurements, whatever else was changed.

Paths below the suite's directory count as written relative to it, so that the same suite checked out
elsewhere is the same suite, and sides that ran on different machines can be merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import InputError, Problem
from assay.records import Shape, Task, digest_of
from assay.suite import Benchmark, Suite, Systems
from assay.workloads import Workload

Place = tuple[str, int, Shape]  # benchmark, index of its point, shape
_ANY_SEED = 0  # a task is made with a fixed seed where a digest must not depend on the seed


def point_digests(suite: Suite, workloads: Mapping[str, Workload]) -> tuple[dict[Place, str], list[Problem]]:
    """The digest of what is measured at each place of the sweep, the bytes of its programs included.

    With them the places that a workload can't have: a shape with too few ranks, a file that is not there.
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
                except (ValueError, InputError) as error:
                    where = where_shape(suite, benchmark, number)
                    problems[Problem(where, f"{benchmark.name} in shape {shape}: {error}")] = None
                    continue
                content = [benchmark.name, benchmark.workload, point.params, str(shape), _plain(task)]
                digests[benchmark.name, index, shape] = digest_of(_portable(content, suite.directory))
    return digests, list(problems)


def suite_digest(suite: Suite, points: Mapping[Place, str]) -> str:
    """Of benchmarks, parameters, shapes, programs and seed; not of systems, repeats or requirements."""
    return digest_of({"seed": suite.seed, "points": sorted(points.values())})


def plan_digest(suite: Suite, systems: Systems, chosen: Sequence[str], measured: str) -> str:
    """Of all that an unfinished run needs unchanged to be gone on with.

    chosen    the systems that are run
    measured  the suite's digest
    """
    return digest_of(
        {
            "suite": measured,
            "systems": [[name, systems.by_name[name].definition] for name in chosen],
            "all": suite.systems,  # the ids of trials depend on it
            "repeats": {benchmark.name: benchmark.repeats for benchmark in suite.benchmarks},
            "order": suite.order,
            "seed": suite.seed,
        }
    )


def where_shape(suite: Suite, benchmark: Benchmark, number: int) -> str:
    """`suite.yaml:9`: the line of a benchmark's shape, its own or the suite's."""
    own = (*benchmark.path, "shapes")
    return suite.where(*(own if own in suite.source.lines else ("shapes",)), number)


def _plain(task: Task) -> dict[str, Any]:
    return {
        "argv": list(task.argv),
        "env": dict(task.env),
        "files": {file.name: file.sha256 for file in task.files},
        "cwd": task.cwd,
        "outputs": list(task.outputs),
        "image": task.image,
        **({"secrets": {n: of.written for n, of in task.secrets.items()}} if task.secrets else {}),
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
