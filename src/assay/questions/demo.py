"""Three comparisons on this machine, which show what a verdict is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reference,
    function,
    option,
    progress_line,
    question,
)
from assay.questions.try_ import TrialVerdict, Try
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.view.blocks import Block

_WORK = "{python} -m assay_payloads.micro.demo"  # the interpreter is the one that runs Assay
_SECONDS = 16.0  # at most, for each comparison
_MARGIN = 0.05
_COMPARED: Final = (
    ("Are matrix products faster in single precision?", f"{_WORK} products --dtype {{float64,float32}}", ""),
    ("Is it faster to sum a list than a generator?", f"{_WORK} sums --over {{generator,list}}", ""),
    ("Does this machine agree with itself? The same command twice:", f"{_WORK} sums", f"{_WORK} sums"),
)


@question
class Demo(Question):
    """Show three verdicts on this machine in a minute: two differences, and a command compared with itself.

    Needs nothing but Assay itself. The last one should be no difference; on a busy machine, some are
    undecided, with the reason.

    \b
    Examples:
      assay demo
      assay demo --json
    """

    runs: Reference | None = option(RUNS, default=None, local=True)
    progress: Callable[[str], None] | None = progress_line(lambda text: text, default=None)

    def answer(self) -> Demonstration:
        """The verdicts."""
        verdicts = []
        for number, (_, command, other) in enumerate(_COMPARED, 1):
            report = self.progress
            verdicts.append(
                Try(
                    command,
                    vs=(other,) if other else (),
                    margin=_MARGIN,
                    max_time=_SECONDS,
                    runs=self.runs,
                    progress=None if report is None else _numbered(report, number),
                ).answer()
            )
        return Demonstration(tuple(verdicts))


demo = function(Demo, Demo.answer)


def _numbered(report: Callable[[str], None], number: int) -> Callable[[str], None]:
    return lambda text: report(f"{number} of {len(_COMPARED)}, {text}")


@dataclass(frozen=True)
class Demonstration(Answer):
    """The result of `demo`: its comparisons in their order."""

    verdicts: tuple[TrialVerdict, ...]

    def view(self) -> Iterator[Block]:
        """What each command is, and its verdict; where to go from here."""
        for (title, command, other), verdict in zip(_COMPARED, self.verdicts, strict=True):
            versus = f" --vs '{other}'" if other else ""
            yield Paragraph(title, "strong")
            yield Paragraph(f"assay try '{command}'{versus} --margin 5%", "dim", indented=True, wraps=False)
            yield Paragraph(verdict.headline, verdict.tone, indented=True)
            if reason := verdict.why_open:
                yield Paragraph(reason, indented=True)
        yield Paragraph("")
        yield Paragraph("Now yours: assay try 'python train.py --batch {16,64}'", wraps=False)

    def document(self) -> dict[str, Any]:
        """The document `assay.demo/1`."""
        return {"schema": "assay.demo/1", "comparisons": [verdict.document() for verdict in self.verdicts]}
