"""From an attempt's directory to its result. The reading is a cache; the logs are the truth.

What nodes did to bring data near before the ranks started is the last line of their staging streams: a JSON
object, printed by assay_payloads/datasets/staging.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from assay.errors import InputError, PluginError
from assay.formats.reader import IMPORTED, Reader, run_reading
from assay.formats.tools import TOOLS
from assay.inputs import read_whole
from assay.records import (
    FRAMES_FILE,
    NODE_STREAMS,
    Measurement,
    Metric,
    Reading,
    Result,
    Run,
    Scalar,
    digest_of,
    from_json,
    to_json,
)
from assay.redact import REDACTED, numbered, redacted, secrets_in_text, text
from assay.registry import imported, trouble
from assay.rundir.secret_numbers import secret_numbers
from assay.rundir.session import Attempt
from assay.telemetry.gpu_use import GpuEnergy, gpu_energy, gpu_uses
from assay.telemetry.recorded import FOLDERS, uncovered
from assay.units import counted, human
from assay.workloads import WORKLOADS
from assay.workloads.payload_log import finite
from assay.workloads.workload import PEAK_RSS, WALL_TIME
from assay_payloads.datasets.manifest import ManifestError, header

_STAGING = "staging-"
_STAGING_TIME = Metric(
    "staging_time", "s", "lower", "Time of the node that took longest to bring its data near", scales=False
)
_STAGED_BYTES = Metric(
    "staged_bytes", "B", None, "Bytes that all nodes copied before the ranks started", scales=False
)
STAGING_METRICS = (_STAGING_TIME, _STAGED_BYTES)
_MOST_BYTES = 1 << 20


def staged(logs: Mapping[str, Path]) -> tuple[tuple[Measurement, ...], dict[str, Scalar]]:
    """The measurements and facts of a run's staging; none if it had none.

    logs  log files by name, of all streams

    Raises InputError if a stream doesn't end with its figures.
    """
    nodes = {name: _staging_figures(path) for name, path in sorted(logs.items()) if name.startswith(_STAGING)}
    if not nodes:
        return (), {}
    slowest = max(nodes, key=lambda name: nodes[name]["seconds"])
    seconds = nodes[slowest]["seconds"]
    copied = sum(figures["copied_bytes"] for figures in nodes.values())
    values = {_STAGING_TIME: seconds, _STAGED_BYTES: copied}
    facts: dict[str, Scalar] = {
        "staging.files": int(nodes[slowest]["files"]),
        "staging.present_files": int(nodes[slowest]["present_files"]),
        "staging.nodes": len(nodes),
    }
    if copied > 0 and seconds > 0:  # no metric: a run that found all of it in place would seem to lack one
        facts["staging.bytes_per_s"] = copied / seconds
    return tuple(
        Measurement(metric.name, value, metric.unit, {}, slowest, 1) for metric, value in values.items()
    ), facts


def _staging_figures(path: Path) -> dict[str, float]:
    lines = read_whole(path, _MOST_BYTES).decode(errors="replace").splitlines()
    names = ("files", "present_files", "copied_bytes", "seconds")
    try:
        stated: Any = json.loads(lines[-1])
        numbers = {name: finite(stated[name]) for name in names}
    except (ValueError, LookupError, TypeError, RecursionError):
        numbers = {}
    figures = {name: value for name, value in numbers.items() if value is not None and value >= 0}
    if len(figures) < len(names):
        raise InputError(f"{path.name}: does not end with the figures of the staging")
    return figures


# Increased when a log would be read differently although its reader stayed the same.
READ_VERSION = 7


GPU_ENERGY = Metric(
    "gpu_energy",
    "J",
    "lower",
    "Energy of all GPUs of the run's nodes, from its start to its end",
    scales=False,
)
GPU_POWER = Metric("gpu_power", "W", None, "Mean power of all GPUs of the run's nodes", scales=False)
GPU_ENERGY_PER_WORK = "gpu_energy_per_work"
_PER_WORK = "Mean power of all GPUs of the run's nodes, over the whole run, divided by the throughput"
_TABLES = tuple(f"{folder}/gpu.parquet" for folder in FOLDERS.values())


def read_by(workload: str) -> str:
    """The reader of a workload's runs, with its version: changes when any of them may be read differently."""
    reader = _reader(workload)
    version = f"{READ_VERSION}.{reader.version if reader else 0}"
    return "+".join([f"{workload}@{version}", *_plugins(workload)])


def is_current(reader: str) -> bool:
    """Whether `read_by` still returns this value."""
    return reader == read_by(reader.rpartition("@")[0])


def result(attempt: Attempt) -> Result:
    """A run with the contents of its logs, from the cache if that is still valid.

    An unfinished run has an empty reading: half a log is not a result.
    Raises InputError if a file of the attempt is damaged.
    """
    run = attempt.run()
    return Result(run, reading(attempt, run) if run.state.final else Reading(), attempt.provenance())


