"""Write the table in docs/launchers/kubernetes-causes.md: `python tools/… [--check]`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from assay.launch.kubernetes.causes import RULES, Rule
from assay.records import Extent

TARGET = Path(__file__).resolve().parent.parent / "docs" / "launchers" / "kubernetes-causes.md"
BEGIN, END = "<!-- the table -->\n", "<!-- its end -->\n"
HEAD = "| cause | it says | from | then | met by | what to do |\n|---|---|---|---|---|---|\n"
MET_BY = {Extent.TRIAL: "this trial", Extent.SHAPE: "its shape", Extent.SYSTEM: "its system"}


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + HEAD + "".join(map(_row, RULES)) + END + rest.partition(END)[2]


def _row(rule: Rule) -> str:
    cells = (rule.code, _plain(rule.what), _from(rule), _then(rule), MET_BY[rule.extent], _plain(rule.remedy))
    return f"| {' | '.join(cells)} |\n"


def _plain(words: str) -> str:
    """A message with `…` for what the cluster names in it."""
    return re.sub(r"\{\w+\}", "…", words)


def _from(rule: Rule) -> str:
    return ", ".join(rule.reasons.split()[:2])


def _then(rule: Rule) -> str:
    return ("ends" if rule.final else "waits") + (", tried again" if rule.platform else "")


def main() -> None:
    """Write it, or with --check fail where it is stale."""
    text = TARGET.read_text()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(page(text))
    elif text != page(text):
        sys.exit(f"{TARGET.name} is stale; run: python tools/kubernetes_causes_page.py")


if __name__ == "__main__":
    main()
