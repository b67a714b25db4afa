"""An MLPerf training submission, prepared from runs and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.errors import EXIT_OK, EXIT_WORSE, InputError, Problem
from assay.questions.evidence import run_set, runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reads,
    Reference,
    argument,
    function_of_many,
    option,
    progress_line,
    question,
    read_value,
)
from assay.questions.score import round_of, scored_sets
from assay.submission import Description, SubmissionEntry
from assay.units import counted
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from assay.records import Result
    from assay.submission import Finding
    from assay.view.blocks import Block


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


def _round_with_checkers(text: str) -> str:
    """The round. Raises ValueError for an invalid round, or one without checkers."""
    from assay.targets import ROUNDS

    if round_of(text) not in ROUNDS[3:]:  # the package checker's, from v1.0 on
        raise ValueError(f"{text} has no checkers; {', '.join(ROUNDS[3:])} have")
    return text


@question
class Submit(Question):
    """Prepare an MLPerf training submission from runs, and have MLPerf's own checkers check it.

    A SOURCE is a folder of result files, or names runs as `assay show` does. Logs become result_N.txt. Of the
    33 fields that describe a system, those known from the runs' provenance are filled in. The others are null
    in systems/SYSTEM.json: fill them in ("" if none applies) and run the command again; it keeps what you
    wrote.

    Then mlperf-logging's package, compliance, seed, convergence and system checkers run (pip install
    mlperf-logging), and each finding is shown with how to fix it.

    \b
    Examples:
      assay submit my-results/dgx/resnet --round v4.0 --submitter Example -o submission
      assay submit resnet:dgx bert:dgx --round v5.1 --submitter Example
      assay submit round-5:dgx --round v5.1 --submitter Example --json

    \b
    Exit codes: 0 nothing is missing and all checkers pass; 1 something is missing or a checker fails; 4 a
    source can't be used; 5 mlperf-logging is not installed.
    """

    sources: tuple[str, ...] = argument(parameters=("source", "sources"))
    round: Annotated[str, Reads(_round_with_checkers, "ROUND")] = option(
        "Round whose rules apply, such as v5.1."
    )
    submitter: str = option("The submitter, which is also the folder's name.", metavar="NAME")
    output: Reference = option(
        "Directory in which the submitter's folder is created.  [default: .]",
        default=".",
        metavar="DIRECTORY",
        names=("-o", "--output"),
        local=True,
    )
    runs: Reference | None = option(RUNS, default=None, local=True)
    composed: Callable[[SubmissionFolder], object] | None = progress_line(
        lambda folder: f"mlperf-logging checks {folder.path}", default=None
    )

    def answer(self) -> Submission:
        """The folder, and what the checkers find.

        Raises InputError if a source or the round can't be used, HostError without mlperf-logging.
        """
        from assay.rundir.files import safe_name
        from assay.submission import check, compose

        read_value("round", self.round, _round_with_checkers)
        entries = _entries(self.sources, runs_directory(self.runs))
        path = Path(self.output) / safe_name(self.submitter)
        descriptions = compose(entries, path, self.submitter)
        benchmarks = dict.fromkeys(entry.benchmark for entry in entries)
        without_code = tuple(name for name in benchmarks if not any((path / "benchmarks" / name).iterdir()))
        folder = SubmissionFolder(path, tuple(entries), tuple(descriptions), without_code)
        if self.composed is not None:
            self.composed(folder)
        return Submission(folder, tuple(check(path, self.round)), self.round)


submit = function_of_many(Submit, Submit.answer)


@dataclass(frozen=True)
class Submission(Answer):
    """The result of `submit`: the folder, and the findings of MLPerf's own checkers."""

    folder: SubmissionFolder
    findings: tuple[Finding, ...]
    round: str

    @property
    def complete(self) -> bool:
        """Whether nothing is missing and all checkers pass."""
        from assay.submission import missing

        lacking = self.folder.without_code or any(missing(d.fields) for d in self.folder.descriptions)
        return not lacking and not any(finding.error for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """Whether it is complete."""
        return EXIT_OK if self.complete else EXIT_WORSE

    def view(self) -> Iterator[Block]:
        """What is in the folder, what is missing there, and what the checkers find with how to fix it."""
        from assay.submission import FIELDS, missing

        folder = self.folder.path
        for entry in self.folder.entries:
            place = folder / "results" / entry.system / entry.benchmark
            yield Paragraph(f"{place}: {counted(len(entry.files), 'run')}")
        for description in self.folder.descriptions:
            lacking = missing(description.fields)
            known = f"{len(FIELDS) - len(lacking)} of {len(FIELDS)} fields known"
            yield Paragraph(f"{description.path}: {known}")
            width = max(map(len, lacking), default=0)
            for name in lacking:
                differ = " or ".join(map(str, description.differing.get(name, ())))
                about = f"the runs differ: {differ}" if differ else FIELDS[name]
                yield Paragraph(f"{name:{width}}  {about}", indented=True)
        for benchmark in self.folder.without_code:
            yield Paragraph(f"{folder / 'benchmarks' / benchmark}: empty; add the code and its README there")
        problems = "these problems" if self.findings else "no problem"
        end = ":" * bool(self.findings)
        yield Paragraph(f"mlperf-logging finds {problems} under the rules of {self.round}{end}")
        for finding in self.findings:
            yield Paragraph(f"{'error' if finding.error else 'warning'}: {finding.text}", indented=True)
            if finding.remedy:
                yield Paragraph(f"  {finding.remedy}", indented=True)

    def document(self) -> dict[str, Any]:
        """The document, as its schema describes it."""
        from assay.submission import missing

        folder = self.folder
        return {
            "schema": "assay.submission/1",
            "folder": str(folder.path),
            "round": self.round,
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
    from assay.formats.result_sets import find_sets

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
    from assay.submission import agreed, described

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
    from assay.submission import AVAILABLE

    divisions = {of_run.get("submission_division") for of_run in facts}
    states = {of_run.get("submission_status") for of_run in facts}
    stated = {
        "division": divisions.pop() if len(divisions) == 1 else None,
        "status": AVAILABLE.get(str(states.pop())) if len(states) == 1 else None,
    }
    return {name: value for name, value in stated.items() if value is not None}
