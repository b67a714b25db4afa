"""Hosts reached over ssh, as a platform."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from assay.errors import InputError
from assay.launch import job_spec
from assay.launch.platform import (
    Binding,
    Member,
    NodeAccess,
    NodeQuery,
    Platform,
    chosen,
    late,
)

_HOST = re.compile(r"(\w[\w.-]*@)?[\w\[][\w.:%\[\]-]*")


def _host(name: str) -> str:
    if _HOST.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a host; write a name from your ssh config, host, or user@host")
    return name


def _distinct(hosts: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({host for host in hosts if hosts.count(host) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)}: listed twice; list each host once")
    return hosts


def _directory(path: str) -> str:
    if not path.startswith(("/", "~/")):
        raise ValueError(f"{path!r}: write an absolute path, or one that starts with ~/")
    return path.rstrip("/")


class SshSystem(BaseModel):
    """The options of hosts reached over ssh in systems.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    hosts: Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], AfterValidator(_distinct)] = Field(
        min_length=1, description="Hosts as you would type them after ssh; a job uses the first ones."
    )
    python: str = Field("python3", description="Interpreter of the trials on the hosts.")
    directory: Annotated[str, AfterValidator(_directory)] = Field(
        "~/.cache/assay", description="Directory where a host keeps a job until Assay collects it."
    )
    master_address: str | None = Field(
        None,
        description="Address at which the others reach the first host; default: from the ssh config.",
    )
    port: int | None = Field(None, ge=1, le=65535, description="Port of the ssh servers.")
    user: str | None = Field(None, description="User to log in as.")
    identity: str | None = Field(None, description="Private key file.")
    config: str | None = Field(None, description="ssh config file to use instead of your own.")
    env: job_spec.Env = Field(default_factory=dict, description=job_spec.ENV_HELP)
    pin_cpus: bool = Field(False, description=job_spec.PIN_HELP)
    grace: job_spec.Grace = Field(5.0, description=job_spec.GRACE_HELP)

    @property
    def max_nodes(self) -> int | None:
        """The number of hosts."""
        return len(self.hosts)


def _members(system: SshSystem, query: NodeQuery) -> Sequence[Member]:
    if query.idle or query.by:
        raise InputError(
            f"{'--idle' if query.idle else '--by'}: hosts over ssh report neither who uses them nor what "
            "they share; remove it, and list the hosts to use with --nodes"
        )
    return [Member(host) for host in chosen(system.hosts, query.named)]


PLATFORM = Platform(
    SshSystem,
    lambda system, _directory: late("assay.launch.ssh.launcher:SshLauncher")(system),
    late("assay.launch.ssh.doctor:examination"),
    # `master_address` belongs to the system's first host; a group meets at its own first host
    NodeAccess(_members, Binding("hosts", without=("master_address",)), lambda _definition, _slow: ()),
)
