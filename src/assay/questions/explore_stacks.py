"""Which of many stacks is faster than the one in use: explored within a budget, resumed after every stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assay.errors import InputError, Problem
from assay.questions.evidence import reindex, runs_directory
from assay.stacks.exploring.search import INCUMBENT

if TYPE_CHECKING:
    from os import PathLike

    from assay.questions.stack_exploration_builds import StackBuilder
    from assay.records import Comparison, FailureKind
    from assay.run.progress import Tell
    from assay.stacks.exploring.measuring import Measuring
    from assay.stacks.exploring.search import Space, StackChoice
    from assay.stacks.exploring.spec import Spec
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
    from assay.stacks.exploring.spec import load
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
        from assay.questions.stack_exploration_builds import StackBuilder, options_of
        from assay.stacks.exploring.measuring import Measuring
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
        from assay.stacks.exploring.dimensions import dimensions, incumbent_values
        from assay.stacks.exploring.search import Dimension, space_of

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
        from assay.stacks.exploring.measuring import gain
        from assay.stacks.exploring.search import SEARCHES, Tried

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
        from assay.stacks.exploring.search import StackChoice

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
        from assay.stacks.exploring.measuring import schedule

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

        from assay.stacks.exploring.measuring import survivors

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

        from assay.stacks.exploring.measuring import gain, verdicts

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
