"""All steps: suite → plan → launch → collect → read → store, resumed after every interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from assay import launch, read
from assay.errors import InterruptedRun
from assay.launch.launcher import Launcher, choice, prepare
from assay.records import Plan, Result, Run, Trial
from assay.run import duration, interim_looks
from assay.run.concurrency import MOST_JOBS, Concurrency, ConcurrentProgress, run_stretch
from assay.run.execute import Execution, begin, forget, take_over
from assay.run.interim_looks import Limits, Look
from assay.run.progress import Progress, Tell
from assay.run.request import RunRequest, plan_of
from assay.run.session_choice import held_session, left_unfinished
from assay.run.stopping import StopRequest, stop_requests
from assay.run.trial_state import DeferredTrials, TrialState, counts_as_lost, trial_state
from assay.rundir import session as rundir
from assay.rundir.session import Session
from assay.suite import Systems


@dataclass(frozen=True)
class CompletedSession:
    """A session whose trials to be run are all settled, or left for the next call.

    results  the last attempt of each trial, in plan order
    look     the last look, for a run until decided
    held     attempts of this call whose cause would affect other trials too
    left     trials that did not start for such a cause, including those of `held`
    """

    session: Session
    plan: Plan
    results: tuple[Result, ...]
    look: Look | None = None
    held: tuple[Run, ...] = ()
    left: tuple[Trial, ...] = ()

    @property
    def failures(self) -> tuple[Result, ...]:
        """Settled trials without a result."""
        left = {trial.id for trial in self.left}
        return tuple(r for r in self.results if r.run.trial.id not in left and not r.counts)

    @property
    def unbegun(self) -> tuple[Trial, ...]:
        """Trials that were never attempted: left for the next call."""
        tried = {result.run.trial.id for result in self.results}
        return tuple(trial for trial in self.plan.trials if trial.id not in tried)

    def lost(self, result: Result) -> tuple[Run, ...]:
        """The attempts at trials that the platform lost, including the last: those that `retries` limits."""
        run = result.run
        runs = [a.run() for a in self.session.attempts_at(run.trial.id)] if run.attempt > 1 else [run]
        return tuple(filter(counts_as_lost, runs))


def run_suite(request: RunRequest, tell: Tell) -> CompletedSession:
    """Run the suite, or resume its newest unfinished session of an equal plan, or repeat what failed there.

    Raises InputError for what can't be run as written, BusyError if another Assay works on the session,
    HostError if this machine can't continue, PlatformError if a system's platform can't be used,
    InterruptedRun after Ctrl-C or SIGTERM. Whatever it raises, the same command resumes from there. The
    caller must mark a session whose trials ran concurrently as finished: it is one of several, or some of
    its trials were left for the next call.
    """
    run = plan_of(request)
    planned = run.plan
    with stop_requests() as stop, held_session(run) as session:
        held = DeferredTrials()
        watched = SessionControl(stop, tell, request.until, request.together, held)
        look = _run_trials(session, planned, run.systems, watched)
        results = tuple(_last_results(session, planned))
        completed = CompletedSession(session, planned, results, look, tuple(held.met), tuple(held.left))
        over = not held.left and (look is None or look.ended != "time is up")
        if request.together is None and over and session.header.finished_at is None:
            rundir.mark_finished(session, time.time())
    return completed


def finish(completed: CompletedSession) -> None:
    """Mark a session whose trials ran concurrently as complete: the same command now starts a new one."""
    rundir.mark_finished(completed.session, time.time())


def _last_results(session: Session, planned: Plan) -> Iterator[Result]:
    """The last attempt of each trial that has one, in plan order."""
    last = session.last_attempts()
    return (read.result(last[trial.id]) for trial in planned.trials if trial.id in last)


def _launchers(planned: Plan, systems: Systems, spool: Path) -> dict[str, Launcher]:
    chosen = [systems.by_name[name] for name in planned.systems]
    return {system.name: launch.make(system.launcher, system.options, spool=spool) for system in chosen}


@dataclass(frozen=True)
class SessionControl:
    """The surroundings of a running session: stop requests, progress, and how far to go."""

    stop: StopRequest
    tell: Tell
    until: Limits | None
    together: Concurrency | None
    held: DeferredTrials


def _run_trials(session: Session, planned: Plan, systems: Systems, watched: SessionControl) -> Look | None:
    """Every trial of the plan; until decided, block by block, and then the look at which it ended."""
    launchers = _launchers(planned, systems, session.spool)
    facts = {f"suite.git.{name}": value for name, value in session.header.git.items()}
    runs = {trial.id: [a.run() for a in session.attempts_at(trial.id)] for trial in planned.trials}
    settled = [run for of_trial in runs.values() for run in of_trial if run.state.final and run.handle]
    for trial_id, number in session.header.repeated.items():
        runs[trial_id] = [run for run in runs[trial_id] if run.attempt > number]
    done = [attempts[-1] for t in planned.trials if trial_state(t, attempts := runs[t.id]) is TrialState.DONE]
    prepare([launchers[name] for name in {trial.system for trial in planned.trials if not runs[trial.id]}])
    teller = watched.tell(session, planned, done)
    progress = teller if watched.together is None else ConcurrentProgress(teller)
    try:
        _forget(settled, launchers, MOST_JOBS if watched.together else 1, progress.noted)
        for message in _other_tests(session, planned) if not done else ():
            progress.noted(message)
        if watched.together is None:
            if message := left_unfinished(session, planned):
                progress.noted(message)
            _note_duration(session, planned, done, progress)

        def run(trial: Trial) -> None:
            execution = Execution(
                session,
                launchers[trial.system],
                progress,
                watched.stop,
                facts,
                lambda: (attempt_run for of_trial in runs.values() for attempt_run in of_trial),
            )
            _run_trial(execution, trial, runs[trial.id], progress, watched.held)

        for trials in _stretches(planned, watched.together):
            if watched.until is not None and (
                message := interim_looks.overrun(trials[0].block, interim_looks.spent_s(runs), watched.until)
            ):
                progress.noted(message)
            _run_stretch(trials, runs, watched.together, run)
            if watched.until is not None and watched.held.left:
                return None  # a side is missing: more blocks of the other would decide nothing
            if watched.until is not None:
                look = _look(session, planned, trials[0].block, runs, watched.until)
                if look is not None:
                    progress.noted(look.words)
                if look is not None and look.ended is not None:
                    return look
        return None
    finally:
        progress.close()


def _note_duration(session: Session, planned: Plan, done: Sequence[Run], progress: Progress) -> None:
    """How long the rest will take, as far as known."""
    settled = {run.trial.id for run in done}
    left = [trial for trial in planned.trials if trial.id not in settled]
    for line in duration.lines(planned, duration.estimates(planned, left, session.path.parents[1])):
        progress.noted(line)


def _other_tests(session: Session, planned: Plan) -> Iterator[str]:
    """The newest earlier test of the same plan with a different maximum of blocks: this is a new test."""
    for earlier in reversed(rundir.sessions_of(session.path.parents[1], planned.suite)):
        if not planned.looks or earlier.name >= session.name:
            continue
        if earlier.header.suite_digest != planned.suite_digest or earlier.header.content:
            continue
        looks = earlier.plan().looks
        if looks and looks[-1] != planned.looks[-1]:
            yield (
                f"{earlier.id} was a test with at most {looks[-1]} blocks; at most {planned.looks[-1]} is a "
                "new test, which starts without runs: the looks of the other test were not planned for this "
                "one"
            )
            return


def _run_stretch(
    trials: Sequence[Trial],
    runs: Mapping[str, Sequence[Run]],
    together: Concurrency | None,
    run: Callable[[Trial], None],
) -> None:
    if together is None:
        for trial in trials:
            run(trial)
        return
    todo = [(trial, trial_state(trial, runs[trial.id])) for trial in trials]
    waiting = [trial for trial, how in todo if how in (TrialState.TO_BEGIN, TrialState.HELD)]
    run_stretch(waiting, [trial for trial, how in todo if how is TrialState.TO_TAKE_OVER], together, run)


def _stretches(planned: Plan, together: Concurrency | None) -> list[list[Trial]]:
    """What runs without a look in between: each block of a plan with looks, otherwise the whole plan."""
    if together is not None:
        return together.stretches(planned.trials)
    if not planned.looks:
        return [list(planned.trials)]
    return [list(block) for _, block in groupby(planned.trials, key=lambda trial: trial.block)]


def _look(
    session: Session, planned: Plan, blocks: int, runs: Mapping[str, Sequence[Run]], limits: Limits
) -> Look | None:
    """The look after this many blocks; None if none is planned and nothing ends the run."""
    begun = any(runs[trial.id] for trial in planned.trials if trial.block > blocks)
    # a block that started before an interruption is completed, however long it takes
    late = limits.max_time_s is not None and interim_looks.spent_s(runs) >= limits.max_time_s and not begun
    if blocks not in planned.looks and not late:
        return None
    results = [r for r in _last_results(session, planned) if r.run.trial.block <= blocks]
    return interim_looks.look(planned, blocks, results, read.metrics, late=late)


def _run_trial(
    execution: Execution, trial: Trial, runs: list[Run], progress: Progress, held: DeferredTrials
) -> None:
    """Attempts at one trial until it is settled or left; `runs` has the earlier ones, and grows."""
    while (todo := trial_state(trial, runs)) is not TrialState.DONE:
        if todo is not TrialState.TO_TAKE_OVER and held.hinders(trial):
            return
        # a job that an earlier Assay left is ended too: it is taken over, and followed no further
        if execution.stop.made and todo is not TrialState.TO_TAKE_OVER:
            raise InterruptedRun(
                f"interrupted; what was running has been ended. {execution.session.id} is kept: "
                "the same command resumes it"
            )
        if todo is TrialState.TO_TAKE_OVER:
            attempt = execution.session.attempts_at(trial.id)[-1]
            progress.trial_began(trial, attempt.number, adopted=True)
            runs[-1] = take_over(execution, attempt, runs[-1], trial)
        else:
            if explanation := choice(execution.launcher, trial.shape):
                progress.noted(f"{trial.system}: {explanation}")
            before = execution.session.attempts_at(trial.id)
            progress.trial_began(trial, before[-1].number + 1 if before else 1, adopted=False)
            attempt, run = begin(execution, trial)
            runs.append(run)
        after = trial_state(trial, runs)
        settled = after in (TrialState.DONE, TrialState.HELD)
        with execution.stop.at_once():
            result = read.result(attempt)
        progress.trial_ended(result, attempt, settled=settled)
        if after is TrialState.HELD:
            progress.noted(f"{trial.system}: {held.meet(runs[-1])}")
            return


def _forget(
    settled: Sequence[Run], launchers: Mapping[str, Launcher], at_once: int, note: Callable[[str], None]
) -> None:
    """The newest settled jobs may not have been removed yet: Assay may have been killed in between."""
    for run in sorted(settled, key=lambda run: run.created_at)[-at_once:]:
        if run.handle is not None:
            forget(launchers[run.trial.system], run.trial.system, run.handle, note)
