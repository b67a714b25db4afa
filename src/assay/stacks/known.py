"""What is known of software stacks: those observed, and one of them in detail."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import HostError, InputError
from assay.questions.evidence import ready, runs_directory, up_to_date

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

    from assay.records import Provenance
    from assay.stacks.effects import Level
    from assay.stacks.knowledge import Knowledge
    from assay.stacks.stack import HardwareClass, Observation, Stack, StackMetric, StackWorkload

_DIGEST = re.compile(r"[0-9a-f]{4,16}")
MAIN_PACKAGES = ("torch", "tensorflow", "jax", "onnxruntime", "transformers", "numpy")
"""What people call a stack by."""
_MOST_NAMED = 3  # packages of a stack that has none of them


@dataclass(frozen=True)
class KnownLevel:
    """How fast a stack is on a hardware class, by one metric."""

    hardware: HardwareClass
    workload: StackWorkload
    metric: StackMetric
    primary: bool
    level: Level
    observations: tuple[Observation, ...]


@dataclass(frozen=True)
class KnownStack:
    """A stack with everything that was observed of it.

    levels    of each metric, hardware class and workload
    failures  oldest first
    """

    stack: Stack
    levels: tuple[KnownLevel, ...]
    failures: tuple[Observation, ...]

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Its figures and failures, as observed."""
        return (*(observation for level in self.levels for observation in level.observations), *self.failures)

    def runs_on(self, hardware: str) -> int:
        """How many runs gave figures on the hardware class of this digest; a run can give several."""
        counts: dict[tuple[str, ...], int] = {}
        for observation in self.observations:
            if observation.workload is not None and observation.hardware.digest == hardware:
                session = (observation.origin, observation.session, observation.workload.digest)
                counts[session] = max(counts.get(session, 0), len(observation.values))
        return sum(counts.values())

    @property
    def sessions(self) -> int:
        """How many sessions observed it."""
        return len({(observation.origin, observation.session) for observation in self.observations})

    @property
    def newest(self) -> float:
        """When it was last observed, seconds since the epoch."""
        return max(observation.at for observation in self.observations)

    @property
    def title(self) -> str:
        """What people call it: Python and its main packages."""
        return title(self.stack)

    def document(self) -> dict[str, Any]:
        """One stack with everything that was observed of it."""
        from assay.records import to_plain

        return {
            "schema": "assay.stack-details/1",
            "stack": stack_document(self.stack),
            "title": self.title,
            "levels": [
                {
                    "hardware": hardware_document(level.hardware),
                    "workload": to_plain(level.workload),
                    "metric": to_plain(level.metric),
                    "primary": level.primary,
                    **asdict(level.level),
                    "doubts": [to_plain(doubt) for seen in level.observations for doubt in seen.doubts],
                    "observations": [observation_document(seen) for seen in level.observations],
                }
                for level in self.levels
            ],
            "failures": [observation_document(failure) for failure in self.failures],
        }


@dataclass(frozen=True)
class StackListing:
    """The result of `list_stacks`: most recently observed first.

    left_out  how many runs say nothing about a stack, by the reason
    """

    stacks: tuple[KnownStack, ...]
    left_out: Mapping[str, int]

    def document(self) -> dict[str, Any]:
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
                        hardware_document(h)
                        for h in {o.hardware.digest: o.hardware for o in known_stack.observations}.values()
                    ],
                    "failures": sorted({f.failure for f in known_stack.failures if f.failure}),
                    "packages": dict(known_stack.stack.packages),
                }
                for known_stack in self.stacks
            ],
            "left_out": dict(self.left_out),
        }


def title(stack: Stack) -> str:
    """What people call a stack: Python and its main packages, or its first few if it has none of these."""
    python = stack.system.get("python.version")
    names = [f"Python {python}"] if python else []
    others = sorted(stack.packages.keys() - {"pip", "setuptools", "wheel", "assay"})[:_MOST_NAMED]
    main = [name for name in MAIN_PACKAGES if name in stack.packages] or others
    return ", ".join([*names, *(f"{name} {stack.packages[name]}" for name in main)])


def known(runs_dir: Path, progress: Callable[[int, int], None] | None = None) -> Knowledge:
    """All observations of a runs directory, from an index that matches it.

    Raises InputError if there are neither runs nor imported bundles.
    """
    from assay.run.index import answered
    from assay.stacks.knowledge import knowledge
    from assay.stacks.storage import has_more_than_runs

    if has_more_than_runs(runs_dir):
        _ensure_index(runs_dir)
    else:
        ready(runs_dir)
        up_to_date(runs_dir, None)
    return answered(runs_dir, lambda: knowledge(runs_dir, progress))


def _ensure_index(runs_dir: Path) -> None:
    """An index that matches the runs, also if there are none: bundles alone are knowledge."""
    from assay import store
    from assay.run.index import update_index

    if store.trouble(runs_dir) is None:
        up_to_date(runs_dir, None)
    else:
        update_index(runs_dir, rebuild=True)


