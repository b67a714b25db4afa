"""What a sweep measures and where: its suites, run as `assay run` runs any, and their figures by node."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError

if TYPE_CHECKING:
    from assay.analyse.sweep import Figures, Measured
    from assay.cluster.rounds import Group
    from assay.records import Metric, Result, Run
    from assay.run.drive import Completed
    from assay.suite.model import System


@dataclass(frozen=True)
class Sweep:
    """Runs the sweep's suites as `assay run` runs any; `failures` gathers the runs without a result."""

    where: System
    runs_dir: Path
    repeats: int
    device: str
    seconds: float
    new: bool
    quiet: bool
    failures: list[Result] = field(default_factory=list)

    def groups(self, suite: Callable[..., dict[str, Any]], groups: Sequence[Group]) -> Measured:
        """The suite on each group of hosts."""
        from assay.analyse.sweep import Measured, figures_of
        from assay.cluster.sweep import systems

        made = systems(self.where.definition, groups)
        completed = self._completed(suite([*made], self.repeats, self.device, self.seconds), made)
        self.failures.extend(completed.failures)
        figures = figures_of(completed.results, _metrics(completed))
        return Measured(completed.session.id, figures, dict(zip(made, groups, strict=True)))

    def _completed(self, suite: Mapping[str, Any], made: Mapping[str, Any]) -> Completed:
        from assay.cli.run import reindex, teller
        from assay.run.drive import Asked, run_suite

        with tempfile.TemporaryDirectory() as folder:  # the session keeps both files
            file = Path(folder, "suite.yaml")
            file.write_text(json.dumps(suite))
            file.with_name("systems.yaml").write_text(json.dumps(made))
            asked = Asked(file, self.runs_dir, new=self.new, command_line=("assay", *sys.argv[1:]))
            completed = run_suite(asked, teller(self.quiet))
        reindex(self.runs_dir)
        return completed


def _metrics(completed: Completed) -> Callable[[Run], Mapping[str, Metric]]:
    from assay.cli.evidence import Named

    return Named(completed.session.id, completed.results, completed.plan).metrics()


def stored(runs_dir: Path, reference: str) -> tuple[Figures, set[str]]:
    """An earlier sweep's figures, and its sessions. Raises InputError where there are none."""
    from assay.analyse.sweep import figures_of
    from assay.cli.evidence import named, ready

    ready(runs_dir)
    found = named(runs_dir, reference)
    figures = figures_of(found.results, found.metrics())
    if not figures:
        raise InputError(f"--baseline {reference}: none of its runs gave a figure")
    return figures, {result.run.session for result in found.results}
