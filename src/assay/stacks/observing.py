"""From the runs of one session to what it observed of stacks: no bookkeeping besides the runs themselves.

Each step of an exploration or a bisection is a session of its own on disk. But all of them ran one after the
other in the same conditions, and which stacks ran in the later ones follows from what the earlier ones
showed. So they are no replications of one another: together they are one session, whose blocks are those of
all steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assay.analyse import doubts
from assay.analyse.points import encounters
from assay.analyse.points.groups import Group, Metrics, group
from assay.analyse.points.ratio import looked_at, one_side
from assay.analyse.stacks.effects import lost_by
from assay.records import (
    DEFAULT_MARGIN,
    Doubt,
    HardwareClass,
    Observation,
    Result,
    Run,
    Stack,
    StackMetric,
    StackWorkload,
    to_compact_json,
)
from assay.rundir.files import Header
from assay.stacks.stack import failure_of, hardware_of, stack_of

NO_PROVENANCE = "it is unknown where they ran"
UNEQUAL_NODES = "their nodes differ in software or hardware"
NO_DIRECTION = "none of their metrics has a better direction"
OTHER_FAILURE = "they failed for a reason that may not be the software"
_ITSELF = "it"  # the only side, which its evidence needs no name for
_OWN_PROGRAM = frozenset({"command"})  # workloads whose program is the user's
_SHIFTS = ("invalid", "biased")  # severities of doubts that can make one stack look faster than another


@dataclass(frozen=True)
class SessionObservations:
    """What a session observed, and how many of its runs say nothing about a stack, by the reason as text."""

    observations: tuple[Observation, ...]
    left_out: dict[str, int]


def observe(
    results: Sequence[Result], metrics: Metrics, last_line: Callable[[Run], str], log_of: Callable[[Run], str]
) -> SessionObservations:
    """What the runs of one session say about stacks.

    metrics    what a run's workload declares
    last_line  of a failed run, what its first rank to fail printed last
    log_of     where the logs of a run are

    Runs that are not over are left out without a word: they will be observed.
    """
    left_out: Counter[str] = Counter()
    failures: list[Observation] = []
    by_place: dict[tuple[str, str, str], tuple[Stack, HardwareClass, StackWorkload, list[Result]]] = {}
    for result in results:
        run = result.run
        if not run.state.final:
            continue
        stack, hardware = stack_of(result.provenance), hardware_of(result.provenance)
        if stack is None or hardware is None:
            several = result.provenance is not None and len(result.provenance.nodes) > 1
            left_out[UNEQUAL_NODES if several else NO_PROVENANCE] += 1
            continue
        workload = workload_of(run)
        if result.counts:
            place = (stack.digest, hardware.digest, workload.digest)
            by_place.setdefault(place, (stack, hardware, workload, []))[3].append(result)
            continue
        last_output = last_line(run)
        kind = failure_of(run, stack, last_output)
        if kind is None:
            left_out[OTHER_FAILURE] += 1
            continue
        failures.append(
            Observation(
                stack,
                hardware,
                workload,
                None,
                session_of(run),
                run.made_at,
                failure=kind,
                why=_describe_failure(run, last_output),
                log=log_of(run),
            )
        )
    observed = list(failures)
    for stack, hardware, workload, runs in by_place.values():
        figures = list(_figures(stack, hardware, workload, runs, metrics, log_of))
        observed += figures
        if not figures:
            left_out[NO_DIRECTION] += len(runs)
    return SessionObservations(tuple(observed), dict(left_out))


def workload_of(run: Run) -> StackWorkload:
    """What a run ran."""
    trial = run.trial
    own = trial.task_digest or run.suite_digest
    program = own if trial.workload in _OWN_PROGRAM else f"assay {run.assay_version}"
    return StackWorkload(trial.workload, str(trial.shape), trial.params, program)


def session_of(run: Run) -> str:
    """The name of its session: `suite/session`."""
    return f"{run.suite}/{run.session}"


def _figures(
    stack: Stack,
    hardware: HardwareClass,
    workload: StackWorkload,
    runs: Sequence[Result],
    metrics: Metrics,
    log_of: Callable[[Run], str],
) -> Iterator[Observation]:
    """The runs' values of each metric that has a better direction."""
    groups = group(runs, metrics)
    leading = next(
        (point_group.point.metric for point_group in groups.values() if point_group.point.better), None
    )
    for point_group in groups.values():
        point = point_group.point
        if point.better is None:
            continue
        first = point_group.samples[0].result.run
        raised = _raised(point_group)
        yield Observation(
            stack=stack,
            hardware=hardware,
            workload=workload,
            metric=StackMetric(point.metric, point.unit, point.better, dict(point.labels)),
            session=session_of(first),
            at=min(sample.result.run.made_at for sample in point_group.samples),
            primary=point.metric == leading,
            values=tuple(
                sorted((sample.result.run.trial.block, sample.value) for sample in point_group.samples)
            ),
            interleaved=all(
                s.result.run.interleaved and not s.result.run.outside_block for s in point_group.samples
            ),
            confidence=max(0.95, looked_at((point_group.samples,), paired=True)),
            lost_to_others=encounters.lost_to_others(_results(point_group), DEFAULT_MARGIN),
            doubts=tuple(doubt for doubt in raised if doubts.KINDS[doubt.code].severity in _SHIFTS),
            log=log_of(first),
        )


