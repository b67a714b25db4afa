"""What speaks against a figure: the kinds of doubt there are, and a doubt with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["invalid", "biased", "weak", "note"]

SEVERITIES: dict[Severity, str] = {
    "invalid": "the figure or the claim probably does not hold as it stands",
    "biased": "the result may be shifted one way",
    "weak": "the claim is narrower or less sure than it looks",
    "note": "for your information; nothing speaks against the figure",
}
"""Each severity, the gravest first, with what it means."""

Subject = Literal["runs", "sides", "machines", "meanwhile", "network", "training", "inference"]

SUBJECTS: dict[Subject, str] = {
    "runs": "The runs",
    "sides": "Two sides, several sizes",
    "machines": "The machines, and what they can do",
    "meanwhile": "On the nodes, while the runs ran",
    "network": "Between two nodes",
    "training": "Training logs and published scores",
    "inference": "Inference runs",
}
"""Each subject that doubts can be about, with its title."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to take a figure at face value: code, the evidence in figures, what to do."""

    code: str
    evidence: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class DoubtKind:
    """Everything that doubts of one kind have in common.

    code     its name, as in `assay explain CODE`
    means    what was seen, and when the doubt is raised
    effect   what it may do to the result
    remedy   what to do
    rates    of a test: how often it is raised where nothing is wrong, and what it can see; "" for a fact
    """

    code: str
    subject: Subject
    severity: Severity
    means: str
    effect: str
    remedy: str
    rates: str = ""

    def doubt(self, evidence: str, *rewordings: tuple[str, str]) -> Doubt:
        """A doubt of this kind; its remedy has no full stop at the end.

        rewordings  a phrase of the remedy, and what it is in this case: ("the smaller size", "1x4")

        Raises ValueError if the remedy has no such phrase.
        """
        remedy = self.remedy.removesuffix(".")
        for phrase, words in rewordings:
            if phrase not in remedy:
                raise ValueError(f"the remedy of {self.code} does not say {phrase!r}")
            remedy = remedy.replace(phrase, words)
        return Doubt(self.code, evidence, remedy)
