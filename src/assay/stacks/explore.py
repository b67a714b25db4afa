"""Which of many stacks is faster than the one in use: explored within a budget, resumed after every stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from assay.analyse.comparison.verdict import too_much
from assay.analyse.statistics.sequential import looks
from assay.durable import locked, make_directory
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError, Problem
from assay.questions.evidence import reindex, runs_directory
from assay.questions.question import (
    QUIET,
    RUNS,
    Answer,
    Question,
    Reference,
    argument,
    function,
    option,
    question,
    supplied,
)
from assay.questions.values import PresentFile, Seconds, within
from assay.records import Scalar, digest_of, to_plain
from assay.run.progress import Silence, Tell
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
from assay.stacks.explore_spec import (
    INCUMBENT,
    SEARCHES,
    Dimension,
    Space,
    Spec,
    StackChoice,
    Tried,
    dimensions,
    image_option,
    incumbent_values,
    load,
    recipe_of,
    space_of,
    variables_of,
)
from assay.stacks.known import hardware_here, provenance_here
from assay.stacks.measuring import ABOUT_KEEP, ABOUT_MAX_TIME, Measuring, gain, survivors, verdicts
from assay.stacks.stack import FailureKind, Observation, Stack, stack_of
from assay.stacks.storage import Journal, explorations_dir, record_failure
from assay.units import counted, human_seconds
from assay.view.blocks import Block, Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from assay.records import Comparison

_MOST_REASONS = 4
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

    @property
    def title(self) -> str:
        """What differs from the incumbent, as text."""
        return str(StackChoice(self.changes))

    @property
    def interval(self) -> str:
        """Of its ratio to the incumbent; "" if it has none."""
        c = self.comparison
        if c is None or c.deciding.low is None or c.deciding.high is None:
            return ""
        return f"{c.deciding.low:.3f} to {c.deciding.high:.3f}"

    def without_figure(self, *, build_only: bool) -> str:
        """Why it has no figure, as text."""
        if self.same_as:
            return f"same packages and settings as {self.same_as}: not measured again"
        if self.failure:
            return f"{self.failure}: {self.why[:300]} (log: {self.log})"
        if build_only:
            return f"installed and imported: {self.title}"
        return self.why or "not measured: the time was up"

    def document(self) -> dict[str, Any]:
        """What was tried, and what it gave."""
        return {
            "name": self.name,
            "values": dict(self.choice.values),
            "changes": dict(self.changes),
            "comparison": None if self.comparison is None else to_plain(self.comparison),
            "blocks": self.blocks,
            "dropped": self.dropped,
            "failure": self.failure,
            "why": self.why,
            "log": self.log,
            "same_as": self.same_as,
            "lock": self.lock,
        }


@dataclass(frozen=True)
class ExplorationResult(Answer):
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

    @property
    def exit_code(self) -> int:
        """0 if a stack is better, or all that were to be built were; else 3, or 1."""
        if self.build_only:
            return EXIT_WORSE if any(candidate.failure for candidate in self.candidates) else EXIT_OK
        return EXIT_UNDECIDED if self.best is None else EXIT_OK

    @property
    def measured(self) -> list[tuple[ExploredStack, Comparison]]:
        """The candidates that have a figure."""
        return [(candidate, c) for candidate in self.candidates if (c := candidate.comparison) is not None]

    def view(self) -> Iterator[Block]:
        """What to do, then the table, then what failed, and why there is no verdict."""
        yield Paragraph("\n".join(self._advice()), wraps=False)
        rows = tuple(
            TableRow(
                (
                    candidate.name,
                    f"{c.ratio.value:.3f}",
                    candidate.interval or "none",
                    c.verdict + (" (dropped)" if candidate.dropped else ""),
                    str(candidate.blocks),
                    candidate.title,
                )
            )
            for candidate, c in self.measured
        )
        columns = ("stack", "ratio", "interval", "verdict", "blocks", "differs from the incumbent in")
        if rows:
            yield Table("", columns, (TableBody("", rows),), frozenset({0, 2, 3, 5}))
        for candidate in self.candidates:
            if candidate.comparison is None:
                why = candidate.without_figure(build_only=self.build_only)
                yield Paragraph(f"{candidate.name}  {why}", wraps=False)
        yield from (Paragraph(line, wraps=False) for line in self._reservations())
        yield Paragraph(f"Locks, logs and the journal: {self.folder}", wraps=False)

    def _advice(self) -> Iterator[str]:
        """The answer, and how much of the space it rests on."""
        best = self.best
        if self.build_only:
            built = sum(not candidate.failure for candidate in self.candidates)
            yield f"{built} of {counted(len(self.candidates), 'candidate')} can be installed and imported."
        elif best is None or best.comparison is None:
            beyond = f"beyond the margin of {self.margin:.3g}"
            yield f"No candidate is shown to be better than the incumbent {beyond}."
            if any(too_much(c.lost_to_others) for _, c in self.measured):
                where = "on an idle machine, under another name"
                yield f"Others used the CPUs for too long: run it again {where}."
        else:
            c = best.comparison
            ratio = f"{c.point.metric} × {c.ratio.value:.3f} ({best.interval or 'no interval'})"
            yield f"Use {best.name} ({best.title}): {ratio}."
            yield f"Lock: {best.lock}"
        tried = f"{len(self.candidates)} of {self.possible - 1} possible stacks tried"
        ended = "as many as --max-stacks allows" if self.ended == "most stacks" else self.ended
        yield f"{tried} in {human_seconds(self.spent_s)}; {ended}. Incumbent: {self.incumbent}"

    def _reservations(self) -> Iterator[str]:
        """Why there is no verdict on the best of those that were not dropped, and each doubt once."""
        undecided = [
            (candidate, c)
            for candidate, c in self.measured
            if c.verdict == "undecided" and not candidate.dropped
        ]
        for candidate, c in undecided[:_MOST_REASONS]:
            yield f"{candidate.name}  undecided: {c.reason}"
        if len(undecided) > _MOST_REASONS:
            yield f"and {len(undecided) - _MOST_REASONS} more are undecided: --json has the reasons"
        doubts = {doubt.code: doubt for _, c in reversed(self.measured) for doubt in c.doubts}
        yield from (f"doubt {doubt.code}: {doubt.evidence}" for doubt in doubts.values())

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
            "candidates": [candidate.document() for candidate in self.candidates],
        }


@question
class ExploreStacks(Question):
    """Build the stacks that SPEC allows, measure them, and find which is faster than the incumbent.

    uv resolves and installs each stack in a fresh environment. A few stacks at a time run in the same
    shuffled blocks as the incumbent, and poor ones are dropped early. The verdicts allow for the looks in
    between and for the number of stacks: the best of forty equal ones does not pass for better.

    A stopped exploration resumes with the same command, and a larger budget continues one that ended.
    Environments are removed when they are no longer needed; their locks are kept.

    \b
    Examples:
      assay stack explore numpy.yaml
      assay stack explore numpy.yaml --max-time 2h --max-stacks 40
      assay stack explore numpy.yaml --build-only

    \b
    Exit codes: 0 a stack is better than the incumbent beyond the margin; 3 none is shown to be;
    with --build-only, 0 all candidates were built, 1 some can't be;
    4 SPEC can't be used; 6 another process works on this exploration; 130 stopped; run again to resume.
    """

    spec: PresentFile = argument()
    max_stacks: Annotated[int, within(1, 10_000)] = option(
        "Stacks to try, besides the incumbent.", default=20
    )
    build_only: bool = option(
        "Build and import the stacks, and measure nothing; the same command without it measures them.",
        default=False,
    )
    max_time_s: Seconds | None = option(ABOUT_MAX_TIME, default=None, names=("--max-time",))
    keep: bool = option(ABOUT_KEEP, default=False)
    quiet: bool = option(QUIET, default=False, output=True)
    runs: Reference | None = option(RUNS, default=None, local=True)
    progress: Tell | None = supplied("sessions", default=None)
    say: Callable[[str], None] | None = supplied("lines", default=None)
    command_line: Sequence[str] = supplied("command line", default=())

    def answer(self) -> ExplorationResult:
        """Stacks built, measured next to the incumbent, and compared with it.

        Raises InputError for what can't be explored as written (with uv's reason), BusyError if another Assay
        process works on this exploration, HostError if this machine or the index can't continue,
        InterruptedRun after Ctrl-C.
        """
        spec = load(Path(self.spec))
        runs_dir = runs_directory(self.runs).resolve()
        folder = explorations_dir(runs_dir) / spec.name
        make_directory(folder)
        with locked(folder / "lock", f"the exploration {spec.name}"):
            try:
                return _Exploration(self, spec, runs_dir, folder).run()
            finally:
                reindex(runs_dir)


explore = function(ExploreStacks, ExploreStacks.answer)


@dataclass
class _Exploration:
    """One call's work on an exploration: all that it knows is in the journal and the run directories."""

    question: ExploreStacks
    spec: Spec
    runs_dir: Path
    folder: Path
    spent_s: float = 0.0
    candidates: dict[str, ExploredStack] = field(default_factory=dict)  # by name, in the order proposed

    def __post_init__(self) -> None:
        """Read what earlier calls did."""
        question, spec = self.question, self.spec
        self.say = question.say or (lambda _: None)
        self.journal = Journal.open(self.folder / "journal.jsonl")
        self.measuring = Measuring(
            spec.work,
            self.runs_dir,
            question.progress or Silence,
            question.command_line,
            spec.content.max_repeats,
        )

    @cached_property
    def builder(self) -> StackBuilder:
        """What builds the stacks of the space."""
        return StackBuilder(self.spec, self._space(), self.runs_dir, self.folder, self.journal, self.say)

    def run(self) -> ExplorationResult:
        self.measuring.check(options_of(self.spec))
        self.builder.make_incumbent()
        ended: Ended | None = None
        number = 0
        while ended is None:
            number += 1
            ended = self._batch(number)
        if not self.question.keep:
            self.builder.remove_all()
        return self._result(ended)

    def _space(self) -> Space:
        """The space, found once and kept: an index that grows must not change a running exploration."""
        content = self.spec.content.model_dump(mode="json")
        digest = digest_of([content, self.spec.requirements, self.spec.measure])
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
            plain = [list(map(list, choice.values)) for choice in choices]
            self.journal.add("proposed", batch=number, choices=plain)
            proposed = self.journal.lines[-1]
        names = [self._take_in(values) for values in proposed["choices"]]
        running = [name for index, name in enumerate(names) if self._make(name, len(names) - index)]
        if self.question.build_only:
            self._drop(running)
        else:
            self._rungs(number, running)
        return None

    def _over(self) -> Ended | None:
        if self._time_is_up:
            return "time is up"
        return "most stacks" if len(self.candidates) >= self.question.max_stacks else None

    @property
    def _time_is_up(self) -> bool:
        most_s = self.question.max_time_s
        return most_s is not None and self.spent_s >= most_s

    def _proposals(self) -> list[StackChoice]:
        search, content = SEARCHES[self.spec.content.search], self.spec.content
        tried = [
            Tried(candidate.choice, None if candidate.comparison is None else gain(candidate.comparison))
            for candidate in self.candidates.values()
        ]
        choices: list[StackChoice] = []
        for _ in range(min(content.batch, self.question.max_stacks - len(self.candidates))):
            choice = search(self.builder.space, tried, content.seed)
            if choice is None:
                break
            choices.append(choice)
            tried.append(Tried(choice, None))
        return choices

    def _take_in(self, values: Sequence[Sequence[str]]) -> str:
        choice = StackChoice(tuple((key, value) for key, value in values))
        name = f"s{len(self.candidates) + 1:02d}"
        self.candidates[name] = ExploredStack(name, choice, choice.differs(self.builder.space.incumbent))
        return name

    def _make(self, name: str, left: int) -> bool:
        """Whether the candidate can be measured; it is built then.

        left  builds of the batch from this one on
        """
        candidate = self.candidates[name]
        done = self.builder.make(name, candidate.choice, left, needed=self._is_needed(name))
        self.spent_s += done["seconds"]
        outcome = {key: done[key] for key in ("failure", "why", "log", "same_as")}
        self.candidates[name] = replace(candidate, **outcome, lock=self.builder.lock_of(name))
        if done["failure"]:
            self.say(f"{name}: {done['failure']}: {done['why'][:300]}")
        return not (done["same_as"] or done["failure"])

    def _is_needed(self, name: str) -> bool:
        """Whether more trials of it will run."""
        last = [line for line in self.journal.entries("rung") if name in line["ran"]]
        return not last or name in last[-1]["kept"]

    def _rungs(self, batch: int, names: Sequence[str]) -> None:
        """Blocks for all, then for the better half, and so on, until the last look or until none is left."""
        running, blocks = list(names), 0
        most = self.spec.content.max_repeats
        for rung, look in enumerate(looks(most), 1):
            if not running or (rung > 1 and self._time_is_up):
                break
            systems = {name: self.builder.system(name) for name in (INCUMBENT, *running)}
            self.say(f"batch {batch}, blocks {blocks + 1} to {look}: {INCUMBENT} and {', '.join(running)}")
            self.spent_s += self.measuring.run(systems, look - blocks, (batch, rung))
            blocks = look
            kept = self._look(running, blocks)
            entries = self.journal.entries("rung")
            if not any((line["batch"], line["rung"]) == (batch, rung) for line in entries):
                self.journal.add("rung", batch=batch, rung=rung, blocks=blocks, ran=running, kept=list(kept))
            self._drop([name for name in running if name not in kept])
            running = list(kept)

    def _look(self, running: Sequence[str], blocks: int) -> tuple[str, ...]:
        """Compare those that ran with the incumbent; who goes on."""
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
        if not self.question.keep:
            in_use = [n for n in self.candidates if n not in names and self._is_needed(n)]
            self.builder.remove(names, in_use=(INCUMBENT, *in_use))

    def _result(self, ended: Ended) -> ExplorationResult:
        claimed = verdicts({n: c.comparison for n, c in self.candidates.items() if c.comparison is not None})
        ordered = sorted(claimed, key=lambda name: gain(claimed[name]), reverse=True)
        ranked = [replace(self.candidates[name], comparison=claimed[name]) for name in ordered]
        rest = [candidate for name, candidate in self.candidates.items() if name not in claimed]
        better = [
            tried for tried in ranked if (c := tried.comparison) and c.verdict == "faster" and c.by_margin
        ]
        return ExplorationResult(
            name=self.spec.name,
            incumbent=str(self.builder.space.incumbent),
            candidates=(*ranked, *rest),
            best=better[0] if better else None,
            possible=self.builder.space.size,
            spent_s=self.spent_s,
            ended=ended,
            margin=self.spec.content.margin,
            folder=self.folder,
            sessions=tuple(self.measuring.sessions),
            build_only=self.question.build_only,
        )


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
        return recipe_of(self.spec, self.space, choice)

    def _variables(self, choice: StackChoice) -> dict[str, str]:
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
        packages = {} if isinstance(place, BuildFailure) else place.packages
        packages = packages or dict(pin.split("==", 1) for pin in recipe.pins)
        system: dict[str, Scalar] = {}
        if not isinstance(recipe, ImageRecipe):
            known_stack = stack_of(provenance_here(recipe.interpreter.path))
            system = {} if known_stack is None else dict(known_stack.system)
        settings = {f"env.{key}": value for key, value in self._variables(choice).items()}
        stack = Stack(system, packages, settings=settings)
        session, kind, why, log = f"{self.spec.name}/{name}", failure.kind, failure.why, str(failure.log)
        here, now = hardware_here(), time.time()
        record_failure(
            self.runs_dir,
            Observation(stack, here, None, None, session, now, failure=kind, why=why, log=log),
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
