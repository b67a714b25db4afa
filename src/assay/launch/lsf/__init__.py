"""An LSF cluster as a platform."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from assay.launch.batch import BatchSystem, further_option, one_line
from assay.launch.platform import Binding, NodeAccess, Platform, late

# What may be between double quotes after #BSUB; LSF replaces % in file names
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;=+/@#-]+")
_EXPRESSION = re.compile(r"[A-Za-z0-9_.,:;=+/@&|*!~()<>\[\] '-]+")
_OPTION = re.compile(r"-[A-Za-z][A-Za-z]*(?: .+)?")

# The trial or an option of the system sets these, or they would separate Assay from its job
_OWN_OPTIONS = frozenset({
    "J", "Jd", "o", "oo", "e", "eo", "i", "is", "n", "W", "Wep", "cwd", "r", "rn", "K", "I", "Ip", "Is",
    "hostfile", "env", "N", "B", "notify", "L", "XF", "pack", "h", "V",
})  # fmt: skip
_HAS_OPTION = {
    "q": "queue", "P": "project", "G": "user_group", "app": "app", "m": "hosts", "U": "reservation",
    "R": "resources", "gpu": "gpu", "M": "mem", "x": "exclusive",
}  # fmt: skip


def _check_plain(value: str) -> str:
    if _PLAIN.fullmatch(value) is None:
        raise ValueError(
            f"{value!r} is not a value for LSF: it must not contain spaces, quotes, %, or line ends"
        )
    return value


def _resources(value: str) -> str:
    if _EXPRESSION.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not a resource requirement; write it like select[mem>64000]")
    if re.search(r"\bspan\s*\[", value):
        raise ValueError(f"{value!r}: the launcher sets span for each job; remove it")
    return value


def _gpu(value: str) -> str:
    if re.search(r"(^|:)num=", value):
        raise ValueError(f"{value!r}: the launcher sets num, one GPU per rank; remove it")
    return _check_plain(value)


def _bsub_option(value: str) -> str:
    """An option of bsub that the system's options don't cover; otherwise raises ValueError."""
    one_line(value)
    if _OPTION.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not an option of bsub; write it like -sla gold")
    name = value.removeprefix("-").partition(" ")[0]
    return further_option(value, name, covered=_HAS_OPTION, own=_OWN_OPTIONS)


Plain = Annotated[str, AfterValidator(_check_plain)]


class LsfSystem(BatchSystem):
    """An LSF cluster as seen from here, where bsub, bjobs and bkill work."""

    queue: Plain | None = Field(None, description="Queue (-q); default: the cluster's default.")
    project: Plain | None = Field(None, description="Project to charge (-P).")
    user_group: Plain | None = Field(None, description="User group that the jobs count toward (-G).")
    app: Plain | None = Field(
        None, description="Application profile (-app), which can set a container for the jobs."
    )
    reservation: Plain | None = Field(None, description="Advance reservation to run in (-U).")
    hosts: tuple[Plain, ...] = Field(
        (), description="Hosts or host groups that the jobs may run on (-m); default: the queue's."
    )
    resources: tuple[Annotated[str, AfterValidator(_resources)], ...] = Field(
        (), description="Resource requirements (-R), like select[mem>64000] or rusage[mem=32000]."
    )
    gpu: Annotated[str, AfterValidator(_gpu)] | None = Field(
        None,
        description="GPU requirement (-gpu) without its number, like mode=exclusive_process; -: LSF's "
        "default. Each rank gets one GPU.",
    )
    mem: Plain | None = Field(
        None, description="Memory limit (-M), like 64G, in the way the cluster counts it."
    )
    bsub: tuple[Annotated[str, AfterValidator(_bsub_option)], ...] = Field(
        (), description="Further options of bsub, each as it would follow #BSUB."
    )


PLATFORM = Platform(
    LsfSystem,
    late("assay.launch.lsf.launcher:LsfLauncher"),
    late("assay.launch.lsf.doctor:examination"),
    NodeAccess(
        late("assay.launch.lsf.commands:members"),
        Binding("hosts"),
        late("assay.launch.lsf.commands:keep_off_methods"),
    ),
)