def reading(attempt: Attempt, run: Run, logged: Reading | None = None) -> Reading:
    """The contents of the attempt's logs; the same logs and reader always give the same.

    logged  what `read` returns for them, if they were just read
    """
    logs = ranks(attempt.logs())
    key = _key(logs, run, attempt)
    known = attempt.cached_reading(key)
    if known is not None:
        return known
    fresh = _with_frames(_with_telemetry(logged or read(logs, run), run, attempt), attempt)
    fresh = _with_memory(_with_staging(_with_wall_time(fresh, run), attempt.logs()), run)
    # Secrets that a program printed by mistake: facts and labels travel in reports.
    written = to_json(fresh)
    secrets = secrets_in_text(written)
    numbers = secret_numbers(attempt, secrets)
    if secrets:
        marks = {secret: numbered(number) for secret, number in numbers.items()}
        fresh = from_json(Reading, text(written, lambda secret: marks.get(secret, REDACTED)))
    if not numbers:  # only `secrets.json` stores them
        attempt.cache_reading(key, fresh)
    return fresh


def _with_frames(reading: Reading, attempt: Attempt) -> Reading:
    """The reading with the frames that were chosen for the job, if it chose any."""
    path = attempt.path / "inputs" / FRAMES_FILE
    if not path.exists():
        return reading
    try:
        about = header(path)
    except (OSError, ManifestError) as error:
        return replace(reading, problems=(*reading.problems, f"inputs/{FRAMES_FILE} can't be read: {error}"))
    chosen: dict[str, Scalar] = {"manifest_digest": about["digest"], "manifest_frames": about["frames"]}
    return replace(reading, facts={**reading.facts, **chosen})


def read(logs: Mapping[str, Path], run: Run) -> Reading:
    """The contents of this run's logs, read again."""
    reader = _reader(run.trial.workload)
    if reader is None:
        return _unread(_why_unknown(run))
    try:
        params = reader.params(**run.trial.params)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        return _unread(
            f"its parameters are not those of this version's {reader.name} "
            f"(the run is from {run.assay_version}): {name}: {first['msg']}"
        )
    return run_reading(reader, logs, params)


def metrics(run: Run) -> Mapping[str, Metric]:
    """What the run reports, by name, the primary one first; empty if its reader is unknown."""
    known = _known(run)
    if known is None:
        return {}
    try:
        own = {metric.name: metric for metric in known[0].metrics(known[1])}
    except PluginError:  # as in `read`, which reports it
        return {}
    work = own["throughput"].unit.removesuffix("/s") if "throughput" in own else ""
    per_work = replace(GPU_ENERGY, name=GPU_ENERGY_PER_WORK, unit=f"J/{work}", about=_PER_WORK)
    beside = (
        *([per_work] if work else []),
        GPU_ENERGY,
        GPU_POWER,
        PEAK_RSS,
        *(STAGING_METRICS if run.trial.data else ()),
    )
    return own | {metric.name: metric for metric in beside if metric.name not in own}


def flops(run: Run) -> float | None:
    """FLOPs per sample of the run; None if unknown."""
    known = _known(run)
    return known[0].flops(known[1]) if known else None


def ranks(logs: Mapping[str, Path]) -> dict[str, Path]:
    """The logs that ranks wrote: all except the probes' and samplers'."""
    return {name: path for name, path in logs.items() if not name.startswith(NODE_STREAMS)}


def _reader(workload: str) -> Reader | None:
    """None if neither Assay nor a plug-in that can be used has one."""
    try:
        known = WORKLOADS.get(workload)
        if known is None:
            return imported(IMPORTED[workload]) if workload in IMPORTED else None
        return known.reader
    except PluginError:
        return None


def _why_unknown(run: Run) -> str:
    plugin = WORKLOADS.plugin(run.trial.workload)
    if plugin is not None and (why := trouble(plugin)):
        return why
    unknown = f"this version of Assay has no workload {run.trial.workload!r}"
    return f"{unknown} (the run is from {run.assay_version})"


def _plugins(workload: str) -> list[str]:
    """The plug-ins that take part in reading a workload's runs, with their versions."""
    reader = _reader(workload)
    formats = TOOLS.usable_plugins() if reader is not None and reader.formats else ()
    state = "" if reader else " can't be used"
    added = WORKLOADS.plugin(workload)
    plugins = (*([added] if added else []), *formats)
    return [f"{plugin.name}={plugin.package}-{plugin.version}{state}" for plugin in plugins]