def _raised(point_group: Group) -> tuple[Doubt, ...]:
    raised = doubts.of(
        doubts.Case((doubts.Side(_ITSELF, point_group),), one_side(point_group), DEFAULT_MARGIN)
    )
    return tuple(replace(doubt, evidence=doubt.evidence.removeprefix(f"{_ITSELF}: ")) for doubt in raised)


def _results(point_group: Group) -> list[Result]:
    return [sample.result for sample in point_group.samples]


def _describe_failure(run: Run, last_line: str) -> str:
    """The cause as text, with the last line of the log if the cause does not have it."""
    line = last_line.strip()
    return run.cause if not line or line in run.cause else f"{run.cause}: {line}"


_MOST_BLOCKS: Final = 1000  # of a step


def as_step(session_observations: SessionObservations, header: Header) -> SessionObservations:
    """A step's observations as part of its exploration or bisection, with block numbers of its own."""
    step = header.step_of
    if step is None:
        return session_observations
    first = int(header.created_at * 1000) * _MOST_BLOCKS
    return SessionObservations(
        tuple(
            replace(
                observation,
                session=step.name,
                values=tuple((first + block, value) for block, value in observation.values),
                confidence=max(observation.confidence, step.confidence),
            )
            for observation in session_observations.observations
        ),
        session_observations.left_out,
    )


def steps_together(observed: Iterable[Observation]) -> list[Observation]:
    """The observations; steps that observed the same of a stack become one, with blocks from 1."""
    by_session: dict[tuple[str, str], list[Observation]] = {}
    kept: list[Observation] = []
    for observation in observed:
        if any(block >= _MOST_BLOCKS for block, _ in observation.values):
            by_session.setdefault((observation.origin, observation.session), []).append(observation)
        else:
            kept.append(observation)
    for observations in by_session.values():
        numbers = {
            block: number
            for number, block in enumerate(
                sorted({b for observation in observations for b, _ in observation.values}), 1
            )
        }
        same: dict[tuple[str, ...], list[Observation]] = {}
        for observation in observations:
            workload = "" if observation.workload is None else observation.workload.digest
            key = (
                observation.stack.digest,
                observation.hardware.digest,
                workload,
                to_compact_json(observation.metric),
            )
            same.setdefault(key, []).append(observation)
        kept += [_join_steps(steps, numbers) for steps in same.values()]
    return sorted(kept, key=lambda observation: observation.at)


def _join_steps(steps: list[Observation], numbers: dict[int, int]) -> Observation:
    return replace(
        min(steps, key=lambda step: step.at),
        values=tuple(sorted((numbers[block], value) for step in steps for block, value in step.values)),
        interleaved=all(step.interleaved for step in steps),
        confidence=max(step.confidence for step in steps),
        lost_to_others=lost_by(steps),
        doubts=tuple(dict.fromkeys(doubt for step in steps for doubt in step.doubts)),
    )
