"""From an attempt's directory to its result. The reading is a cache; the logs are the truth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from assay.errors import InputError
from assay.readers import IMPORTED, Reader
from assay.records import Metric, Reading, Result, Run, RunState, digest_of, from_json, to_json
from assay.redact import REDACTED, numbered, redacted, secrets_in_text, text
from assay.rundir.secret_numbers import secret_numbers
from assay.rundir.session import Attempt
from assay.workloads import WORKLOADS

# Raised when a log would be read differently although its reader stayed the same.
READ_VERSION = 3
_READERS = (*(workload.reader for workload in WORKLOADS.values()), *IMPORTED.values())
VERSIONS = digest_of([READ_VERSION, {reader.name: reader.version for reader in _READERS}])
"""Of all readers: changes when any log may be read differently."""


def result(attempt: Attempt) -> Result:
    """A run with what its logs say, from the cache where that is still right.

    A run that is not over has an empty reading: half a log is no result.
    Raises InputError when a file of the attempt is damaged.
    """
    run = attempt.run()
    return Result(run, reading(attempt, run) if run.state.final else Reading(), attempt.provenance())


def reading(attempt: Attempt, run: Run) -> Reading:
    """What the attempt's logs say; the same logs and reader always give the same."""
    logs = ranks(attempt.logs())
    key = _key(logs, run)
    known = attempt.cached_reading(key)
    if known is not None:
        return known
    made = read(logs, run)
    # What a program printed and should not have: facts and labels travel in reports.
    written = to_json(made)
    secrets = secrets_in_text(written)
    numbers = secret_numbers(attempt, secrets)
    if secrets:
        marks = {secret: numbered(number) for secret, number in numbers.items()}
        made = from_json(Reading, text(written, lambda secret: marks.get(secret, REDACTED)))
    if not numbers:  # which `secrets.json` alone keeps
        attempt.cache_reading(key, made)
    return made


def read(logs: Mapping[str, Path], run: Run) -> Reading:
    """What the logs of this run say, read anew."""
    reader = _reader(run)
    if reader is None:
        return _unread(
            f"this Assay knows no workload {run.trial.workload!r} (the run is from {run.assay_version})"
        )
    try:
        params = reader.params(**run.trial.params)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        return _unread(
            f"its parameters are not those of this Assay's {reader.name} "
            f"(the run is from {run.assay_version}): {name}: {first['msg']}"
        )
    if not logs:
        return _unread("it has no log")
    try:
        return reader.read(logs, params)
    except InputError as error:
        return _unread(str(error))


def metrics(run: Run) -> Mapping[str, Metric]:
    """What the run reports, by name, the primary one first; empty where its reader is not known."""
    known = _known(run)
    return {metric.name: metric for metric in known[0].metrics(known[1])} if known else {}


def flops(run: Run) -> float | None:
    """FLOPs that a sample of the run needs; None where unknown."""
    known = _known(run)
    return known[0].flops(known[1]) if known else None


def is_result(found: Result) -> bool:
    """Whether it counts as a replication: the run finished and its reading has no problem."""
    return found.run.state is RunState.FINISHED and not found.reading.problems


def ranks(logs: Mapping[str, Path]) -> dict[str, Path]:
    """The logs that ranks wrote: all but the probes'."""
    return {name: path for name, path in logs.items() if not name.startswith("probe-")}


def _reader(run: Run) -> Reader | None:
    workload = WORKLOADS.get(run.trial.workload)
    return IMPORTED.get(run.trial.workload) if workload is None else workload.reader


def _known(run: Run) -> tuple[Reader, BaseModel] | None:
    """Its reader and parameters; None where this Assay hasn't both, which `read` reports."""
    reader = _reader(run)
    try:
        return None if reader is None else (reader, reader.params(**run.trial.params))
    except ValidationError:
        return None


def _key(logs: Mapping[str, Path], run: Run) -> str:
    reader = _reader(run)
    sizes = {name: path.stat().st_size for name, path in logs.items()}
    version = reader.version if reader else None
    return digest_of([READ_VERSION, version, run.trial.workload, redacted(run.trial.params), sizes])


def _unread(why: str) -> Reading:
    return Reading(problems=(why,))
