"""The rules that MLPerf logs were checked against, and the result of each check, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from assay.analyse.mlperf.log_rules import RuleCheck, State
from assay.analyse.mlperf.rounds import RoundRules

_STYLES: Final[Mapping[State, str]] = {"ok": "green", "fail": "bold red", "not applicable": "dim"}


def rule_checks(rules: RoundRules, checks: Sequence[RuleCheck]) -> RenderableType:
    """The rules in a sentence, and a row for each check; logs follow the order of the runs."""
    return Group(Text(f"rule: {rules}"), checks_table(checks, whole="the set"))


def checks_table(checks: Sequence[RuleCheck], *, whole: str) -> RenderableType:
    """A row for each check and a count by result; `whole` is shown if a check has no log line."""
    table = Table(box=None, pad_edge=False)
    table.add_column("check", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("evidence", overflow="fold")
    table.add_column("where", overflow="fold")
    for check in checks:
        table.add_row(
            escape(check.rule),
            f"[{_STYLES[check.state]}]{check.state}[/]",
            escape(check.evidence),
            escape(check.where or whole),
        )
    return Group(table, Text(_tally(checks)))


def _tally(checks: Sequence[RuleCheck]) -> str:
    states = [check.state for check in checks]
    return ", ".join(f"{states.count(state)} {state}" for state in _STYLES) + "\n"
