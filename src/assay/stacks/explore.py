"""Which of many stacks is faster than the one in use: explored within a budget, resumed after every stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assay.errors import InputError, Problem
from assay.questions.evidence import reindex, runs_directory
from assay.run.stopping import terminable
from assay.stacks.engines import ENGINES
from assay.stacks.environments import (
    BuildFailure,
    Environment,
    EnvironmentRecipe,
    ImageRecipe,
    ImageWorkshop,
    StackImage,
    Workshop,
)
from assay.stacks.explore_spec import INCUMBENT, image_option

if TYPE_CHECKING:
    from os import PathLike

    from assay.records import Comparison, Scalar
    from assay.run.progress import Tell
    from assay.stacks.explore_spec import Space, Spec, StackChoice
    from assay.stacks.measuring import Measuring
    from assay.stacks.stack import FailureKind
    from assay.stacks.storage import Journal

MAX_STACKS = 20
Ended = Literal["every stack tried", "most stacks", "time is up"]


@dataclass(frozen=True)
class ExploredStack:
    """A stack that was tried.

    name        `s07`: its system's name in the sessions
    changes     what differs from the incumbent, as key and value
    comparison  with the incumbent, claimed jointly with all other candidates; None if it gave no figure
    blocks      that it ran in
    dropped     why it stopped before the last look, as text; "" if it didn't
    failure     how it failed; None if it ran
    same_as     name of the candidate that resolved to the same packages and settings; "" if none did
    """

    name: str
    choice: StackChoice
    changes: tuple[tuple[str, str], ...]
    comparison: Comparison | None = None
    blocks: int = 0
    dropped: str = ""
    failure: FailureKind | None = None
    why: str = ""
    log: str = ""
    same_as: str = ""
    lock: str = ""


@dataclass(frozen=True)
class ExplorationResult:
    """The result of `explore`.

    candidates    all, the best first; those without a figure last
    best          the best of those that are better beyond the margin; None if there is none
    possible      number of stacks that the specification allows
    spent_s       time that builds and trials took together
    build_only    nothing was measured: a candidate without a failure was installed and imported
    """

    name: str
    incumbent: str
    candidates: tuple[ExploredStack, ...]
    best: ExploredStack | None
    possible: int
    spent_s: float
    ended: Ended
    margin: float
    folder: Path
    sessions: tuple[str, ...]
    build_only: bool = False

    def document(self) -> dict[str, Any]:
        """The answer, with every candidate, the best first."""
        return {
            "schema": "assay.stack-exploration/1",
            "name": self.name,
            "incumbent": self.incumbent,
            "best": None if self.best is None else self.best.name,
            "build_only": self.build_only,
            "margin": self.margin,
            "ended": self.ended,
            "possible": self.possible,
            "spent_s": self.spent_s,
            "sessions": list(self.sessions),
            "candidates": [_candidate_as_data(candidate) for candidate in self.candidates],
        }


@dataclass(frozen=True)
class ExploreLimits:
    """The budget: no batch starts once it is spent.

    max_time_s  of builds and trials together; None: no limit
    """

    max_stacks: int = MAX_STACKS
    max_time_s: float | None = None


def explore(
    spec: str | PathLike[str],
    *,
    max_stacks: int = MAX_STACKS,
    max_time_s: float | None = None,
    keep: bool = False,
    build_only: bool = False,
    runs: str | PathLike[str] | None = None,
    progress: Tell | None = None,
    say: Callable[[str], None] = lambda _: None,
    command_line: Sequence[str] = (),
) -> ExplorationResult:
    """Stacks built, measured next to the incumbent, and compared with it, like `assay stack explore SPEC`.

    max_stacks  candidates to try, those that can't be built included
    keep        leave the environments in place
    build_only  build and import, and measure nothing; a later call without it measures what was built
    say         receives a line about each step

    The same call resumes a stopped exploration, and a larger budget continues one that ended.

    Raises InputError for what can't be explored as written (with uv's reason), BusyError if another Assay
    process works on this exploration, HostError if this machine or the index can't continue, InterruptedRun
    after Ctrl-C.
    """
    from assay.durable import locked, make_directory
    from assay.run.progress import Silence
    from assay.stacks.explore_spec import load
    from assay.stacks.storage import explorations_dir

    checked = load(Path(spec))
    runs_dir = runs_directory(runs).resolve()
    folder = explorations_dir(runs_dir) / checked.name
    make_directory(folder)
    with locked(folder / "lock", f"the exploration {checked.name}"):
        limits = ExploreLimits(max_stacks, max_time_s)
        run = _Exploration(
            checked, runs_dir, folder, limits, keep, progress or Silence, say, command_line, build_only
        )
        try:
            return run.run()
        finally:
            reindex(runs_dir)


@dataclass
class _Exploration:
    """One call's work on an exploration: all that it knows is in the journal and the run directories."""

    spec: Spec
    runs_dir: Path
    folder: Path
    limits: ExploreLimits
    keep: bool
    progress: Tell
    say: Callable[[str], None]
    command_line: Sequence[str]
    build_only: bool
    spent_s: float = 0.0
    candidates: dict[str, ExploredStack] = field(default_factory=dict)  # by name, in the order proposed

    def run(self) -> ExplorationResult:
        from assay.stacks.measuring import Measuring
        from assay.stacks.storage import Journal

        self.journal: Journal = Journal.open(self.folder / "journal.jsonl")
        self.measuring: Measuring = Measuring(
            self.spec.work, self.runs_dir, self.progress, self.command_line, self.spec.content.max_repeats
        )
        self.measuring.check(options_of(self.spec))
        self.space: Space = self._space()
        self.builder: StackBuilder = StackBuilder(
            self.spec, self.space, self.runs_dir, self.folder, self.journal, self.say
        )
        self.builder.make_incumbent()
        ended: Ended | None = None
        number = 0
        while ended is None:
            number += 1
            ended = self._batch(number)
        if not self.keep:
            self.builder.remove_all()
        return self._result(ended)

    def _space(self) -> Space:
        """The space, found once and kept: an index that grows must not change a running exploration."""
        from assay.records import digest_of
        from assay.stacks.explore_spec import Dimension, dimensions, incumbent_values, space_of

        digest = digest_of(
            [self.spec.content.model_dump(mode="json"), self.spec.requirements, self.spec.measure]
        )
        begun = next(self.journal.entries("begun"), None)
        if begun is not None and begun["spec"] != digest:
            what = (
                f"{self.spec.name} was begun with other contents of this file; change `explore:` to another "
                f"name, restore the file, or remove {self.folder}"
            )
            raise InputError([Problem(self.spec.where("explore"), what)])
        if begun is None:
            self.say("finding versions and interpreters")
            varied, incumbent = dimensions(self.spec), incumbent_values(self.spec)
            plain = [[dimension.kind, dimension.name, list(dimension.values)] for dimension in varied]
            self.journal.add("begun", spec=digest, at=time.time(), dimensions=plain, incumbent=incumbent)
            begun = next(self.journal.entries("begun"))
        varied = [Dimension(kind, name, tuple(values)) for kind, name, values in begun["dimensions"]]
        return space_of(varied, begun["incumbent"])

    def _batch(self, number: int) -> Ended | None:
        """Propose, build, measure until all are decided or dropped; why there is no such batch, if so."""
        proposed = next((line for line in self.journal.entries("proposed") if line["batch"] == number), None)
        if proposed is None:
            if ended := self._over():
                return ended
            choices = self._proposals()
            if not choices:
                return "every stack tried"
            self.journal.add(
                "proposed", batch=number, choices=[list(map(list, choice.values)) for choice in choices]
            )
            proposed = self.journal.lines[-1]
        names = [self._take_in(values) for values in proposed["choices"]]
        running = [name for index, name in enumerate(names) if self._make(name, len(names) - index)]
        if self.build_only:
            self._drop(running)
        else:
            self._rungs(number, running)
        return None

    def _over(self) -> Ended | None:
        if self._time_is_up:
            return "time is up"
        return "most stacks" if len(self.candidates) >= self.limits.max_stacks else None

    @property
    def _time_is_up(self) -> bool:
        return self.limits.max_time_s is not None and self.spent_s >= self.limits.max_time_s

    def _proposals(self) -> list[StackChoice]:
        from assay.stacks.explore_spec import SEARCHES, Tried
        from assay.stacks.measuring import gain

        search, content = SEARCHES[self.spec.content.search], self.spec.content
        tried = [
            Tried(candidate.choice, None if candidate.comparison is None else gain(candidate.comparison))
            for candidate in self.candidates.values()
        ]
        choices: list[StackChoice] = []
        for _ in range(min(content.batch, self.limits.max_stacks - len(self.candidates))):
            choice = search(self.space, tried, content.seed)
            if choice is None:
                break
            choices.append(choice)
            tried.append(Tried(choice, None))
        return choices

    def _take_in(self, values: Sequence[Sequence[str]]) -> str:
        from assay.stacks.explore_spec import StackChoice

        choice = StackChoice(tuple((key, value) for key, value in values))
        name = f"s{len(self.candidates) + 1:02d}"
        self.candidates[name] = ExploredStack(name, choice, choice.differs(self.space.incumbent))
        return name

    def _make(self, name: str, left: int) -> bool:
        """Whether the candidate can be measured; it is built then.

        left  builds of the batch from this one on
        """
        from dataclasses import replace

        candidate = self.candidates[name]
        done = self.builder.make(name, candidate.choice, left, needed=self._is_needed(name))
        self.spent_s += done["seconds"]
        self.candidates[name] = replace(
            candidate,
            failure=done["failure"],
            why=done["why"],
            log=done["log"],
            same_as=done["same_as"],
            lock=self.builder.lock_of(name),
        )
        if done["failure"]:
            self.say(f"{name}: {done['failure']}: {done['why'][:300]}")
        return not (done["same_as"] or done["failure"])

    def _is_needed(self, name: str) -> bool:
        """Whether more trials of it will run."""
        last = [line for line in self.journal.entries("rung") if name in line["ran"]]
        return not last or name in last[-1]["kept"]

    def _rungs(self, batch: int, names: Sequence[str]) -> None:
        """Blocks for all, then for the better half, and so on, until the last look or until none is left."""
        from assay.stacks.measuring import schedule

        running, blocks = list(names), 0
        most = self.spec.content.max_repeats
        for rung, look in enumerate(schedule(most), 1):
            if not running or (rung > 1 and self._time_is_up):
                break
            systems = {name: self.builder.system(name) for name in (INCUMBENT, *running)}
            self.say(f"batch {batch}, blocks {blocks + 1} to {look}: {INCUMBENT} and {', '.join(running)}")
            self.spent_s += self.measuring.run(systems, look - blocks, (batch, rung))
            blocks = look
            kept = self._look(running, blocks)
            if not any(
                line["batch"] == batch and line["rung"] == rung for line in self.journal.entries("rung")
            ):
                self.journal.add("rung", batch=batch, rung=rung, blocks=blocks, ran=running, kept=list(kept))
            self._drop([name for name in running if name not in kept])
            running = list(kept)

    def _look(self, running: Sequence[str], blocks: int) -> tuple[str, ...]:
        """Compare those that ran with the incumbent; who goes on."""
        from dataclasses import replace

        from assay.stacks.measuring import survivors

        comparisons = []
        most = self.spec.content.max_repeats
        for name in running:
            comparison, why = self.measuring.compared(name, INCUMBENT, most)
            self.candidates[name] = replace(
                self.candidates[name], comparison=comparison, blocks=blocks, why=why, failure=None
            )
            if comparison is not None:
                comparisons.append(comparison)
        kept = survivors(comparisons, blocks, most)
        for name in running:
            candidate = self.candidates[name]
            if name not in kept and blocks < most and candidate.comparison is not None:
                decided = candidate.comparison.verdict in ("slower", "equivalent")
                why = candidate.comparison.verdict if decided else "others of its batch were better"
                self.candidates[name] = replace(candidate, dropped=f"after {blocks} blocks: {why}")
        return kept

    def _drop(self, names: Sequence[str]) -> None:
        """Remove what nothing will run in any more."""
        if not self.keep:
            in_use = [n for n in self.candidates if n not in names and self._is_needed(n)]
            self.builder.remove(names, in_use=(INCUMBENT, *in_use))

    def _result(self, ended: Ended) -> ExplorationResult:
        from dataclasses import replace

        from assay.stacks.measuring import gain, verdicts

        comparisons = {
            name: candidate.comparison
            for name, candidate in self.candidates.items()
            if candidate.comparison is not None
        }
        claimed = verdicts(comparisons)
        ordered = sorted(claimed, key=lambda name: gain(claimed[name]), reverse=True)
        ranked = [replace(self.candidates[name], comparison=claimed[name]) for name in ordered]
        rest = [candidate for name, candidate in self.candidates.items() if name not in claimed]
        better = [
            candidate
            for candidate in ranked
            if (c := candidate.comparison) and c.verdict == "faster" and c.by_margin
        ]
        return ExplorationResult(
            name=self.spec.name,
            incumbent=str(self.space.incumbent),
            candidates=(*ranked, *rest),
            best=better[0] if better else None,
            possible=self.space.size,
            spent_s=self.spent_s,
            ended=ended,
            margin=self.spec.content.margin,
            folder=self.folder,
            sessions=tuple(self.measuring.sessions),
            build_only=self.build_only,
        )


