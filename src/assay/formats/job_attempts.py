"""Attempts at jobs from a table or from Slurm's accounting."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from assay.errors import InputError, Problem
from assay.inputs import read_whole

Outcome = Literal["completed", "running", "cancelled", "preempted", "timed out", "failed", "interrupted"]
OUTCOMES: Final = get_args(Outcome)
TOGETHER_S: Final = 60.0  # failures this close in time, on a node that they share, have one cause
_PARTS: Final = ("productive_s", "checkpoint_s", "restart_s", "lost_s", "stall_s")
_NEEDED: Final = ("job", "nodes", "begin", "end", "outcome")
_SLURM: Final[Mapping[str, Outcome]] = {
    "COMPLETED": "completed",
    "RUNNING": "running",
    "SUSPENDED": "running",
    "COMPLETING": "running",
    "CANCELLED": "cancelled",
    "PREEMPTED": "preempted",
    "TIMEOUT": "timed out",
    "DEADLINE": "timed out",
    "FAILED": "failed",
    "OUT_OF_MEMORY": "failed",
    "NODE_FAIL": "interrupted",
    "BOOT_FAIL": "interrupted",
    "LAUNCH_FAILED": "interrupted",
    "REQUEUED": "interrupted",
}
_NOT_STARTED: Final = {"PENDING", "CONFIGURING", "RESV_DEL_HOLD", "SPECIAL_EXIT", "REVOKED"}


@dataclass(frozen=True)
class JobAttempt:
    """One start of a job, on the nodes that it held from begin to end, seconds since 1970.

    outcome  failed: its program; interrupted: its node or platform; all others are censored: they say only
             that nothing failed until then
    blamed   the node that failed, if the source names it
    program  what ran, by the name that its jobs share; "": the job's own name

    The parts of its time are in seconds; None: the source does not say.
    """

    job: str
    nodes: tuple[str, ...]
    begin_at: float
    end_at: float
    outcome: Outcome
    blamed: str = ""
    productive_s: float | None = None
    checkpoint_s: float | None = None
    restart_s: float | None = None
    lost_s: float | None = None
    stall_s: float | None = None
    program: str = ""

    @property
    def duration_s(self) -> float:
        """From begin to end."""
        return self.end_at - self.begin_at


def from_table(path: Path, until: float) -> list[JobAttempt]:
    """Attempts from a CSV file with the columns job, nodes, begin, end, outcome, and optional parts.

    nodes   names separated by spaces; end: empty for a job that still runs
    optional: blamed, a node; program, the name that jobs which run the same share
    parts   productive_s, checkpoint_s, restart_s, lost_s, stall_s: seconds, or empty if unknown
    until   end of the observation, seconds since 1970

    Raises InputError with every problem.
    """
    rows = csv.DictReader(io.StringIO(read_whole(path).decode(errors="replace")))
    attempts, problems = [], []
    try:
        missing = [name for name in _NEEDED if name not in (rows.fieldnames or ())]
        if missing:
            raise InputError([Problem(f"{path}:1", f"the columns {', '.join(missing)} are missing")])
        for row in rows:
            where = f"{path}:{rows.line_num}"
            try:
                attempts.append(_of_row(row, until))
            except ValueError as error:
                problems.append(Problem(where, str(error)))
    except csv.Error as error:
        problems.append(Problem(f"{path}:{rows.line_num}", f"not CSV ({error})"))
    if problems:
        raise InputError(problems)
    return [attempt for attempt in attempts if attempt is not None]


def _of_row(row: Mapping[str | None, Any], until: float) -> JobAttempt | None:
    known = {name: (row.get(name) or "").strip() for name in (*_NEEDED, "blamed", "program", *_PARTS)}
    outcome = known["outcome"].lower()
    if outcome not in OUTCOMES:
        raise ValueError(f"outcome: found {known['outcome']!r}; expected one of {', '.join(OUTCOMES)}")
    begin = _time(known["begin"], "begin")
    end = min(until, _time(known["end"], "end")) if known["end"] else until
    if begin >= until:
        return None
    if end < begin:
        raise ValueError(f"end: {known['end']} is before begin {known['begin']}")
    if not known["end"] and outcome != "running":
        raise ValueError(f"end: missing, although the outcome is {outcome}")
    parts = {name: _seconds(known[name], name) for name in _PARTS}
    nodes = tuple(dict.fromkeys(known["nodes"].split()))
    if known["blamed"] and known["blamed"] not in nodes:
        raise ValueError(f"blamed: {known['blamed']} is not among the nodes {known['nodes'] or '(none)'}")
    attempt = JobAttempt(
        known["job"],
        nodes,
        begin,
        end,
        cast("Outcome", outcome),
        known["blamed"],
        **parts,
        program=known["program"],
    )
    cut = known["end"] and _time(known["end"], "end") > until
    if not cut:
        return attempt
    # which part of its time was before is unknown
    return JobAttempt(attempt.job, attempt.nodes, begin, end, "running", program=attempt.program)


def _time(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{name}: found {text!r}; expected a time such as 2026-11-23T21:00Z") from None
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name}: found {text!r}; expected seconds since 1970")
    return _in_seconds(value, name)


def _in_seconds(value: float, name: str) -> float:
    """A time since 1970 in seconds. Raises ValueError for one that can only be in a shorter unit."""
    if value > _LATEST_S:
        raise ValueError(f"{name}: found {value:.0f}, in milliseconds or less; expected seconds since 1970")
    return value


def _seconds(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: found {text!r}; expected seconds")
    return value


def without_repeats(attempts: Iterable[JobAttempt]) -> tuple[list[JobAttempt], list[Problem]]:
    """The attempts, each once although the sources list it again, and a problem for each job of such a one.

    An attempt is listed again if it has the job, the nodes and the times of an earlier one.
    """
    listed: dict[tuple[str, frozenset[str], float, float], list[JobAttempt]] = {}
    for attempt in attempts:
        listed.setdefault(
            (attempt.job, frozenset(attempt.nodes), attempt.begin_at, attempt.end_at), []
        ).append(attempt)
    problems = [
        Problem(f"job {job}", f"{len(alike) - 1} of {len(alike)} records, which repeat its nodes and times")
        for (job, *_), alike in listed.items()
        if len(alike) > 1
    ]
    return [alike[0] for alike in listed.values()], problems


def from_sacct(path: Path, until: float) -> tuple[list[JobAttempt], list[Problem]]:
    """Attempts from `sacct -D --json`: every start of every job, also those that were requeued.

    A job that has no end yet is known up to the time that it had taken when sacct was asked. The problems are
    those of jobs that ended at a time that is not stated. Raises InputError for what is not such a document,
    with the jobs that can't be read.
    """
    try:
        document = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise InputError(
            [Problem(str(path), f"not JSON ({error}); write it with `sacct -D --json`")]
        ) from error
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise InputError([Problem(str(path), "has no list of jobs; write it with `sacct -D --json`")])
    attempts, unknown, problems = list[JobAttempt](), list[Problem](), list[Problem]()
    for number, job in enumerate(jobs):
        try:
            attempts += _of_slurm(job, until)
        except _EndUnknownError as error:
            unknown.append(Problem(f"{path}: job {number + 1}", str(error)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(Problem(f"{path}: job {number + 1}", unreadable(error)))
    if problems:
        raise InputError(problems)
    return attempts, unknown


class _EndUnknownError(Exception):
    """A job ended, but its accounting does not say when."""


def unreadable(error: Exception) -> str:
    """Why an entry of somebody's document can't be read, as text."""
    if isinstance(error, KeyError):
        return f"has no {error.args[0]!r}"
    return str(error) if type(error) is ValueError else f"isn't as expected: {error}"


def _of_slurm(job: Mapping[str, Any], until: float) -> Iterator[JobAttempt]:
    states = job["state"]["current"]
    state = next(iter(states), "") if isinstance(states, list) else states
    if state in _NOT_STARTED:
        return
    if state not in _SLURM:
        raise ValueError(f"unknown state {state!r}")
    begin = _in_seconds(_number(job["time"]["start"]), "time.start")
    if not begin or begin >= until:  # it never started
        return
    end = _slurm_end(job, state, begin, until)
    yield JobAttempt(
        str(job["job_id"]),
        tuple(expanded(job.get("nodes") or "")),
        begin,
        min(until, max(begin, end)),
        "running" if end > until else _SLURM[state],
        str(job.get("failed_node") or ""),
        program=str(job.get("name") or ""),
    )


def _slurm_end(job: Mapping[str, Any], state: str, begin: float, until: float) -> float:
    """When a job ended, or was last seen running. Raises _EndUnknownError if it ended nobody knows when.

    Slurm leaves `end` at 0 for jobs whose node failed; the time that they took is known.
    """
    time = job["time"]
    if end := _number(time["end"]):
        return _in_seconds(end, "time.end")
    took_s = _number(time.get("elapsed") or 0) + _number(time.get("suspended") or 0)
    if took_s > 0:
        return begin + took_s
    if _SLURM[state] != "running":
        raise _EndUnknownError(
            f"job {job['job_id']} is {state}, but has neither an end nor a time that it took"
        )
    return until


def _number(value: Any) -> float:
    """A number, or Slurm's form of one that may be unset."""
    if isinstance(value, Mapping):
        value = value["number"] if value.get("set") and not value.get("infinite") else 0
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no time")
    return number


_LATEST_S: Final = 1e11  # in the year 5138
MOST_NODES: Final = 100_000  # of one job


def expanded(names: str) -> Iterator[str]:
    """Slurm's short form of node names, one by one. Raises ValueError if it can't be read.

    >>> list(expanded("n[01-03,7],login"))
    ['n01', 'n02', 'n03', 'n7', 'login']
    """
    if names in ("", "None assigned"):
        return
    depth, part, parts = 0, "", []
    for character in names:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    count = 0
    for name in (*parts, part):
        for node in _ranges(name):
            count += 1
            if count > MOST_NODES:
                raise ValueError(f"{names[:80]!r} names more than {MOST_NODES} nodes")
            yield node


def _ranges(name: str) -> Iterator[str]:
    head, bracket, rest = name.partition("[")
    if not bracket:
        yield name
        return
    inside, closed, tail = rest.partition("]")
    if not closed:
        raise ValueError(f"{name[:80]!r} has no closing bracket")
    for item in inside.split(","):
        first, dash, last = item.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{name[:80]!r} has no range of numbers")
        for number in range(int(first), int(last or first) + 1):
            for end in _ranges(tail):
                yield f"{head}{number:0{len(first)}d}{end}"
