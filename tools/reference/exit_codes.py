"""The exit codes, and the errors that lead to each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from page_text import table

from assay import errors

MEANINGS = {
    errors.EXIT_OK: ("The command did what you asked, and the answer is yes.", ""),
    errors.EXIT_WORSE: (
        "The answer is no: a trial failed, a requirement isn't met, a compared system is slower, or a "
        "rule is broken.",
        "Read the report: `assay show`, `assay compare`.",
    ),
    errors.EXIT_USAGE: (
        "The command line is wrong. `assay run` and `assay import` also: a file that it names doesn't exist.",
        "Add `--help`.",
    ),
    errors.EXIT_UNDECIDED: (
        "The answer isn't known: these runs can't decide it.",
        "Decide from new runs: `assay run SUITE --until decided`.",
    ),
    errors.EXIT_INPUT: (
        "An input can't be used: a suite, a log, a spreadsheet, or a name; of other commands also: a file "
        "doesn't exist.",
        "Fix the line that the message names.",
    ),
    errors.EXIT_ENVIRONMENT: (
        "A machine, platform or system can't do it: not logged in, not installed, disk full.",
        "Run `assay doctor SYSTEM`, then the same command again; it resumes the run.",
    ),
    errors.EXIT_BUSY: ("Another Assay process holds the run.", "Wait for it, or stop it."),
    errors.EXIT_INTERRUPTED: (
        "You interrupted the run (Ctrl-C or SIGTERM). No process is left. SIGTERM before anything is started "
        "ends a command by the signal itself: a shell shows 143.",
        "Run the same command again to resume.",
    ),
    errors.EXIT_READER_GONE: ("The program that reads the output has exited, like `head` in a pipe.", ""),
}


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Exit codes"
    yield "Every command ends with one of these codes, so that scripts and CI jobs can act on the answer.\n"
    yield from table(
        ("code", "meaning", "what to do"), ((f"`{code}`", *MEANINGS[code]) for code in sorted(_codes()))
    )
    yield "\n## In CI"
    yield "`assay run` judges trials and requirements: it ends with 1 if a trial failed or a requirement"
    yield "doesn't hold, and with 3 if a requirement is undecided or, with `--until decided`, a comparison."
    yield "It doesn't end with 1 because a system is slower than another. To let a CI job depend on a"
    yield "comparison, run `assay compare` (1: a verdict is `slower`; 3: one is undecided) or `assay gate`"
    yield "(1: worse by more than the margin; 3: undecided) after it."
    yield "\n## From Python"
    yield "The functions of [`assay.api`](python-api.md) raise these errors of `assay.errors` instead. All of"
    yield "them derive from `AssayError`; `exit_code` has the code.\n"
    yield from table(("error", "is a", "code", "meaning"), _errors(errors.AssayError))


def _codes() -> set[int]:
    return {
        value for name, value in vars(errors).items() if name.startswith("EXIT_") and isinstance(value, int)
    }


def _errors(kind: type[errors.AssayError]) -> Iterator[tuple[str, ...]]:
    first = (inspect.getdoc(kind) or "").partition("\n")[0]
    yield f"`{kind.__name__}`", f"`{kind.__base__.__name__}`", f"`{kind.exit_code}`", first
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _errors(child)
