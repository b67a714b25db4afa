"""Whether anything else needs this machine."""

from __future__ import annotations

from assay.errors import InputError
from assay.monitor.schedule import NodeIdleness, node_idleness
from assay.questions.question import Question, function, option, question
from assay.questions.values import Duration
from assay.units import seconds


@question
class Idleness(Question):
    """Check by exit code that nothing else uses this machine: CPUs, and use and memory of NVIDIA GPUs.

    A service of systemd starts a scheduled suite only if this succeeds.

    \b
    Examples:
      assay monitor idle
      assay monitor idle --for 10s --json

    \b
    Exit codes: 0 idle; 1 something else uses it; 4 the time is invalid; 5 this can't be found out.
    """

    for_: Duration = option("How long to look.  [default: 2s]", default=2.0, names=("--for",))

    def answer(self) -> NodeIdleness:
        """What this machine does. Raises HostError if it can't be found out."""
        try:
            return node_idleness(seconds(self.for_))
        except ValueError as error:
            raise InputError(str(error)) from None


idleness = function(Idleness, Idleness.answer)
