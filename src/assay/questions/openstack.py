"""Machines on OpenStack for trials, from their file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError

if TYPE_CHECKING:
    from assay.cluster.openstack import MachinesFile


def openstack(file: str | PathLike[str]) -> MachinesFile:
    """The machines that a file describes, like `assay cluster openstack FILE` reads them.

    `assay.cluster.openstack` makes commands, a Heat template and nova.conf from them.

    Raises InputError with every finding and its line.
    """
    from assay.cluster.openstack import MachinesFile
    from assay.suite import document
    from assay.suite.findings import checked

    read = document.read(Path(file))
    machines, problems = (None, []) if read.problems else checked(MachinesFile, read.data, read.where)
    if machines is None:
        raise InputError([*read.problems, *problems])
    return machines
