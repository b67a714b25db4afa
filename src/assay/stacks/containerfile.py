"""A stack as a Containerfile: the same stack gives the same bytes.

The image runs as any user id with group 0, as OpenShift gives one ("Support arbitrary user ids" in its
guidelines for images): what has to be written belongs to group 0, HOME is set, USER is a number, and nothing
listens below port 1024. /etc/passwd stays as it is: the runtime adds the user (CRI-O, podman), and one that
group 0 may write is a way to become root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from assay.stacks.stack import BaseImage, Framework, Stack

VENV: Final = "/opt/assay"
HOME: Final = "/var/lib/assay"
USER_ID: Final = 1001
SSH_PORT: Final = 2222

_OWN_LAYER: Final = "# hadolint ignore=DL3059\n"  # it would have one RUN, which images could not share
_PIP: Final = "pip install --no-cache-dir --only-binary=:all:"
_SSH_CLIENT: Final = (  # workers' names and keys are new with each job
    "Host *",
    f"  Port {SSH_PORT}",
    "  StrictHostKeyChecking no",
    "  UserKnownHostsFile /dev/null",
    "  LogLevel ERROR",
)
_SSH_SERVER: Final = (  # what sshd needs to run as a user; the key is one that the job's secret brings
    f"Port {SSH_PORT}",
    f"HostKey {HOME}/.ssh/id_rsa",
    f"AuthorizedKeysFile {HOME}/.ssh/authorized_keys",
    "StrictModes no",
    "PasswordAuthentication no",
    "UsePAM no",
    "PidFile none",
    f"SetEnv PATH={VENV}/bin:/usr/local/bin:/usr/bin:/bin",  # a session has nothing of the image's ENV
)


def containerfile(stack: Stack, command: str) -> str:
    """The file. `command` is the command line that makes it, for whoever reads it."""
    blocks = [
        _heading(stack, command),
        _from(stack.system),
        _operating_system(stack),
        f'ENV PATH="{VENV}/bin:$PATH"',
        *_python(stack),
        *([_ssh()] if stack.mpi else []),
        _labels(stack),
        *_environment(stack),
        f"WORKDIR {HOME}\nUSER {USER_ID}:0",
        _check(stack),
        *([f"EXPOSE {SSH_PORT}"] if stack.mpi else []),
    ]
    return "\n\n".join(blocks) + "\n"


def host(stack: Stack) -> str | None:
    """What the host has to have, for people; None where it is nothing."""
    driver = stack.runtime.driver
    return None if driver is None else f"driver {driver}"


def description(stack: Stack) -> str:
    """The parts in one line."""
    torch = "no framework" if stack.framework is None else f"torch {stack.framework.version}"
    with_mpi = ", Open MPI and sshd" if stack.mpi else ""
    base = f"{stack.system.name} with Python {stack.system.base.python}"
    return f"{base}, {stack.accelerator}, {torch}{with_mpi}"


def _heading(stack: Stack, command: str) -> str:
    lines = [f"Software stack of {stack.workload}: {description(stack)}", f"Made by: {command}"]
    if (needed := host(stack)) is not None:
        lines.append(f"The host needs {needed}.")
    if stack.system.digest is None:
        lines.append(f"A tag can move: --base {stack.system.written}@sha256:… pins the image itself.")
    return "\n".join(f"# {line}" for line in lines)


def _from(system: BaseImage) -> str:
    return f"FROM {system.image}" + (f"@{system.digest}" if system.digest else "")


def _operating_system(stack: Stack) -> str:
    """One layer: packages, the user, and nothing that a build needs alone."""
    base = stack.system.base
    packages = sorted((*base.packages, *(base.mpi if stack.mpi else ())))
    if base.family == "apt":
        before = "ARG DEBIAN_FRONTEND=noninteractive\n"
        install = ["apt-get update", _listed("apt-get install --yes --no-install-recommends", packages)]
        clean = ["apt-get clean", "rm -rf /var/lib/apt/lists/*"]
    else:
        before = "# hadolint ignore=DL3041\n"  # it does not take 3.12.* for the version that it is
        install = [_listed("dnf install --assumeyes --setopt=install_weak_deps=False --nodocs", packages)]
        clean = ["dnf clean all", "rm -rf /var/cache/dnf"]
    keys = ["rm -f /etc/ssh/ssh_host_*"] if stack.mpi else []  # a key that everybody has is none
    return before + _run([*install, *keys, *clean, *_user()])


def _user() -> list[str]:
    who = f"--uid {USER_ID} --gid 0 --home-dir {HOME} --shell /bin/sh assay"
    return [
        f"( getent passwd {USER_ID} \\\n        || useradd --no-log-init --no-create-home {who} )",
        f"install --directory --owner={USER_ID} --group=0 --mode=0775 {HOME}",
    ]


def _python(stack: Stack) -> Iterator[str]:
    """A virtual environment, the framework's layer, then the workload's: the larger one is shared."""
    venv = f"{stack.system.base.command} -m venv {VENV}"
    if stack.framework is None:
        yield _run([venv])
    else:
        if stack.framework.index is not None:  # a mirror: --build-arg TORCH_INDEX=…
            yield f"ARG TORCH_INDEX={stack.framework.index}"
        yield _run([venv, *_torch(stack.framework)])
    if stack.packages:
        yield _OWN_LAYER + _run([_listed(f"{_PIP} --no-deps", [str(one) for one in stack.packages])])


def _torch(framework: Framework) -> Iterator[str]:
    """Its needs from the usual index; torch itself brings its accelerator's libraries from its own."""
    yield _listed(f"{_PIP} --no-deps", [str(one) for one in framework.needs])
    index = ' --index-url="$TORCH_INDEX"' if framework.index is not None else ""
    yield _listed(_PIP + index, framework.wheels)


