"""Where a log was written: the hosts and the accelerator that its first lines name, whatever its format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.formats.log_text import LogText, sample_of

_NAME: Final = rb"([A-Za-z0-9][\w.-]{0,80})"
_HOSTS: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rb"^#?\s*Rank\s+\d+ .*? on\s+" + _NAME + rb" device\b",  # nccl-tests
        rb"^" + _NAME + rb":\d+:\d+ \[\d+\] NCCL ",
        rb"^Linux " + _NAME + rb" \d+\.\d+",  # uname -a
        rb'"system_info"\s*:\s*"Linux ' + _NAME + rb" \d+\.\d+",  # iperf3
        rb'(?i:"?\b(?:host_?name|nodename|slurmd_nodename|node_name))"?\s*[:=]\s*"?' + _NAME,
    )
)
_NOWHERE: Final = re.compile(
    r"(localhost|host_?name)(\..*)?|127\..*|none|null|unknown|n/a|\d+", re.IGNORECASE
)
_ACCELERATOR: Final = re.compile(
    rb"(?:NVIDIA |Tesla )?\b(?:A|H|B|GB|GH|L|V|P|T|MI)\d{2,3}[A-Z]{0,2}\b"
    rb"(?:[- ](?:SXM\d?|PCIE|PCIe|HGX|NVL|\d+GB)\b)*"
)
_LEAST_NAME: Final = 3  # characters of an accelerator's name


@dataclass(frozen=True)
class StatedPlace:
    """The hosts that a log names, in their order, and its accelerator; "" if it names none."""

    hosts: tuple[str, ...]
    accelerator: str


def stated_place(path: Path) -> StatedPlace:
    """What the first lines of a log say about its machine. Never raises: what can't be read says nothing."""
    try:
        head = sample_of(next(LogText(path).blocks(), b""))
    except InputError:
        return StatedPlace((), "")
    named = (match[1].decode("latin-1") for pattern in _HOSTS for match in pattern.finditer(head))
    hosts = tuple(dict.fromkeys(name for name in named if not _NOWHERE.fullmatch(name)))
    match = _ACCELERATOR.search(head)
    accelerator = match[0].decode("latin-1").strip() if match else ""
    return StatedPlace(hosts, accelerator if len(accelerator) >= _LEAST_NAME else "")
