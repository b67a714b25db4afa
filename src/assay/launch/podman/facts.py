"""The doctor's facts of Podman or Docker: the engine, the image, and those of its programs inside."""

from __future__ import annotations

import tempfile
from pathlib import Path

from assay import payload_files, shell
from assay.errors import HostError, LaunchError
from assay.launch import programs
from assay.launch.podman import refusals
from assay.launch.podman.engine import INSTALL, Engine
from assay.launch.podman.options import ContainerSystem, flags, with_host_python
from assay.records import Scalar
from assay.secret_reference import texts

CHECK_TIMEOUT_S = 240.0  # a cold import of torch from a network file system takes minutes


def facts_of(
    program: str, options: ContainerSystem, directory: Path, data: str | None = None
) -> dict[str, Scalar]:
    """`container.…` facts of the engine and the image, and the facts of the probe inside a container.

    directory  an existing directory on the disk that will hold the runs; the container sees it
    data       directory in the container whose files to read

    `container.missing`, `container.image_error`, and `container.refused` say why no container started,
    `container.remedy` what to do.
    """
    system, engine = with_host_python(options), Engine(program)
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
    return {**facts, **_inside(program, system, system.image, directory, data)}


def _inside(
    program: str, system: ContainerSystem, image: str, directory: Path, data: str | None
) -> dict[str, Scalar]:
    """The facts of the doctor's programs, each run in a container that is removed at once."""
    facts: dict[str, Scalar] = {}
    with tempfile.TemporaryDirectory() as place:
        payload_files.lay_out(
            Path(place), payload_files.files(*(command[0] for command in programs.doctor_commands(data)))
        )
        for name, *arguments in programs.doctor_commands(data):
            argv = [program, "run", "--rm", *flags(system, program)]
            argv += [f"--volume={place}:{place}:ro", f"--volume={directory}:{directory}:rw"]
            argv += [
                f"--env={variable}" for variable in texts(system.env)
            ]  # its value is passed in the environment
            argv += [f"--workdir={directory}", f"--entrypoint={system.python}", image]
            try:
                command = shell.run(
                    [*argv, f"{place}/{payload_files.path_of(name)}", *arguments],
                    env=texts(system.env),
                    timeout_s=CHECK_TIMEOUT_S,
                )
            except HostError as error:
                return {**facts, "container.refused": str(error)}
            if command.exit_code in (125, 126, 127):
                refusal = refusals.why(command, system, image)
                return {**facts, "container.refused": refusal.cause, "container.remedy": refusal.remedy}
            facts |= programs.output_facts(name, f"{command.stdout}\n{command.stderr}")
    return facts
