"""What is known of software stacks: those observed, and one of them in detail."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import HostError, InputError
from assay.questions.evidence import ready, runs_directory, up_to_date
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    argument,
    option,
    progress_line,
    question,
)
from assay.records import to_compact_json, to_plain
from assay.stacks.stack import (
    HardwareClass,
    Observation,
    Stack,
    StackMetric,
    StackWorkload,
    hardware_of,
    stack_of,
)
from assay.units import counted
from assay.view.blocks import Block, Fold, Paragraph

if TYPE_CHECKING:
    from assay.records import Doubt, Provenance
    from assay.stacks.effects import Level
    from assay.stacks.knowledge import Knowledge

_DIGEST = re.compile(r"[0-9a-f]{4,16}")
MAIN_PACKAGES = ("torch", "tensorflow", "jax", "onnxruntime", "transformers", "numpy")
"""What people call a stack by."""
Progress = Callable[[int, int], None]  # sessions that have been read, and those to be read
_KEY = 20  # characters of a party's key
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
class KnownStack(Answer):
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

    @property
    def hardware(self) -> dict[str, HardwareClass]:
        """The classes that it was observed on, by digest."""
        return {observation.hardware.digest: observation.hardware for observation in self.observations}

    def view(self) -> Iterator[Block]:
        """Its software, then each figure with what it rests on, and each failure with its logs."""
        stack = self.stack
        versions = {name: _version(name, v, stack.builds) for name, v in stack.packages.items()}
        yield Paragraph(f"{stack.digest}  {self.title}")
        yield from _entries("System", stack.system)
        yield from _entries("Settings", stack.settings)
        yield from _entries("Packages", versions)
        primary = [block for level in self.levels if level.primary for block in level_blocks(level)]
        every = [block for level in self.levels for block in level_blocks(level)]
        yield Fold(tuple(primary), (*_entries("Builds", stack.builds), *every), "")
        for failure in self.failures:
            yield Paragraph("\n".join(["", *failure_lines(failure)]))

    def document(self) -> dict[str, Any]:
        """One stack with everything that was observed of it."""
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
class StackListing(Answer):
    """The result of `list_stacks`: most recently observed first.

    left_out  how many runs say nothing about a stack, by the reason
    """

    stacks: tuple[KnownStack, ...]
    left_out: Mapping[str, int]

    def view(self) -> Iterator[Block]:
        """The stacks by the hardware that they were observed on, and what says nothing of one."""
        if not self.stacks:
            yield Paragraph("No run has observed such a stack.")
        hardware: dict[str, list[KnownStack]] = {}
        for known_stack in self.stacks:
            for digest in known_stack.hardware:
                hardware.setdefault(digest, []).append(known_stack)
        shown = ""
        for digest, stacks in hardware.items():
            description = str(stacks[0].hardware[digest])
            if description != shown:
                yield Paragraph(f"On {description}:")
                shown = description
            for known_stack in stacks:
                evidence = _evidence(known_stack, digest)
                name, when = known_stack.stack.digest[:8], day(known_stack.newest)
                yield Paragraph(f"  {name}  {when}  {evidence}  {known_stack.title}")
        for why, runs in sorted(self.left_out.items()):
            yield Paragraph(f"{counted(runs, 'run')} left out: {why}.", "dim")

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
                    "hardware": [hardware_document(h) for h in known_stack.hardware.values()],
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
    others = sorted(stack.packages.keys() - {"pip", "setuptools", "wheel", "assay", "cluster-assay"})[
        :_MOST_NAMED
    ]
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


def known_stacks(observed: Sequence[Observation]) -> list[KnownStack]:
    """The observations by stack, the most recently observed first."""
    by_stack: dict[str, list[Observation]] = {}
    for observation in observed:
        by_stack.setdefault(observation.stack.digest, []).append(observation)
    return sorted(map(_known_stack, by_stack.values()), key=lambda stack: -stack.newest)


def _known_stack(observed: Sequence[Observation]) -> KnownStack:
    from assay.stacks.effects import level

    by_metric: dict[tuple[str, ...], list[Observation]] = {}
    for seen in observed:
        if seen.metric is not None and seen.workload is not None:
            key = seen.hardware.digest, seen.workload.digest, to_compact_json(seen.metric)
            by_metric.setdefault(key, []).append(seen)
    levels = [
        KnownLevel(first.hardware, first.workload, first.metric, first.primary, level(every), tuple(every))
        for first, every in ((every[0], every) for every in by_metric.values())
        if first.workload is not None and first.metric is not None
    ]
    return KnownStack(observed[0].stack, tuple(levels), tuple(o for o in observed if o.failure is not None))


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
    return {"digest": stack.digest, **to_plain(stack)}


def hardware_document(hardware_class: HardwareClass) -> dict[str, Any]:
    """A hardware class with its digest."""
    return {"digest": hardware_class.digest, **to_plain(hardware_class)}


def observation_document(observation: Observation) -> dict[str, Any]:
    """One observation, without the stack, hardware and workload that it is listed under."""
    above = ("stack", "hardware", "workload", "metric")
    return {name: value for name, value in to_plain(observation).items() if name not in above}


@cache
def provenance_here(python: str = sys.executable) -> Provenance:
    """What the probe reports of this machine and this interpreter."""
    from assay import provenance
    from assay_payloads.keeping.file_tree import FileTree
    from assay_payloads.probing import probe

    return provenance.parse([probe.MARK + json.dumps(probe.probe(FileTree(), python))])


def hardware_here() -> HardwareClass:
    """The class of this machine. Raises HostError if its CPU is unknown."""
    hardware = hardware_of(provenance_here())
    if hardware is None:
        raise HostError("this machine does not report its CPU's model: name a hardware class with --hardware")
    return hardware


def reading(done: int, total: int) -> str:
    """What a command shows while sessions are read."""
    return f"Reading sessions: {done} of {total}"


@question
class ShowStack(Question):
    """Show what is known of STACK: the beginning of its digest, or runs that have it.

    Its software, then each figure with its interval, sessions and doubts, and each failure with its logs.
    Without STACK: the stacks that runs have observed, the most recently observed first. Every run is an
    observation: its provenance says which software it ran with, on which hardware. Nothing needs to be
    recorded.

    \b
    Examples:
      assay stack show
      assay stack show --package 'torch>=2.8' --workload resnet50
      assay stack show 3f9a
      assay stack show quickstart:here --all
    """

    all_help = "Also show every metric, and the builds of packages."

    reference: str | None = argument(default=None, metavar="STACK")
    package: str | None = option(
        "Without STACK: only stacks that meet it, such as torch or 'torch>=2.8'.",
        default=None,
        metavar="REQUIREMENT",
    )
    workload: str | None = option(
        "Without STACK: only what was observed with this workload.", default=None, metavar="NAME"
    )
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)
    progress: Progress | None = progress_line(reading, default=None)

    def __post_init__(self) -> None:
        if self.reference is not None and (self.package is not None or self.workload is not None):
            raise ValueError("--package and --workload choose among all stacks: leave out STACK")

    def answer(self) -> KnownStack | StackListing:
        """What is known of the stack, or all stacks."""
        return self.listing() if self.reference is None else self.stack(self.reference)

    def listing(self) -> StackListing:
        """The stacks. Raises InputError if there are no runs, or the requirement is invalid."""
        knowledge = known(runs_directory(self.runs), self.progress)
        matches = _requirement(self.package)
        observed = [
            observation
            for observation in knowledge.observations
            if matches(observation.stack)
            and self.workload in (None, observation.workload and observation.workload.workload)
        ]
        return StackListing(tuple(known_stacks(observed)), knowledge.left_out)

    def stack(self, reference: str) -> KnownStack:
        """What is known of it. Raises InputError if the reference names no stack, or several."""
        directory = runs_directory(self.runs)
        knowledge = known(directory, self.progress)
        digest = digest_named(directory, knowledge, reference)
        (stack,) = known_stacks([seen for seen in knowledge.observations if seen.stack.digest == digest])
        return stack


def list_stacks(
    *,
    package: str | None = None,
    workload: str | None = None,
    runs: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> StackListing:
    """The stacks that runs have observed, the most recently observed first, like `assay stack show`.

    Raises InputError if there are no runs, or the requirement is invalid.
    """
    return ShowStack(package=package, workload=workload, runs=runs, progress=progress).listing()


def show_stack(
    reference: str, *, runs: str | PathLike[str] | None = None, progress: Progress | None = None
) -> KnownStack:
    """What is known of a stack: named by the beginning of its digest, or by runs that have it.

    Raises InputError if the reference names no stack, or several.
    """
    return ShowStack(runs=runs, progress=progress).stack(reference)


def _evidence(known_stack: KnownStack, hardware: str) -> str:
    """How often it was observed on this hardware."""
    runs = known_stack.runs_on(hardware)
    sessions = {(o.origin, o.session) for o in known_stack.observations if o.hardware.digest == hardware}
    failures = [failure for failure in known_stack.failures if failure.hardware.digest == hardware]
    kinds = sorted({failure.failure for failure in failures if failure.failure})
    ended = f", {len(failures)} × {' or '.join(kinds)}" if failures else ""
    return f"{counted(runs, 'run')} in {counted(len(sessions), 'session')}{ended}"


def session_names(observed: Iterable[Observation]) -> str:
    """Some of the sessions of observations; of those of others, with the beginning of their key."""
    sessions = sorted({(observation.session, observation.origin) for observation in observed})
    return some_of([f"{name} of {origin[:_KEY]}…" if origin else name for name, origin in sessions])


def some_of(names: Sequence[str]) -> str:
    """The first three."""
    return f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}"


def day(moment: float) -> str:
    """The date, UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def _entries(heading: str, entries: Mapping[str, object]) -> Iterator[Block]:
    if entries:
        wide = max(map(len, entries))
        rows = (f"  {name:{wide}}  {value}" for name, value in entries.items())
        yield Paragraph("\n".join(["", heading, *rows]))


