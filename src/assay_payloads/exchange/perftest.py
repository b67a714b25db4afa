"""RDMA between two nodes with perftest, which must be installed on them, over one port at a time.

    python -m assay_payloads.exchange.perftest --program ib_write_bw --directions 0-to-1 1-to-0 both

Every port that is ACTIVE on both nodes under the same name is measured with its counterpart; the others are
reported as left out. Directions are those of the data, between worker 0 and worker 1: a write or a send goes
from the client to the server, a read the other way, so the two swap roles. `both` is perftest's own `-b`.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from assay_payloads.exchange.pair import REFUSED, PairEnd, joined
from assay_payloads.measuring.rank import END
from assay_payloads.measuring.site_program import NOT_THERE, FailureWords, printed_by, show

SYSFS = Path("/sys/class/infiniband")
DIRECTIONS = ("0-to-1", "1-to-0", "both")
JSON_FILE = "perftest.json"
ACTIVE = "ACTIVE"


def locked_memory() -> str:
    """The limit of lockable memory of this process, for people."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return "no limit" if limit == resource.RLIM_INFINITY else f"{limit >> 10} KiB"


REMEDIES = (  # short, so that failure and remedy fit on one line
    (
        r"Couldn't allocate MR|[Ff]ailed to create MR",
        f"locked memory is limited to {locked_memory()}: raise it in limits.conf; in a pod, add IPC_LOCK; on "
        "OpenShift, use a MachineConfig (memlock=-1); for GPU memory: nvidia-peermem",
    ),
    (
        r"[Dd]id not detect devices|Unable to find the Infiniband|Couldn't get context for the device",
        "this process can't access the device: /dev/infiniband (in a pod, the RDMA device plugin's) or "
        "rdma-core is missing",
    ),
    (
        r"Port number \d+ state is|state is Down",
        "the port went down: check its cable, its switch, `ibstatus`",
    ),
    (
        r"not compatible with versions|[Dd]ifferent versions",
        "both ends need the same version of perftest",
    ),
    (r"Couldn't connect to|[Uu]nable to (open file descriptor for|init the) socket", REFUSED),
    (
        r"to RTR|Unable to Connect the HCA",
        "the ports can't reach each other: RoCE needs the `gid_index` of RoCE v2 (show_gids), InfiniBand a "
        "subnet manager (sminfo)",
    ),
    (
        r"Completion with error|Failed status",
        "messages were lost: with RoCE, check flow control (PFC, ECN); otherwise check cables (perfquery)",
    ),
    (
        r"(unrecognized|invalid) option",
        "this build or version does not support it; cuda_device needs a build with CUDA",
    ),
)


class Port(NamedTuple):
    """A port of an RDMA device: `mlx5_0:1`, `ACTIVE`, `InfiniBand`, `200 Gb/sec (4X HDR)`."""

    name: str
    state: str
    link_layer: str
    rate: str


def ports(sysfs: Path = SYSFS) -> list[Port]:
    """All ports of this node."""
    all_ports = []
    for place in sorted(sysfs.glob("*/ports/*")):
        state, link_layer, rate = ((place / name).read_text() for name in ("state", "link_layer", "rate"))
        name = f"{place.parent.parent.name}:{place.name}"
        all_ports.append(Port(name, state.partition(":")[2].strip(), link_layer.strip(), rate.strip()))
    return all_ports