def _known(run: Run) -> tuple[Reader, BaseModel] | None:
    """Its reader and parameters; None if this version of Assay lacks one, which `read` reports."""
    reader = _reader(run.trial.workload)
    try:
        return None if reader is None else (reader, reader.params(**run.trial.params))
    except ValidationError:
        return None


def _with_telemetry(reading: Reading, run: Run, attempt: Attempt) -> Reading:
    """The reading with what the run's GPUs did and the energy that they used, if its telemetry has it.

    Damaged telemetry changes no result: the report names it.
    """
    if reading.problems or run.started_at is None or run.ended_at is None:
        return reading
    duration_s = run.ended_at - run.started_at
    try:
        uses = gpu_uses(attempt.path)
        energy = gpu_energy(attempt.path, duration_s)
        unsampled = uncovered(attempt.path, duration_s, len(run.nodes))
        differences = tuple(_disagreements(attempt.path))
    except InputError:
        return reading
    reading = replace(reading, gpus=uses, disagreements=differences, unsampled=unsampled)
    return reading if energy is None else _with_energy(reading, energy)


def _with_staging(reading: Reading, logs: Mapping[str, Path]) -> Reading:
    """The reading with the time that its nodes took to bring data near."""
    try:
        measured, facts = staged(logs)
    except InputError as error:
        return replace(reading, problems=(*reading.problems, str(error)))
    return replace(reading, measurements=(*reading.measurements, *measured), facts={**reading.facts, **facts})


def _with_wall_time(reading: Reading, run: Run) -> Reading:
    """The reading with the run's duration, if its workload reports that."""
    if reading.problems or run.started_at is None or run.ended_at is None:
        return reading
    if metrics(run).get(WALL_TIME.name) is not WALL_TIME:
        return reading
    seconds = run.ended_at - run.started_at
    measured = Measurement(WALL_TIME.name, seconds, WALL_TIME.unit, {}, "run.json", 0)
    return replace(reading, measurements=(measured, *reading.measurements))


def _with_memory(reading: Reading, run: Run) -> Reading:
    """The reading with the memory of the run's largest process, if all of its nodes counted it."""
    peaks = [node.peak_rss_bytes for node in run.nodes]
    known = [peak for peak in peaks if peak is not None]
    if reading.problems or not reading.measurements or not known or len(known) < len(peaks):
        return reading
    measured = Measurement(PEAK_RSS.name, float(max(known)), PEAK_RSS.unit, {}, "run.json", 0)
    return replace(reading, measurements=(*reading.measurements, measured))


def _disagreements(directory: Path) -> Iterator[str]:
    """Each figure for which the sampler and a Prometheus differ; nothing if one of them is not there."""
    if not all((directory / table).is_file() for table in _TABLES):
        return
    from assay.telemetry.agreement import agreement  # imports an array library, which few runs need

    for difference in agreement(directory).differences:
        values = (
            human(value, difference.unit)
            for value in (difference.sampler, difference.prometheus, difference.tolerance)
        )
        yield "{}: sampler {}, Prometheus {}, tolerance {}".format(
            f"{difference.what} of {difference.place}", *values
        )


def _with_energy(reading: Reading, energy: GpuEnergy) -> Reading:
    figures = {GPU_ENERGY.name: (energy.joules, "J"), GPU_POWER.name: (energy.watts, "W")}
    of_all = [
        measurement
        for measurement in reading.measurements
        if measurement.metric == "throughput" and not measurement.labels
    ]
    if len(of_all) == 1 and of_all[0].unit.endswith("/s") and of_all[0].value > 0:
        unit = f"J/{of_all[0].unit.removesuffix('/s')}"
        figures[GPU_ENERGY_PER_WORK] = (energy.watts / of_all[0].value, unit)
    added = tuple(
        Measurement(name, value, unit, {}, _TABLES[0], 0) for name, (value, unit) in figures.items()
    )
    includes = f"{counted(energy.gpus, 'GPU')} on {counted(energy.nodes, 'node')}, from {energy.source}"
    facts = {**reading.facts, "energy.includes": includes}
    return replace(reading, measurements=(*reading.measurements, *added), facts=facts)


def _key(logs: Mapping[str, Path], run: Run, attempt: Attempt) -> str:
    reader = _reader(run.trial.workload)
    sizes = {name: path.stat().st_size for name, path in logs.items()}
    version = reader.version if reader else None
    paths = [attempt.path / table for table in _TABLES]
    sampled = [path.stat().st_size if path.is_file() else None for path in paths]
    sampled = sampled if any(sampled) else []
    copied = [path.stat().st_size for name, path in attempt.logs().items() if name.startswith(_STAGING)]
    beside = [*sampled, *copied, *_plugins(run.trial.workload)]
    return digest_of([READ_VERSION, version, run.trial.workload, redacted(run.trial.params), sizes, *beside])


def _unread(why: str) -> Reading:
    return Reading(problems=(why,))
