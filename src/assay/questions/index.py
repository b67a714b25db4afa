"""The index of run directories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, Question, Reference, function, option, question
from assay.units import counted
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.errors import Problem
    from assay.view.blocks import Block


@question
class Index(Question):
    """Bring the index in line with the run directories: add what is new, remove what is gone.

    `assay run` and `assay import` do this themselves. It is only needed after run directories were copied,
    changed or deleted by hand. The index contains no data of its own: deleting it loses nothing.

    \b
    Examples:
      assay index
      assay index --rebuild

    Exits with 1 if a run directory can't be read, or if a session lacks a file; each is named, with what
    to do.
    """

    rebuild: bool = option("Start with an empty index and read every run directory.", default=False)
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> IndexUpdate:
        """What the index has now. Raises InputError if there is no such directory."""
        from assay import store
        from assay.run.index import update_index
        from assay.rundir.session import sessions

        directory = runs_directory(self.runs)
        if not directory.is_dir():
            raise InputError(f"{directory}: no such directory; name one with --runs")
        why = "--rebuild" if self.rebuild else store.trouble(directory)
        try:
            before = {} if why else store.known(directory)
        except store.DamagedIndexError as damaged:
            why, before = str(damaged), {}
        problems = update_index(directory, rebuild=why is not None)
        lost = [problem for session in sessions(directory) if (problem := session.loss) is not None]
        after = store.known(directory)
        return IndexUpdate(
            path=store.index_path(directory),
            runs=len(after),
            read=sum(before.get(run) != stamp for run, stamp in after.items()),
            gone=len(before.keys() - after.keys()),
            made_anew=why,
            problems=(*lost, *problems),
        )


index = function(Index, Index.answer)


@dataclass(frozen=True)
class IndexUpdate(Answer):
    """The result of `index`.

    path       of the index
    runs       that it now has; `read` of them anew, and `gone` since it was made
    made_anew  why it was rebuilt; None if it was not
    problems   run directories that could not be read, sessions that lack a file
    """

    path: Path
    runs: int
    read: int
    gone: int
    made_anew: str | None
    problems: tuple[Problem, ...]

    @property
    def exit_code(self) -> int:
        """1 if something can't be read."""
        return EXIT_WORSE if self.problems else EXIT_OK

    @property
    def notes(self) -> tuple[str, ...]:
        """The problems."""
        return tuple(f"assay: {problem}" for problem in self.problems)

    def view(self) -> Iterator[Block]:
        """How many runs it has."""
        anew = f"; rebuilt: {self.made_anew}" if self.made_anew else ""
        numbers = f"{counted(self.runs, 'run')}, {self.read} read, {self.gone} gone"
        yield Paragraph(f"{self.path}: {numbers}{anew}", wraps=False)

    def document(self) -> dict[str, Any]:
        """The document `assay.index/1`."""
        return {
            "schema": "assay.index/1",
            "index": str(self.path),
            "runs": self.runs,
            "read": self.read,
            "gone": self.gone,
            "made_anew": self.made_anew,
            "problems": [{"where": problem.where, "what": problem.what} for problem in self.problems],
        }