def list_stacks(
    *,
    package: str | None = None,
    workload: str | None = None,
    runs: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StackListing:
    """The stacks that runs have observed, like `assay stack list`.

    package   only stacks that have this requirement: `torch` or `torch>=2.8`
    workload  only observations of this workload
    runs      directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    progress  called with the sessions that have been read and those to be read

    Raises InputError if there are no runs, or the requirement is invalid.
    """
    knowledge = known(runs_directory(runs), progress)
    matches = _requirement(package)
    observed = [
        observation
        for observation in knowledge.observations
        if matches(observation.stack)
        and (workload is None or (observation.workload and observation.workload.workload == workload))
    ]
    return StackListing(tuple(known_stacks(observed)), knowledge.left_out)


def known_stacks(observed: Sequence[Observation]) -> list[KnownStack]:
    """The observations by stack, the most recently observed first."""
    by_stack: dict[str, list[Observation]] = {}
    for observation in observed:
        by_stack.setdefault(observation.stack.digest, []).append(observation)
    return sorted(map(_known_stack, by_stack.values()), key=lambda stack: -stack.newest)


def _known_stack(observed: Sequence[Observation]) -> KnownStack:
    from assay.records import to_compact_json
    from assay.stacks.effects import level

    by_metric: dict[tuple[str, ...], list[Observation]] = {}
    for observation in observed:
        if observation.metric is not None and observation.workload is not None:
            key = (
                observation.hardware.digest,
                observation.workload.digest,
                to_compact_json(observation.metric),
            )
            by_metric.setdefault(key, []).append(observation)
    levels = [
        KnownLevel(
            observations[0].hardware,
            observations[0].workload,
            observations[0].metric,
            observations[0].primary,
            level(observations),
            tuple(observations),
        )
        for observations in by_metric.values()
        if observations[0].workload is not None and observations[0].metric is not None
    ]
    return KnownStack(observed[0].stack, tuple(levels), tuple(o for o in observed if o.failure is not None))


def show_stack(
    reference: str,
    *,
    runs: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> KnownStack:
    """What is known of one stack, like `assay stack show`.

    reference  the beginning of its digest, or a reference to runs that have one stack

    Raises InputError if it names none, or several.
    """
    directory = runs_directory(runs)
    knowledge = known(directory, progress)
    digest = digest_named(directory, knowledge, reference)
    (stack,) = known_stacks(
        [observation for observation in knowledge.observations if observation.stack.digest == digest]
    )
    return stack


def digest_named(runs_dir: Path, knowledge: Knowledge, reference: str) -> str:
    """The digest of the stack that a reference names: by the beginning of its digest, or by runs.

    Of runs whose stacks differ only in the system, as sessions before and after an update of the kernel do,
    it is the newest. Raises InputError if it names none, or several.
    """
    digests = {observation.stack.digest for observation in knowledge.observations}
    if _DIGEST.fullmatch(reference):
        matching = sorted(digest for digest in digests if digest.startswith(reference))
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise InputError(f"{reference}: {len(matching)} stacks begin so; add a digit")
    from assay import store

    results = store.find(runs_dir, reference)
    sessions = {(r.run.suite, r.run.session, r.run.trial.system) for r in results}
    from assay.stacks.stack import stack_of

    stacks = [stack for r in results if (stack := stack_of(r.provenance)) is not None]
    if not stacks:
        raise InputError(f"{reference}: its runs don't report their software, or their nodes differ in it")
    if len({(str(s.packages), str(s.settings)) for s in stacks}) > 1:
        systems = sorted({system for _, _, system in sessions})
        names = " or ".join(f"{reference.partition(':')[0]}:{system}" for system in systems)
        raise InputError(f"{reference}: its runs have several stacks; name one: {names}, or a digest")
    if stacks[-1].digest not in digests:
        raise InputError(f"{reference}: none of its runs gave a result that says something about its stack")
    return stacks[-1].digest


def _requirement(text: str | None) -> Callable[[Stack], bool]:
    if text is None:
        return lambda _: True
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise InputError(f"{text}: not a requirement ({error}); write torch or 'torch>=2.8'") from error
    name = canonicalize_name(requirement.name)
    return lambda stack: (
        name in stack.packages and requirement.specifier.contains(stack.packages[name], prereleases=True)
    )


def stack_document(stack: Stack) -> dict[str, Any]:
    """A stack with its digest."""
    from assay.records import to_plain

    return {"digest": stack.digest, **to_plain(stack)}


def hardware_document(hardware_class: HardwareClass) -> dict[str, Any]:
    """A hardware class with its digest."""
    from assay.records import to_plain

    return {"digest": hardware_class.digest, **to_plain(hardware_class)}


def observation_document(observation: Observation) -> dict[str, Any]:
    """One observation, without the stack, hardware and workload that it is listed under."""
    from assay.records import to_plain

    plain: dict[str, Any] = to_plain(observation)
    return {
        name: value
        for name, value in plain.items()
        if name not in ("stack", "hardware", "workload", "metric")
    }


@cache
def provenance_here(python: str = sys.executable) -> Provenance:
    """What the probe reports of this machine and this interpreter."""
    from assay import provenance
    from assay_payloads.keeping.file_tree import FileTree
    from assay_payloads.probing import probe

    return provenance.parse([probe.MARK + json.dumps(probe.probe(FileTree(), python))])


def hardware_here() -> HardwareClass:
    """The class of this machine. Raises HostError if its CPU is unknown."""
    from assay.stacks.stack import hardware_of

    hardware = hardware_of(provenance_here())
    if hardware is None:
        raise HostError("this machine does not report its CPU's model: name a hardware class with --hardware")
    return hardware
