"""The doctor of hosts reached over ssh: what each reports about itself, and what that means side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping

from assay import payload_files
from assay.checks import Check, number, text
from assay.checks import examine as machine
from assay.checks.examine import Hosts, placed_at, worst_of_each
from assay.errors import LaunchError
from assay.launch import programs
from assay.launch.platform import DoctorRequest, Examination
from assay.launch.ssh import SshSystem
from assay.launch.ssh.connection import Connection, clock_offset
from assay.launch.ssh.launcher import on_each
from assay.records import Scalar
from assay.secret_reference import texts
from assay.units import human_seconds

MOST_OFFSET_S = 0.1  # the logs of several hosts are compared to tenths of a second
# What hosts that run one job together should share, since the slowest rank sets the job's speed
ALIKE = (
    *("kernel", "os", "cpu.model", "cpu.cores", "cpu.allowed", "cpu.governor", "gpu.driver", "gpu.cuda"),
    *("gpu.count", "gpu.0.name", "python.version", "torch.version", "python.numpy"),
)
_LABELS = {"gpu.0.name": "GPU"}
TRY_OUT_S = 240.0  # a cold import of torch from a network file system takes minutes


def examine(hosts: Hosts) -> tuple[Check, ...]:
    """Which hosts respond, whether those are alike, and all checks of a machine for each of them."""
    there = {host: facts for host, facts in hosts.items() if "ssh.error" not in facts}
    if not there:
        return (reachable(hosts),)
    return (
        reachable(hosts),
        clocks(there),
        alike(there),
        *worst_of_each(placed_at(there, "ssh"), machine.examine),
    )


def reachable(hosts: Hosts) -> Check:
    """Whether each host allows the login, has the interpreter, and can keep a job."""
    errors = [str(facts["ssh.error"]) for facts in hosts.values() if "ssh.error" in facts]
    if errors:
        return Check(
            "hosts", "fail", f"{len(errors)} of {len(hosts)} can't be used: {errors[0]}", _rest(errors)
        )
    return Check("hosts", "ok", f"all {len(hosts)} respond: {', '.join(hosts)}")


def clocks(hosts: Hosts) -> Check:
    """How far the hosts' clocks are off this machine's."""
    offsets = {host: number(facts, "clock.offset_s") for host, facts in hosts.items()}
    known = {host: offset for host, offset in offsets.items() if offset is not None}
    if not known:
        return Check("clocks", "unknown", "no host reported its time")
    worst = max(known, key=lambda host: abs(known[host]))
    evidence = f"{worst} is off the most: {human_seconds(abs(known[worst]))}"
    if abs(known[worst]) > MOST_OFFSET_S:
        return Check("clocks", "warn", evidence, f"as root on {worst}: systemctl enable --now chronyd")
    return Check("clocks", "ok", evidence)


def alike(hosts: Hosts) -> Check:
    """Whether the hosts have the same processors, GPUs, kernel, driver, and software."""
    differing = []
    for name in ALIKE:
        values = {host: text(facts, name) for host, facts in hosts.items()}
        if len(set(values.values())) > 1:
            hosts_and_values = ", ".join(f"{host} {value or 'none'}" for host, value in values.items())
            differing.append(f"{_LABELS.get(name, name)}: {hosts_and_values}")
    if differing:
        remedy = "make the hosts the same, or put different hosts into separate systems"
        return Check("alike", "warn", "; ".join(differing), remedy)
    return Check(
        "alike", "ok", "the same kernel, processor, driver, and software" if len(hosts) > 1 else "one host"
    )


def _rest(errors: list[str]) -> str:
    return "" if len(errors) == 1 else f"then the others: {'; '.join(errors[1:4])}"


def examination(system: SshSystem, request: DoctorRequest) -> Examination:
    """What the doctor finds."""
    request.report("Examining all hosts and importing torch there …")
    tables = facts_of(system, request.data)
    return Examination(tables, examine(tables))


def facts_of(system: SshSystem, data: str | None = None) -> dict[str, Mapping[str, Scalar]]:
    """Host → its facts; `ssh.error` says why there are no others. `data`: directory whose files to read."""
    tables = on_each(
        lambda n: _host_facts(Connection(system.hosts[n], system), data), range(len(system.hosts))
    )
    return dict(zip(system.hosts, tables, strict=True))


def _host_facts(connection: Connection, data: str | None) -> dict[str, Scalar]:
    system, commands = connection.system, programs.doctor_commands(data)
    sources = payload_files.files(*(command[0] for command in commands))
    files = {name: source.decode() for name, source in sources.items()}
    stdin = json.dumps({"files": files, "programs": commands, "env": texts(system.env)}).encode()
    try:
        answer = connection.ask("try_out", system.directory, system.python, stdin=stdin, timeout_s=TRY_OUT_S)
    except LaunchError as error:
        return {"ssh.error": str(error)}
    facts = programs.combined_facts(answer["said"])
    return {**facts, "disk.free_bytes": answer["free_bytes"], **clock_offset(connection)}
