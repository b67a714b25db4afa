"""What is missing on a system, and the command that fixes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, HostError
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reads,
    Reference,
    argument,
    function,
    option,
    progress_line,
    question,
    read_value,
)
from assay.questions.systems import on_command_line, system_named
from assay.registry import EntryPoint, entry_points, trouble
from assay.units import rate
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.checks import Check
    from assay.view.blocks import Block, Tone

_SYMBOLS: Mapping[str, tuple[str, Tone]] = {
    "ok": ("✓", ""),
    "warn": ("!", "biased"),
    "fail": ("✗", "invalid"),
    "unknown": ("?", "undecided"),
}


@question
class Doctor(Question):
    """Check what is missing here, and show the command that fixes it.

    Checks this machine and the interpreter that trials would use: that of SYSTEM in systems.yaml, or else
    the one that runs Assay. Changes nothing. For a SYSTEM on Slurm or LSF, it checks the cluster and runs
    one job there that ends within seconds; for containers, it checks from inside one; for hosts behind ssh,
    on each of them; for Kubernetes, what its API shows this user, and with --deep or --data from inside a
    pod.

    Packages that add something to Assay are checked as well: which they are, and why one can't be used.

    --data reads past the page cache, in a pod through SYSTEM's volumes, and reports the speed of ten rounds.

    \b
    Examples:
      assay doctor                          this machine
      assay doctor dgx --systems lab.yaml   with the interpreter of the system `dgx`
      assay doctor lab --deep               a cluster, and pods on it
      assay doctor lab --data /data --at-least 2GB/s
      assay doctor --json                   checks and the facts they judged

    \b
    ✓ fine   ! results may suffer   ✗ trials can't run or would mislead   ? unknown

    Exit codes: 0 nothing fails; 4 no such system; 5 something fails.
    """

    system: str | None = argument(default=None)
    systems: Reference | None = option(
        "File with the system.  [default: systems.yaml here]", default=None, metavar="FILE", local=True
    )
    deep: bool = option("On Kubernetes: also run pods, and check from inside them.", default=False)
    data: str | None = option(
        "Read files in DIR for five seconds, where the trials run.", default=None, metavar="DIR"
    )
    at_least: Annotated[str | float, Reads(rate, "SPEED")] | None = option(
        "Fail if DIR is read more slowly, such as 2GB/s.", default=None
    )
    runs: Reference | None = option(RUNS, default=None, local=True)
    progress: Callable[[str], None] | None = progress_line(str, default=None)

    def __post_init__(self) -> None:
        if self.at_least is not None and self.data is None:
            raise ValueError("--at-least applies to what --data DIR reads; add --data DIR")
        if self.data is not None and not self.data.startswith("/"):
            raise ValueError(f"--data: found {self.data!r}; expected an absolute path, as trials see it")

    def answer(self) -> Checkup:
        """The checks of the system, or of this machine, and of the plug-ins."""
        from assay import launch
        from assay.launch.platform import DoctorRequest

        least = read_value("at_least", self.at_least, rate)
        where = system_named(self.system, self.systems)
        request = DoctorRequest(
            on_command_line(where.name, self.systems),
            _existing(runs_directory(self.runs)),
            self.data,
            self.deep,
            report=self.progress or (lambda _line: None),
        )
        diagnosis = launch.PLATFORMS[where.launcher].doctor(where.options, request)
        speed = () if self.data is None else _data_speed(diagnosis.facts, least)
        plugins = tuple((entry, trouble(entry)) for entry in entry_points())
        checks = (*diagnosis.checks, *speed, *_plugin_checks(plugins))
        return Checkup(diagnosis.facts, checks, plugins, self.system)


doctor = function(Doctor, Doctor.answer)


@dataclass(frozen=True)
class Checkup(Answer):
    """The result of `doctor`: the facts, the checks of them and of the plug-ins, and the plug-ins.

    plugins  the entry points of other packages, and why each can't be used, "" if it can
    system   its name; None: this machine
    """

    facts: Mapping[str, Any]
    checks: tuple[Check, ...]
    plugins: tuple[tuple[EntryPoint, str], ...] = ()
    system: str | None = None

    @property
    def ready(self) -> bool:
        """Whether no check fails."""
        return not any(check.state == "fail" for check in self.checks)

    @property
    def exit_code(self) -> int:
        """Whether something fails."""
        return EXIT_OK if self.ready else EXIT_ENVIRONMENT

    def view(self) -> Iterator[Block]:
        """Each check with the command that fixes it, then how many of each kind there are."""
        width = max(len(check.name) for check in self.checks)
        for check in self.checks:
            symbol, tone = _SYMBOLS[check.state]
            yield Paragraph(f"{symbol} {check.name:{width}}  {check.evidence}", tone, wraps=False)
            if check.remedy:
                yield Paragraph(f"  {'':{width}}  → {check.remedy}", "strong", wraps=False)
        counts = {state: sum(check.state == state for check in self.checks) for state in _SYMBOLS}
        labels = {"fail": "to fix", "warn": "to consider", "unknown": "unknown", "ok": "fine"}
        summary = ", ".join(f"{counts[state]} {label}" for state, label in labels.items() if counts[state])
        yield Paragraph(f"\n{'Ready' if self.ready else 'Not ready'}: {summary}.", wraps=False)

    def document(self) -> dict[str, Any]:
        """The checks and the facts that they judged; a plug-in's trouble is "" if it can be used."""
        return {
            "schema": "assay.doctor/1",
            "system": self.system,
            "checks": [*map(asdict, self.checks)],
            "facts": self.facts,
            "plugins": [{**entry._asdict(), "trouble": why} for entry, why in self.plugins],
        }


def _plugin_checks(plugins: Sequence[tuple[EntryPoint, str]]) -> Iterator[Check]:
    """One for each package."""
    from assay.checks import Check

    for package in dict.fromkeys(entry.package for entry, _ in plugins):
        own = [(entry, why) for entry, why in plugins if entry.package == package]
        entry = own[0][0]
        if troubles := [why.removeprefix(f"plug-in {package} ") for _, why in own if why]:
            remedy = f"fix it if it is yours; else install another version of {package}, or none"
            yield Check(f"plug-in {package}", "warn", "; ".join(troubles), remedy)
        else:
            adds = ", ".join(f"{entry.name} ({entry.group.removeprefix('assay.')})" for entry, _ in own)
            yield Check(f"plug-in {package}", "ok", f"{entry.version} in {entry.place}: adds {adds}")


def _data_speed(facts: Mapping[str, Any], at_least: float | None) -> tuple[Check, ...]:
    """The speed as measured here, or as each of several hosts measured it."""
    from assay.checks import machine
    from assay.checks.examine import worst_of_each

    tables = {name: table for name, table in facts.items() if isinstance(table, Mapping)}
    return tuple(
        worst_of_each(tables or {"here": facts}, lambda table: (machine.data_speed(table, at_least),))
    )


def _existing(directory: Path) -> Path:
    """The directory, or the nearest existing one above it: the disk that runs would be stored on."""
    absolute = directory.absolute()
    for candidate in (absolute, *absolute.parents):
        if candidate.is_dir():
            return candidate
    raise HostError(f"{absolute}: no directory above it exists")
