"""The last lines of a failed job, and the cause that one of Assay's programs gives there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay import redact
from assay.inputs import reading
from assay.logs.mllog import TOKEN
from assay.records import RankExit
from assay.rundir.session import Attempt

_LINES = 10
_BYTES = 1 << 16
_WIDEST = 200  # characters per line
_OWN = re.compile(
    r"\w+\.py: rank \d+: (?P<why>.+)"
)  # the form that `Rank.fail` in assay_payloads/measuring/rank.py writes


def last_lines(attempt: Attempt, exits: Sequence[RankExit]) -> list[str]:
    """The end of the log of the rank that failed first, otherwise of rank 0: at most ten lines, printable,
    without secrets.

    Lines with figures are left out, since they don't show what went wrong; if there is nothing else, the last
    one shows how far the job came. If all ranks finished, there are no last lines: the result is the problem.
    """
    rank = next((e.rank for e in exits if e.first), 0)
    path = attempt.logs().get(f"rank-{rank}.log")
    if path is None:
        return []
    with reading(path) as file:
        file.seek(max(path.stat().st_size - _BYTES, 0))
        text = file.read().decode(errors="replace")
    lines = [line for line in redact.text(text).splitlines() if line.strip()][-_LINES:]
    came_to_its_end = bool(exits) and all(e.exit_code == 0 for e in exits)
    lines = [line for line in lines if TOKEN.decode() not in line] or ([] if came_to_its_end else lines[-1:])
    return ["".join(c if c.isprintable() else "·" for c in line.expandtabs())[:_WIDEST] for line in lines]


def last_line(attempt: Attempt, exits: Sequence[RankExit]) -> str:
    """The last one; "" if there is none."""
    return "".join(last_lines(attempt, exits)[-1:])


def own_cause(line: str) -> str:
    """Why one of Assay's programs gave up, from its last line; "" for other programs."""
    match = _OWN.fullmatch(line)
    return "" if match is None else match["why"]
