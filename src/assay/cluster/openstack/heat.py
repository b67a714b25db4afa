"""The machines as a Heat orchestration template (HOT).

Source: heat, template_guide/hot_spec and template_guide/openstack.
"""

from __future__ import annotations

from typing import Any

from assay.cluster.openstack.flavor import extra_specs, image_properties
from assay.cluster.openstack.machines import MachinesFile

VERSION = "2018-08-31"  # Rocky: sufficient here, and supported by every maintained Heat


def template(wanted: MachinesFile) -> dict[str, Any]:
    """Flavor, group, and servers. Upload the image first, with its properties: Heat can't read files."""
    asked = " ".join(f"--property {key}={value}" for key, value in image_properties(wanted).items())
    return {
        "heat_template_version": VERSION,
        "description": f"{wanted.name}: {wanted.servers.count} machines for trials; the image needs {asked}",
        "parameters": _parameters(wanted),
        "resources": {"flavor": _flavor(wanted), "group": _group(wanted), "servers": _servers(wanted)},
        "outputs": {
            "addresses": {
                "description": "Addresses of the machines: the hosts of a system with launcher ssh",
                "value": {"get_attr": ["servers", "first_address"]},
            }
        },
    }


def _parameters(wanted: MachinesFile) -> dict[str, Any]:
    named = {
        "image": (wanted.name, "glance.image"),
        "key": (wanted.servers.key, "nova.keypair"),
        "network": (wanted.servers.network, "neutron.network"),
    }
    return {
        name: {"type": "string", "default": default, "constraints": [{"custom_constraint": constraint}]}
        for name, (default, constraint) in named.items()
    }


def _flavor(wanted: MachinesFile) -> dict[str, Any]:
    sizes: dict[str, Any] = {"vcpus": wanted.cpus, "ram": wanted.memory, "disk": wanted.disk}
    properties = {"name": wanted.name, **sizes, "extra_specs": extra_specs(wanted)}
    if wanted.project is not None:
        properties |= {"is_public": False, "tenants": [wanted.project]}
    return {"type": "OS::Nova::Flavor", "properties": properties}


def _group(wanted: MachinesFile) -> dict[str, Any]:
    properties = {"name": wanted.name, "policies": [wanted.servers.apart]}
    return {"type": "OS::Nova::ServerGroup", "properties": properties}


def _servers(wanted: MachinesFile) -> dict[str, Any]:
    server = {
        "name": f"{wanted.name}-%index%",
        "flavor": {"get_resource": "flavor"},
        "image": {"get_param": "image"},
        "key_name": {"get_param": "key"},
        "networks": [{"network": {"get_param": "network"}}],
        "scheduler_hints": {"group": {"get_resource": "group"}},
    }
    definition = {"type": "OS::Nova::Server", "properties": server}
    properties = {"count": wanted.servers.count, "resource_def": definition}
    return {"type": "OS::Heat::ResourceGroup", "properties": properties}
