"""`assay doctor`: what is missing on this machine, and the command that fixes it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options
from assay.cli.systems import SYSTEMS, named, on_command_line
from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, HostError, InputError

if TYPE_CHECKING:
    from assay.cluster.check import Check
    from assay.launch.kubernetes.options import KubernetesSystem
    from assay.suite.model import System

_SYMBOLS = {
    "ok": ("✓", "green"),
    "warn": ("!", "yellow"),
    "fail": ("✗", "bold red"),
    "unknown": ("?", "cyan"),
}


class Rate(click.ParamType[float]):
    """A speed as a person writes it, in bytes a second."""

    name = "speed"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Ends with a usage error for what is none."""
        from assay.units import convert, parse_quantity

        try:
            written = parse_quantity(value)
            return convert(written.value, written.unit, "B/s")
        except ValueError as error:
            self.fail(f"{error}; write a speed like 2GB/s", param, ctx)


@click.command()
@click.argument("system", required=False)
@SYSTEMS
@options.RUNS
@click.option("--deep", is_flag=True, help="On Kubernetes: also run pods, and look from inside them.")
@click.option("--data", metavar="DIR", help="Read files of DIR for five seconds, where the trials run.")
@click.option("--at-least", type=Rate(), help="Fail where DIR is read more slowly, like 2GB/s.")
@options.JSON
def command(
    system: str | None,
    systems_file: Path | None,
    runs_dir: Path,
    deep: bool,
    data: str | None,
    at_least: float | None,
    as_json: bool,
) -> None:
    """Say what is missing here, and the command that fixes it.

    Looks at this machine and at the interpreter that trials would use: that of SYSTEM in systems.yaml, else
    the one that runs Assay. Changes nothing. Of a SYSTEM on Slurm it looks at the cluster, and runs one job
    there that ends within seconds; of containers, from inside one; of hosts behind ssh, at each of them; of
    Kubernetes, at what its API shows this user, and with --deep or --data from inside a pod.

    --data reads past the page cache, in a pod through SYSTEM's volumes, and tells the speed of ten rounds.

    \b
    Examples:
      assay doctor                          this machine
      assay doctor dgx --systems lab.yaml   with the interpreter of the system `dgx`
      assay doctor lab --deep               a cluster, and pods on it
      assay doctor lab --data /data --at-least 2GB/s
      assay doctor --json                   checks and the facts they judged

    \b
    ✓ fine   ! figures may suffer   ✗ trials can't run or would mislead   ? nothing tells

    Exit codes: 0 nothing fails; 4 no such system; 5 something fails.
    """
    if at_least is not None and data is None:
        raise click.UsageError("--at-least: of what is read by --data DIR; name that too")
    if data is not None and not data.startswith("/"):
        raise click.UsageError(f"--data: found {data!r}; expected an absolute path, as the trials see it")
    facts, checks = _examined(named(system, systems_file), systems_file, _existing(runs_dir), deep, data)
    if data is not None:
        checks = (*checks, *_data_speed(facts, at_least))
    if as_json:
        document = {"schema": "assay.doctor/1", "system": system, "checks": [*map(asdict, checks)]}
        options.echo_json({**document, "facts": facts})
    else:
        _show(checks)
    sys.exit(EXIT_ENVIRONMENT if any(check.state == "fail" for check in checks) else EXIT_OK)


def _examined(
    system: System, systems_file: Path | None, directory: Path, deep: bool, data: str | None
) -> tuple[Mapping[str, Any], Sequence[Check]]:
    """What was found out about a system, and what the checks make of it."""
    from assay.launch.kubernetes.options import KubernetesSystem
    from assay.launch.local import LocalSystem
    from assay.launch.podman.options import ContainerSystem
    from assay.launch.slurm.options import SlurmSystem
    from assay.launch.ssh.options import SshSystem

    asked = system.options
    if isinstance(asked, SlurmSystem):
        from assay.cluster import slurm, slurm_facts

        with _progress("Asking Slurm, running a short job …"):
            told, seen = slurm_facts.facts_of(asked, directory, data)
        return {**told, **seen}, slurm.examine(told, seen)
    if isinstance(asked, KubernetesSystem):
        return _cluster(asked, on_command_line(system.name, systems_file), deep, data)
    if isinstance(asked, ContainerSystem):
        from assay.cluster import container, container_facts

        with _progress(f"Asking {system.launcher}, importing torch in a container …"):
            told = container_facts.facts_of(system.launcher, asked, directory, data)
        return told, container.examine(told)
    if isinstance(asked, SshSystem):
        from assay.cluster import host_facts, hosts

        with _progress("Looking at all hosts, importing torch there …"):
            tables = host_facts.facts_of(asked, data)
        return tables, hosts.examine(tables)
    if isinstance(asked, LocalSystem):
        from assay.cluster import doctor, probe_here
        from assay.secret_reference import texts

        with _progress("Looking at this machine, importing torch …"):
            told = probe_here.facts_here(asked.python or sys.executable, texts(asked.env), directory, data)
        return told, doctor.examine(told)
    raise InputError(f"{system.name} is reached through {system.launcher}; doctor has no checks for it")


def _cluster(
    asked: KubernetesSystem, words: str, deep: bool, data: str | None
) -> tuple[Mapping[str, Any], Sequence[Check]]:
    from assay.cluster.kubernetes import doctor

    running = ", running pods" if deep or data is not None else ""
    with _progress(f"Asking the cluster{running} …"):
        return doctor.examine(asked, words, deep, data)


def _data_speed(facts: Mapping[str, Any], at_least: float | None) -> tuple[Check, ...]:
    """The speed as it was found here, or as each of several hosts found it."""
    from assay.cluster import data, hosts

    tables = {name: table for name, table in facts.items() if isinstance(table, Mapping)}
    return tuple(hosts.each(tables or {"here": facts}, lambda table: (data.speed(table, at_least),)))


def _existing(directory: Path) -> Path:
    """The directory, or the nearest one above it that exists: the disk that runs would come to lie on."""
    absolute = directory.absolute()
    for candidate in (absolute, *absolute.parents):
        if candidate.is_dir():
            return candidate
    raise HostError(f"{absolute}: no directory above it exists")


def _progress(words: str) -> Any:
    """A line on the terminal while work goes on; nothing where standard error is a file."""
    from rich.console import Console

    return Console(stderr=True).status(words)


def _show(checks: Sequence[Check]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    width = max(len(check.name) for check in checks)
    for check in checks:
        symbol, style = _SYMBOLS[check.state]
        line = Text.assemble((symbol, style), f" {check.name:{width}}  {check.evidence}")
        console.print(line, soft_wrap=True)
        if check.remedy:  # never folded here: a command that is cut by line ends can't be copied
            console.print(Text(f"  {'':{width}}  → {check.remedy}", "bold"), soft_wrap=True)
    console.print(Text(f"\n{_summary(checks)}"), soft_wrap=True)


def _summary(checks: Sequence[Check]) -> str:
    counts = {state: sum(check.state == state for check in checks) for state in _SYMBOLS}
    words = {"fail": "to fix", "warn": "to consider", "unknown": "not known", "ok": "fine"}
    told = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
    if counts["fail"]:
        return f"Not ready: {told}."
    return f"Ready: {told}."
