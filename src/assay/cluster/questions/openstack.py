"""Machines on OpenStack for trials: as commands, as a Heat template, for nova.conf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from assay.cluster import openstack as machines
from assay.cluster.openstack import MachinesFile
from assay.errors import InputError
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.questions.question import Answer, Question, argument, option, question
from assay.questions.values import File
from assay.suite import document
from assay.suite.findings import checked
from assay.view.blocks import Block, Verbatim

Form = Literal["commands", "heat", "nova"]


@question
class Machines(Question):
    """Print what creates the machines that FILE describes: flavor, image, server group, servers.

    PCI passthrough or vGPU, NUMA nodes, dedicated CPUs, huge pages. Contacts no cloud and changes nothing.
    The machines are then hosts of a system with launcher ssh, and `assay doctor` checks from inside whether
    each GPU is near its CPUs, whether huge pages are available, and whether the hypervisor hides itself.

    \b
    Examples:
      assay cluster openstack machines.yaml --as nova        what an administrator merges first
      assay cluster openstack machines.yaml | sh
      assay cluster openstack machines.yaml --as heat > stack.yaml

    \b
    Exit codes: 0 printed; 4 the file can't be used.
    """

    file: File = argument()
    form: Form = option(
        "Commands of the openstack client; a Heat template; settings for nova.conf and the hosts.",
        default="commands",
        names=("--as",),
    )

    def answer(self) -> PrintedMachines:
        """What creates the machines."""
        return PrintedMachines(openstack(self.file), self.form)


def openstack(file: str | PathLike[str]) -> MachinesFile:
    """The machines that a file describes, like `assay cluster openstack FILE` reads them.

    `assay.cluster.openstack` makes commands, a Heat template and nova.conf from them.

    Raises InputError with every finding and its line.
    """
    read = document.read(Path(file))
    described, problems = (None, []) if read.problems else checked(MachinesFile, read.data, read.where)
    if described is None:
        raise InputError([*read.problems, *problems])
    return described


@dataclass(frozen=True)
class PrintedMachines(Answer):
    """What creates the machines, in one of its forms."""

    machines: MachinesFile
    form: Form

    def view(self) -> Iterator[Block]:
        """The text of this form."""
        if self.form == "commands":
            yield Verbatim(machines.command_script(self.machines))
        elif self.form == "heat":
            yield Verbatim(as_yaml([machines.heat_template(self.machines)]))
        else:
            yield Verbatim(machines.nova_settings(self.machines))

    def document(self) -> dict[str, Any]:
        """All forms."""
        return {
            "schema": "assay.openstack/1",
            "extra_specs": machines.extra_specs(self.machines),
            "image": machines.image_properties(self.machines),
            "nova": {
                "controllers": machines.controller_settings(self.machines),
                "hosts": machines.host_settings(self.machines),
            },
            "commands": machines.create_commands(self.machines),
            "undo": machines.remove_commands(self.machines),
            "heat": machines.heat_template(self.machines),
        }
