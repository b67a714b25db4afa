"""The logs of one run, in pages and searched, without secrets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.evidence import runs_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from assay.rundir.log_pages import LogLine, LogMatches, LogPage
    from assay.rundir.session import Attempt

LONGEST_WORDS = 200  # characters that can be searched for
_CONTEXT_LINES = 50  # read around a page, because a secret such as a key may be several lines


@dataclass(frozen=True)
class RunLogs:
    """The result of `run_logs`.

    attempt   its number
    attempts  numbers of all attempts at the trial
    bytes     log → its size
    last      of a failed attempt, the end of the log of the rank that failed first: at most ten lines,
              printable, without secrets
    """

    run: str
    attempt: int
    attempts: tuple[int, ...]
    bytes: Mapping[str, int]
    last: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Which logs there are."""
        from assay.records import to_plain

        return {"schema": "assay.logs/1", **to_plain(self)}


def run_logs(run: str, *, attempt: int | None = None, runs: str | PathLike[str] | None = None) -> RunLogs:
    """The logs of one attempt at a trial.

    run      `suite/session/trial`
    attempt  its number; None: the last
    runs     directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if there is no such run or attempt.
    """
    chosen, numbers = _attempt(runs_directory(runs), run, attempt)
    sizes = {name: path.stat().st_size for name, path in chosen.logs().items()}
    return RunLogs(run, chosen.number, numbers, sizes, tuple(_last_lines(chosen)))


def _last_lines(attempt: Attempt) -> Sequence[str]:
    from assay.records import RunState
    from assay.run.progress import last_lines

    try:
        run = attempt.run()
    except InputError:  # the logs of a damaged run can be read all the same
        return ()
    return last_lines(attempt, run.exits) if run.state is RunState.FAILED else ()


def read_log(
    run: str,
    log: str,
    *,
    first: int = 1,
    attempt: int | None = None,
    runs: str | PathLike[str] | None = None,
) -> LogPage:
    """At most 500 lines of a log from line `first` on, without secrets; fast wherever they are in it.

    run      `suite/session/trial`
    log      its name, such as `rank-0.log`
    attempt  its number; None: the last
    runs     directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if there is no such log, or it can't be read.
    """
    from assay.rundir.log_pages import MOST_LINES, read_page

    path = _log(runs_directory(runs), run, attempt, log)
    around = max(1, first - _CONTEXT_LINES)
    page = read_page(path, around, MOST_LINES + 2 * _CONTEXT_LINES)
    clean = _without_secrets(page.lines)
    begin = min(max(first, 1), page.total)
    return replace(page, lines=tuple(line for line in clean if begin <= line.number < begin + MOST_LINES))


def search_log(
    run: str,
    log: str,
    words: str,
    *,
    first: int = 1,
    most: int = 100,
    attempt: int | None = None,
    runs: str | PathLike[str] | None = None,
) -> LogMatches:
    """At most `most` lines that contain the words, from line `first` on; what a secret contains is not found.

    Of a long line, the part around the words.

    run      `suite/session/trial`
    log      its name, such as `rank-0.log`
    words    whatever their case
    attempt  its number; None: the last
    runs     directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if there is no such log, it can't be read, or there are no words or too many.
    """
    from assay import redact
    from assay.rundir.log_pages import search

    if not 1 <= len(words) <= LONGEST_WORDS:
        raise InputError(f"a search needs 1 to {LONGEST_WORDS} characters; found {len(words)}")
    return search(_log(runs_directory(runs), run, attempt, log), words, first, redact.text, most)


def _without_secrets(lines: Sequence[LogLine]) -> tuple[LogLine, ...]:
    """The lines, with secrets hidden, also those that are several lines."""
    from assay import redact

    alone = [redact.text(line.text) for line in lines]
    whole = redact.text("\n".join(alone), lambda secret: redact.REDACTED + "\n" * secret.count("\n"))
    texts = whole.split("\n")
    if len(texts) != len(lines):  # a secret that is known in another form than the log's
        texts = alone
    return tuple(replace(line, text=text) for line, text in zip(lines, texts, strict=True))


def _attempt(runs_dir: Path, run: str, number: int | None) -> tuple[Attempt, tuple[int, ...]]:
    from assay.rundir.session import Session
    from assay.store import parse

    parsed = parse(run)
    if parsed is None or parsed.session is None or parsed.trial is None or parsed.system is not None:
        raise InputError(f"{run}: expected suite/session/trial")
    parts = parsed.suite, parsed.session, parsed.trial
    if any(part.startswith(".") for part in parts):
        raise InputError(f"{run}: no run with this name")
    attempts = Session(runs_dir / parsed.suite / parsed.session).attempts_at(parsed.trial)
    chosen = next((attempt for attempt in reversed(attempts) if number in (None, attempt.number)), None)
    if chosen is None:
        what = "no run with this name" if not attempts else f"there is no attempt {number}"
        raise InputError(f"{run}: {what}; `assay show --trials` shows what is available")
    chosen.run()  # registers the secrets in its logs, which are hidden from now on
    return chosen, tuple(attempt.number for attempt in attempts)


def _log(runs_dir: Path, run: str, attempt: int | None, log: str) -> Path:
    chosen, _ = _attempt(runs_dir, run, attempt)
    logs = chosen.logs()
    if log not in logs:
        known = ", ".join(logs) or "none"
        raise InputError(f"{run}: it has no log {log!r}; its logs: {known}")
    path = logs[log]
    if not path.resolve().is_relative_to(runs_dir.resolve()):
        raise InputError(f"{run}: {log} is a link to a file that is not below {runs_dir}")
    return path
