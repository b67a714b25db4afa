"""The machines as `openstack` commands, in the order of creation, and the commands that remove them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from assay.cluster.openstack.flavor import extra_specs, image_properties
from assay.cluster.openstack.machines import MachinesFile

GROUP_ID = "$(openstack server group show {} --format value --column id)"

# The client defaults to 2.1, which has no soft policy
LATER = {"soft-anti-affinity": "--os-compute-api-version 2.15 "}


def make(machines: MachinesFile) -> list[str]:
    """Flavor, image, group, and servers, as shell commands."""
    name, servers = machines.name, machines.servers
    flavor = ["--vcpus", str(machines.cpus), "--ram", str(machines.memory), "--disk", str(machines.disk)]
    if machines.project is not None:
        flavor += ["--private", "--project", machines.project]
    image = ["--disk-format", "qcow2", "--container-format", "bare", "--file", machines.image.file]
    group = GROUP_ID.format(shlex.quote(name))
    server = ["--flavor", name, "--image", name, "--key-name", servers.key, "--network", servers.network]
    count = ["--min", str(servers.count), "--max", str(servers.count), "--wait", name]
    return [
        _line("flavor create", [*flavor, *_properties(extra_specs(machines)), name]),
        _line("image create", [*image, *_properties(image_properties(machines)), name]),
        _line(f"{LATER.get(servers.apart, '')}server group create", ["--policy", servers.apart, name]),
        f"{_line('server create', server)} --hint group={group} {shlex.join(count)}",
    ]


def undo(machines: MachinesFile) -> list[str]:
    """The commands that remove everything; if there are several servers, they are called NAME-1, NAME-2, …"""
    name, count = machines.name, machines.servers.count
    servers = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
    return [
        _line("server delete", ["--wait", *servers]),
        _line("server group delete", [name]),
        _line("image delete", [name]),
        _line("flavor delete", [name]),
    ]


def _properties(table: Mapping[str, str]) -> list[str]:
    return [word for key, value in table.items() for word in ("--property", f"{key}={value}")]


def _line(command: str, arguments: list[str]) -> str:
    return f"openstack {command} {shlex.join(arguments)}"


def text(machines: MachinesFile) -> str:
    """A script, with the commands that undo it as comments."""
    back = "\n".join(f"# {line}" for line in undo(machines))
    return "\n".join(make(machines)) + f"\n\n# to undo it\n{back}\n"
