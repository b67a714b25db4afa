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


def as_step(found: SessionObservations, header: Header) -> SessionObservations:
    """What a step observed, as part of what it is a step of: no other step has its blocks' numbers."""
    step = header.step_of
    if step is None:
        return found
    first = int(header.created_at * 1000) * _MOST_BLOCKS
    return SessionObservations(
        tuple(
            replace(
                one,
                session=step.name,
                values=tuple((first + block, value) for block, value in one.values),
                confidence=max(one.confidence, step.confidence),
            )
            for one in found.observations
        ),
        found.left_out,
    )


def steps_together(observed: Iterable[Observation]) -> list[Observation]:
    """The observations, with one for all steps that observed the same of a stack, and blocks from 1."""
    by_session: dict[tuple[str, str], list[Observation]] = {}
    kept: list[Observation] = []
    for one in observed:
        if any(block >= _MOST_BLOCKS for block, _ in one.values):
            by_session.setdefault((one.origin, one.session), []).append(one)
        else:
            kept.append(one)
    for of in by_session.values():
        numbers = {block: at for at, block in enumerate(sorted({b for one in of for b, _ in one.values}), 1)}
        same: dict[tuple[str, ...], list[Observation]] = {}
        for one in of:
            workload = "" if one.workload is None else one.workload.digest
            key = (one.stack.digest, one.hardware.digest, workload, to_compact_json(one.metric))
            same.setdefault(key, []).append(one)
        kept += [_together(steps, numbers) for steps in same.values()]
    return sorted(kept, key=lambda one: one.at)


def _together(steps: list[Observation], numbers: dict[int, int]) -> Observation:
    return replace(
        min(steps, key=lambda one: one.at),
        values=tuple(sorted((numbers[block], value) for one in steps for block, value in one.values)),
        interleaved=all(one.interleaved for one in steps),
        confidence=max(one.confidence for one in steps),
        lost_to_others=lost_by(steps),
        doubts=tuple(dict.fromkeys(doubt for one in steps for doubt in one.doubts)),
    )
