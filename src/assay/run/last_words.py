"""What a failed job printed last, and the cause that one of our own programs gives there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay import redact
from assay.inputs import reading
from assay.records import RankExit
from assay.rundir.session import Attempt

_LINES = 10
_BYTES = 1 << 16
_WIDEST = 200  # characters of a line
_FIGURES = ":::MLLOG"
_OWN = re.compile(
    r"\w+\.py: rank \d+: (?P<why>.+)"
)  # as `Rank.fail` in assay_payloads/measuring/rank.py writes it


def last_lines(attempt: Attempt, exits: Sequence[RankExit]) -> list[str]:
    """The end of the log of the rank that failed first, else of rank 0: at most ten lines, printable,
    without secrets.

    Lines of figures are left out, since what went wrong isn't in them; where there is nothing else, the last
    one tells how far it came. Ranks that all came to their end have no last words: their result won't do.
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
    lines = [line for line in lines if _FIGURES not in line] or ([] if came_to_its_end else lines[-1:])
    return ["".join(c if c.isprintable() else "·" for c in line.expandtabs())[:_WIDEST] for line in lines]


def last_line(attempt: Attempt, exits: Sequence[RankExit]) -> str:
    """The last of them; "" where there is none."""
    return "".join(last_lines(attempt, exits)[-1:])


def own_cause(said: str) -> str:
    """Why a program of ours gave up, by the last line that it printed; "" for others."""
    found = _OWN.fullmatch(said)
    return "" if found is None else found["why"]