def _candidate_as_data(candidate: ExploredStack) -> dict[str, Any]:
    from assay.records import to_plain

    return {
        "name": candidate.name,
        "values": dict(candidate.choice.values),
        "changes": dict(candidate.changes),
        "comparison": None if candidate.comparison is None else to_plain(candidate.comparison),
        "blocks": candidate.blocks,
        "dropped": candidate.dropped,
        "failure": candidate.failure,
        "why": candidate.why,
        "log": candidate.log,
        "same_as": candidate.same_as,
        "lock": candidate.lock,
    }


@dataclass
class StackBuilder:
    """Builds stacks and notes each in the journal; what was noted is not built twice.

    choices, places  of the stacks that can be built, by their names
    """

    spec: Spec
    space: Space
    runs_dir: Path
    folder: Path
    journal: Journal
    say: Callable[[str], None]
    choices: dict[str, StackChoice] = field(default_factory=dict)
    places: dict[str, Environment | StackImage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose what builds: a Workshop or an ImageWorkshop, each of recipes of its own kind."""
        self._workshop: Any = _workshop(self.spec, self.folder)

    @terminable()
    def make_incumbent(self) -> None:
        """Build it. Raises InputError, with the reason, if it can't be built."""
        recipe = self._recipe(self.space.incumbent)
        place = self._workshop.locked(recipe)
        failure = place if isinstance(place, BuildFailure) else None
        if not isinstance(place, BuildFailure):
            self.say(f"{INCUMBENT}: {self.space.incumbent}")
            failure = self._workshop.build(recipe, place)
            self.choices[INCUMBENT], self.places[INCUMBENT] = self.space.incumbent, place
        if failure is not None:
            reason = failure.log.read_text().strip()
            raise InputError(
                f"{reason}\n{self.spec.where('incumbent')}: the incumbent {failure.kind}: see above"
            )

    @terminable()
    def make(self, name: str, choice: StackChoice, left: int, *, needed: bool) -> Mapping[str, Any]:
        """The journal's line of a candidate, which is built if it is needed.

        left    builds of the batch from this one on
        needed  more trials of it will run; one that was not tried before is built anyway
        """
        done = next((line for line in self.journal.entries("made") if line["name"] == name), None)
        if done is not None and (done["same_as"] or done["failure"]):
            return done
        recipe = self._recipe(choice)
        began = time.monotonic()
        place = self._workshop.locked(recipe)
        same_as = "" if isinstance(place, BuildFailure) else self._same_as(name, choice, place)
        failure = place if isinstance(place, BuildFailure) else None
        if not isinstance(place, BuildFailure) and not same_as:
            self.choices[name], self.places[name] = choice, place
            if done is None or needed:
                self.say(f"{name}: {choice}: building{self._time_left(left)}")
                failure = self._workshop.build(recipe, place)
        if done is not None:
            return done
        if failure is not None and not failure.is_the_indexs:
            self._record(name, choice, recipe, place, failure)
        self.journal.add(
            "made",
            name=name,
            seconds=time.monotonic() - began,
            same_as=same_as,
            failure=None if failure is None else failure.kind,
            why="" if failure is None else failure.why,
            log="" if failure is None else str(failure.log),
        )
        return self.journal.lines[-1]

    def lock_of(self, name: str) -> str:
        """The path of a stack's lock; "" if it has none of its own."""
        place = self.places.get(name)
        return "" if place is None else str(place.lock)

    def system(self, name: str) -> dict[str, Any]:
        """The system that runs trials of a stack, as systems.yaml has it."""
        env = self._variables(self.choices[name])
        return {**options_of(self.spec), **self.places[name].options, "env": env}

    def remove(self, names: Iterable[str], in_use: Iterable[str]) -> None:
        """Free the space of stacks, except what those in use share with them."""
        kept = {self.places[name].key for name in in_use if name in self.places}
        for name in names:
            if self.places[name].key not in kept:
                self._workshop.remove(self.places[name])

    def remove_all(self) -> None:
        """Free the space of all stacks."""
        self.remove(self.places, ())

    def _time_left(self, left: int) -> str:
        """How long this many builds may take, by those so far; "" before the first has ended."""
        from assay.units import counted, human_seconds

        took = [line["seconds"] for line in self.journal.entries("made") if not line["same_as"]]
        if not took:
            return ""
        time_left = human_seconds(left * sum(took) / len(took))
        return f", about {time_left} for {counted(left, 'build')}"

    def _same_as(self, name: str, choice: StackChoice, place: Environment | StackImage) -> str:
        """The incumbent or an earlier candidate with the same contents and variables; "" if none."""
        variables = self._variables(choice)
        for other, own in self.places.items():
            if other != name and own.key == place.key and self._variables(self.choices[other]) == variables:
                return other
        return ""

    def _recipe(self, choice: StackChoice) -> EnvironmentRecipe | ImageRecipe:
        from assay.stacks.explore_spec import recipe_of

        return recipe_of(self.spec, self.space, choice)

    def _variables(self, choice: StackChoice) -> dict[str, str]:
        from assay.stacks.explore_spec import variables_of

        return variables_of(self.spec, self.space, choice)

    def _record(
        self,
        name: str,
        choice: StackChoice,
        recipe: EnvironmentRecipe | ImageRecipe,
        place: Environment | StackImage | BuildFailure,
        failure: BuildFailure,
    ) -> None:
        """Keep a build's failure where all observations of stacks are read from."""
        from assay.stacks.known import hardware_here, provenance_here
        from assay.stacks.stack import Observation, Stack, stack_of
        from assay.stacks.storage import record_failure

        packages = {} if isinstance(place, BuildFailure) else place.packages
        packages = packages or dict(pin.split("==", 1) for pin in recipe.pins)
        system: dict[str, Scalar] = {}
        if not isinstance(recipe, ImageRecipe) and (
            here := stack_of(provenance_here(recipe.interpreter.path))
        ):
            system = dict(here.system)
        settings = {f"env.{key}": value for key, value in self._variables(choice).items()}
        stack = Stack(system, packages, settings=settings)
        session = f"{self.spec.name}/{name}"
        record_failure(
            self.runs_dir,
            Observation(
                stack,
                hardware_here(),
                None,
                None,
                session,
                time.time(),
                failure=failure.kind,
                why=failure.why,
                log=str(failure.log),
            ),
        )


def options_of(spec: Spec) -> dict[str, Any]:
    """The launcher of all stacks, and its options."""
    return {**spec.content.options, "launcher": spec.content.launcher}


def _workshop(spec: Spec, folder: Path) -> Any:
    content = spec.content
    if not content.in_images:
        return Workshop(folder, content.build_timeout)
    return ImageWorkshop(
        folder,
        content.build_timeout,
        ENGINES[content.images.engine],
        tuple(content.images.build_options),
        image_option(content.launcher) or "image",
    )
