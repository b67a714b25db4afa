"""NCCL's INFO lines → the transport between each pair of ranks, in the form of every version since 2.4.

    node-a:4071:4188 [0] NCCL INFO Ring 00 : 0 -> 1 [send] via NET/IB/0/GDRDMA                     2.4
    node-a:4071:4188 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(3)/GDRDMA/Shared  2.18
    node-a:4071:4188 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM                       2.19
    node-a:4071:4188 [0] NCCL INFO Using network IB

They are printed if NCCL_DEBUG=INFO is set. What a variable requests and what NCCL does are two things:
without a device, permission to use it, or a driver, NCCL falls back to sockets, and reports it only here.

Source: NVIDIA/nccl, src/transport/{net,p2p,shm}.cc, src/transport/net_ib.cc and src/init.cc from 2.4 to 2.30.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from assay.formats.log_text import LogText

Kind = Literal["GPUDirect RDMA", "InfiniBand", "sockets", "network", "P2P", "shared memory"]
"""`InfiniBand`: through host memory; `network`: through a plugin with unknown transport."""

_PLACE: Final = rb"(\d+)(?:\[[0-9a-fA-F]+\])?"
_LINK: Final = re.compile(
    _PLACE + rb" -> " + _PLACE + rb"(?: \[(send|receive)\])?"
    rb" via (direct shared memory|(?:NET|P2P|SHM)(?:/[\w()]+)*(?: pointer)?)(?=\s|$)"
)
_TAIL: Final = re.compile(rb" : (\d[^\n]*)\n")  # of a link's line; there are few distinct tails
_NETWORK: Final = re.compile(rb"NCCL INFO Using network (\w[\w ./-]{0,60})")
_VERSION: Final = re.compile(rb"NCCL version (\d+\.\d+[\w.+]*)")
_RANKS: Final = re.compile(rb"rank (\d+) nranks (\d+) ")
_HOST: Final = re.compile(rb"([\w.-]+):\d+:\d+ \[\d+\] NCCL INFO [^\n]*$")
_NOTES: Final = re.compile(
    rb"NCCL INFO ((?:NET/IB : No device found|NET/(?:IB|Socket) : Using |(?:NET/IB : )?GPU Direct RDMA )"
    rb"[^\n]{0,300})"
)


@dataclass(frozen=True)
class Transports:
    """What the lines of a job's ranks say together.

    links    sender and receiver → transports as printed, each with the number of channels that one of the
             two reports
    hosts    rank → node, for ranks that report it
    network  NCCL's name of the network that it chose; "" if it does not say
    version  of NCCL; "" if it does not say
    ranks    of the largest communicator; None if it does not say
    notes    what it says about network devices and GPUDirect, each once, in order of appearance
    skipped  lines that begin like a link but are torn
    """

    links: Mapping[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    hosts: Mapping[int, str] = field(default_factory=dict)
    network: str = ""
    version: str = ""
    ranks: int | None = None
    notes: tuple[str, ...] = ()
    skipped: int = 0

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """How many links use each kind; a link that uses several counts for each."""
        return Counter(kind for used in self.links.values() for kind in {kind_of(via) for via in used})


def kind_of(via: str) -> Kind:
    """The kind of a printed transport.

    >>> kind_of("NET/IB/0(3)/GDRDMA/Shared"), kind_of("NET/Socket/0"), kind_of("P2P/CUMEM")
    ('GPUDirect RDMA', 'sockets', 'P2P')
    """
    first, _, rest = via.partition("/")
    if first == "NET":
        if "/GDRDMA" in rest:
            return "GPUDirect RDMA"
        return {"IB": "InfiniBand", "Socket": "sockets"}.get(rest.partition("/")[0], "network")  # type: ignore[return-value]
    return "P2P" if first == "P2P" else "shared memory"


def transports(paths: Iterable[Path]) -> Transports:
    """What the logs of a job say. Raises InputError if one can't be read."""
    lines: dict[tuple[int, int], Counter[tuple[str, bool]]] = {}
    hosts: dict[int, str] = {}
    notes: dict[str, None] = {}
    network = version = ""
    ranks, skipped = 0, 0
    for text in (block for path in paths for block in LogText(path).blocks()):
        for tail, times in Counter(_TAIL.findall(text)).items():
            if match := _LINK.match(tail):
                link = lines.setdefault((int(match[1]), int(match[2])), Counter())
                link[match[4].decode("latin-1"), match[3] == b"receive"] += times
            elif b" -> " in tail and b" via " in tail:
                skipped += times
        network = network or _first(_NETWORK, text)
        version = version or _first(_VERSION, text)
        for rank in _RANKS.finditer(text):
            ranks = max(ranks, int(rank[2]))
            if host := _HOST.search(text[text.rfind(b"\n", 0, rank.start()) + 1 : rank.start()]):
                hosts[int(rank[1])] = host[1].decode("latin-1")
        notes |= {note.decode("latin-1").strip(): None for note in dict.fromkeys(_NOTES.findall(text))}
    links = {link: _channels(counts) for link, counts in sorted(lines.items())}
    return Transports(links, hosts, network, version, ranks or None, tuple(notes), skipped)


def _channels(counts: Mapping[tuple[str, bool], int]) -> dict[str, int]:
    """For each transport: sender and receiver report the same channels twice."""
    channels: dict[str, int] = {}
    for (via, _), lines in counts.items():
        channels[via] = max(channels.get(via, 0), lines)
    return channels


def _first(pattern: re.Pattern[bytes], text: bytes) -> str:
    match = pattern.search(text)
    return match[1].decode("latin-1").strip() if match else ""
