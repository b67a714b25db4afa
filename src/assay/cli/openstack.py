"""`assay cluster openstack`: machines for trials, as commands, as a Heat template, for nova.conf."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli import options


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--as",
    "form",
    type=click.Choice(["commands", "heat", "nova"]),
    default="commands",
    show_default=True,
    help="Commands of the openstack client; a Heat template; settings for nova.conf and the hosts.",
)
@options.JSON
def openstack(file: Path, form: str, as_json: bool) -> None:
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
    from assay.cluster.openstack import (
        command_script,
        controller_settings,
        create_commands,
        extra_specs,
        heat_template,
        host_settings,
        image_properties,
        nova_settings,
        remove_commands,
    )
    from assay.launch.kubernetes.objects.manifests import as_yaml
    from assay.questions.openstack import openstack as machines

    machines_file = machines(file)
    if as_json:
        specs = {
            "extra_specs": extra_specs(machines_file),
            "image": image_properties(machines_file),
        }
        nova_conf = {"controllers": controller_settings(machines_file), "hosts": host_settings(machines_file)}
        actions = {
            "commands": create_commands(machines_file),
            "undo": remove_commands(machines_file),
            "heat": heat_template(machines_file),
        }
        options.echo_json({"schema": "assay.openstack/1", **specs, "nova": nova_conf, **actions})
        return
    shown = {
        "commands": lambda: command_script(machines_file),
        "heat": lambda: as_yaml([heat_template(machines_file)]),
        "nova": lambda: nova_settings(machines_file),
    }
    click.echo(shown[form](), nl=False)
