"""`assay stack list`, `show` and `diff` with `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.diff_stacks import StackDifferences
    from assay.questions.stack_knowledge import KnownStack, StackListing
    from assay.records import HardwareClass, Observation, Stack
    from assay.stacks.known_effects import KnownEffect


def listing(found: StackListing) -> dict[str, Any]:
    """Every stack with its number of observations."""
    return {
        "schema": "assay.stacks/1",
        "stacks": [
            {
                "digest": one.stack.digest,
                "title": one.title,
                "sessions": one.sessions,
                "newest_at": one.newest,
                "hardware": [
                    hardware(h) for h in {o.hardware.digest: o.hardware for o in one.observations}.values()
                ],
                "failures": sorted({f.failure for f in one.failures if f.failure}),
                "packages": dict(one.stack.packages),
            }
            for one in found.stacks
        ],
        "left_out": dict(found.left_out),
    }


def details(found: KnownStack) -> dict[str, Any]:
    """One stack with everything that was observed of it."""
    return {
        "schema": "assay.stack-details/1",
        "stack": software(found.stack),
        "title": found.title,
        "levels": [
            {
                "hardware": hardware(level.hardware),
                "workload": to_plain(level.workload),
                "metric": to_plain(level.metric),
                "primary": level.primary,
                **asdict(level.level),
                "doubts": [to_plain(doubt) for one in level.observations for doubt in one.doubts],
                "observations": [observation(one) for one in level.observations],
            }
            for level in found.levels
        ],
        "failures": [observation(one) for one in found.failures],
    }


def software(stack: Stack) -> dict[str, Any]:
    """A stack with its digest."""
    return {"digest": stack.digest, **to_plain(stack)}


def hardware(found: HardwareClass) -> dict[str, Any]:
    """A hardware class with its digest."""
    return {"digest": found.digest, **to_plain(found)}


def observation(one: Observation) -> dict[str, Any]:
    """One observation, without the stack, hardware and workload that it is listed under."""
    plain: dict[str, Any] = to_plain(one)
    return {
        name: value
        for name, value in plain.items()
        if name not in ("stack", "hardware", "workload", "metric")
    }


def differences(found: StackDifferences) -> dict[str, Any]:
    """Two stacks' differences, with what is known of each."""
    return {
        "schema": "assay.stack-diff/1",
        "verdict": found.verdict,
        **{
            name: {
                "reference": side.reference,
                "title": side.title,
                "partial": side.partial,
                "stack": software(side.stack),
                "hardware": [hardware(one) for one in side.hardware],
                "failures": [observation(one) for one in side.failures],
            }
            for name, side in (("a", found.a), ("b", found.b))
        },
        "together": [effect(one) for one in found.together],
        "changes": [
            {
                **asdict(one.change),
                "brings": [asdict(other) for other in one.brings],
                "effects": [effect(known) for known in one.effects],
            }
            for one in found.changes
        ],
    }


def effect(known: KnownEffect) -> dict[str, Any]:
    """What is known of a change on one hardware class."""
    return {
        "comparison": to_plain(known.comparison),
        "others": [asdict(one) for one in known.others],
        "hardware": hardware(known.hardware),
        "workload": to_plain(known.workload),
        "oldest_at": known.oldest,
        "newest_at": known.newest,
        "here": known.here,
        "origins": sorted(known.origins),
        "chosen_among": known.rivals,
        "set_aside": known.set_aside,
    }
