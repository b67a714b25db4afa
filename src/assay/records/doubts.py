"""What speaks against a result: the kinds of doubt, and a doubt with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["invalid", "biased", "weak", "note"]

SEVERITIES: dict[Severity, str] = {
    "invalid": "the result or the claim is probably wrong",
    "biased": "the result may be shifted in one direction",
    "weak": "the claim is narrower or less certain than it looks",
    "note": "for your information; nothing speaks against the result",
}
"""Each severity, the gravest first, with its meaning."""

Subject = Literal["runs", "sides", "machines", "meanwhile", "network", "training", "inference"]

SUBJECTS: dict[Subject, str] = {
    "runs": "The runs",
    "sides": "Two sides, several sizes",
    "machines": "The machines, and what they can do",
    "meanwhile": "On the nodes, during the runs",
    "network": "Between two nodes",
    "training": "Training logs and published scores",
    "inference": "Inference runs",
}
"""Each subject that doubts can be about, with its title."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to take a result at face value: code, evidence, and remedy."""

    code: str
    evidence: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class DoubtKind:
    """What doubts of one kind have in common.

    code     its name, as in `assay explain CODE`
    means    what was found, and when the doubt is raised
    effect   its possible effect on the result
    remedy   what to do
    rates    for a test: how often it is a false alarm, and what it can detect; "" for a fact
    """

    code: str
    subject: Subject
    severity: Severity
    means: str
    effect: str
    remedy: str
    rates: str = ""

    def doubt(self, evidence: str, *rewordings: tuple[str, str]) -> Doubt:
        """A doubt of this kind; its remedy has no period at the end.

        rewordings  a phrase of the remedy, and its replacement in this case: ("the smaller size", "1x4")

        Raises ValueError if the remedy does not contain such a phrase.
        """
        remedy = self.remedy.removesuffix(".")
        for phrase, replacement in rewordings:
            if phrase not in remedy:
                raise ValueError(f"the remedy of {self.code} does not contain {phrase!r}")
            remedy = remedy.replace(phrase, replacement)
        return Doubt(self.code, evidence, remedy)
