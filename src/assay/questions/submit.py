"""An MLPerf training submission, prepared from runs and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, Problem
from assay.questions.evidence import each, run_set, runs_directory
from assay.questions.score import round_of, scored_sets
from assay.submission import Description, SubmissionEntry

if TYPE_CHECKING:
    from assay.records import Result
    from assay.submission.checkers import Finding


@dataclass(frozen=True)
class SubmissionFolder:
    """A folder as MLPerf requires it.

    entries       the runs of each benchmark on each system
    descriptions  of the systems, with what is missing and where the runs differ
    without_code  benchmarks whose code is missing
    """

    path: Path
    entries: tuple[SubmissionEntry, ...]
    descriptions: tuple[Description, ...]
    without_code: tuple[str, ...]


@dataclass(frozen=True)
class Submission:
    """The result of `submit`: the folder, and the findings of MLPerf's own checkers."""

    folder: SubmissionFolder
    findings: tuple[Finding, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing and all checkers pass."""
        from assay.submission.description import missing

        lacking = self.folder.without_code or any(missing(d.fields) for d in self.folder.descriptions)
        return not lacking and not any(finding.error for finding in self.findings)

    def document(self, round_: str) -> dict[str, Any]:
        """The document, as its schema describes it."""
        from assay.submission.description import missing

        folder = self.folder
        return {
            "schema": "assay.submission/1",
            "folder": str(folder.path),
            "round": round_,
            "sets": [
                {"system": e.system, "benchmark": e.benchmark, "runs": len(e.files)} for e in folder.entries
            ],
            "systems": [
                {
                    "system": d.system,
                    "file": str(d.path),
                    "missing": missing(d.fields),
                    "differing": dict(d.differing),
                }
                for d in folder.descriptions
            ],
            "without_code": list(folder.without_code),
            "findings": [{"error": f.error, "text": f.text, "remedy": f.remedy} for f in self.findings],
        }


def submit(
    source: str | Sequence[str],
    *sources: str,
    round: str,  # noqa: A002 - the command's own word for it
    submitter: str,
    output: str | PathLike[str] = ".",
    runs: str | PathLike[str] | None = None,
    composed: Callable[[SubmissionFolder], None] | None = None,
) -> Submission:
    """Prepare a submission from runs, and have MLPerf's checkers check it, like `assay submit SOURCE…`.

    source     a folder of result files, or the name of runs
    round      whose rules apply, such as `"v5.1"`
    submitter  the submitter, which is also the folder's name
    output     directory in which the submitter's folder is created
    runs       directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    composed   takes the folder before the checkers read it, which takes a while

    Raises InputError if a source or the round can't be used, HostError without mlperf-logging.
    """
    from assay.rundir.files import safe_name
    from assay.submission import compose
    from assay.submission.checkers import check

    try:
        check_round(round)
    except ValueError as error:
        raise InputError(f"round: {error}") from error
    entries = _entries(each(source, *sources), runs_directory(runs))
    path = Path(output) / safe_name(submitter)
    descriptions = compose(entries, path, submitter)
    benchmarks = dict.fromkeys(entry.benchmark for entry in entries)
    without_code = tuple(name for name in benchmarks if not any((path / "benchmarks" / name).iterdir()))
    folder = SubmissionFolder(path, tuple(entries), tuple(descriptions), without_code)
    if composed is not None:
        composed(folder)
    return Submission(folder, tuple(check(path, round)))


def check_round(text: str) -> None:
    """Raises ValueError for an invalid round, or one without checkers."""
    from assay.targets import ROUNDS

    if round_of(text) not in ROUNDS[3:]:  # the package checker's, from v1.0 on
        raise ValueError(f"{text} has no checkers; {', '.join(ROUNDS[3:])} have")


def _entries(sources: Sequence[str], runs_dir: Path) -> list[SubmissionEntry]:
    """The runs of each benchmark on each system. Raises InputError for what can't be submitted."""
    entries: list[SubmissionEntry] = []
    problems: list[Problem] = []
    for source in sources:
        candidates = _of_folder(Path(source)) if Path(source).exists() else _of_runs(source, runs_dir)
        for entry in candidates:
            if isinstance(entry, Problem):
                problems.append(entry)
            else:
                entries.append(entry)
    twice = [names for names, count in Counter((e.system, e.benchmark) for e in entries).items() if count > 1]
    problems += [
        Problem(f"{benchmark} on {system}", "is named twice; name its runs once")
        for system, benchmark in twice
    ]
    if problems:
        raise InputError(problems)
    return entries


def _of_folder(folder: Path) -> Iterator[SubmissionEntry | Problem]:
    from assay.logs.result_sets import find_sets

    sets = find_sets([folder])
    for of_set, scored in zip(sets, scored_sets([folder]), strict=True):
        if scored.benchmark is None or scored.system is None:
            what = "benchmark or system is not known; lay it out as SYSTEM/BENCHMARK/result_0.txt"
            yield Problem(str(of_set.directory), what)
            continue
        stated = {**_stated([run.hyperparameters for run in scored.runs]), **of_set.system_facts}
        yield SubmissionEntry(scored.system, scored.benchmark, of_set.files, stated)


def _of_runs(reference: str, runs_dir: Path) -> Iterator[SubmissionEntry | Problem]:
    from assay.rundir.session import Session
    from assay.submission.description import agreed, described

    by_set: dict[tuple[str, str], list[Result]] = {}
    for result in run_set(runs_dir, reference).results:
        training = result.reading.training
        benchmark = training.benchmark if training else None
        if benchmark is None:
            yield Problem(
                result.run.id, "is not a training that prints MLPerf's lines and names its benchmark"
            )
            continue
        by_set.setdefault((result.run.trial.system, benchmark), []).append(result)
    for (system, benchmark), results in by_set.items():
        files = []
        for result in sorted(results, key=lambda result: (result.run.session, result.run.trial.block)):
            session, _, trial = result.run.id.rpartition("/")
            attempt = Session(runs_dir / session).last_attempts()[trial]
            attempt.run()  # registers the secrets in its logs, which are hidden from now on
            files.append(attempt.logs()[result.reading.training.file])  # type: ignore[union-attr]
        known = [described(result.provenance.nodes) for result in results if result.provenance]
        alike, _ = agreed(known)
        stated = _stated([result.reading.training.hyperparameters for result in results])  # type: ignore[union-attr]
        yield SubmissionEntry(system, benchmark, tuple(files), {**stated, **alike})


def _stated(facts: Sequence[Any]) -> dict[str, Any]:
    """What all logs of a set state identically about division and availability."""
    from assay.submission.description import AVAILABLE

    divisions = {of_run.get("submission_division") for of_run in facts}
    states = {of_run.get("submission_status") for of_run in facts}
    stated = {
        "division": divisions.pop() if len(divisions) == 1 else None,
        "status": AVAILABLE.get(str(states.pop())) if len(states) == 1 else None,
    }
    return {name: value for name, value in stated.items() if value is not None}
