"""What the doctor asks of podman or docker: the engine, the image, and the probe inside a container."""

from __future__ import annotations

import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from assay import provenance, shell
from assay.errors import HostError, LaunchError
from assay.launch.podman import refusals
from assay.launch.podman.engine import INSTALL, Engine
from assay.launch.podman.options import ContainerSystem, flags, with_host_python
from assay.records import Scalar

CHECK_TIMEOUT_S = 240.0  # a cold import of torch from a network file system takes minutes


def facts_of(program: str, asked: ContainerSystem, directory: Path) -> dict[str, Scalar]:
    """`container.…` of the engine and the image; with them, what the probe tells inside a container.

    directory  an existing directory on the disk that will hold the runs; the container sees it

    `container.missing`, `container.image_error` and `container.refused` say why it came to no container,
    `container.remedy` what to do.
    """
    system, engine = with_host_python(asked), Engine(program)
    try:
        facts: dict[str, Scalar] = {"container.engine": engine.version}
        if system.image is None:
            return facts
        image = engine.ask("image", "inspect", "--format={{.Id}}", system.image)
    except LaunchError as error:
        return {"container.missing": str(error), "container.remedy": INSTALL[program]}
    if not image.ok:
        refusal = refusals.why(image, system, system.image)
        return {**facts, "container.image_error": refusal.cause, "container.remedy": refusal.remedy}
    facts |= {"container.image": system.image, "container.image_id": image.stdout.strip()}
    return {**facts, **_inside(program, system, system.image, directory)}


def _inside(program: str, system: ContainerSystem, image: str, directory: Path) -> dict[str, Scalar]:
    """The tables of the probe and of torch_check.py from containers that are removed at once."""
    found: dict[str, Scalar] = {}
    with tempfile.TemporaryDirectory() as programs:
        for name in ("probe.py", "torch_check.py"):
            shutil.copyfile(str(files("assay.payloads") / name), f"{programs}/{name}")
            argv = [program, "run", "--rm", *flags(system, program)]
            argv += [f"--volume={programs}:{programs}:ro", f"--volume={directory}:{directory}:rw"]
            argv += [f"--env={variable}" for variable in system.env]  # its value travels in the environment
            argv += [f"--workdir={directory}", f"--entrypoint={system.python}", image, f"{programs}/{name}"]
            try:
                said = shell.run(argv, env=system.env, timeout_s=CHECK_TIMEOUT_S)
            except HostError as error:
                return {**found, "container.refused": str(error)}
            if said.exit_code in (125, 126, 127):
                refusal = refusals.why(said, system, image)
                return {**found, "container.refused": refusal.cause, "container.remedy": refusal.remedy}
            (node,) = provenance.parse([f"{said.stdout}\n{said.stderr}"]).nodes
            found |= {k: v for k, v in node.items() if name == "probe.py" or k.startswith("torch.")}
    if not any(name.startswith("torch.") for name in found):
        found["torch.import_error"] = f"{system.python} did not come to the end of the check"
    return found
