"""`assay doctor`: what is missing on this machine, and the command that mends it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options
from assay.cli.systems import SYSTEMS, named
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


@click.command()
@click.argument("system", required=False)
@SYSTEMS
@options.RUNS
@click.option("--deep", is_flag=True, help="On Kubernetes: also run a pod, and look from inside it.")
@options.JSON
def command(system: str | None, systems_file: Path | None, runs_dir: Path, deep: bool, as_json: bool) -> None:
    """Say what is missing here, and the command that mends it.

    Looks at this machine and at the interpreter that trials would use: that of SYSTEM in systems.yaml, else
    the one that runs Assay. Changes nothing. Of a SYSTEM on Slurm it looks at the cluster, and runs one job
    there that ends within seconds; of containers, from inside one; of hosts behind ssh, at each of them; of
    Kubernetes, at what its API shows this user, and with --deep from inside a pod.

    \b
    Examples:
      assay doctor                          this machine
      assay doctor dgx --systems lab.yaml   with the interpreter of the system `dgx`
      assay doctor lab --deep               a cluster, and a pod on it
      assay doctor --json                   checks and the facts they judged

    \b
    ✓ fine   ! figures may suffer   ✗ trials can't run or would mislead   ? nothing tells

    Exit codes: 0 nothing fails; 4 no such system; 5 something fails.
    """
    facts, checks = _examined(named(system, systems_file), _existing(runs_dir), deep)
    if as_json:
        document = {"schema": "assay.doctor/1", "system": system, "checks": [*map(asdict, checks)]}
        options.echo_json({**document, "facts": facts})
    else:
        _show(checks)
    sys.exit(EXIT_ENVIRONMENT if any(check.state == "fail" for check in checks) else EXIT_OK)


def _examined(system: System, directory: Path, deep: bool) -> tuple[Mapping[str, Any], Sequence[Check]]:
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
            told = slurm_facts.facts_of(asked, directory)
        return told, slurm.examine(told)
    if isinstance(asked, KubernetesSystem):
        return _cluster(asked, deep)
    if isinstance(asked, ContainerSystem):
        from assay.cluster import container, container_facts

        with _progress(f"Asking {system.launcher}, importing torch in a container …"):
            told = container_facts.facts_of(system.launcher, asked, directory)
        return told, container.examine(told)
    if isinstance(asked, SshSystem):
        from assay.cluster import host_facts, hosts

        with _progress("Looking at all hosts, importing torch there …"):
            tables = host_facts.facts_of(asked)
        return tables, hosts.examine(tables)
    if isinstance(asked, LocalSystem):
        from assay.cluster import doctor, probe_here

        with _progress("Looking at this machine, importing torch …"):
            told = probe_here.facts_here(asked.python or sys.executable, asked.env, directory)
        return told, doctor.examine(told)
    raise InputError(f"{system.name} is reached through {system.launcher}; doctor has no checks for it")


def _cluster(asked: KubernetesSystem, deep: bool) -> tuple[Mapping[str, Any], Sequence[Check]]:
    from assay.cluster.kubernetes import deep as inside
    from assay.cluster.kubernetes import doctor

    with _progress("Asking the cluster …"):
        told, checks = doctor.examine(asked)
    if not deep or not told:
        return told, checks
    with _progress("Running a pod …"):
        seen, more = inside.examine(asked)
    return {**told, **seen}, (*checks, *more)


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
    words = {"fail": "to mend", "warn": "to consider", "unknown": "not known", "ok": "fine"}
    told = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
    if counts["fail"]:
        return f"Not ready: {told}."
    return f"Ready: {told}."
