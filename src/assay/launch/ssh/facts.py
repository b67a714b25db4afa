"""The doctor's facts of each host reached over ssh: those of its programs there, and the clock."""

from __future__ import annotations

import json
from collections.abc import Mapping

from assay import payload_files
from assay.errors import LaunchError
from assay.launch import programs
from assay.launch.ssh import clocks
from assay.launch.ssh.connection import Connection
from assay.launch.ssh.launcher import on_each
from assay.launch.ssh.options import SshSystem
from assay.records import Scalar
from assay.secret_reference import texts

TRY_OUT_S = 240.0  # a cold import of torch from a network file system takes minutes


def facts_of(system: SshSystem, data: str | None = None) -> dict[str, Mapping[str, Scalar]]:
    """Host → its facts; `ssh.error` says why there are no others. `data`: directory whose files to read."""
    tables = on_each(lambda n: _host(Connection(system.hosts[n], system), data), range(len(system.hosts)))
    return dict(zip(system.hosts, tables, strict=True))


def _host(connection: Connection, data: str | None) -> dict[str, Scalar]:
    system, commands = connection.system, programs.doctor_commands(data)
    sources = payload_files.files(*(command[0] for command in commands))
    files = {name: source.decode() for name, source in sources.items()}
    stdin = json.dumps({"files": files, "programs": commands, "env": texts(system.env)}).encode()
    try:
        answer = connection.ask("try_out", system.directory, system.python, stdin=stdin, timeout_s=TRY_OUT_S)
    except LaunchError as error:
        return {"ssh.error": str(error)}
    facts = programs.combined_facts(answer["said"])
    return {**facts, "disk.free_bytes": answer["free_bytes"], **clocks.offset(connection)}