def _ssh() -> str:
    """As the MPI Operator expects it: its `sshd -De` serves as the job's user; keys lie in HOME/.ssh."""
    return _OWN_LAYER + _run(
        [
            _written("/etc/ssh/ssh_config.d/assay.conf", _SSH_CLIENT),
            _written("/etc/ssh/sshd_config.d/00-assay.conf", _SSH_SERVER),
        ]
    )


def _labels(stack: Stack) -> str:
    labels = {
        "org.opencontainers.image.title": f"assay-{stack.workload}",
        "org.opencontainers.image.description": description(stack),
        "org.opencontainers.image.base.name": stack.system.image,
        "org.opencontainers.image.base.digest": stack.system.digest,
        "dev.assay.workload": stack.workload,
        "dev.assay.host": host(stack),
    }
    return _pairs("LABEL", {name: value for name, value in labels.items() if value is not None})


def _environment(stack: Stack) -> Iterator[str]:
    if stack.runtime.env:
        yield _pairs("ENV", stack.runtime.env)
    # a user id without an entry in /etc/passwd has neither; torch, for one, asks for both
    yield _pairs("ENV", {"HOME": HOME, "USER": "assay"})


def _check(stack: Stack) -> str:
    """As the user of the image: what does not fit ends the build, not a trial."""
    imports = [f'python3 -c "import {", ".join(stack.modules)}"'] if stack.modules else []
    return _run(["pip check", *imports])


def _run(commands: Sequence[str]) -> str:
    return "RUN " + " \\\n    && ".join(commands)


def _listed(command: str, words: Sequence[str]) -> str:
    return " \\\n        ".join([command, *(f"'{word}'" for word in words)])


def _written(path: str, lines: Sequence[str]) -> str:
    return _listed(r"printf '%s\n'", lines) + f" \\\n        > {path}"


def _pairs(instruction: str, pairs: Mapping[str, str]) -> str:
    return f"{instruction} " + " \\\n    ".join(f'{name}="{value}"' for name, value in pairs.items())
