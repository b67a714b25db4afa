"""What needs a person's look first: the newest session of each suite, judged."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, get_args

from assay.errors import AssayError, InputError
from assay.questions.browsing import browse, has_runs, newest_sessions
from assay.questions.evidence import runs_directory
from assay.units import all_of, counted, rough_seconds

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from assay.store import SessionCounts
    from assay.view.contents import Contents
    from assay.view.sweep import SweepReport

AttentionKind = Literal[  # the gravest first
    "clock", "failed", "damaged", "requirement", "regression", "slower", "node", "stale-baseline",
    "undecided", "unfinished",
]  # fmt: skip
MOST_SUITES = 12  # of which the newest session is judged, the newest suites
MOST_RUNS = 5000  # of a suite in whose history regressions are looked for: more take seconds
_EARLIER = 400  # sets of a baseline, among which its newest result is
_CLOCKS_AGREE_S = 300.0
_MOST_KEPT = 256  # sessions whose judgment is kept while they don't change


@dataclass(frozen=True)
class AttentionItem:
    """One thing to look at, in a session `suite/session`; `words` is one sentence."""

    session: str
    kind: AttentionKind
    words: str


def attention(*, runs: str | PathLike[str] | None = None) -> tuple[AttentionItem, ...]:
    """What is off in the newest session of each of the newest suites, the gravest first, then the newest.

    Failed requirements, slower sides, slow nodes of a sweep, failed and unfinished runs, and sessions that
    can't be read, as `assay report` and `assay show` find them; steps for the worse in primary metrics, as
    `assay history` finds them, in suites of at most 5,000 runs; baselines that were not measured again;
    sessions of a time that is still to come. A session that has not changed is not judged again. Before the
    first run, nothing is off.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    """
    directory = runs_directory(runs)
    if not has_runs(runs=directory):
        return ()
    now = time.time() + _CLOCKS_AGREE_S
    newest = newest_sessions(MOST_SUITES, one_per_suite=True, runs=directory)
    ahead = [session for session in newest if session.created_at > now]
    if ahead:  # it is judged only where its suite has no other
        newest = newest_sessions(MOST_SUITES, one_per_suite=True, until=now, runs=directory)
        known = {session.suite for session in newest}
        newest = [*newest, *(session for session in ahead if session.suite not in known)]
    items = [_of_a_time_to_come(session) for session in ahead]
    for session in newest:
        items += _items_of(directory, session)
    return tuple(sorted(items, key=lambda item: get_args(AttentionKind).index(item.kind)))


def _of_a_time_to_come(counts: SessionCounts) -> AttentionItem:
    """Not kept: what it says depends on the time of day."""
    sentence = (
        f"Its newest run is of a time that is {rough_seconds(counts.created_at - time.time())} from now: the "
        "clock of the machine that made it, or of this one, is wrong. Until then, commands that name only "
        "the suite mean this session."
    )
    return AttentionItem(counts.reference, "clock", sentence)


_kept: OrderedDict[tuple[object, ...], tuple[AttentionItem, ...]] = OrderedDict()
_keeping = Lock()


def _items_of(runs_dir: Path, counts: SessionCounts) -> tuple[AttentionItem, ...]:
    from assay.rundir.session import Session

    name = counts.reference
    key = (runs_dir, name, *Session(runs_dir / name).stamps().values())
    with _keeping:
        known = _kept.get(key)
    if known is None:
        known = tuple(_judged(runs_dir, counts))
        with _keeping:
            _kept[key] = known
            while len(_kept) > _MOST_KEPT:
                _kept.popitem(last=False)
    return known


def _judged(runs_dir: Path, counts: SessionCounts) -> Iterator[AttentionItem]:
    from assay.questions.report import report
    from assay.view.contents import Contents

    name, failed, finished, unfinished = counts.reference, counts.failed, counts.finished, counts.open
    if failed:
        who = all_of(failed, "run") if not finished else f"{failed} of {counted(failed + finished, 'run')}"
        yield AttentionItem(name, "failed", f"{who} failed.".capitalize())
    if unfinished:
        so_far = "no run" if not finished else counted(finished, "run")
        sentence = f"{counted(unfinished, 'run')} unfinished; {so_far} finished so far."
        yield AttentionItem(name, "unfinished", sentence)
    try:
        about = report(name, runs=runs_dir, with_identity=True).about
    except AssayError as error:  # what it says is what has to be looked at
        yield AttentionItem(name, "damaged", str(error))
        return
    if not isinstance(about, Contents):
        yield from _of_sweep(name, about)
        return
    yield from _of_contents(name, about)
    yield from _stale_baseline(runs_dir, counts)
    for metric in dict.fromkeys(about.primary.values()):
        yield from _regressions(runs_dir, name, metric)


def _stale_baseline(runs_dir: Path, counts: SessionCounts) -> Iterator[AttentionItem]:
    """If the suite names a baseline that has no result in its newest session."""
    from assay.questions.evidence import run_set
    from assay.store import Filter
    from assay.view.sentences.history import when

    plan = run_set(runs_dir, counts.reference).plan
    if plan is None or plan.baseline is None or plan.baseline in counts.measured:
        return
    earlier = browse(Filter(suite=counts.suite, system=plan.baseline), limit=_EARLIER, runs=runs_dir)
    newest = next((row for row in earlier.rows if row["finished"]), None)
    last = (
        "it was never measured"
        if newest is None
        else (f"its newest result is of {when(newest['created_at'])} UTC, in {newest['session']}")
    )
    yield AttentionItem(
        counts.reference, "stale-baseline", f"The baseline {plan.baseline} has no result here; {last}."
    )


def _regressions(runs_dir: Path, name: str, metric: str) -> Iterator[AttentionItem]:
    """The newest step of each history of a metric, if it is for the worse."""
    from assay.questions.history import history
    from assay.store import Filter
    from assay.view.sentences import history as words

    suite = name.partition("/")[0]
    if browse(Filter(suite=suite), trials=True, limit=1, runs=runs_dir).total > MOST_RUNS:
        return
    try:
        histories = history(metric, suite=suite, runs=runs_dir)
    except InputError:  # no run reports it
        return
    for annotated in histories:
        step = annotated.history.steps[-1] if annotated.history.steps else None
        if step is not None and step.better is False:
            where = f"On {annotated.history.system}, {words.place(annotated.history)}"
            change = f"{words.changed_by(step)}, {words.locate_step(annotated.history, step)}"
            yield AttentionItem(name, "regression", f"{where} {change}.")


def _of_contents(name: str, contents: Contents) -> Iterator[AttentionItem]:
    from assay.view.report import reported_claims

    kinds: Mapping[str, AttentionKind] = {
        "fails": "requirement",
        "slower": "slower",
        "undecided": "undecided",
    }
    for _, claims in reported_claims(contents):
        for claim in claims.claims:
            if claim.kind in kinds:
                yield AttentionItem(name, kinds[claim.kind], claim.sentence)


def _of_sweep(name: str, swept: SweepReport) -> Iterator[AttentionItem]:
    for answer in swept.plain()["answers"]:
        yield AttentionItem(name, "node", f"{answer['verdict']}: {answer['sentence']}")


def attention_document(attention: Sequence[AttentionItem]) -> dict[str, Any]:
    """The document."""
    from assay.records import to_plain

    return {"schema": "assay.attention/1", "attention": [to_plain(item) for item in attention]}