def _version(name: str, version: str, builds: Mapping[str, str]) -> str:
    """The version, and what its build adds to it: `2.8.0 +cu128`."""
    build = builds.get(name, "").partition(" ")[0]
    return f"{version} {build}" if build.startswith("+") else version


def level_blocks(level: KnownLevel) -> Iterator[Block]:
    """One figure, what it rests on, and its doubts."""
    from assay.view import figures

    estimate = level.level.estimate
    unit, (value,) = figures.column([estimate.value], estimate.unit, [figures.half_width(estimate)])
    labels = figures.labels(level.metric.labels)
    ends = ""
    if estimate.low is not None and estimate.high is not None:
        _, (low, high) = figures.column([estimate.low, estimate.high], estimate.unit)
        ends = f" (95 %: {low} to {high})"
    first, last = day(level.observations[0].at), day(level.observations[-1].at)
    when = first if first == last else f"{first} to {last}"
    runs, sessions = counted(level.level.runs, "run"), counted(level.level.sessions, "session")
    lines = [
        "",
        f"{level.workload.workload} {level.workload.shape} on {level.hardware}",
        f"  {level.metric.name} {labels}".rstrip() + f": {value} {unit}{ends}",
        f"  {runs} in {sessions}, {when}",
        f"  sessions: {session_names(level.observations)}",
    ]
    if level.level.sessions == 1:
        lines.append("  one session: another day may differ by more than the interval")
    doubts = (doubt for observation in level.observations for doubt in observation.doubts)
    yield Paragraph("\n".join([*lines, *doubt_lines(doubts, "  ")]))


def doubt_lines(doubts: Iterable[Doubt], indent: str) -> Iterator[str]:
    """Each code once, with its first evidence and how often it was raised."""
    by_code: dict[str, list[Doubt]] = {}
    for doubt in doubts:
        by_code.setdefault(doubt.code, []).append(doubt)
    for code, raised in by_code.items():
        again = f" (and {len(raised) - 1} more)" if len(raised) > 1 else ""
        yield f"{indent}! {code}: {raised[0].evidence}{again}"


def failure_lines(failure: Observation) -> Iterator[str]:
    """What failed, why, and where its logs are."""
    workload = "" if failure.workload is None else f" ({failure.workload.workload} {failure.workload.shape})"
    yield f"{failure.failure}{workload} on {failure.hardware}, {day(failure.at)}"
    yield from (f"  {line}" for line in failure.why.splitlines()[:4])
    if failure.log:
        yield f"  logs: {failure.log}"
