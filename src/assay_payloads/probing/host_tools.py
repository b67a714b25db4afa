"""The machine's own programs, for facts that are in no file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

ToolOutput = Callable[..., "str | None"]  # like `Tools.output_of`, which tests replace

TOOL_PATIENCE_S = 10.0  # without a subnet manager, `sminfo` waits forever


class Tools:
    """Runs programs, and records failures."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def output_of(self, *argv: str, fine: tuple[int, ...] = (0,)) -> str | None:
        """A program's output; None if it is not installed, or failed, which `refused` then records.

        fine  exit codes that don't mean failure
        """
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, errors="replace", timeout=TOOL_PATIENCE_S, check=False
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            return None
        except subprocess.TimeoutExpired:
            self.refused.append(f"{' '.join(argv)}: no answer within {TOOL_PATIENCE_S:g} s")
            return None
        if done.returncode not in fine:
            why = " ".join((done.stderr.strip() or done.stdout.strip()).split())[:200]
            self.refused.append(f"{' '.join(argv)}: exit code {done.returncode}: {why}")
            return None
        return done.stdout
