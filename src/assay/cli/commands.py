"""The commands, each imported when it is called, and one line on each, so that `assay --help` is fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from assay.cli.command_group import command_at
from assay.errors import AssayError, PluginError, ReaderGoneError
from assay.registry import EntryPoint, NamedEntries, registry

_ABOUT: Final[Mapping[str, str]] = {
    "try": "Compare commands by any figure that they print, until it is decided.",
    "demo": "Show three verdicts on this machine in a minute.",
    "init": "Write a starter suite for this machine, or the schema of a suite.",
    "doctor": "Check what is missing here, and show the command that fixes it.",
    "clean": "Find and remove what killed or abandoned runs left behind.",
    "cluster": "Grant runs on Kubernetes or OpenShift the rights they need.",
    "plan": "Show the trials of a suite and exactly what each would submit.",
    "run": "Run a suite and show progress; run it again to resume.",
    "queue": "Run suites one after the other, whatever becomes of this terminal.",
    "monitor": "Serve metrics to Prometheus, with alert rules and dashboards.",
    "watch": "Show what is running now, or watch any job: CPU, memory, disk, GPUs, ranks.",
    "sweep": "Find the slow nodes of a system, and the slow links between them.",
    "read": "Read logs, and say at once what they show.",
    "import": "Import logs, spreadsheets, and runs made elsewhere.",
    "score": "Score MLPerf training logs by the rules of their round.",
    "submit": "Prepare an MLPerf training submission from runs, and check it.",
    "show": "List runs, or show one: numbers, spread, doubts, provenance.",
    "diff": "Show what differs between two runs' settings, machines and software.",
    "compare": "Compare B with A: ratio, interval and verdict.",
    "gate": "Check in CI, by exit code, that A is no worse than its baseline.",
    "history": "Show a metric over sessions, and where it stepped.",
    "scale": "Show throughput, speed-up and efficiency over worker counts.",
    "goodput": "Show useful time, time between failures, and the best checkpoint interval.",
    "data": "Catalog labelled frames, and choose subsets by what is on them.",
    "stack": "Show which software runs how fast where; write container files.",
    "explain": "Explain what a doubt means and what to do about it.",
    "report": "Write a self-contained report page to share.",
    "serve": "Show runs and verdicts in a browser, and answer as JSON.",
    "push": "Send runs to a server, which takes them like import.",
    "export": "Write measurements as CSV, Parquet or JSON.",
    "index": "Rebuild the index of run directories.",
}
# names that are no more
RENAMED: Final = {"list": "show", "top": "watch", "schema": "init --schema"}
_PLACES: Final = {  # of those that are no question in `assay.questions` with the command's name
    **{name: f"assay.{name}.questions:COMMANDS" for name in ("cluster", "data", "monitor")},
    "import": "assay.questions.import_:Import",
    "queue": "assay.questions.queue:COMMANDS",
    "serve": "assay.web.serving:Serve",
    "stack": "assay.stacks:COMMANDS",
    "try": "assay.questions.try_:Try",
    "watch": "assay.monitor.questions.watch:Watch",
}
_EXPECTED: Final = (
    *(AssayError, ReaderGoneError, OSError, MemoryError, SystemExit),
    *(click.ClickException, click.Abort, click.exceptions.Exit),
)


def _guarded(entry: Any, plugin: EntryPoint) -> click.Command:
    """The command of a plug-in, whose unexpected exceptions name it."""
    try:
        command = command_at(entry)
    except TypeError as error:
        raise PluginError(f"{plugin}: {plugin.value} {error}") from None
    invoke = plugin.guarded(command.invoke, passes=_EXPECTED)
    command.invoke = invoke  # type: ignore[method-assign]
    return command


COMMANDS: Final[NamedEntries[click.Command]] = registry(
    "assay.commands",
    {name: _PLACES.get(name, f"assay.questions.{name}:{name.capitalize()}") for name in _ABOUT},
    object,
    adapt=_guarded,
    part=command_at,
)
"""In the order in which users typically need them, those of plug-ins last."""


def about() -> dict[str, str]:
    """Each command in one line, of a plug-in's that of its package. Imports none."""
    added = {name: entries[0] for name, entries in COMMANDS.plugin_entries().items()}
    return {**_ABOUT, **{n: f"{e.about or e.value} ({e.package} {e.version})" for n, e in added.items()}}
