"""The doctor of containers on this machine: what the engine and a container report, and what that means."""

from __future__ import annotations

import tempfile
from pathlib import Path

from assay import payload_files, shell
from assay.checks import PLACE, Check, Facts, text
from assay.checks import examine as machine
from assay.errors import HostError, LaunchError
from assay.launch import programs
from assay.launch.platform import DoctorRequest, Examination
from assay.launch.podman import ContainerSystem, flags, with_host_python
from assay.launch.podman.engine import INSTALL, Engine, refusal_of
from assay.records import Scalar
from assay.secret_reference import texts

CHECK_TIMEOUT_S = 240.0  # a cold import of torch from a network file system takes minutes


def examine(facts: Facts) -> tuple[Check, ...]:
    """Engine, image, and start; if a container started, then all checks of a machine."""
    checks: list[Check] = []
    for check in (engine, image, start):
        checks.append(check(facts))
        if checks[-1].state != "ok":  # nothing after it was examined
            return tuple(checks)
    return (*checks, *machine.examine({**facts, PLACE: "container"}))


def engine(facts: Facts) -> Check:
    """Whether Podman or Docker is installed."""
    missing = text(facts, "container.missing")
    if missing is not None:
        return Check("engine", "fail", missing, _remedy(facts))
    return Check("engine", "ok", text(facts, "container.engine") or "there")


def image(facts: Facts) -> Check:
    """Whether the image is on this machine: trials don't pull it."""
    wrong, name = text(facts, "container.image_error"), text(facts, "container.image")
    if wrong is not None:
        return Check("image", "fail", wrong, _remedy(facts))
    if name is None:
        remedy = "set `image` for the system, so that it can be checked"
        return Check("image", "unknown", "the system names none", remedy)
    digest = (text(facts, "container.image_id") or "").removeprefix("sha256:")[:12]
    return Check("image", "ok", f"{name}, {digest}")


def start(facts: Facts) -> Check:
    """Whether a container with the system's options starts and its interpreter runs."""
    refused = text(facts, "container.refused")
    if refused is not None:
        return Check("container", "fail", refused, _remedy(facts))
    if text(facts, "python.version") is None:
        why = text(facts, "unreadable") or "the probe printed nothing"
        return Check("container", "fail", why, "set `python` to an interpreter of version 3.9 or newer")
    return Check(
        "container", "ok", "starts with the system's options; the following checks are from inside it"
    )


def _remedy(facts: Facts) -> str:
    return text(facts, "container.remedy") or ""


def examination(program: str, system: ContainerSystem, request: DoctorRequest) -> Examination:
    """What the doctor finds."""
    request.report(f"Querying {program} and importing torch in a container …")
    facts = facts_of(program, system, request.directory, request.data)
    return Examination(facts, examine(facts))


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
        refusal = refusal_of(image, system, system.image)
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
                refusal = refusal_of(command, system, image)
                return {**facts, "container.refused": refusal.cause, "container.remedy": refusal.remedy}
            facts |= programs.output_facts(name, f"{command.stdout}\n{command.stderr}")
    return facts
