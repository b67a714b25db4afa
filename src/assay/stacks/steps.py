"""The steps of an exploration or a bisection as one session.

Each step is a session of its own on disk. But all of them ran one after the other in the same conditions, and
which stacks ran in the later ones follows from what the earlier ones showed. So they are no replications of
one another: together they are one session, whose blocks are those of all steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from assay.analyse.stacks.effects import lost_by
from assay.records import Observation, to_compact_json
from assay.rundir.files import Header
from assay.stacks.observing import SessionObservations

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
