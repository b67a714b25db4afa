"""Hosts reached over ssh, as a platform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.errors import InputError
from assay.launch.launcher import Launcher
from assay.launch.platform import (
    Binding,
    DoctorRequest,
    Examination,
    Member,
    NodeAccess,
    NodeQuery,
    Platform,
    chosen,
)
from assay.launch.ssh.options import SshSystem


def _launcher(system: SshSystem, _directory: Path) -> Launcher:
    from assay.launch.ssh.launcher import SshLauncher

    return SshLauncher(system)


def _doctor(system: SshSystem, request: DoctorRequest) -> Examination:
    from assay.launch.ssh.doctor import examine, facts_of

    request.report("Examining all hosts and importing torch there …")
    tables = facts_of(system, request.data)
    return Examination(tables, examine(tables))


def _members(system: SshSystem, query: NodeQuery) -> Sequence[Member]:
    if query.idle or query.by:
        raise InputError(
            f"{'--idle' if query.idle else '--by'}: hosts over ssh report neither who uses them nor what "
            "they share; remove it, and list the hosts to use with --nodes"
        )
    return [Member(host) for host in chosen(system.hosts, query.named)]


PLATFORM = Platform(
    SshSystem,
    _launcher,
    _doctor,
    # `master_address` belongs to the system's first host; a group meets at its own first host
    NodeAccess(_members, Binding("hosts", without=("master_address",)), lambda _definition, _slow: ()),
)
