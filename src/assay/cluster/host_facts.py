"""What the doctor asks of each host that is reached by ssh: the probe, torch imported for real, its clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files

from assay import provenance
from assay.errors import LaunchError
from assay.launch.ssh import clocks
from assay.launch.ssh.connection import Connection
from assay.launch.ssh.launcher import on_each
from assay.launch.ssh.options import SshSystem
from assay.records import Scalar

PROGRAMS = ("probe.py", "torch_check.py")
TRY_OUT_S = 240.0  # a cold import of torch from a network file system takes minutes


def facts_of(system: SshSystem) -> dict[str, Mapping[str, Scalar]]:
    """Host → its facts; `ssh.error` says why there are no others."""
    tables = on_each(lambda n: _host(Connection(system.hosts[n], system)), range(len(system.hosts)))
    return dict(zip(system.hosts, tables, strict=True))


def _host(connection: Connection) -> dict[str, Scalar]:
    system = connection.system
    programs = {name: (files("assay.payloads") / name).read_text() for name in PROGRAMS}
    asked = json.dumps({"programs": programs, "env": system.env}).encode()
    try:
        answer = connection.ask("try_out", system.directory, system.python, stdin=asked, timeout_s=TRY_OUT_S)
    except LaunchError as error:
        return {"ssh.error": str(error)}
    (probed,) = provenance.parse([answer["said"]["probe.py"]]).nodes
    (torch,) = provenance.parse([answer["said"]["torch_check.py"]]).nodes
    own = {name: value for name, value in torch.items() if name.startswith("torch.")}
    if not own:
        own = {"torch.import_error": torch["unreadable"]}
    return {**probed, **own, "disk.free_bytes": answer["free_bytes"], **clocks.offset(connection)}
