"""What OpenStack's own code says of what is rendered for it; runs where that code is installed.

    python openstack_judges.py commands|specs|template

Takes a JSON document on each line of its input, and prints a line for each: null where all is well, else what
was refused. It takes seconds to import, so one process judges all.
"""

import contextlib
import importlib.metadata
import io
import json
import sys
from typing import Any
from unittest.mock import MagicMock

GROUPS = ("openstack.compute.v2", "openstack.image.v2")


def commands(lines: list[list[str]]) -> None:
    """The client's own parsers, one a command; each ends the program where it refuses."""
    known = {
        point.name.replace("_", " "): point
        for group in GROUPS
        for point in importlib.metadata.entry_points().select(group=group)
    }
    for words in lines:
        asked = " ".join(words)
        name = next(name for name in sorted(known, key=len, reverse=True) if asked.startswith(f"{name} "))
        parser = known[name].load()(MagicMock(), None).get_parser(name)
        parser.parse_args(words[len(name.split()) :])


def specs(table: dict[str, Any]) -> None:
    """Nova's own validators of extra specs and of PCI aliases and device specifications."""
    from nova.api.validation.extra_specs import validators
    from nova.pci import request
    from oslo_serialization import jsonutils

    for name, value in table["extra_specs"].items():
        validators.validate(name, value)
    for alias in table["aliases"]:
        import jsonschema

        jsonschema.validate(jsonutils.loads(alias), request._ALIAS_SCHEMA)


def template(document: dict[str, Any]) -> None:
    """Heat's own reading of a template: each resource's properties, and values where no cloud is asked.

    What a group is made of is read as a resource too, since Heat looks into it only when it makes one.
    """
    from heat.common import context
    from heat.engine import constraints, environment, resource, resources
    from heat.engine import template as hot
    from heat.engine.stack import Stack

    resources.initialise()
    # There is no cloud to ask whether it has a service, an image or a project
    resource.Resource._validate_service_availability = classmethod(lambda *_: None)
    constraints.CustomConstraint.validate = lambda *_, **__: None
    definition = document["resources"]["servers"]["properties"]["resource_def"]
    opened = {**document, "resources": {**document["resources"], "server": definition}}
    user = context.RequestContext(user_id="user", project_id="project", is_admin=False)
    read = hot.Template(opened, env=environment.Environment())
    stack = Stack(user, "trials", read, strict_validate=False)
    stack.validate(validate_res_tmpl_only=True)
    for name in ("flavor", "group"):
        stack.resources[name].properties.validate(with_value=True)


def refusal(judge: Any, value: Any) -> str | None:
    """What a judge says against a document, in whatever way it does."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            judge(value)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (each refuses in its own way)
        return f"{said.getvalue()[-1000:]}{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    chosen = {"commands": commands, "specs": specs, "template": template}[sys.argv[1]]
    for line in sys.stdin:
        print(json.dumps(refusal(chosen, json.loads(line))), flush=True)
