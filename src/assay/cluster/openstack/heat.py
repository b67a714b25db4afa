"""The machines as a Heat orchestration template (HOT).

Source: heat, template_guide/hot_spec and template_guide/openstack.
"""

from __future__ import annotations

from typing import Any

from assay.cluster.openstack.flavor import extra_specs, image_properties
from assay.cluster.openstack.machines import MachinesFile

VERSION = "2018-08-31"  # Rocky: sufficient here, and supported by every maintained Heat


def template(machines: MachinesFile) -> dict[str, Any]:
    """Flavor, group, and servers. Upload the image first, with its properties: Heat can't read files."""
    properties = " ".join(f"--property {key}={value}" for key, value in image_properties(machines).items())
    return {
        "heat_template_version": VERSION,
        "description": f"{machines.name}: {machines.servers.count} machines for trials; the image needs "
        f"{properties}",
        "parameters": _parameters(machines),
        "resources": {"flavor": _flavor(machines), "group": _group(machines), "servers": _servers(machines)},
        "outputs": {
            "addresses": {
                "description": "Addresses of the machines: the hosts of a system with launcher ssh",
                "value": {"get_attr": ["servers", "first_address"]},
            }
        },
    }


def _parameters(machines: MachinesFile) -> dict[str, Any]:
    named = {
        "image": (machines.name, "glance.image"),
        "key": (machines.servers.key, "nova.keypair"),
        "network": (machines.servers.network, "neutron.network"),
    }
    return {
        name: {"type": "string", "default": default, "constraints": [{"custom_constraint": constraint}]}
        for name, (default, constraint) in named.items()
    }


def _flavor(machines: MachinesFile) -> dict[str, Any]:
    sizes: dict[str, Any] = {"vcpus": machines.cpus, "ram": machines.memory, "disk": machines.disk}
    properties = {"name": machines.name, **sizes, "extra_specs": extra_specs(machines)}
    if machines.project is not None:
        properties |= {"is_public": False, "tenants": [machines.project]}
    return {"type": "OS::Nova::Flavor", "properties": properties}


def _group(machines: MachinesFile) -> dict[str, Any]:
    properties = {"name": machines.name, "policies": [machines.servers.apart]}
    return {"type": "OS::Nova::ServerGroup", "properties": properties}


def _servers(machines: MachinesFile) -> dict[str, Any]:
    server = {
        "name": f"{machines.name}-%index%",
        "flavor": {"get_resource": "flavor"},
        "image": {"get_param": "image"},
        "key_name": {"get_param": "key"},
        "networks": [{"network": {"get_param": "network"}}],
        "scheduler_hints": {"group": {"get_resource": "group"}},
    }
    definition = {"type": "OS::Nova::Server", "properties": server}
    properties = {"count": machines.servers.count, "resource_def": definition}
    return {"type": "OS::Heat::ResourceGroup", "properties": properties}