def paired(
    of_0: Sequence[Port], of_1: Sequence[Port], requested: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Ports that can be measured, each with its properties; and the others, each with the reason.

    of_0, of_1  of worker 0 and of worker 1
    requested       names of devices or ports; empty: all
    """
    by_name = [{port.name: port for port in ports_of} for ports_of in (of_0, of_1)]
    names = sorted({*by_name[0], *by_name[1]})
    usable, left_out = {}, {}
    for name in names:
        ends = [ports_of_worker.get(name) for ports_of_worker in by_name]
        obstacle = None if not requested or {name, name.partition(":")[0]} & {*requested} else "not asked for"
        obstacle = obstacle or _obstacle(ends)
        if obstacle:
            left_out[name] = obstacle
        else:
            usable[name] = " and ".join(dict.fromkeys(f"{p.link_layer}, {p.rate}" for p in ends if p))
    known = {*names, *(name.partition(":")[0] for name in names)}
    left_out |= {name: "neither worker has it" for name in requested if name not in known}
    return usable, left_out


def _obstacle(ends: Sequence[Port | None]) -> str:
    """Why nothing can be measured between two ports; "" if it can."""
    for worker, port in enumerate(ends):
        if port is None:
            return f"worker {worker} has none of this name"
        if port.state != ACTIVE:
            return f"{port.state} on worker {worker}"
    layers = [port.link_layer for port in ends if port]
    return "" if layers[0] == layers[1] else f"{layers[0]} on worker 0 and {layers[1]} on worker 1"


def agreed_ports(pair: PairEnd, requested: Sequence[str]) -> list[str]:
    """Names of the ports that both ends measure. If there are none, both fail with the reason."""
    mine = ports()
    theirs = [Port(*fields) for fields in pair.exchange(mine)]
    both = (mine, theirs) if pair.number == 0 else (theirs, mine)
    for worker, ports_of_worker in enumerate(both):
        if not ports_of_worker:
            pair.rank.fail(
                f"worker {worker} has no RDMA device: {SYSFS} is empty; choose a node with one, or load "
                "its driver (`lspci` shows the card, `modprobe mlx5_ib` loads one of the drivers)"
            )
    usable, left_out = paired(*both, requested)
    reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
    if not usable:
        pair.rank.fail(f"no port can be measured: {reasons}; run `ibstatus` on the nodes for details")
    for name, what in usable.items():
        pair.rank.log(f"port.{name}", what)
    pair.rank.log("ports_left_out", reasons or "none")
    return [*usable]


def same_version(pair: PairEnd, program: str) -> None:
    """Fail on both ends if they don't have the same version of perftest."""
    try:
        match = re.search(r"Version\s*:\s*(\S+)", printed_by(program, "--version"))
    except OSError as error:
        pair.fail(f"{program} can't be started: {error.strerror}: {NOT_THERE}")
    mine = match[1] if match else "unknown"
    theirs = pair.exchange(mine)
    if mine != theirs:
        pair.rank.fail(
            f"this end has perftest {mine}, but {pair.other} has {theirs}; their protocols differ "
            "between versions: install the same version on both"
        )
    pair.rank.log("perftest_version", mine)


def measure(pair: PairEnd, options: argparse.Namespace, port: str, direction: str, *, has_json: bool) -> None:
    """One port in one direction, from either end."""
    program = os.path.basename(options.program)  # noqa: PTH119
    sender = 1 if direction in ("1-to-0", "both") else 0
    client = 1 - sender if "read" in program and direction != "both" else sender
    device, _, number = port.partition(":")
    labels = {"device": device, "port": int(number), "direction": direction}
    common = [options.program, "-d", device, "-i", number, *arguments(options)]
    common += ["-b"] if direction == "both" else []
    if pair.number != client:
        pair.serve(lambda tcp_port: [*common, "-p", str(tcp_port)], options.port, labels)
        return
    output_options = ["--out_json", f"--out_json_file={JSON_FILE}"] if has_json else []
    pair.connect(lambda address, tcp_port: [*common, "-p", str(tcp_port), *output_options, address], labels)
    report = Path(JSON_FILE)
    if report.exists():
        show(pair.rank, "json", labels, report.read_text(errors="replace"))
        report.unlink()


def arguments(options: argparse.Namespace) -> list[str]:
    """Arguments common to both ends of a test."""
    argv = ["-a"] if options.message_bytes is None else ["-s", str(options.message_bytes)]
    values_by_option: Mapping[str, object] = {
        "-n": options.iterations,
        "-x": options.gid_index,
        "-q": options.queue_pairs,
    }
    for option, value in values_by_option.items():
        argv += [option, str(value)] if value is not None else []
    argv += [f"--use_cuda={options.cuda_device}"] if options.cuda_device is not None else []
    return argv + (["-R"] if options.rdma_cm else [])


def main() -> None:
    """Read the command line, measure every port in every direction."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default="ib_write_bw", help="its path, or its name on the PATH")
    parser.add_argument("--message-bytes", type=int, help="default: all sizes from 2 to 2^23")
    parser.add_argument("--iterations", type=int, help="of each size; default: the program's own")
    parser.add_argument("--devices", nargs="+", default=[], help="mlx5_0 or mlx5_0:1; default: all")
    parser.add_argument("--directions", nargs="+", choices=DIRECTIONS, default=["0-to-1", "1-to-0"])
    parser.add_argument("--gid-index", type=int)
    parser.add_argument("--queue-pairs", type=int)
    parser.add_argument("--cuda-device", type=int, help="GPU whose memory is sent and received")
    parser.add_argument("--rdma-cm", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--port", type=int, help="TCP port of the server; default: a free one")
    options = parser.parse_args()
    pair = joined(FailureWords(REMEDIES))
    usable = agreed_ports(pair, options.devices)
    same_version(pair, options.program)
    has_json = "--out_json" in printed_by(options.program, "--help")
    for port in usable:
        for direction in options.directions:
            measure(pair, options, port, direction, has_json=has_json)
    pair.rank.log("payload", event=END)


if __name__ == "__main__":
    main()
