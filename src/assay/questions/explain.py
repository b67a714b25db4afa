"""What doubts mean."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.question import Answer, Question, argument, function, question
from assay.view.blocks import Lead, Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assay.records import DoubtKind
    from assay.view.blocks import Block

WIDEST_MEANING = 52  # characters next to the longest code, in 80 columns


@question
class Explain(Question):
    """Explain what the doubt CODE means, its possible effect, and the remedy; without CODE, list all doubts.

    \b
    Examples:
      assay explain
      assay explain not-interleaved
      assay explain drift --json
    """

    code: str | None = argument(default=None)

    def answer(self) -> DoubtExplanation:
        """One doubt, or all."""
        return DoubtExplanation(self.kinds(), self.code)

    def kinds(self) -> Mapping[str, DoubtKind]:
        """Code → the kind of doubt. Raises InputError with the nearest code if there is none of this name."""
        from assay.analyse.doubts import KINDS

        if self.code is None:
            return dict(KINDS.items())
        if self.code not in KINDS:
            near = get_close_matches(self.code.lower().replace("_", "-"), KINDS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"there is no doubt {self.code}; {hint}`assay explain` lists all doubts")
        return {self.code: KINDS[self.code]}


explain = function(Explain, Explain.kinds)


@dataclass(frozen=True)
class DoubtExplanation(Answer):
    """Kinds of doubts: one that was named, or all by subject."""

    kinds: Mapping[str, DoubtKind]
    code: str | None

    def view(self) -> Iterator[Block]:
        """Meaning, effect, remedy and error rates of one; of all, a line each."""
        from assay.records import SEVERITIES, SUBJECTS

        if self.code is not None:
            kind = self.kinds[self.code]
            yield Lead(f"{kind.code} ({kind.severity}: {SEVERITIES[kind.severity]})")
            parts = {"What": kind.means, "Effect": kind.effect, "Remedy": kind.remedy}
            parts["Error rates"] = kind.rates
            yield from (Paragraph(f"{title}: {text}") for title, text in parts.items() if text)
            yield from _detection(kind.code)
            return
        bodies = []
        for subject, title in SUBJECTS.items():
            kinds = [kind for kind in self.kinds.values() if kind.subject == subject]
            rows = (TableRow((kind.code, _in_short(kind.means))) for kind in kinds)
            bodies.append(TableBody(title, tuple(rows)))
        yield Table("", ("", ""), tuple(bodies), frozenset({0, 1}))
        yield Paragraph("\n`assay explain CODE` has the severity, effect, remedy and error rates.")

    def document(self) -> dict[str, Any]:
        """The document `assay.explain/1`."""
        return {"schema": "assay.explain/1", "doubts": [_doubt_as_data(code) for code in self.kinds]}


def _in_short(meaning: str) -> str:
    """The first clause on one line, cut where the line ends."""
    clause = re.split(r"[.:;]( |$)| \(", meaning, maxsplit=1)[0]
    return textwrap.shorten(clause, WIDEST_MEANING, placeholder=" …")


def _detection(code: str) -> Iterator[Table]:
    """How often the doubt is raised in simulations, rightly and wrongly."""
    from assay.analyse.doubts.rates import POWER, RUNS

    if code in POWER:
        power = POWER[code]
        rates = [(f"nothing wrong: {power.clean}", power.false_alarm), *power.troubles()]
        rows = (TableRow((name, *(f"{rate[n]:.1%}" for n in RUNS))) for name, rate in rates)
        yield Table("Rate, simulated", ("", *(f"n = {n}" for n in RUNS)), (TableBody("", tuple(rows)),))


def _doubt_as_data(code: str) -> dict[str, Any]:
    from assay.analyse.doubts import KINDS
    from assay.analyse.doubts.rates import POWER

    kind = KINDS[code]
    plain: dict[str, Any] = {"code": code, "severity": kind.severity, "means": kind.means}
    plain |= {"effect": kind.effect, "remedy": kind.remedy, "rates": kind.rates}
    if code in POWER:
        power = POWER[code]
        plain["detection"] = {
            "false_alarm": dict(power.false_alarm),
            "troubles": [{"trouble": name, "power": dict(power)} for name, power in power.troubles()],
        }
    return plain
