"""The machine's own programs, asked for what no file tells."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

Said = Callable[..., "str | None"]  # as `Tools.said`, which tests replace

TOOL_PATIENCE_S = 10.0  # a subnet without a manager keeps `sminfo` waiting for ever


class Tools:
    """Asks programs, and keeps what was refused."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def said(self, *argv: str, fine: tuple[int, ...] = (0,)) -> str | None:
        """What a program printed; None where it is not installed, or failed, which `refused` then names.

        fine  exit codes by which it does not say that it failed
        """
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, errors="replace", timeout=TOOL_PATIENCE_S, check=False
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            return None
        except subprocess.TimeoutExpired:
            self.refused.append(f"{' '.join(argv)}: no answer in {TOOL_PATIENCE_S:g} s")
            return None
        if done.returncode not in fine:
            why = " ".join((done.stderr.strip() or done.stdout.strip()).split())[:200]
            self.refused.append(f"{' '.join(argv)}: exit code {done.returncode}: {why}")
            return None
        return done.stdout
