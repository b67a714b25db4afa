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


def listing(stack_listing: StackListing) -> dict[str, Any]:
    """Every stack with its number of observations."""
    return {
        "schema": "assay.stacks/1",
        "stacks": [
            {
                "digest": known_stack.stack.digest,
                "title": known_stack.title,
                "sessions": known_stack.sessions,
                "newest_at": known_stack.newest,
                "hardware": [
                    hardware(h)
                    for h in {o.hardware.digest: o.hardware for o in known_stack.observations}.values()
                ],
                "failures": sorted({f.failure for f in known_stack.failures if f.failure}),
                "packages": dict(known_stack.stack.packages),
            }
            for known_stack in stack_listing.stacks
        ],
        "left_out": dict(stack_listing.left_out),
    }


def details(known_stack: KnownStack) -> dict[str, Any]:
    """One stack with everything that was observed of it."""
    return {
        "schema": "assay.stack-details/1",
        "stack": software(known_stack.stack),
        "title": known_stack.title,
        "levels": [
            {
                "hardware": hardware(level.hardware),
                "workload": to_plain(level.workload),
                "metric": to_plain(level.metric),
                "primary": level.primary,
                **asdict(level.level),
                "doubts": [to_plain(doubt) for seen in level.observations for doubt in seen.doubts],
                "observations": [observation(seen) for seen in level.observations],
            }
            for level in known_stack.levels
        ],
        "failures": [observation(failure) for failure in known_stack.failures],
    }


def software(stack: Stack) -> dict[str, Any]:
    """A stack with its digest."""
    return {"digest": stack.digest, **to_plain(stack)}


def hardware(hardware_class: HardwareClass) -> dict[str, Any]:
    """A hardware class with its digest."""
    return {"digest": hardware_class.digest, **to_plain(hardware_class)}


def observation(observation: Observation) -> dict[str, Any]:
    """One observation, without the stack, hardware and workload that it is listed under."""
    plain: dict[str, Any] = to_plain(observation)
    return {
        name: value
        for name, value in plain.items()
        if name not in ("stack", "hardware", "workload", "metric")
    }


def differences(stack_differences: StackDifferences) -> dict[str, Any]:
    """Two stacks' differences, with what is known of each."""
    return {
        "schema": "assay.stack-diff/1",
        "verdict": stack_differences.verdict,
        **{
            name: {
                "reference": side.reference,
                "title": side.title,
                "partial": side.partial,
                "stack": software(side.stack),
                "hardware": [hardware(hardware_class) for hardware_class in side.hardware],
                "failures": [observation(failure) for failure in side.failures],
            }
            for name, side in (("a", stack_differences.a), ("b", stack_differences.b))
        },
        "together": [effect(known) for known in stack_differences.together],
        "changes": [
            {
                **asdict(change.change),
                "brings": [asdict(other) for other in change.brings],
                "effects": [effect(known) for known in change.effects],
            }
            for change in stack_differences.changes
        ],
    }


def effect(known: KnownEffect) -> dict[str, Any]:
    """What is known of a change on one hardware class."""
    return {
        "comparison": to_plain(known.comparison),
        "others": [asdict(other) for other in known.others],
        "hardware": hardware(known.hardware),
        "workload": to_plain(known.workload),
        "oldest_at": known.oldest,
        "newest_at": known.newest,
        "here": known.here,
        "origins": sorted(known.origins),
        "chosen_among": known.rivals,
        "set_aside": known.set_aside,
    }
